//! The page of promises: what is promised, the bound, and the last figure, with the day, the commit and the machine it was measured on.

use std::{fs, process::Command, thread::available_parallelism};

use anyhow::{Context, Result};

use super::Campaign;
use crate::tools::process;

const PAGE: &str = "docs/understand/promises.md";

/// How many tests a line of cargo's output says passed.
pub(super) fn passed(line: &str) -> usize {
    let counts = line.trim().strip_prefix("test result: ok. ");
    let number = counts.and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Puts the figure of a campaign that passed into its row.
pub(super) fn write_down(campaign: &Campaign, figure: &str) -> Result<()> {
    let measured = format!("{figure}; {}", circumstances()?);
    write(&with_row(&read()?, campaign, &measured))
}

pub(super) fn read() -> Result<String> {
    fs::read_to_string(process::root()?.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))
}

pub(super) fn write(text: &str) -> Result<()> {
    fs::write(process::root()?.join(PAGE), text).with_context(|| format!("cannot write {PAGE}"))
}

/// The page with this campaign's row, which is added if it has none.
fn with_row(text: &str, campaign: &Campaign, measured: &str) -> String {
    let row = format!(
        "| {} | {} | {measured} | `{}` |",
        campaign.promise, campaign.bound, campaign.name
    );
    let is_its =
        |line: &str| line.starts_with('|') && line.ends_with(&format!("| `{}` |", campaign.name));
    let mut lines: Vec<&str> = text.lines().collect();
    match lines.iter_mut().find(|line| is_its(line)) {
        Some(line) => *line = &row,
        None => lines.push(&row),
    }
    lines.join("\n") + "\n"
}

/// The day, the commit and the machine.
fn circumstances() -> Result<String> {
    let said = |program: &str, arguments: &[&str]| -> Result<String> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(process::root()?)
            .output()
            .with_context(|| format!("cannot run {program}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model);
    Ok(format!(
        "{}, {}, {} cores of {model}",
        said("date", &["-u", "+%Y-%m-%d"])?,
        said("git", &["rev-parse", "--short=7", "HEAD"])?,
        available_parallelism()?
    ))
}

#[cfg(test)]
mod tests {
    use super::{super::CAMPAIGNS, passed, with_row};

    #[test]
    fn a_figure_replaces_the_last_one_of_its_campaign() {
        let (one, other) = (&CAMPAIGNS[0], &CAMPAIGNS[1]);
        let page = with_row(&with_row("# Promises\n", one, "first"), other, "second");
        let again = with_row(&page, one, "third");
        assert_eq!(again.lines().count(), 3);
        assert!(again.contains("third") && again.contains("second") && !again.contains("first"));
        assert_eq!(
            passed("test result: ok. 13 passed; 0 failed; 0 ignored"),
            13
        );
        assert_eq!(passed("running 13 tests"), 0);
    }

    #[test]
    fn every_campaign_has_its_row_on_the_page() {
        let page = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/understand/promises.md"
        ))
        .unwrap();
        for campaign in CAMPAIGNS {
            assert!(
                page.lines()
                    .any(|line| line.ends_with(&format!("| `{}` |", campaign.name))),
                "{}",
                campaign.name
            );
        }
    }
}
