//! What the client does in each scenario, and what it insists on getting back.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, GetPromptRequestParams, JsonObject,
    ReadResourceRequestParams, Tool,
};
use serde_json::{Value, json};

use super::Connection;

/// Lists the tools of a server that says it has some; one that has none is not asked.
pub(super) async fn list_tools(connection: &Connection) -> Result<()> {
    if connection
        .peer_info()
        .is_some_and(|server| server.capabilities.tools.is_some())
    {
        tools(connection).await?;
    }
    Ok(())
}

pub(super) async fn add_numbers(connection: &Connection) -> Result<()> {
    find(&tools(connection).await?, "add_numbers")?;
    let sum = call(connection, "add_numbers", json!({"a": 5, "b": 3})).await?;
    expect_text(&sum, "The sum of 5 and 3 is 8")
}

pub(super) async fn elicitation_defaults(connection: &Connection) -> Result<()> {
    find(
        &tools(connection).await?,
        "test_client_elicitation_defaults",
    )?;
    let result = call(connection, "test_client_elicitation_defaults", json!({})).await?;
    expect_text(&result, "Elicitation completed")
}

pub(super) async fn resumed_call(connection: &Connection) -> Result<()> {
    find(&tools(connection).await?, "test_reconnection")?;
    let result = call(connection, "test_reconnection", json!({})).await?;
    expect_text(&result, "Reconnection test completed")
}

pub(super) async fn echo_schema(connection: &Connection) -> Result<()> {
    let listed = tools(connection).await?;
    let schema = Value::Object(
        find(&listed, "json_schema_2020_12_tool")?
            .input_schema
            .as_ref()
            .clone(),
    );
    let result = call(connection, "json_schema_echo", json!({"schema": schema})).await?;
    expect_text(&result, "echoed")
}

/// Two conversations of several rounds, with another call between the rounds of the first.
pub(super) async fn rounds_with_state(connection: &Connection) -> Result<()> {
    tools(connection).await?;
    let first = connection
        .call_tool_once(CallToolRequestParams::new("test_mrtr_echo_state"))
        .await?;
    let CallToolResponse::InputRequired(asked) = first else {
        bail!("test_mrtr_echo_state did not ask for input: {first:?}");
    };
    let unrelated = call(connection, "test_mrtr_unrelated", json!({})).await?;
    expect_text(&unrelated, "unrelated-ok")?;

    let answer = json!({"action": "accept", "content": {"confirmed": true}});
    let keys = asked.input_requests.unwrap_or_default().into_keys();
    let answers: BTreeMap<String, Value> = keys.map(|key| (key, answer.clone())).collect();
    let mut retry =
        CallToolRequestParams::new("test_mrtr_echo_state").with_input_responses(answers);
    retry.request_state = asked.request_state;
    match connection.call_tool_once(retry).await? {
        CallToolResponse::Complete(result) => expect_text(&result, "echo-state-ok")?,
        other => bail!("test_mrtr_echo_state did not finish: {other:?}"),
    }

    expect_text(
        &call(connection, "test_mrtr_no_state", json!({})).await?,
        "no-state-ok",
    )?;
    expect_text(
        &call(connection, "test_mrtr_no_result_type", json!({})).await?,
        "no-result-type-test-ok",
    )
}

/// Uses everything that is listed, once.
pub(super) async fn everything_listed(connection: &Connection) -> Result<()> {
    for tool in tools(connection).await? {
        call(connection, &tool.name, json!({})).await?;
    }
    for resource in connection
        .list_all_resources()
        .await
        .context("resources/list")?
    {
        let uri = resource.uri.clone();
        connection
            .read_resource(ReadResourceRequestParams::new(uri.clone()))
            .await
            .with_context(|| uri)?;
    }
    for prompt in connection
        .list_all_prompts()
        .await
        .context("prompts/list")?
    {
        let name = prompt.name.clone();
        connection
            .get_prompt(GetPromptRequestParams::new(name.clone()))
            .await
            .with_context(|| name)?;
    }
    Ok(())
}

pub(super) async fn calls_from_context(connection: &Connection, context: &Value) -> Result<()> {
    tools(connection).await?;
    let calls = context
        .get("toolCalls")
        .and_then(Value::as_array)
        .context("the context names no toolCalls")?;
    for wanted in calls {
        let name = wanted
            .get("name")
            .and_then(Value::as_str)
            .context("a call without a name")?;
        let arguments = wanted
            .get("arguments")
            .cloned()
            .unwrap_or_else(|| json!({}));
        let result = call(connection, name, arguments).await?;
        expect_text(&result, "Custom headers test completed")?;
    }
    Ok(())
}

/// Insists that nothing but the valid tool is listed, and calls it.
pub(super) async fn only_valid_tool(connection: &Connection) -> Result<()> {
    let listed = tools(connection).await?;
    let names: Vec<&str> = listed.iter().map(|tool| tool.name.as_ref()).collect();
    ensure!(
        names == ["valid_tool"],
        "tools with invalid annotations are listed: {names:?}"
    );
    let result = call(connection, "valid_tool", json!({"region": "us-west1"})).await?;
    expect_text(&result, "Tool call received")
}

async fn tools(connection: &Connection) -> Result<Vec<Tool>> {
    connection.list_all_tools().await.context("tools/list")
}

fn find<'a>(tools: &'a [Tool], name: &str) -> Result<&'a Tool> {
    tools
        .iter()
        .find(|tool| tool.name == name)
        .with_context(|| format!("{name} is not listed"))
}

async fn call(connection: &Connection, name: &str, arguments: Value) -> Result<CallToolResult> {
    let arguments: JsonObject =
        serde_json::from_value(arguments).context("arguments must be an object")?;
    let request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
    connection
        .call_tool(request)
        .await
        .with_context(|| format!("tools/call {name}"))
}

fn expect_text(result: &CallToolResult, wanted: &str) -> Result<()> {
    let said: Vec<&str> = result
        .content
        .iter()
        .filter_map(|block| block.as_text())
        .map(|text| text.text.as_str())
        .collect();
    ensure!(result.is_error != Some(true), "the call failed: {said:?}");
    ensure!(
        said.iter().any(|text| text.contains(wanted)),
        "expected '{wanted}', got {said:?}"
    );
    Ok(())
}
