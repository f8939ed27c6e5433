//! The person and model behind the reference client: they say yes to everything, take every default, and remember what they
//! were told.
#![expect(
    deprecated,
    reason = "sampling and roots are deprecated in the protocol, and gates must still carry them"
)]

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
    ResourceUpdatedNotificationParam, Role, Root, SamplingMessage, SamplingMessageContentBlock,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::Opening;

/// What the model behind the client always says.
pub const MODEL_ANSWER: &str = "A reference answer.";

/// The folder the client says it works in.
pub const ROOT: &str = "file:///reference/root";

/// Answers whatever the server asks.
#[derive(Clone, Debug)]
pub struct Person {
    opening: Opening,
    heard: Heard,
}

/// Notifications in the order they came, each as its method and params.
#[derive(Clone, Debug)]
pub struct Heard(Arc<watch::Sender<Vec<(&'static str, Value)>>>);

impl Heard {
    /// The params of every notification of one method so far.
    pub fn all(&self, method: &str) -> Vec<Value> {
        self.0
            .borrow()
            .iter()
            .filter(|(name, _)| *name == method)
            .map(|(_, params)| params.clone())
            .collect()
    }

    /// Waits until at least `count` notifications of a method have come; answers whether they did in time.
    pub async fn wait(&self, method: &str, count: usize, limit: Duration) -> bool {
        let mut heard = self.0.subscribe();
        let enough = heard
            .wait_for(|heard| heard.iter().filter(|(name, _)| *name == method).count() >= count);
        matches!(tokio::time::timeout(limit, enough).await, Ok(Ok(_)))
    }

    fn note(&self, method: &'static str, params: impl Serialize) {
        let params = serde_json::to_value(params).unwrap_or(Value::Null);
        self.0.send_modify(|heard| heard.push((method, params)));
    }
}

impl Person {
    pub(super) fn new(opening: Opening) -> Self {
        Self {
            opening,
            heard: Heard(Arc::new(watch::Sender::new(Vec::new()))),
        }
    }

    /// What came unasked.
    pub fn heard(&self) -> &Heard {
        &self.heard
    }
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder()
            .enable_elicitation()
            .enable_roots()
            .enable_sampling()
            .build();
        let identity =
            Implementation::new("portcullis-reference-client", env!("CARGO_PKG_VERSION"));
        let version = match self.opening {
            Opening::Legacy => ProtocolVersion::V_2025_11_25,
            Opening::Modern => ProtocolVersion::V_2026_07_28,
        };
        ClientConfig::new(capabilities, identity).with_protocol_version(version)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let accepted = ElicitResult::new(ElicitationAction::Accept);
        let ElicitRequestParams::FormElicitationParams {
            requested_schema, ..
        } = request
        else {
            return Ok(accepted);
        };
        let schema = serde_json::to_value(requested_schema).map_err(|error| {
            ErrorData::internal_error(format!("the form is not JSON: {error}"), None)
        })?;
        Ok(accepted.with_content(Value::Object(filled_in(&schema))))
    }

    async fn create_message(
        &self,
        _request: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let said = SamplingMessage::new(
            Role::Assistant,
            SamplingMessageContentBlock::text(MODEL_ANSWER),
        );
        Ok(
            CreateMessageResult::new(said, "reference-model".to_owned())
                .with_stop_reason("endTurn"),
        )
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![
            Root::new(ROOT).with_name("reference"),
        ]))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.heard.note("notifications/progress", params);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.heard.note("notifications/message", params);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.heard.note("notifications/resources/updated", params);
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.heard
            .note("notifications/resources/list_changed", json!({}));
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.heard
            .note("notifications/tools/list_changed", json!({}));
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.heard
            .note("notifications/prompts/list_changed", json!({}));
    }
}

/// The form with its defaults taken, and something plausible where there is none.
fn filled_in(schema: &Value) -> Map<String, Value> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Map::new();
    };
    properties
        .iter()
        .map(|(name, field)| (name.clone(), field_value(field)))
        .collect()
}

fn field_value(field: &Value) -> Value {
    if let Some(default) = field.get("default") {
        return default.clone();
    }
    let first_choice = field
        .pointer("/enum/0")
        .or_else(|| field.pointer("/oneOf/0/const"))
        .or_else(|| field.pointer("/items/enum/0"))
        .or_else(|| field.pointer("/items/anyOf/0/const"));
    match (field.get("type").and_then(Value::as_str), first_choice) {
        (Some("array"), Some(choice)) => Value::Array(vec![choice.clone()]),
        (_, Some(choice)) => choice.clone(),
        (Some("boolean"), None) => Value::Bool(true),
        (Some("integer" | "number"), None) => Value::from(1),
        (Some("array"), None) => Value::Array(Vec::new()),
        _ => Value::from("reference"),
    }
}
