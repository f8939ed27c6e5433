//! An upstream whose definitions change on command, and which writes down everything it hears.
//!
//! It is an ordinary server of the older era on HTTP. Its tools do what their arguments say: `say` answers with the given
//! text, `give` with the given structured value, `answer` with the given result, and any other name with its own name. What differs from call to call is
//! only what it *shows*: tools, prompts, templates and instructions, replaced by the test at any moment, announced or not.
//! Its books ([`Heard`]) count bytes and messages where they arrive, so that "nothing was sent" can be counted.

mod answer;
mod http;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

/// What the server shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    pub tools: Vec<Value>,
    pub prompts: Vec<Value>,
    pub templates: Vec<Value>,
    /// `None`: a single note.
    pub resources: Option<Vec<Value>>,
    pub instructions: Option<String>,
    /// `None`: everything it can do.
    pub capabilities: Option<Value>,
}

impl Shown {
    /// The two usual tools.
    pub fn usual() -> Self {
        let text = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        let anything = json!({"type": "object", "properties": {"value": {}}});
        Self::tools([
            json!({"name": "say", "description": "Answers with the given text", "inputSchema": text}),
            json!({"name": "give", "description": "Answers with the given value", "inputSchema": anything}),
        ])
    }

    /// Only these tools.
    pub fn tools(tools: impl Into<Vec<Value>>) -> Self {
        Self {
            tools: tools.into(),
            ..Self::default()
        }
    }
}

/// A tool of this name that takes an optional text.
pub fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description,
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}})
}

/// One message that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    pub method: String,
    /// The tool or prompt it names, if it names one.
    pub name: Option<String>,
    pub params: Value,
    pub authorization: Option<String>,
    /// Head and body, as read from the socket.
    pub bytes: usize,
    /// The head and body themselves.
    pub text: String,
}

impl Heard {
    /// Whether it carries something a caller said or wants, rather than the gate's own housekeeping.
    pub fn is_of_a_caller(&self) -> bool {
        let housekeeping = [
            "initialize",
            "notifications/initialized",
            "ping",
            "server/discover",
        ];
        !housekeeping.contains(&self.method.as_str())
            && !self.method.ends_with("/list")
            && !self.method.is_empty()
    }
}

#[derive(Debug)]
struct Books {
    shown: Mutex<Shown>,
    heard: Mutex<Vec<Heard>>,
    announcements: broadcast::Sender<String>,
    /// Nobody is answered before this is true.
    open: watch::Sender<bool>,
}

/// A running upstream; it stops when dropped.
#[derive(Debug)]
pub struct Shifty {
    address: SocketAddr,
    books: Arc<Books>,
    serving: AbortHandle,
}

impl Shifty {
    /// Starts one on a loopback port the system picks.
    ///
    /// # Errors
    /// When no loopback port can be bound.
    pub async fn start(shown: Shown) -> std::io::Result<Self> {
        let shifty = Self::start_silent(shown).await?;
        shifty.speak();
        Ok(shifty)
    }

    /// Starts one that takes connections and answers nobody before [`Shifty::speak`].
    ///
    /// # Errors
    /// When no loopback port can be bound.
    pub async fn start_silent(shown: Shown) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let books = Arc::new(Books {
            shown: Mutex::new(shown),
            heard: Mutex::default(),
            announcements: broadcast::channel(64).0,
            open: watch::channel(false).0,
        });
        let serving = tokio::spawn(http::serve(listener, books.clone())).abort_handle();
        Ok(Self {
            address,
            books,
            serving,
        })
    }

    /// Lets those who wait have their answers.
    pub fn speak(&self) {
        self.books.open.send_replace(true);
    }

    /// Lets everyone wait again.
    pub fn hush(&self) {
        self.books.open.send_replace(false);
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Shows something else from now on, and tells nobody.
    pub fn show(&self, shown: Shown) {
        *lock(&self.books.shown) = shown;
    }

    /// Changes what is shown, and tells nobody.
    pub fn change(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut lock(&self.books.shown));
    }

    /// Says that a list changed: `tools`, `prompts` or `resources`.
    pub fn announce(&self, list: &str) {
        let method = match list {
            "prompts" => "notifications/prompts/list_changed",
            "resources" => "notifications/resources/list_changed",
            _ => "notifications/tools/list_changed",
        };
        self.tell(&json!({"jsonrpc": "2.0", "method": method}));
    }

    /// Sends a message that nobody asked for to everyone who listens.
    pub fn tell(&self, message: &Value) {
        // Nobody listening is a normal state, not a failure.
        let _heard_by = self.books.announcements.send(message.to_string());
    }

    /// How many connections listen for announcements.
    pub fn listeners(&self) -> usize {
        self.books.announcements.receiver_count()
    }

    /// Everything that arrived so far.
    pub fn heard(&self) -> Vec<Heard> {
        lock(&self.books.heard).clone()
    }

    /// The tool calls that arrived, by name.
    pub fn calls_of(&self, name: &str) -> Vec<Heard> {
        let mut heard = self.heard();
        heard.retain(|heard| heard.method == "tools/call" && heard.name.as_deref() == Some(name));
        heard
    }

    /// Bytes of messages that carry something of a caller.
    pub fn bytes_of_callers(&self) -> usize {
        self.heard()
            .iter()
            .filter(|heard| heard.is_of_a_caller())
            .map(|heard| heard.bytes)
            .sum()
    }

    /// Whether this text ever arrived, in whatever message.
    pub fn ever_heard(&self, text: &str) -> bool {
        self.heard().iter().any(|heard| heard.text.contains(text))
    }

    /// How often a method was heard.
    pub fn count(&self, method: &str) -> usize {
        self.heard()
            .iter()
            .filter(|heard| heard.method == method)
            .count()
    }
}

impl Drop for Shifty {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
