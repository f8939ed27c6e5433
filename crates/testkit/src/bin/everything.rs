//! The everything fixture as a program: `everything --http 127.0.0.1:0` or `everything --stdio`.
//!
//! On HTTP the first line of stdout names the endpoint, so that whoever started it knows the port.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use testkit::everything::{Era, World, serve_http, serve_stdio};

const USAGE: &str = "usage: everything (--http ADDRESS:PORT | --stdio) [--era legacy|modern|both]";

enum Door {
    Http(String),
    Stdio,
}

#[tokio::main]
async fn main() -> Result<()> {
    let (door, era) = parse(std::env::args().skip(1))?;
    let world = Arc::new(World::new(era));
    match door {
        Door::Stdio => serve_stdio(world).await,
        Door::Http(address) => {
            let listener = tokio::net::TcpListener::bind(&address)
                .await
                .with_context(|| format!("cannot listen on {address}"))?;
            let mut stdout = std::io::stdout().lock();
            writeln!(stdout, "listening on http://{}/mcp", listener.local_addr()?)?;
            stdout.flush()?;
            drop(stdout);
            serve_http(listener, world)
                .await
                .context("the listener failed")
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<(Door, Era)> {
    let mut door = None;
    let mut era = Era::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--http" => door = Some(Door::Http(arguments.next().context(USAGE)?)),
            "--stdio" => door = Some(Door::Stdio),
            "--era" => {
                era = arguments
                    .next()
                    .context(USAGE)?
                    .parse()
                    .map_err(anyhow::Error::msg)?
            }
            other => bail!("unknown argument '{other}'\n{USAGE}"),
        }
    }
    Ok((door.context(USAGE)?, era))
}
