//! One dispatch: the command is executed as it was sent, without a shell, in a session of its own, and nothing of it is left afterwards.

use std::{
    fs::File,
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::{Component, Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use sandbox::{
    Command, Spawned,
    output::{Reading, Stream},
};
use wire::dispatch::{Dispatch, NOT_RUN, OWN_WORDS, Posted, WORKSPACE, name};

use crate::Settings;

/// Where programs are looked for if nothing else is said.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// How long a command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Every command has these, besides `PATH` and `HOME` of its executor.
const GOLDEN: &[(&str, &str)] = &[
    ("USER", "agent"),
    ("LOGNAME", "agent"),
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

/// Variables that a command is never given, in capitals; what begins so neither.
const DENIED: &[&str] = &[
    "AWS_",
    "AZURE_",
    "GCP_",
    "GOOGLE_",
    "GITHUB_TOKEN",
    "CI_",
    "AEGIS_",
    "PORTCULLIS_",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "LD_",
    "DYLD_",
    "GCONV_PATH",
    "BASH_ENV",
    "ENV",
    "IFS",
    "PYTHONSTARTUP",
    "NODE_OPTIONS",
    "GIT_EXEC_PATH",
];

pub(crate) fn run(dispatch: &Dispatch, settings: &Settings) -> Posted {
    let begun = Instant::now();
    let posted = match dispatch.action.as_str() {
        name::PING => Posted::default(),
        name::EXEC => execute(dispatch, settings).unwrap_or_else(|why| Posted {
            exit_code: NOT_RUN,
            stderr: format!("{OWN_WORDS}{why}"),
            ..Posted::default()
        }),
        other => Posted {
            exit_code: NOT_RUN,
            stderr: format!("unknown_action:{other}"),
            ..Posted::default()
        },
    };
    Posted {
        dispatch_id: dispatch.id.clone(),
        duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        ..posted
    }
}

/// `Err`: it did not run, and why.
fn execute(dispatch: &Dispatch, settings: &Settings) -> Result<Posted, String> {
    let directory = beneath(&settings.workspace, &dispatch.cwd)?;
    let program = match dispatch.command.strip_prefix(WORKSPACE) {
        Some(rest) if rest.starts_with('/') => beneath(&settings.workspace, &dispatch.command)?
            .to_string_lossy()
            .into_owned(),
        _ => dispatch.command.clone(),
    };
    let mut command = Command::new(program)
        .args(&dispatch.args)
        .path(&settings.path)
        .env("HOME", &settings.home)
        .directory(directory);
    let additions = dispatch.env.iter().map(|(name, value)| (&**name, &**value));
    for (name, value) in GOLDEN
        .iter()
        .copied()
        .chain(additions.filter(|(name, _)| is_allowed(name)))
    {
        command = command.env(name, value);
    }
    let spawned = command.spawn().map_err(|error| error.to_string())?;
    attend(spawned, dispatch)
}

fn attend(spawned: Spawned, dispatch: &Dispatch) -> Result<Posted, String> {
    let Spawned {
        mut child,
        stdin,
        stdout,
        stderr,
    } = spawned;
    let most = usize::try_from(dispatch.max_output_bytes).unwrap_or(usize::MAX);
    let reading = Reading::begin(stdout, stderr, most).map_err(|error| error.to_string())?;
    let input = dispatch.stdin.clone();
    thread::spawn(move || {
        // A command need not read what it is given.
        let _ = File::from(stdin).write_all(input.as_bytes());
    });
    let time = Duration::from_secs(dispatch.timeout_secs.max(1));
    let ended = child
        .wait_timeout(time)
        .map_err(|error| error.to_string())?;
    let status = match ended {
        Some(status) => Some(status),
        None => {
            // It is ended either way; how it then ended says nothing of it.
            let _ = child.terminate(GRACE);
            None
        }
    };
    let tail = reading.end();
    let texts = tail.texts();
    let mut posted = Posted {
        exit_code: NOT_RUN,
        stdout: texts.out,
        stderr: texts.err,
        truncated: texts.is_cut,
        stdout_bytes: Some(tail.printed(Stream::Out)),
        stderr_bytes: Some(tail.printed(Stream::Err)),
        lossy: texts.is_lossy,
        ..Posted::default()
    };
    match status {
        Some(status) => {
            let signal = status.signal();
            posted.signal = signal.map(i64::from);
            posted.exit_code = i64::from(
                status
                    .code()
                    .unwrap_or_else(|| 128 + signal.unwrap_or_default()),
            );
        }
        None => {
            posted.timed_out = true;
            if !posted.stderr.is_empty() && !posted.stderr.ends_with('\n') {
                posted.stderr.push('\n');
            }
            let seconds = time.as_secs();
            posted.stderr.push_str(&format!(
                "{OWN_WORDS}the command timed out after {seconds} seconds"
            ));
        }
    }
    Ok(posted)
}

/// What a path under `/workspace` is here.
fn beneath(workspace: &Path, path: &str) -> Result<PathBuf, String> {
    let rest = Path::new(path).strip_prefix(WORKSPACE);
    let rest = rest.map_err(|_| format!("`{path}` is not inside {WORKSPACE}"))?;
    if rest.components().any(|part| part == Component::ParentDir) {
        return Err(format!("`{path}` is not inside {WORKSPACE}"));
    }
    Ok(workspace.join(rest))
}

fn is_allowed(name: &str) -> bool {
    let capitals = name.to_ascii_uppercase();
    let is_denied = |denied: &&str| match denied.ends_with('_') {
        true => capitals.starts_with(*denied),
        false => capitals == **denied,
    };
    !name.is_empty() && !name.contains(['=', '\0']) && !DENIED.iter().any(is_denied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_in_the_workspace() {
        let at = |path: &str| beneath(Path::new("/w"), path).ok();
        assert_eq!(at("/workspace"), Some("/w".into()));
        assert_eq!(at("/workspace/a/b"), Some("/w/a/b".into()));
        for outside in ["/", "/etc", "/workspace/../etc", "a", "", "/workspaces"] {
            assert_eq!(at(outside), None, "{outside}");
        }
    }

    #[test]
    fn variables_that_carry_keys_or_code_are_not_given() {
        for name in ["FOO", "CIRCLE", "ENVIRONMENT", "Path", "LDFLAGS"] {
            assert!(is_allowed(name), "{name}");
        }
        for name in [
            "",
            "A=B",
            "aws_secret",
            "LD_PRELOAD",
            "ld_preload",
            "Env",
            "AEGIS_DISPATCH_TOKEN",
            "openai_api_key",
            "NODE_OPTIONS",
        ] {
            assert!(!is_allowed(name), "{name}");
        }
    }
}
