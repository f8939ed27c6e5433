//! `portcullis-worker`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::main()
}
