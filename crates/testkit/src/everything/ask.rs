//! Asking the client something, the same way in both eras.
//!
//! A tool states its questions once. To a legacy client they go out as server requests and the tool waits; a
//! modern client gets an `input_required` result and calls again with the answers. Either way the tool only sees
//! [`Gathered`].
#![expect(
    deprecated,
    reason = "sampling and roots are deprecated in the protocol, and gates must still carry them"
)]

use std::collections::BTreeMap;

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ClientResult, InputRequest, InputRequiredResult, InputResponses,
    ProtocolVersion, ServerRequest,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

/// One thing to ask, under the key its answer will carry.
pub(super) struct Question {
    key: String,
    request: InputRequest,
}

/// The outcome of asking.
pub(super) enum Gathered {
    /// Every question has an answer.
    Answers(BTreeMap<String, Value>),
    /// The client has to call again with answers.
    Pending(InputRequiredResult),
}

impl Question {
    /// A form for the person behind the client.
    pub(super) fn form(key: &str, message: &str, schema: Value) -> Result<Self, ErrorData> {
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        Self::new(key, "elicitation/create", params)
    }

    /// A page the person has to visit.
    pub(super) fn url(key: &str, message: &str, url: &str) -> Result<Self, ErrorData> {
        let params = json!({"mode": "url", "message": message, "url": url, "elicitationId": format!("visit-{key}")});
        Self::new(key, "elicitation/create", params)
    }

    /// A completion from the model behind the client.
    pub(super) fn sample(key: &str, prompt: &str, max_tokens: u32) -> Result<Self, ErrorData> {
        let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
        Self::new(
            key,
            "sampling/createMessage",
            json!({"messages": [message], "maxTokens": max_tokens}),
        )
    }

    /// The folders the client works in.
    pub(super) fn roots(key: &str) -> Result<Self, ErrorData> {
        Self::new(key, "roots/list", json!({}))
    }

    fn new(key: &str, method: &str, params: Value) -> Result<Self, ErrorData> {
        let request = serde_json::from_value(json!({"method": method, "params": params})).map_err(
            |error| {
                ErrorData::internal_error(
                    format!("cannot build the {method} question: {error}"),
                    None,
                )
            },
        )?;
        Ok(Self {
            key: key.to_owned(),
            request,
        })
    }

    /// The request itself, for asking from inside a task.
    pub(super) fn into_request(self) -> InputRequest {
        self.request
    }

    /// Whether the client said it can answer this.
    pub(super) fn answerable(&self, client: &ClientCapabilities) -> bool {
        match &self.request {
            InputRequest::CreateMessage(_) => client.sampling.is_some(),
            InputRequest::Elicitation(_) => client.elicitation.is_some(),
            InputRequest::ListRoots(_) => client.roots.is_some(),
            _ => false,
        }
    }

    fn capability(&self) -> ClientCapabilities {
        match &self.request {
            InputRequest::CreateMessage(_) => {
                ClientCapabilities::builder().enable_sampling().build()
            }
            InputRequest::ListRoots(_) => ClientCapabilities::builder().enable_roots().build(),
            _ => ClientCapabilities::builder().enable_elicitation().build(),
        }
    }

    /// Whether a value could be an answer to this question at all.
    fn plausible(&self, answer: &Value) -> bool {
        match &self.request {
            InputRequest::CreateMessage(_) => answer.get("content").is_some(),
            InputRequest::ListRoots(_) => answer.get("roots").is_some_and(Value::is_array),
            _ => matches!(
                answer.get("action").and_then(Value::as_str),
                Some("accept" | "decline" | "cancel")
            ),
        }
    }
}

/// Whether the request came from a client of the era without `initialize`.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// What the client of this request can do; nothing, if it did not say.
pub(super) fn capabilities(context: &RequestContext<RoleServer>) -> ClientCapabilities {
    context.client_capabilities().unwrap_or_default()
}

/// Asks every question and collects the answers, or the result that makes a modern client answer.
pub(super) async fn gather(
    context: &RequestContext<RoleServer>,
    given: Option<&InputResponses>,
    questions: Vec<Question>,
    state: Option<String>,
) -> Result<Gathered, ErrorData> {
    let client = capabilities(context);
    if let Some(question) = questions
        .iter()
        .find(|question| !question.answerable(&client))
    {
        return Err(ErrorData::missing_required_client_capability(
            question.capability(),
        ));
    }
    if is_modern(context) {
        return Ok(match_answers(given, questions, state));
    }
    let mut answers = BTreeMap::new();
    for Question { key, request } in questions {
        answers.insert(key, ask_now(context, request).await?);
    }
    Ok(Gathered::Answers(answers))
}

fn match_answers(
    given: Option<&InputResponses>,
    questions: Vec<Question>,
    state: Option<String>,
) -> Gathered {
    let mut answers = BTreeMap::new();
    let mut missing = BTreeMap::new();
    for question in questions {
        match given
            .and_then(|given| given.get(&question.key))
            .filter(|answer| question.plausible(answer))
        {
            Some(answer) => {
                answers.insert(question.key, answer.clone());
            }
            None => {
                missing.insert(question.key, question.request);
            }
        }
    }
    if missing.is_empty() {
        Gathered::Answers(answers)
    } else {
        Gathered::Pending(InputRequiredResult::new(Some(missing), state))
    }
}

async fn ask_now(
    context: &RequestContext<RoleServer>,
    request: InputRequest,
) -> Result<Value, ErrorData> {
    let request = match request {
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        _ => {
            return Err(ErrorData::internal_error(
                "a question of an unknown kind",
                None,
            ));
        }
    };
    let answer: ClientResult = context.peer.send_request(request).await.map_err(|error| {
        ErrorData::internal_error(format!("the client did not answer: {error}"), None)
    })?;
    serde_json::to_value(answer).map_err(|error| {
        ErrorData::internal_error(format!("the client's answer is not JSON: {error}"), None)
    })
}
