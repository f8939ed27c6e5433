//! Who asks, as one request shows it: what every call of the gate needs besides the call itself.

use std::sync::Arc;

use bytes::Bytes;
use gateway::{Action, CallRequest, Caller, ClientFace, Era, Gate, Origin};
use vocab::ServerId;
use wire::Text;

use super::log::Severity;

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) caller: Caller,
    pub(crate) door: gateway::Door,
    /// `Some` on a door that shows one server under its own names.
    pub(crate) mount: Option<ServerId>,
    /// What tells this client's calls from another's where an upstream connection is shared.
    pub(crate) lane: Arc<str>,
    pub(crate) era: Era,
    pub(crate) capabilities: Bytes,
    /// The lowest level of log messages the client asked for.
    pub(crate) log: Option<Severity>,
}

impl Client {
    /// Whether this client is shown a tool of this name that declares no output schema.
    pub(crate) fn sees_untyped(&self, gate: &Gate, tool: &str) -> bool {
        gate.catalog()
            .is_untyped(self.mount.as_ref(), &self.caller, tool)
    }

    pub(crate) fn request(
        &self,
        action: Action,
        params: impl Into<Text>,
        progress: bool,
    ) -> CallRequest {
        CallRequest {
            caller: self.caller.clone(),
            door: self.door,
            mount: self.mount.clone(),
            lane: Arc::clone(&self.lane),
            origin: Origin::Mcp(ClientFace {
                era: self.era,
                capabilities: self.capabilities.clone(),
                log: self.log.map(|level| level.as_str().into()),
                progress,
            }),
            action,
            params: params.into(),
        }
    }
}
