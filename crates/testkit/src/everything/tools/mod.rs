//! The tools, grouped by what they exercise. Each group lists its definitions and answers its own names.
//!
//! The catalog is in name order, and its first tool takes no required argument, because the conformance suite
//! calls whichever tool is listed first with empty arguments.
#![expect(
    deprecated,
    reason = "logging is deprecated in the protocol, and gates must still carry it"
)]

mod asking;
mod content;
mod jobs;
mod own;
mod rounds;
mod talk;

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject,
    LoggingLevel, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use super::world::World;

/// One call, with everything a tool may look at.
pub(super) struct Call<'a> {
    pub(super) world: &'a World,
    pub(super) params: &'a CallToolRequestParams,
    pub(super) context: &'a RequestContext<RoleServer>,
    /// The lowest level this client wants to hear, if it wants to hear any.
    pub(super) log_level: Option<LoggingLevel>,
}

/// What a group says about a name: nothing if it is not its own.
type Answer = Option<Result<CallToolResponse, ErrorData>>;

impl Call<'_> {
    fn name(&self) -> &str {
        &self.params.name
    }

    fn argument(&self, name: &str) -> Option<&Value> {
        self.params.arguments.as_ref()?.get(name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.argument(name)?.as_str()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.argument(name)?.as_u64()
    }
}

/// Every fixed tool, in name order.
pub(super) fn catalog() -> Vec<Tool> {
    let groups = [
        own::tools(),
        content::tools(),
        talk::tools(),
        asking::tools(),
        rounds::tools(),
        jobs::tools(),
    ];
    let mut tools: Vec<Tool> = groups.into_iter().flatten().collect();
    tools.sort_by(|left, right| left.name.cmp(&right.name));
    tools
}

/// The definition of a tool added while running.
pub(super) fn added(name: &str) -> Tool {
    tool(
        name,
        "Added while running; answers with its own name",
        json!({}),
    )
}

/// Answers a call by whichever group owns the name.
pub(super) async fn call(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    // Own tools first: `echo` is what the benchmarks measure.
    if let Some(answer) = own::call(call).await {
        return answer;
    }
    if let Some(answer) = content::call(call) {
        return answer;
    }
    if let Some(answer) = talk::call(call).await {
        return answer;
    }
    if let Some(answer) = asking::call(call).await {
        return answer;
    }
    if let Some(answer) = rounds::call(call).await {
        return answer;
    }
    if let Some(answer) = jobs::call(call).await {
        return answer;
    }
    let name = call.name();
    if call.world.has_added_tool(name) {
        return Ok(text(name));
    }
    Err(ErrorData::invalid_params(
        format!("no tool is called '{name}'"),
        Some(json!({"name": name})),
    ))
}

/// A tool whose arguments are all optional.
fn tool(name: &str, about: &str, properties: Value) -> Tool {
    tool_requiring(name, about, properties, &[])
}

fn tool_requiring(name: &str, about: &str, properties: Value, required: &[&str]) -> Tool {
    tool_with_schema(
        name,
        about,
        json!({"type": "object", "properties": properties, "required": required}),
    )
}

fn tool_with_schema(name: &str, about: &str, schema: Value) -> Tool {
    let schema: JsonObject = match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    Tool::new(name.to_owned(), about.to_owned(), Arc::new(schema))
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

/// A failure the model should read, as opposed to a broken request.
fn failure(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(text)]).into()
}
