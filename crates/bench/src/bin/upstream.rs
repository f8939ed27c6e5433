//! `bench-upstream http --listen ADDR` or `bench-upstream stdio`: the echo server of the benchmark.

use std::io::Write as _;

use anyhow::{Result, bail};
use bench::{options::Options, upstream};
use tokio::{net::TcpListener, task::LocalSet};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("http") => {
            let options = Options::parse(arguments)?;
            let listener =
                TcpListener::bind(options.get("listen").unwrap_or("127.0.0.1:0")).await?;
            writeln!(
                std::io::stdout().lock(),
                "listening on http://{}/mcp",
                listener.local_addr()?
            )?;
            LocalSet::new().run_until(upstream::http(listener)).await
        }
        Some("stdio") => upstream::stdio().await,
        _ => bail!("usage: bench-upstream http [--listen ADDR] | bench-upstream stdio"),
    }
}
