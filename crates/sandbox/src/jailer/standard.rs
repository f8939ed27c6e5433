//! What every jail sees of the host: programs and libraries, a few files of `/etc`, devices that are harmless, and memory to write to.

use std::path::{Path, PathBuf};

use super::spec::{Access, Mount, What};

/// Room in `/tmp`, `/run` and `/dev/shm` of a jail.
const TMP_BYTES: u64 = 256 << 20;
const RUN_BYTES: u64 = 16 << 20;

/// Directories of programs and libraries. Those that are links are links in the jail too.
const PROGRAMS: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
];

/// What of `/etc` programs need to find libraries, certificates, names and the time.
const SETTINGS: [&str; 17] = [
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ssl",
    "ca-certificates",
    "pki",
    "resolv.conf",
    "hosts",
    "nsswitch.conf",
    "host.conf",
    "localtime",
    "timezone",
    "os-release",
    "alternatives",
    "mime.types",
    "services",
    "protocols",
];

const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Links below `/dev` to a process's own descriptors.
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// How many processors and how much memory there is.
const MACHINE: [&str; 2] = ["/sys/fs/cgroup", "/sys/devices/system/cpu"];

/// Who the program is, for those who look it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    pub user: String,
    pub number: u32,
    pub directory: PathBuf,
}

impl Home {
    /// The two files that name the jail's one user.
    #[must_use]
    pub fn files(&self) -> [Mount; 2] {
        let Self {
            user,
            number,
            directory,
        } = self;
        let passwd = format!(
            "{user}:x:{number}:{number}::{}:/bin/sh\n",
            directory.display()
        );
        let group = format!("{user}:x:{number}:\n");
        [("/etc/passwd", passwd), ("/etc/group", group)]
            .map(|(path, text)| Mount::new(path, What::File { text }))
    }
}

/// What every jail sees, as this machine has it.
#[must_use]
pub fn standard_view() -> Vec<Mount> {
    let mut view: Vec<Mount> = PROGRAMS
        .iter()
        .filter_map(|path| shown(Path::new(path)))
        .collect();
    view.extend(
        SETTINGS
            .iter()
            .filter_map(|name| shown(&Path::new("/etc").join(name))),
    );
    // Where the list of name servers is a link, it leads here.
    view.extend(shown(Path::new("/run/systemd/resolve")));
    view.extend(MACHINE.iter().filter_map(|path| shown(Path::new(path))));
    view.push(Mount::new("/proc", What::Processes));
    let memory = |bytes, mode| What::Memory { bytes, mode };
    view.push(Mount::new("/tmp", memory(TMP_BYTES, 0o1777)));
    view.push(Mount::new("/run", memory(RUN_BYTES, 0o755)));
    view.push(Mount::new("/dev", memory(RUN_BYTES, 0o755)));
    view.push(Mount::new("/dev/shm", memory(TMP_BYTES, 0o1777)));
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        view.push(system(&path, path.clone(), Access::Device));
    }
    for (name, to) in DEVICE_LINKS {
        view.push(Mount::new(
            Path::new("/dev").join(name),
            What::Link { to: to.into() },
        ));
    }
    view
}

/// A path of the host as it is: a link into `/usr` stays a link, everything else is bound by the place it leads to.
fn shown(path: &Path) -> Option<Mount> {
    let link = std::fs::read_link(path).ok();
    if let Some(to) = link {
        let leads = path.canonicalize().ok()?;
        if leads.starts_with("/usr") || leads.starts_with("/run/systemd/resolve") {
            return Some(Mount::new(path, What::Link { to }));
        }
        return Some(system(path, leads, Access::ReadOnly));
    }
    let source = path.canonicalize().ok()?;
    Some(system(path, source, Access::ReadOnly))
}

fn system(target: &Path, source: PathBuf, access: Access) -> Mount {
    Mount::new(
        target,
        What::Bind {
            source,
            access,
            optional: true,
            owned: false,
        },
    )
}
