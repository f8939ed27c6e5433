//! `bench-decide [--rounds N] [--milliseconds N] [--only WHAT] [--level LEVEL]`: what deciding costs, one line of JSON for each piece of work.

use std::{io::Write as _, time::Duration};

use anyhow::{Result, anyhow};
use bench::{
    decide::{self, Plan},
    options::Options,
};
use wire::vector::Vectors;

fn main() -> Result<()> {
    let options = Options::parse(std::env::args().skip(1))?;
    if let Some(level) = options.get("level") {
        level
            .parse::<Vectors>()
            .map_err(|problem| anyhow!(problem))?
            .cap();
    }
    let plan = Plan {
        rounds: options.read("rounds", 9)?,
        round: Duration::from_millis(options.read("milliseconds", 20)?),
        only: options.get("only").map(str::to_owned),
    };
    let mut out = std::io::stdout().lock();
    for cost in decide::measure(&plan)? {
        writeln!(out, "{}", serde_json::to_string(&cost)?)?;
    }
    Ok(())
}
