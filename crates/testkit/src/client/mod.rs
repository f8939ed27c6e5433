//! A small MCP client that hides nothing: every message it sends and sees is plain JSON.
//!
//! It speaks both eras over HTTP, so that one test body can be run against a gate from either side of the divide.
//! It must never repair what a server sends: a wrong id, a missing `resultType` or an unexpected status surfaces
//! as an error of the test. It shares no code with the gate.

mod era;
mod http;
mod messages;
mod outcome;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

pub use era::{Era, LEGACY, MODERN};
use era::{PREFIX, era_headers, handshake, input_required};
pub use http::{Reply, Target};
pub use messages::Messages;
use outcome::called;
pub use outcome::{Called, Pending};

const MOST_ROUNDS: usize = 8;
/// Longer than any honest answer takes, shorter than a test's patience.
const PATIENCE: Duration = Duration::from_secs(60);

/// One client, connected. Clones share the session and what was seen.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    era: Era,
    revision: &'static str,
    session: Option<String>,
    capabilities: Value,
    /// What to answer when asked, by method.
    answers: BTreeMap<String, Value>,
    log_level: Mutex<Option<String>>,
    next_id: AtomicU64,
    seen: Mutex<Vec<Value>>,
    arrived: Notify,
    listening: Mutex<Option<AbortHandle>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(stream) = lock(&self.listening).take() {
            stream.abort();
        }
    }
}

impl Client {
    /// Connects: the handshake for the legacy era, nothing at all for the modern one.
    ///
    /// # Errors
    /// When the server refuses the handshake.
    pub async fn connect(
        target: &Target,
        era: Era,
        capabilities: Value,
        answers: &[(&str, Value)],
    ) -> Result<Self> {
        let revision = if era == Era::Legacy { LEGACY } else { MODERN };
        Self::connect_as(target, revision, capabilities, answers).await
    }

    /// The same with a certain revision of the protocol.
    ///
    /// # Errors
    /// When the server refuses the handshake, or agrees to another revision only.
    pub async fn connect_as(
        target: &Target,
        revision: &'static str,
        capabilities: Value,
        answers: &[(&str, Value)],
    ) -> Result<Self> {
        let era = if revision == MODERN {
            Era::Modern
        } else {
            Era::Legacy
        };
        let mut shared = Shared {
            target: target.clone(),
            era,
            revision,
            session: None,
            capabilities,
            answers: answers
                .iter()
                .map(|(method, answer)| ((*method).to_owned(), answer.clone()))
                .collect(),
            log_level: Mutex::default(),
            next_id: AtomicU64::new(1),
            seen: Mutex::default(),
            arrived: Notify::new(),
            listening: Mutex::default(),
        };
        if era == Era::Legacy {
            shared.session = Some(handshake(&shared).await?);
        }
        let client = Self {
            shared: Arc::new(shared),
        };
        if era == Era::Legacy {
            client
                .notify("notifications/initialized", json!({}))
                .await?;
        }
        Ok(client)
    }

    /// A client that can answer nothing and says so.
    ///
    /// # Errors
    /// When the server refuses the handshake.
    pub async fn plain(target: &Target, era: Era) -> Result<Self> {
        Self::connect(target, era, json!({}), &[]).await
    }

    /// Where it calls, with its credential.
    pub fn target(&self) -> &Target {
        &self.shared.target
    }

    pub fn era(&self) -> Era {
        self.shared.era
    }

    pub fn session(&self) -> Option<&str> {
        self.shared.session.as_deref()
    }

    /// Asks for log messages from this level up.
    ///
    /// # Errors
    /// When a legacy server refuses the level.
    pub async fn set_log_level(&self, level: &str) -> Result<()> {
        *lock(&self.shared.log_level) = Some(level.to_owned());
        if self.shared.era == Era::Legacy {
            let answer = self
                .request("logging/setLevel", json!({"level": level}))
                .await?;
            answer
                .get("result")
                .with_context(|| format!("logging/setLevel was refused: {answer}"))?;
        }
        Ok(())
    }

    /// Sends a request and waits for its answer, answering whatever the server asks meanwhile.
    ///
    /// # Errors
    /// When no answer with this request's id comes; an error *answer* is an answer.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value> {
        self.request_as(self.fresh_id(), method, params).await
    }

    /// The tools as listed, every page.
    ///
    /// # Errors
    /// When the list is refused or malformed.
    pub async fn tools(&self) -> Result<Vec<Value>> {
        self.list("tools").await
    }

    /// The names of the tools, in listed order.
    ///
    /// # Errors
    /// When the list is refused or malformed.
    pub async fn tool_names(&self) -> Result<Vec<String>> {
        let tools = self.tools().await?;
        Ok(tools
            .iter()
            .filter_map(|tool| tool.get("name")?.as_str().map(str::to_owned))
            .collect())
    }

    /// Every page of `tools`, `resources` or `prompts`.
    ///
    /// # Errors
    /// When the list is refused or malformed.
    pub async fn list(&self, what: &str) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut params = json!({});
        loop {
            let answer = self.request(&format!("{what}/list"), params).await?;
            let result = answer
                .get("result")
                .with_context(|| format!("{what}/list was refused: {answer}"))?;
            let page = result
                .get(what)
                .and_then(Value::as_array)
                .with_context(|| format!("no {what} in {answer}"))?;
            all.extend(page.iter().cloned());
            match result.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(all),
            }
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn call(&self, name: &str, arguments: Value) -> Result<Called> {
        let answer = self
            .request("tools/call", json!({"name": name, "arguments": arguments}))
            .await?;
        Ok(called(answer))
    }

    /// Sends a request without waiting for its answer.
    pub fn start(&self, method: &str, params: Value) -> Pending {
        let (client, id, method) = (self.clone(), self.fresh_id(), method.to_owned());
        let asking = client.clone();
        let answer = tokio::spawn(async move { asking.request_as(id, &method, params).await });
        Pending { client, id, answer }
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// When it is not accepted.
    pub async fn notify(&self, method: &str, params: Value) -> Result<()> {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let reply = self.post(&message, &[]).await?;
        if !(200..300).contains(&reply.status) {
            bail!("{method} was answered with status {}", reply.status);
        }
        Ok(())
    }

    /// Opens the stream on which the server announces changes: GET, or `subscriptions/listen`.
    ///
    /// # Errors
    /// When the server refuses the stream.
    pub async fn listen(&self, resources: &[&str]) -> Result<()> {
        let reply = match self.shared.era {
            Era::Legacy => {
                self.shared
                    .target
                    .send("GET", &self.headers("", &Value::Null), Vec::new())
                    .await?
            }
            Era::Modern => {
                let filter = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
                    "resourceSubscriptions": resources});
                let message = self.message(
                    self.fresh_id(),
                    "subscriptions/listen",
                    json!({"notifications": filter}),
                );
                self.post(&message, &[]).await?
            }
        };
        if reply.status != 200 {
            bail!(
                "the listening stream was refused with status {}",
                reply.status
            );
        }
        let mut messages = reply.messages();
        if self.shared.era == Era::Modern {
            // The acknowledgement says that from here on nothing is missed.
            self.absorb(
                messages
                    .next()
                    .await?
                    .context("the listening stream ended at once")?,
            )
            .await?;
        }
        let weak = Arc::downgrade(&self.shared);
        let stream = tokio::spawn(async move {
            while let Ok(Some(message)) = messages.next().await {
                let Some(shared) = weak.upgrade() else { return };
                let _answered = Self { shared }.absorb(message).await;
            }
        });
        *lock(&self.shared.listening) = Some(stream.abort_handle());
        Ok(())
    }

    /// Every notification and server request seen so far.
    pub fn seen(&self) -> Vec<Value> {
        lock(&self.shared.seen).clone()
    }

    /// Those with this method.
    pub fn seen_of(&self, method: &str) -> Vec<Value> {
        let mut seen = self.seen();
        seen.retain(|message| message.get("method").and_then(Value::as_str) == Some(method));
        seen
    }

    /// Waits until a message of this method has been seen.
    ///
    /// # Errors
    /// When none arrives in time.
    pub async fn wait_for(&self, method: &str, within: Duration) -> Result<Value> {
        let deadline = tokio::time::Instant::now() + within;
        loop {
            let arrived = self.shared.arrived.notified();
            if let Some(message) = self.seen_of(method).into_iter().next() {
                return Ok(message);
            }
            if tokio::time::timeout_at(deadline, arrived).await.is_err() {
                bail!("no {method} within {within:?}; seen: {:?}", self.seen());
            }
        }
    }

    /// Posts one message as this client would, with more headers if given.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn post(&self, message: &Value, more: &[(&str, &str)]) -> Result<Reply> {
        let method = message
            .get("method")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut headers = self.headers(method, message.get("params").unwrap_or(&Value::Null));
        for (name, value) in more {
            headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            headers.push(((*name).to_owned(), (*value).to_owned()));
        }
        self.shared
            .target
            .send("POST", &headers, serde_json::to_vec(message)?)
            .await
    }

    /// The request as it goes on the wire, with what the era demands in `_meta`.
    pub fn message(&self, id: u64, method: &str, mut params: Value) -> Value {
        if self.shared.era == Era::Modern
            && let Some(params) = params.as_object_mut()
            && let Some(meta) = params
                .entry("_meta")
                .or_insert_with(|| json!({}))
                .as_object_mut()
        {
            meta.insert(format!("{PREFIX}protocolVersion"), json!(MODERN));
            meta.insert(
                format!("{PREFIX}clientInfo"),
                json!({"name": "testkit", "version": "1"}),
            );
            meta.insert(
                format!("{PREFIX}clientCapabilities"),
                self.shared.capabilities.clone(),
            );
            if let Some(level) = lock(&self.shared.log_level).as_ref() {
                meta.insert(format!("{PREFIX}logLevel"), json!(level));
            }
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// An id this client has not used.
    pub fn fresh_id(&self) -> u64 {
        self.shared.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn headers(&self, method: &str, params: &Value) -> Vec<(String, String)> {
        era_headers(&self.shared, method, params)
    }

    async fn request_as(&self, mut id: u64, method: &str, mut params: Value) -> Result<Value> {
        for _ in 0..MOST_ROUNDS {
            let message = self.message(id, method, params.clone());
            let answer = tokio::time::timeout(PATIENCE, self.exchange(id, &message))
                .await
                .map_err(|_| anyhow!("no answer to {method} within {PATIENCE:?}"))??;
            let Some(asked) = input_required(&answer) else {
                return Ok(answer);
            };
            let fields = params.as_object_mut().context("params must be an object")?;
            fields.insert("inputResponses".to_owned(), self.respond(asked)?);
            match answer.pointer("/result/requestState") {
                Some(state) => fields.insert("requestState".to_owned(), state.clone()),
                None => fields.remove("requestState"),
            };
            id = self.fresh_id();
        }
        bail!("{method} still wants input after {MOST_ROUNDS} rounds")
    }

    async fn exchange(&self, id: u64, message: &Value) -> Result<Value> {
        let mut messages = self.post(message, &[]).await?.messages();
        while let Some(message) = messages.next().await? {
            if message.get("method").is_some() {
                self.absorb(message).await?;
            } else if message.get("id") == Some(&json!(id))
                || message.get("id") == Some(&Value::Null)
            {
                return Ok(message);
            } else {
                bail!("an answer to somebody else's request arrived: {message}");
            }
        }
        bail!("the reply to request {id} ended without an answer")
    }

    /// The answers to what a modern server wants to know.
    fn respond(&self, asked: &serde_json::Map<String, Value>) -> Result<Value> {
        let mut responses = serde_json::Map::new();
        for (key, request) in asked {
            let method = request
                .get("method")
                .and_then(Value::as_str)
                .context("an input request without a method")?;
            lock(&self.shared.seen).push(request.clone());
            self.shared.arrived.notify_waiters();
            let answer = self
                .shared
                .answers
                .get(method)
                .with_context(|| format!("this client cannot answer {method}"))?;
            responses.insert(key.clone(), answer.clone());
        }
        Ok(Value::Object(responses))
    }

    /// Keeps a notification; answers a request.
    async fn absorb(&self, message: Value) -> Result<()> {
        lock(&self.shared.seen).push(message.clone());
        self.shared.arrived.notify_waiters();
        let (Some(id), Some(method)) = (
            message.get("id"),
            message.get("method").and_then(Value::as_str),
        ) else {
            return Ok(());
        };
        let answer = match self.shared.answers.get(method) {
            Some(answer) => json!({"jsonrpc": "2.0", "id": id, "result": answer}),
            None => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "not supported"}})
            }
        };
        let reply = self.post(&answer, &[]).await?;
        if !(200..300).contains(&reply.status) {
            bail!(
                "the answer to {method} was refused with status {}",
                reply.status
            );
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
