//! Receive: is this a call at all? Reads what the later stages need out of the parameters, without copying.

use std::borrow::Cow;

use vocab::{Rule, Violation};
use wire::{
    Json,
    json::{RawField, find},
};

use crate::{Action, CallRequest};

/// What a call addresses.
#[derive(Debug)]
pub enum Address<'a> {
    Tool(Cow<'a, str>),
    Prompt(Cow<'a, str>),
    Resource(Cow<'a, str>),
    Task(Cow<'a, str>),
}

impl Address<'_> {
    /// The name as the caller wrote it.
    pub fn text(&self) -> &str {
        match self {
            Self::Tool(name) | Self::Prompt(name) | Self::Resource(name) | Self::Task(name) => name,
        }
    }
}

/// The parameters, with every field found in one walk: arguments may be long, and nothing steps over them twice.
#[derive(Debug)]
pub struct Received<'a> {
    pub fields: Vec<RawField<'a>>,
    pub address: Address<'a>,
    pub arguments: Option<Json<'a>>,
}

impl<'a> Received<'a> {
    pub fn get(&self, key: &str) -> Option<Json<'a>> {
        find(&self.fields, key)
    }

    pub fn arguments_text(&self) -> &[u8] {
        self.arguments.map_or(b"", Json::as_bytes)
    }
}

pub fn receive(request: &CallRequest) -> Result<Received<'_>, Violation> {
    let fields = request.params.fields();
    let text = |key: &'static str| {
        find(&fields, key)
            .and_then(Json::as_str)
            .ok_or_else(|| missing(key))
    };
    let address = match request.action {
        Action::CallTool => Address::Tool(text("name")?),
        Action::GetPrompt => Address::Prompt(text("name")?),
        Action::ReadResource | Action::Subscribe | Action::Unsubscribe => {
            Address::Resource(text("uri")?)
        }
        Action::Complete => reference(find(&fields, "ref").ok_or_else(|| missing("ref"))?)?,
        Action::TaskGet | Action::TaskUpdate | Action::TaskCancel | Action::TaskResult => {
            Address::Task(text("taskId")?)
        }
    };
    if find(&fields, "inputResponses").is_some_and(|json| !json.is_object()) {
        return Err(
            Violation::new(Rule::Malformed, "`inputResponses` is not an object")
                .with_hint("`inputResponses` must be an object"),
        );
    }
    Ok(Received {
        arguments: find(&fields, "arguments"),
        fields,
        address,
    })
}

fn missing(key: &str) -> Violation {
    Violation::new(
        Rule::Malformed,
        format!("`{key}` is missing or not a string"),
    )
    .with_hint(format!("`{key}` must be a string"))
}

/// What a completion is about: a prompt by name, or a resource template by URI.
fn reference(reference: Json<'_>) -> Result<Address<'_>, Violation> {
    let text = |key: &'static str| {
        reference
            .get(key)
            .and_then(Json::as_str)
            .ok_or_else(|| missing(key))
    };
    match &*text("type")? {
        "ref/prompt" => Ok(Address::Prompt(text("name")?)),
        "ref/resource" => Ok(Address::Resource(text("uri")?)),
        _ => Err(Violation::new(Rule::Malformed, "unknown `ref.type`")
            .with_hint("`ref.type` must be ref/prompt or ref/resource")),
    }
}
