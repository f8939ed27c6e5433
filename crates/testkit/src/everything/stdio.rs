//! The fixture on stdin and stdout.

use std::sync::Arc;

use rmcp::ServiceExt;

use super::{Everything, World};

/// Serves one client on stdin and stdout until stdin ends.
///
/// # Errors
/// When the client's opening is not MCP, or the service task fails.
pub async fn serve_stdio(world: Arc<World>) -> anyhow::Result<()> {
    let running = Everything::new(world)
        .serve(rmcp::transport::stdio())
        .await?;
    running.waiting().await?;
    Ok(())
}
