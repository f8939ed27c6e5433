//! Tools that ask the client one thing and report the answer.

use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, Tool};
use serde_json::{Value, json};

use super::super::ask::{self, Gathered, Question};
use super::{Answer, Call, text, tool, tool_requiring};

pub(super) fn tools() -> Vec<Tool> {
    let message = json!({"message": {"type": "string"}});
    vec![
        tool(
            "elicit_form",
            "Asks the person to fill in a form with a name and a yes or no",
            message.clone(),
        ),
        tool(
            "elicit_url",
            "Asks the person to visit a page",
            json!({"page": {"type": "string"}, "message": {"type": "string"}}),
        ),
        tool(
            "list_roots",
            "Asks which folders the client works in",
            json!({}),
        ),
        tool(
            "sample",
            "Asks the client's model",
            json!({"prompt": {"type": "string"}}),
        ),
        tool_requiring(
            "test_elicitation",
            "Asks for a user name and an address",
            message,
            &["message"],
        ),
        tool(
            "test_elicitation_sep1034_defaults",
            "Asks with a default in every field",
            json!({}),
        ),
        tool(
            "test_elicitation_sep1330_enums",
            "Asks with every kind of choice",
            json!({}),
        ),
        tool_requiring(
            "test_sampling",
            "Asks the client's model",
            json!({"prompt": {"type": "string"}}),
            &["prompt"],
        ),
        tool(
            "test_streaming_elicitation",
            "Asks for a confirmation",
            json!({}),
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Answer {
    let (question, label) = match question(call)? {
        (Ok(question), label) => (question, label),
        (Err(error), _) => return Some(Err(error)),
    };
    Some(report(call, question, label).await)
}

/// The question a tool asks, and how its report begins.
fn question(call: &Call<'_>) -> Option<(Result<Question, ErrorData>, &'static str)> {
    let message = call.text("message").unwrap_or("Please answer");
    Some(match call.name() {
        "elicit_form" => (Question::form("form", message, simple_form()), "Form"),
        "elicit_url" => {
            let url = call.text("page").unwrap_or("https://example.com/consent");
            (Question::url("url", message, url), "Visit")
        }
        "list_roots" => (Question::roots("roots"), "Roots"),
        "sample" => (
            Question::sample("sample", call.text("prompt").unwrap_or("Say hello"), 100),
            "Sample",
        ),
        "test_sampling" => (
            Question::sample("sample", call.text("prompt").unwrap_or_default(), 100),
            "LLM response",
        ),
        "test_elicitation" => (
            Question::form("user", message, contact_form()),
            "User response",
        ),
        "test_elicitation_sep1034_defaults" => (
            Question::form(
                "defaults",
                "Review the values and change what is wrong",
                defaults_form(),
            ),
            DONE,
        ),
        "test_elicitation_sep1330_enums" => (
            Question::form("choices", "Choose in every way", choices_form()),
            DONE,
        ),
        "test_streaming_elicitation" => (
            Question::form("confirm", "Go on?", simple_form()),
            "Confirmation",
        ),
        _ => return None,
    })
}

const DONE: &str = "Elicitation completed";

async fn report(
    call: &Call<'_>,
    question: Question,
    label: &str,
) -> Result<CallToolResponse, ErrorData> {
    match ask::gather(
        call.context,
        call.params.input_responses.as_ref(),
        vec![question],
        None,
    )
    .await?
    {
        Gathered::Pending(result) => Ok(result.into()),
        Gathered::Answers(answers) => {
            let said: Vec<String> = answers.values().map(describe).collect();
            Ok(text(format!("{label}: {}", said.join("; "))))
        }
    }
}

/// An answer in words a test can look into.
fn describe(answer: &Value) -> String {
    if let Some(action) = answer.get("action").and_then(Value::as_str) {
        return format!(
            "action={action}, content={}",
            answer.get("content").unwrap_or(&Value::Null)
        );
    }
    if let Some(said) = answer.pointer("/content/text").and_then(Value::as_str) {
        return said.to_owned();
    }
    answer.to_string()
}

fn simple_form() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "confirm": {"type": "boolean"}},
        "required": ["name"],
    })
}

fn contact_form() -> Value {
    json!({
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    })
}

fn defaults_form() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": true},
        },
        "required": [],
    })
}

fn choices_form() -> Value {
    let titled = |noun: &str| {
        json!([
            {"const": "value1", "title": format!("First {noun}")},
            {"const": "value2", "title": format!("Second {noun}")},
            {"const": "value3", "title": format!("Third {noun}")},
        ])
    };
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
            "titledSingle": {"type": "string", "oneOf": titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {
                "type": "array",
                "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
            },
            "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
        },
        "required": [],
    })
}
