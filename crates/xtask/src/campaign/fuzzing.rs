//! The fuzz targets, one after the other: built with the compiler's own instrumentation, so that nothing has to be installed.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{say, tools::process};

const TARGETS: &str = "fuzz/fuzz_targets";
const BUILT: &str = "fuzz/target";
/// What was found, and what a target may add to its corpus.
const FOUND: &str = "target/fuzz";
/// How long each target gets, in seconds, unless `FUZZ_SECONDS` says otherwise.
const SECONDS: u64 = 60;

/// What libFuzzer looks at while a target runs.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1";

pub(super) fn run() -> Result<String> {
    let root = process::root()?;
    let told = std::env::var("FUZZ_SECONDS").ok();
    let seconds = told.map_or(Ok(SECONDS), |text| text.parse())?;
    let mut targets = Vec::new();
    for entry in fs::read_dir(root.join(TARGETS))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        targets.push(name.context("a target without a name")?.to_owned());
    }
    targets.sort();
    let host = host()?;
    build(&root, &host)?;
    let mut executed = 0;
    for target in &targets {
        let count = fuzz(&root, &host, target, seconds)?;
        say(format_args!("{target}: {count} inputs, no crash"));
        executed += count;
    }
    Ok(format!(
        "{} targets, {seconds} s each, {executed} inputs, no crash",
        targets.len()
    ))
}

/// The machine that this is compiled on. Naming it keeps the instrumentation out of build scripts.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say its host")?.to_owned())
}

fn build(root: &Path, host: &str) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--quiet", "--release", "--bins", "--target", host])
        .args(["--manifest-path", "fuzz/Cargo.toml", "--target-dir", BUILT])
        .env("RUSTFLAGS", INSTRUMENTED)
        .current_dir(root);
    let status = cargo.status().context("cannot run cargo")?;
    ensure!(status.success(), "the fuzz targets cannot be built");
    Ok(())
}

/// Runs one target; how many inputs it had.
fn fuzz(root: &Path, host: &str, target: &str, seconds: u64) -> Result<u64> {
    let found = root.join(FOUND).join(target);
    fs::create_dir_all(&found)?;
    let program = root.join(BUILT).join(host).join("release").join(target);
    let output = Command::new(&program)
        // New inputs go into the first of the two; the corpus in the tree stays as it is.
        .arg(&found)
        .arg(root.join("fuzz/corpus").join(target))
        .arg(format!("-max_total_time={seconds}"))
        .args(["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=2048"])
        .arg(format!("-artifact_prefix={}/", found.display()))
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "target `{target}` failed; what it was given is in {}\n{}",
        found.display(),
        last_lines(&said, 40)
    );
    executed(&said).with_context(|| format!("target `{target}` does not say what it did"))
}

/// How many inputs a target says it had.
fn executed(said: &str) -> Option<u64> {
    let mut lines = said.lines();
    let count = lines.find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    count?.trim().parse().ok()
}

fn last_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(most);
    lines.get(from..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{executed, last_lines};

    #[test]
    fn what_a_target_says_it_did_is_read() {
        let said = "#2 INITED\nstat::number_of_executed_units: 1048576\nstat::peak_rss_mb: 40\n";
        assert_eq!(executed(said), Some(1_048_576));
        assert_eq!(executed("nothing"), None);
        assert_eq!(last_lines("a\nb\nc", 2), "b\nc");
    }
}
