//! The hostile upstream as a program: `hostile --script NAME [--seed N] [--marks FILE] (--stdio | --http)`.
//!
//! On HTTP the first line of stdout names the endpoint.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use testkit::hostile::{Hostile, Script, serve_stdio};

const USAGE: &str = "usage: hostile --script NAME [--seed N] [--marks FILE] (--stdio | --http)";

#[tokio::main]
async fn main() -> Result<()> {
    let (mut script, mut seed, mut marks, mut http) = (None, 1, None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--script" => {
                script = Some(
                    arguments
                        .next()
                        .context(USAGE)?
                        .parse::<Script>()
                        .map_err(anyhow::Error::msg)?,
                )
            }
            "--seed" => seed = arguments.next().context(USAGE)?.parse()?,
            "--marks" => marks = Some(PathBuf::from(arguments.next().context(USAGE)?)),
            "--stdio" => http = Some(false),
            "--http" => http = Some(true),
            other => bail!("unknown argument '{other}'\n{USAGE}"),
        }
    }
    let script = script.context(USAGE)?;
    if !http.context(USAGE)? {
        return serve_stdio(script, seed, marks.as_deref()).await;
    }
    let upstream = Hostile::start(script, seed).await?;
    writeln!(std::io::stdout(), "listening on {}", upstream.url())?;
    std::future::pending().await
}
