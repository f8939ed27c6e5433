//! Tools that become tasks for clients that declared the tasks extension.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, CreateTaskResult, Tool,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskOptions};
use serde_json::{Value, json};

use super::super::ask::{self, Gathered, Question};
use super::{Answer, Call, rounds, text, tool, tool_requiring};

const POLL_EVERY_MS: u64 = 100;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool_requiring(
            "confirm_delete",
            "A task that asks before it pretends to delete",
            json!({"filename": {"type": "string"}}),
            &["filename"],
        ),
        tool("failing_job", "A task whose tool fails", json!({})),
        tool_requiring(
            "greet",
            "Greets at once, never a task",
            json!({"name": {"type": "string"}}),
            &["name"],
        ),
        tool(
            "multi_input",
            "A task that asks two things at once",
            json!({}),
        ),
        tool(
            "protocol_error_job",
            "A task that ends in a protocol error",
            json!({}),
        ),
        tool(
            "slow_compute",
            "Works for some seconds, as a task if the client can follow tasks",
            json!({"seconds": {"type": "number", "minimum": 0}, "label": {"type": "string"}}),
        ),
        tool(
            "test_tool_with_task",
            "Asks for a name, then goes on as a task",
            json!({}),
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Answer {
    Some(match call.name() {
        "greet" => Ok(text(format!(
            "Hello, {}!",
            call.text("name").unwrap_or("stranger")
        ))),
        "slow_compute" => slow_compute(call).await,
        "failing_job" => task(call, |_task| async {
            Ok(CallToolResult::error(said("The job failed, as it must.")))
        }),
        "protocol_error_job" => task(call, |_task| async {
            Err(ErrorData::internal_error("the job broke, as it must", None).into())
        }),
        "confirm_delete" => {
            let filename = call.text("filename").unwrap_or("nothing").to_owned();
            task(call, move |task| confirm_delete(task, filename))
        }
        "multi_input" => task(call, multi_input),
        "test_tool_with_task" => name_then_task(call).await,
        _ => return None,
    })
}

/// Starts a task, or refuses a client that could not follow it.
fn task<F, W>(call: &Call<'_>, work: W) -> Result<CallToolResponse, ErrorData>
where
    W: FnOnce(TaskContext) -> F,
    F: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
{
    if !ask::capabilities(call.context).supports_tasks() {
        let tasks = ClientCapabilities::builder().enable_tasks().build();
        return Err(ErrorData::missing_required_client_capability(tasks));
    }
    let options = TaskOptions::new().with_poll_interval_ms(POLL_EVERY_MS);
    let started = call
        .world
        .tasks
        .spawn(options, |context| Box::pin(work(context)));
    Ok(CreateTaskResult::new(started).into())
}

async fn slow_compute(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let seconds = call
        .argument("seconds")
        .and_then(Value::as_f64)
        .unwrap_or(1.0);
    let length = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let label = call.text("label").unwrap_or("unlabelled").to_owned();
    if length.is_zero() || !ask::capabilities(call.context).supports_tasks() {
        tokio::time::sleep(length).await;
        return Ok(text(format!("computed {label}")));
    }
    task(call, move |task| async move {
        tokio::select! {
            () = task.cancelled() => Err(TaskExit::Cancelled),
            () = tokio::time::sleep(length) => Ok(CallToolResult::success(said(format!("computed {label}")))),
        }
    })
}

async fn confirm_delete(task: TaskContext, filename: String) -> Result<CallToolResult, TaskExit> {
    let answer = task
        .request_input("confirm", confirmation(&format!("Delete {filename}?"))?)
        .await?;
    let confirmed = answer.pointer("/content/confirm").and_then(Value::as_bool) == Some(true);
    let outcome = if confirmed { "deleted" } else { "kept" };
    Ok(CallToolResult::success(said(format!(
        "{filename} {outcome}"
    ))))
}

async fn multi_input(task: TaskContext) -> Result<CallToolResult, TaskExit> {
    let first = task.request_input("first", confirmation("The first question")?);
    let second = task.request_input("second", confirmation("The second question")?);
    let (first, second) = tokio::join!(first, second);
    Ok(CallToolResult::success(said(
        json!([first?, second?]).to_string(),
    )))
}

async fn name_then_task(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let name = match rounds::ask_name(call).await? {
        Gathered::Pending(result) => return Ok(result.into()),
        Gathered::Answers(answers) => rounds::name_in(&answers, "user_name"),
    };
    task(call, move |_task| async move {
        Ok(CallToolResult::success(said(format!("Worked for {name}."))))
    })
}

fn confirmation(message: &str) -> Result<rmcp::model::InputRequest, ErrorData> {
    let schema = json!({"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]});
    Ok(Question::form("confirm", message, schema)?.into_request())
}

fn said(text: impl Into<String>) -> Vec<ContentBlock> {
    vec![ContentBlock::text(text)]
}
