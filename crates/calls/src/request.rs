//! What a door hands to the gate: one call, as received.

use std::sync::Arc;

use bytes::Bytes;
use vocab::ServerId;
use wire::{Text, mcp::Era};

use callers::Caller;

/// Where a call came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Door {
    McpHttp,
    McpStdio,
    Cli,
    Seal,
    Nfs,
}

impl Door {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::McpHttp => "mcp-http",
            Self::McpStdio => "mcp-stdio",
            Self::Cli => "cli",
            Self::Seal => "seal",
            Self::Nfs => "nfs",
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

/// Where a call comes from, and what only calls from there have. Nobody poses as another.
#[derive(Debug, Clone)]
pub enum Origin {
    /// An MCP client, over whichever door; what it can do.
    Mcp(ClientFace),
    /// A signed envelope, as it came. Whether its signature holds, and whether it is the first of its kind, is for Verify to say.
    Signed(Bytes),
    /// Who has mounted volumes. Files are opened by such a call, and then read and written by parts.
    Mount,
    /// An operator who asks what would become of a call. It is explained and never made.
    Operator,
}

impl Origin {
    /// The client that can be told and asked something in the middle of a call.
    #[must_use]
    pub const fn client(&self) -> Option<&ClientFace> {
        match self {
            Self::Mcp(client) => Some(client),
            Self::Signed(_) | Self::Mount | Self::Operator => None,
        }
    }

    /// Whether a server's questions are answered by making the call again, as the newer protocol has it. An operator looks at calls
    /// that may have been such.
    pub fn answers_anew(&self) -> bool {
        match self {
            Self::Mcp(client) => client.era == Era::Modern,
            Self::Signed(_) | Self::Mount => false,
            Self::Operator => true,
        }
    }

    /// Whether a call may be made a task that ends later, in the way of the older protocol. A signed call has one answer.
    pub fn may_begin_tasks(&self) -> bool {
        self.client()
            .is_some_and(|client| client.era == Era::Legacy)
    }

    pub const fn is_signed(&self) -> bool {
        matches!(self, Self::Signed(_))
    }
}

/// One call, as a door received it. `params` is the text of a validated JSON object.
#[derive(Debug, Clone)]
pub struct CallRequest {
    pub caller: Caller,
    pub door: Door,
    /// `Some`: a door that shows this one server under its own names.
    pub mount: Option<ServerId>,
    /// What tells this client's conversation from others where a connection to a server is shared.
    pub lane: Arc<str>,
    pub origin: Origin,
    pub action: Action,
    pub params: Text,
}
