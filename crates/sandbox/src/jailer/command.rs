//! Commands: what an agent runs in its workspace, with no network, no home of its own and nothing of the user's.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::spec::{Access, Calls, Jail, Limits, Mount, Network, Rung, What};
use super::standard::{Home, standard_view};

/// Where a command sees its workspace.
pub const WORKSPACE: &str = "/workspace";
/// The same in every jail, on whatever machine.
const HOME: &str = concat!("/home", "/agent");
const HOME_BYTES: u64 = 256 << 20;
/// The user that a command sees itself as.
const USER: (&str, u32) = ("agent", 1000);
const PROCESSES: u64 = 256;
const DESCRIPTORS: u64 = 1024;
const MEMORY: u64 = 2 << 30;
const FILE_BYTES: u64 = 4 << 30;

/// Variables of every command; nothing else of the gate's environment is passed on.
const ENVIRONMENT: [(&str, &str); 14] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("HOME", HOME),
    ("USER", USER.0),
    ("LOGNAME", USER.0),
    ("LANG", "C.UTF-8"),
    ("TZ", "UTC"),
    ("TERM", "dumb"),
    ("TMPDIR", "/tmp"),
    ("SHELL", "/bin/sh"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("NO_COLOR", "1"),
    ("CI", "1"),
];

/// A command that is to be run.
#[derive(Debug, Clone)]
pub struct CommandLine {
    pub command: OsString,
    pub args: Vec<OsString>,
    /// Besides those that every command has.
    pub env: Vec<(OsString, OsString)>,
    /// As the command sees it.
    pub directory: PathBuf,
    /// The directory of the host that becomes [`WORKSPACE`].
    pub workspace: PathBuf,
    /// Further programs, for reading.
    pub tools: Vec<PathBuf>,
    pub time: Duration,
    /// Whether it may write to files; in any case it may delete them.
    pub may_write: bool,
}

impl CommandLine {
    /// The jail around it. Commands have none on lower rungs.
    #[must_use]
    pub fn jail(self) -> Jail {
        let mut view = standard_view();
        view.extend(
            Home {
                user: USER.0.to_owned(),
                number: USER.1,
                directory: HOME.into(),
            }
            .files(),
        );
        view.push(Mount::new(
            HOME,
            What::Memory {
                bytes: HOME_BYTES,
                mode: 0o1777,
            },
        ));
        view.push(Mount::new(
            WORKSPACE,
            What::Bind {
                source: self.workspace,
                access: Access::Writable,
                optional: false,
                owned: true,
            },
        ));
        view.extend(
            self.tools
                .into_iter()
                .map(|directory| Mount::same(directory, Access::ReadOnly)),
        );
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
        let mut env: Vec<(OsString, OsString)> = ENVIRONMENT
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        for (name, value) in self.env {
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        Jail {
            program: self.command,
            args: self.args,
            env,
            directory: self.directory,
            view,
            network: Network::Own,
            limits: Limits {
                processes: PROCESSES,
                memory: Some(MEMORY),
                descriptors: DESCRIPTORS,
                file_bytes: Some(if self.may_write { FILE_BYTES } else { 0 }),
                processor_seconds: Some(
                    self.time.as_secs().saturating_add(1).saturating_mul(cores),
                ),
                millicores: None,
            },
            calls: Calls::default(),
            rung: Rung::Namespaces,
            insist: false,
            shown_user: Some(USER.1),
        }
    }
}
