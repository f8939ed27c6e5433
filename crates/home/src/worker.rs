//! The program of the worker, which lies beside this one, and what each of its roles is started with.

use std::path::PathBuf;

use config::Resolved;
use gateway::settings::WorkerSettings;

/// The worker lies beside this program; nothing else is ever run in its place.
const WORKER: &str = "portcullis-worker";

/// Beside this program.
pub fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe()
        .map_err(|error| format!("cannot find this program's own file: {error}"))?;
    let program = own.with_file_name(WORKER);
    if program.is_file() {
        return Ok(program);
    }
    Err(format!(
        "{} is missing; build it with `cargo build --release` or install both programs",
        program.display()
    ))
}

/// The worker that makes the requests of a server's login.
pub fn clerk(resolved: &Resolved) -> Result<WorkerSettings, String> {
    settings("clerk", 1 << 20, resolved)
}

/// A worker in a role.
pub fn settings(
    role: &str,
    total_bytes: usize,
    resolved: &Resolved,
) -> Result<WorkerSettings, String> {
    let program = program()?;
    let mut args = vec![
        "--role".to_owned(),
        role.to_owned(),
        "--total-bytes".to_owned(),
        total_bytes.to_string(),
    ];
    for file in &resolved.ca_files {
        args.extend(["--ca-file".to_owned(), file.to_string_lossy().into_owned()]);
    }
    // A little more than one answer, for what wraps it.
    Ok(WorkerSettings {
        program,
        args,
        path: std::env::var("PATH").unwrap_or_default(),
        total_bytes: total_bytes + (1 << 20),
    })
}
