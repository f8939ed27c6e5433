//! The reference client: an MCP client on the official SDK that does what each client scenario of the conformance
//! suite asks for.
//!
//! Pointed at the suite's own server it proves the scripts; pointed at a gate whose upstream is the suite's server,
//! it makes the gate act, and the suite then judges the gate. So it must do nothing the gate is supposed to do:
//! it checks the answers it gets and never repairs them.

mod person;
mod scripts;

use anyhow::{Context, Result, bail};
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::Value;

pub use person::{Heard, MODEL_ANSWER, Person, ROOT};

/// A connected client.
pub type Connection = RunningService<RoleClient, Person>;

/// Which handshake the client opens with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// `initialize`, as every revision up to 2025-11-25.
    Legacy,
    /// `server/discover`, as 2026-07-28.
    Modern,
}

impl Opening {
    /// The opening that belongs to a protocol revision.
    pub fn of_revision(revision: &str) -> Self {
        if revision >= ProtocolVersion::V_2026_07_28.as_str() {
            Self::Modern
        } else {
            Self::Legacy
        }
    }
}

/// Connects to a streamable HTTP endpoint, with a bearer credential if there is one.
///
/// # Errors
/// When the endpoint cannot be reached or refuses the handshake.
pub async fn connect(url: &str, opening: Opening, bearer: Option<&str>) -> Result<Connection> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    if let Some(bearer) = bearer {
        config = config.auth_header(bearer);
    }
    let mode = match opening {
        Opening::Legacy => ClientLifecycleMode::Initialize,
        Opening::Modern => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    };
    let person = Person::new(opening);
    person
        .serve_with_lifecycle(StreamableHttpClientTransport::from_config(config), mode)
        .await
        .with_context(|| format!("cannot open a {opening:?} connection to {url}"))
}

/// One scenario to play.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The suite's name for it.
    pub name: String,
    /// How the client opens: as the suite's revision does, unless told otherwise.
    pub opening: Opening,
    /// What the suite hands over besides, such as the calls to make.
    pub context: Value,
}

impl Scenario {
    /// Reads the scenario from the variables the suite sets.
    ///
    /// # Errors
    /// When a variable is missing or the context is not JSON.
    pub fn from_environment() -> Result<Self> {
        let name = std::env::var("MCP_CONFORMANCE_SCENARIO")
            .context("MCP_CONFORMANCE_SCENARIO is not set")?;
        let revision = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION")
            .unwrap_or_else(|_| "2025-11-25".to_owned());
        let opening = match std::env::var("MCP_CONFORMANCE_OPENING").as_deref() {
            Ok("legacy") => Opening::Legacy,
            Ok("modern") => Opening::Modern,
            Ok(other) => bail!("MCP_CONFORMANCE_OPENING is '{other}': use legacy or modern"),
            Err(_) => Opening::of_revision(&revision),
        };
        let context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
            Ok(text) => {
                serde_json::from_str(&text).context("MCP_CONFORMANCE_CONTEXT is not JSON")?
            }
            Err(_) => Value::Null,
        };
        Ok(Self {
            name,
            opening,
            context,
        })
    }
}

/// Plays one scenario against an endpoint.
///
/// # Errors
/// When an answer is missing or not what the scenario's server gives.
pub async fn play(url: &str, scenario: &Scenario, bearer: Option<&str>) -> Result<()> {
    let connection = connect(url, scenario.opening, bearer).await?;
    let outcome = match scenario.name.as_str() {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {
            scripts::list_tools(&connection).await
        }
        "tools_call" => scripts::add_numbers(&connection).await,
        "elicitation-sep1034-client-defaults" => scripts::elicitation_defaults(&connection).await,
        "sse-retry" => scripts::resumed_call(&connection).await,
        "json-schema-2020-12-preservation" => scripts::echo_schema(&connection).await,
        "sep-2322-client-request-state" => scripts::rounds_with_state(&connection).await,
        "http-standard-headers" => scripts::everything_listed(&connection).await,
        "http-custom-headers" => scripts::calls_from_context(&connection, &scenario.context).await,
        "http-invalid-tool-headers" => scripts::only_valid_tool(&connection).await,
        other => bail!("the reference client has no script for the scenario '{other}'"),
    };
    connection
        .cancel()
        .await
        .context("the client task failed")?;
    outcome.with_context(|| format!("scenario {}", scenario.name))
}
