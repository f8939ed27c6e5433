//! The program of the worker, which lies beside this one.

use std::path::PathBuf;

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
