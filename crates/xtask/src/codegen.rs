//! `cargo xtask codegen`: rewrites the files that are drawn from tables in the code (the configuration's schema and
//! reference, the command line's page, the OpenAPI document).
//!
//! The tests that compare those files do the drawing, so a generated file that is out of date is a red test and not a surprise.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::tools::process;

/// The variable that turns comparing into writing.
const UPDATE: &str = "UPDATE_GENERATED";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let only_compare = arguments.iter().any(|argument| argument == "--check");
    let mut cargo = Command::new("cargo");
    cargo
        // The whole workspace: another selection has other features, and would build every dependency anew.
        .args(["test", "--quiet", "--workspace", "--lib", "generated"])
        .current_dir(process::root()?);
    if !only_compare {
        cargo.env(UPDATE, "1");
    }
    ensure!(
        cargo.status()?.success(),
        "generated files are out of date; run `cargo xtask codegen`"
    );
    Ok(())
}
