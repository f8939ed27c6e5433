//! `bench-floor --upstream HOST:PORT`: the bare forwarding proxy that all ratios are to.

use std::io::Write as _;

use anyhow::Result;
use bench::{floor, options::Options};
use tokio::{net::TcpListener, task::LocalSet};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let options = Options::parse(std::env::args().skip(1))?;
    let listener = TcpListener::bind(options.get("listen").unwrap_or("127.0.0.1:0")).await?;
    writeln!(
        std::io::stdout().lock(),
        "listening on http://{}/mcp",
        listener.local_addr()?
    )?;
    LocalSet::new()
        .run_until(floor::run(listener, options.need("upstream")?))
        .await
}
