//! Tools that talk while they work: log messages, progress, and a stream that is cut and resumed.
#![expect(
    deprecated,
    reason = "logging is deprecated in the protocol, and gates must still carry it"
)]

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
    Tool,
};
use serde_json::{Value, json};

use super::super::http::StreamCut;
use super::{Answer, Call, failure, text, tool};

/// Long enough that a client sees separate messages, short enough for a test.
const BETWEEN_MESSAGES: Duration = Duration::from_millis(20);

/// How long a cut call waits for its client.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(10);

const UNCUT: &str = "Finished; there was no stream to cut.";

pub(super) fn tools() -> Vec<Tool> {
    let level = json!({"type": "string", "description": "a syslog level; info if absent"});
    let steps = json!({"type": "integer", "minimum": 1, "maximum": 1000});
    vec![
        tool(
            "log",
            "Sends log messages of one level",
            json!({"level": level, "steps": steps}),
        ),
        tool(
            "progress",
            "Reports progress in equal steps",
            json!({"steps": steps}),
        ),
        tool(
            "test_logging_tool",
            "Logs only for clients that asked for logs",
            json!({}),
        ),
        tool(
            "test_reconnection",
            "Cuts its own stream, then finishes",
            json!({}),
        ),
        tool(
            "test_tool_with_logging",
            "Sends three log messages",
            json!({}),
        ),
        tool(
            "test_tool_with_progress",
            "Reports progress three times",
            json!({}),
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Answer {
    Some(match call.name() {
        "log" => log_steps(call).await,
        "progress" => progress_steps(call, call.number("steps").unwrap_or(3)).await,
        "test_tool_with_progress" => progress_steps(call, 2).await,
        "test_logging_tool" => log(call, LoggingLevel::Info, json!("working"))
            .await
            .map(|()| text("Logged.")),
        "test_tool_with_logging" => log_three(call).await,
        "test_reconnection" => Ok(reconnect(call).await),
        _ => return None,
    })
}

async fn log_steps(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let level = match call.argument("level") {
        None => LoggingLevel::Info,
        Some(named) => match serde_json::from_value(named.clone()) {
            Ok(level) => level,
            Err(_) => return Ok(failure(format!("{named} is not a log level"))),
        },
    };
    let steps = call.number("steps").unwrap_or(1);
    for step in 1..=steps {
        log(call, level, json!({"step": step, "of": steps})).await?;
    }
    Ok(text(format!("logged {steps} times")))
}

async fn log_three(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    for message in [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ] {
        log(call, LoggingLevel::Info, json!(message)).await?;
        tokio::time::sleep(BETWEEN_MESSAGES).await;
    }
    Ok(text("Tool with logging executed successfully"))
}

/// Sends one log message, if the client wants messages of this level.
async fn log(call: &Call<'_>, level: LoggingLevel, data: Value) -> Result<(), ErrorData> {
    if call
        .log_level
        .is_none_or(|wanted| (level as u8) < (wanted as u8))
    {
        return Ok(());
    }
    let message = LoggingMessageNotificationParam::new(level, data).with_logger("everything");
    call.context
        .peer
        .notify_logging_message(message)
        .await
        .map_err(|error| {
            ErrorData::internal_error(format!("cannot send a log message: {error}"), None)
        })
}

/// Reports `0/steps` to `steps/steps` as percentages, if the client gave a token for them.
async fn progress_steps(call: &Call<'_>, steps: u64) -> Result<CallToolResponse, ErrorData> {
    let steps = u32::try_from(steps.clamp(1, 1000)).unwrap_or(1);
    let Some(token) = call.context.meta.get_progress_token() else {
        return Ok(text("No progress token, so nothing was reported."));
    };
    for step in 0..=steps {
        let percent = f64::from(step) * 100.0 / f64::from(steps);
        let report = ProgressNotificationParam::new(token.clone(), percent)
            .with_total(100.0)
            .with_message(format!("step {step} of {steps}"));
        call.context
            .peer
            .notify_progress(report)
            .await
            .map_err(|error| {
                ErrorData::internal_error(format!("cannot report progress: {error}"), None)
            })?;
        tokio::time::sleep(BETWEEN_MESSAGES).await;
    }
    Ok(text(format!("reported {} times", steps + 1)))
}

/// Cuts the stream the call is answered on and finishes once the client has come back for the rest.
///
/// Only a client with a session can come back; for others this is a call like any other.
async fn reconnect(call: &Call<'_>) -> CallToolResponse {
    let Some(parts) = call.context.extensions.get::<http::request::Parts>() else {
        return text(UNCUT);
    };
    let (Some(session), Some(cut)) = (
        parts.headers.get("mcp-session-id"),
        parts.extensions.get::<StreamCut>(),
    ) else {
        return text(UNCUT);
    };
    let mut resumptions = call.world.resumptions.subscribe();
    cut.now();
    let back = async {
        while resumptions
            .recv()
            .await
            .is_ok_and(|resumed| resumed != session)
        {}
    };
    // A client that never comes back must not hold the call for ever.
    match tokio::time::timeout(COMES_BACK_WITHIN, back).await {
        Ok(()) => text("Finished after the stream was cut."),
        Err(_) => failure("The client did not come back after its stream was cut."),
    }
}
