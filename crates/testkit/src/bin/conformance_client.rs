//! The client under test for the conformance suite: plays the scenario named in the environment against the URL given
//! as the last argument. A bearer credential, if the endpoint wants one, comes in `MCP_CONFORMANCE_BEARER`.

use anyhow::{Context, Result};
use testkit::reference_client::{Scenario, play};

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args()
        .next_back()
        .filter(|last| last.starts_with("http"))
        .context("give the URL last")?;
    let bearer = std::env::var("MCP_CONFORMANCE_BEARER").ok();
    play(&url, &Scenario::from_environment()?, bearer.as_deref()).await
}
