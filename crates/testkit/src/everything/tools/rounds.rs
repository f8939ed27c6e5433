//! Tools about the rounds of an `input_required` conversation: several questions, several rounds, sealed state.
//!
//! State that travels through the client is sealed; a state that does not open is refused before anything else
//! is looked at.

use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, Tool};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::ask::{self, Gathered, Question};
use super::{Answer, Call, text, tool};

/// What a tool remembers between rounds.
#[derive(Serialize, Deserialize)]
struct Remembered {
    tool: String,
    round: u32,
    name: Option<String>,
}

pub(super) fn tools() -> Vec<Tool> {
    [
        (
            "test_input_required_result_capabilities",
            "Asks only what the client can answer",
        ),
        ("test_input_required_result_elicitation", "Asks for a name"),
        (
            "test_input_required_result_list_roots",
            "Asks for the client's folders",
        ),
        (
            "test_input_required_result_multi_round",
            "Asks twice, one after the other",
        ),
        (
            "test_input_required_result_multiple_inputs",
            "Asks three things at once",
        ),
        (
            "test_input_required_result_request_state",
            "Asks with sealed state",
        ),
        (
            "test_input_required_result_sampling",
            "Asks the client's model",
        ),
        (
            "test_input_required_result_tampered_state",
            "Asks with sealed state and checks it",
        ),
    ]
    .into_iter()
    .map(|(name, about)| tool(name, about, json!({})))
    .collect()
}

pub(super) async fn call(call: &Call<'_>) -> Answer {
    Some(match call.name() {
        "test_input_required_result_elicitation" => greet(call).await,
        "test_input_required_result_sampling" => {
            let question =
                Question::sample("capital_question", "What is the capital of France?", 100);
            ask_once(call, vec![question], false).await
        }
        "test_input_required_result_list_roots" => {
            ask_once(call, vec![Question::roots("client_roots")], false).await
        }
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => {
            ask_once(call, vec![confirmation()], true).await
        }
        "test_input_required_result_multiple_inputs" => {
            let questions = vec![
                name_question("user_name", "What is your name?"),
                Question::sample("greeting", "Generate a greeting", 50),
                Question::roots("client_roots"),
            ];
            ask_once(call, questions, true).await
        }
        "test_input_required_result_multi_round" => multi_round(call).await,
        "test_input_required_result_capabilities" => only_answerable(call).await,
        _ => return None,
    })
}

/// Asks for a name and greets; also the first round of the tool that ends in a task.
async fn greet(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    match ask_name(call).await? {
        Gathered::Pending(result) => Ok(result.into()),
        Gathered::Answers(answers) => {
            Ok(text(format!("Hello, {}!", name_in(&answers, "user_name"))))
        }
    }
}

pub(super) async fn ask_name(call: &Call<'_>) -> Result<Gathered, ErrorData> {
    let question = name_question("user_name", "What is your name?")?;
    ask::gather(
        call.context,
        call.params.input_responses.as_ref(),
        vec![question],
        None,
    )
    .await
}

async fn ask_once(
    call: &Call<'_>,
    questions: Vec<Result<Question, ErrorData>>,
    with_state: bool,
) -> Result<CallToolResponse, ErrorData> {
    let questions = questions.into_iter().collect::<Result<Vec<_>, _>>()?;
    let remembered = recall(call)?;
    let state = if with_state {
        Some(seal(call, 1, None)?)
    } else {
        None
    };
    match ask::gather(
        call.context,
        call.params.input_responses.as_ref(),
        questions,
        state,
    )
    .await?
    {
        Gathered::Pending(result) => Ok(result.into()),
        Gathered::Answers(answers) => {
            let state = if remembered.is_some() {
                "state-ok "
            } else {
                ""
            };
            Ok(text(format!("{state}answers: {}", json!(answers))))
        }
    }
}

async fn multi_round(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let given = call.params.input_responses.as_ref();
    let name = match recall(call)?.and_then(|remembered| remembered.name) {
        Some(name) => name,
        None => {
            let first = name_question("step1", "Step 1: What is your name?")?;
            match ask::gather(call.context, given, vec![first], Some(seal(call, 1, None)?)).await? {
                Gathered::Pending(result) => return Ok(result.into()),
                Gathered::Answers(answers) => name_in(&answers, "step1"),
            }
        }
    };
    let second = Question::form(
        "step2",
        "Step 2: What is your favorite color?",
        field("color", "string"),
    )?;
    match ask::gather(
        call.context,
        given,
        vec![second],
        Some(seal(call, 2, Some(name.clone()))?),
    )
    .await?
    {
        Gathered::Pending(result) => Ok(result.into()),
        Gathered::Answers(answers) => {
            let color = answers
                .get("step2")
                .and_then(|answer| answer.pointer("/content/color"));
            Ok(text(format!(
                "{name} likes {}",
                color.and_then(Value::as_str).unwrap_or("no color")
            )))
        }
    }
}

async fn only_answerable(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let client = ask::capabilities(call.context);
    let questions = vec![
        name_question("user_name", "What is your name?")?,
        Question::sample("greeting", "Generate a greeting", 50)?,
        Question::roots("client_roots")?,
    ];
    let questions = questions
        .into_iter()
        .filter(|question| question.answerable(&client))
        .map(Ok)
        .collect();
    ask_once(call, questions, false).await
}

fn seal(call: &Call<'_>, round: u32, name: Option<String>) -> Result<String, ErrorData> {
    let remembered = Remembered {
        tool: call.name().to_owned(),
        round,
        name,
    };
    call.world.states.seal_json(&remembered).map_err(|error| {
        ErrorData::internal_error(format!("cannot seal the request state: {error}"), None)
    })
}

/// Opens the state the client echoed, if it echoed one; a state sealed for another tool is refused too.
fn recall(call: &Call<'_>) -> Result<Option<Remembered>, ErrorData> {
    let Some(sealed) = call.params.request_state.as_deref() else {
        return Ok(None);
    };
    let remembered: Remembered = call.world.states.open_json(sealed).map_err(|error| {
        ErrorData::invalid_params(format!("the request state is not ours: {error}"), None)
    })?;
    if remembered.tool != call.name() {
        return Err(ErrorData::invalid_params(
            "the request state belongs to another tool",
            None,
        ));
    }
    Ok(Some(remembered))
}

fn name_question(key: &str, message: &str) -> Result<Question, ErrorData> {
    Question::form(key, message, field("name", "string"))
}

fn confirmation() -> Result<Question, ErrorData> {
    Question::form("confirm", "Please confirm", field("ok", "boolean"))
}

fn field(name: &str, kind: &str) -> Value {
    json!({"type": "object", "properties": {name: {"type": kind}}, "required": [name]})
}

pub(super) fn name_in(answers: &std::collections::BTreeMap<String, Value>, key: &str) -> String {
    let name = answers
        .get(key)
        .and_then(|answer| answer.pointer("/content/name"))
        .and_then(Value::as_str);
    name.unwrap_or("stranger").to_owned()
}
