//! The program. Everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    portcullis::main()
}
