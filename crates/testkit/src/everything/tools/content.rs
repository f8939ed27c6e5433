//! Tools that return one kind of content each, and tools whose point is their schema.
#![expect(
    deprecated,
    reason = "sampling is deprecated in the protocol, and gates must still carry it"
)]

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ClientCapabilities, ContentBlock, ResourceContents, Tool};
use serde_json::{Value, json};

use super::super::ask;
use super::super::resources::{PIXEL_PNG, SILENT_WAV};
use super::{Answer, Call, failure, text, tool, tool_requiring, tool_with_schema};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool_with_schema(
            "json_schema_2020_12_tool",
            "Carries keywords of JSON Schema 2020-12",
            rich_schema(),
        ),
        tool("test_audio_content", "Returns audio", json!({})),
        tool(
            "test_embedded_resource",
            "Returns an embedded resource",
            json!({}),
        ),
        tool("test_error_handling", "Always fails", json!({})),
        tool("test_image_content", "Returns an image", json!({})),
        tool(
            "test_missing_capability",
            "Refuses clients that cannot sample",
            json!({}),
        ),
        tool(
            "test_multiple_content_types",
            "Returns text, an image and a resource",
            json!({}),
        ),
        tool("test_simple_text", "Returns a fixed text", json!({})),
        tool_requiring(
            "test_x_mcp_header",
            "Has its arguments mirrored into request headers",
            json!({
                "region": {"type": "string", "x-mcp-header": "Region"},
                "priority": {"type": "integer", "x-mcp-header": "Priority"},
                "note": {"type": "string"},
            }),
            &["region"],
        ),
    ]
}

pub(super) fn call(call: &Call<'_>) -> Answer {
    let content = match call.name() {
        "test_simple_text" => vec![ContentBlock::text(
            "This is a simple text response for testing.",
        )],
        "test_image_content" => vec![ContentBlock::image(PIXEL_PNG, "image/png")],
        "test_audio_content" => vec![ContentBlock::audio(SILENT_WAV, "audio/wav")],
        "test_embedded_resource" => {
            vec![embedded(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.".to_owned(),
            )]
        }
        "test_multiple_content_types" => vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(PIXEL_PNG, "image/png"),
            embedded(
                "test://mixed-content-resource",
                "application/json",
                json!({"test": "data", "value": 123}).to_string(),
            ),
        ],
        "test_error_handling" => {
            return Some(Ok(failure(
                "This tool intentionally returns an error for testing",
            )));
        }
        "test_missing_capability" => return Some(require_sampling(call)),
        "json_schema_2020_12_tool" | "test_x_mcp_header" => {
            return Some(Ok(text(json!(call.params.arguments).to_string())));
        }
        _ => return None,
    };
    Some(Ok(CallToolResult::success(content).into()))
}

fn require_sampling(call: &Call<'_>) -> Result<rmcp::model::CallToolResponse, ErrorData> {
    if ask::capabilities(call.context).sampling.is_some() {
        return Ok(text("The client can sample."));
    }
    let sampling = ClientCapabilities::builder().enable_sampling().build();
    Err(ErrorData::missing_required_client_capability(sampling))
}

fn embedded(uri: &str, kind: &str, text: String) -> ContentBlock {
    ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(kind))
}

fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}
