//! What a door hands to the gate: one call, as received.

use std::sync::Arc;

use bytes::Bytes;
use vocab::ServerId;
use wire::Text;

use crate::Caller;

/// Where a call came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Door {
    McpHttp,
    McpStdio,
    Cli,
    Seal,
}

impl Door {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::McpHttp => "mcp-http",
            Self::McpStdio => "mcp-stdio",
            Self::Cli => "cli",
            Self::Seal => "seal",
        }
    }
}

/// The two generations of MCP: with a session, or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    Legacy,
    Modern,
}

impl Era {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

macro_rules! actions {
    ($($variant:ident = $method:literal;)*) => {
        /// What is asked of an upstream.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action { $($variant),* }

        impl Action {
            #[must_use]
            pub const fn method(self) -> &'static str {
                match self { $(Self::$variant => $method),* }
            }

            #[must_use]
            pub fn from_method(method: &str) -> Option<Self> {
                match method { $($method => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

impl Action {
    /// Whether it is about a tool's call: the call itself, or the task it became.
    #[must_use]
    pub const fn is_of_tool(self) -> bool {
        matches!(self, Self::CallTool) || self.is_of_task()
    }

    #[must_use]
    pub const fn is_of_task(self) -> bool {
        matches!(
            self,
            Self::TaskGet | Self::TaskUpdate | Self::TaskCancel | Self::TaskResult
        )
    }
}

actions! {
    CallTool = "tools/call";
    ReadResource = "resources/read";
    GetPrompt = "prompts/get";
    Complete = "completion/complete";
    Subscribe = "resources/subscribe";
    Unsubscribe = "resources/unsubscribe";
    TaskGet = "tasks/get";
    TaskUpdate = "tasks/update";
    TaskCancel = "tasks/cancel";
    TaskResult = "tasks/result";
}

/// What the caller's client can do, as it told us.
#[derive(Debug, Clone)]
pub struct ClientFace {
    pub era: Era,
    /// The client's own capabilities, a JSON object. They go upstream as they are; ours never do.
    pub capabilities: Bytes,
    /// The level of log messages it wants, if any.
    pub log: Option<Arc<str>>,
    pub progress: bool,
}

/// What stands behind one call.
#[derive(Debug, Clone)]
pub enum Proof {
    /// The bearer credential that the door saw.
    Bearer,
    /// A signed envelope, as it came. Whether its signature holds, and whether it is the first of its kind, is for Verify to say.
    Envelope(Bytes),
}

/// One call, as a door received it. `params` is the text of a validated JSON object.
#[derive(Debug, Clone)]
pub struct Ask {
    pub caller: Caller,
    pub door: Door,
    /// `Some`: a door that shows this one server under its own names.
    pub mount: Option<ServerId>,
    pub session: Arc<str>,
    /// What the caller shows for this very call, beside the credential it was recognised by.
    pub proof: Proof,
    pub action: Action,
    pub params: Text,
    pub client: ClientFace,
}
