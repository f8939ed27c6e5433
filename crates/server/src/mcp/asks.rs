//! Questions an upstream asks the client in the middle of a call: elicitation, sampling, roots.
//!
//! Legacy clients get them as requests on the call's own stream. Modern clients get an `input_required` result and come back with
//! the answers; until then the gate keeps the call parked.

use bytes::Bytes;
use gateway::Pass;
use wire::{
    Json,
    mcp::{code, meta},
    rpc,
    write::{self, Object, quote},
};

/// One open question.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) key: String,
    pub(crate) method: String,
    pub(crate) params: Bytes,
    /// Evidence that it may be asked; held until it has been.
    pub(crate) pass: Pass,
}

impl Question {
    /// What a server asks. Its progress token means something on its own connection only, so it goes no further.
    pub(crate) fn new(key: String, method: String, (params, pass): (Bytes, Pass)) -> Self {
        let json = Json::checked_before(&params);
        let meta = json
            .get("_meta")
            .filter(|meta| meta.get(meta::PROGRESS_TOKEN).is_some());
        let params = match meta {
            None => params,
            Some(meta) => {
                let rest = write::replace_fields(meta, &[meta::PROGRESS_TOKEN], |_| {});
                let params = write::replace_fields(json, &["_meta"], |out| {
                    if rest != b"{}" {
                        out.raw("_meta", &rest);
                    }
                });
                params.into()
            }
        };
        Self {
            key,
            method,
            params,
            pass,
        }
    }

    /// Did the client say it can answer this? `elicitation: {}` means forms only.
    pub(crate) fn suits(&self, capabilities: &[u8]) -> bool {
        let capabilities = Json::checked_before(capabilities);
        match self.method.as_str() {
            "sampling/createMessage" => capabilities.get("sampling").is_some(),
            "roots/list" => capabilities.get("roots").is_some(),
            "elicitation/create" => {
                let mode = Json::checked_before(&self.params).get("mode");
                let by_url = mode
                    .and_then(Json::as_str)
                    .is_some_and(|mode| mode == "url");
                capabilities
                    .get("elicitation")
                    .is_some_and(|elicitation| match by_url {
                        true => elicitation.get("url").is_some(),
                        false => {
                            elicitation.get("form").is_some() || elicitation.get("url").is_none()
                        }
                    })
            }
            _ => false,
        }
    }
}

/// The id of a visit to an address that these parameters of a question ask for.
pub(crate) fn visit(params: Json<'_>) -> Option<String> {
    params
        .get("elicitationId")
        .and_then(Json::as_str)
        .map(Into::into)
}

/// The ids of the visits that an error asks for before the call can be made again.
pub(crate) fn visits_in(error: Json<'_>) -> impl Iterator<Item = String> {
    error
        .path(&["data", "elicitations"])
        .into_iter()
        .flat_map(Json::items)
        .filter_map(visit)
}

/// What the upstream is told when the client cannot be asked.
pub(crate) fn declined() -> Bytes {
    rpc::error_object(code::METHOD_NOT_FOUND, "not supported by this client", None).into()
}

/// What the upstream is told when the client never answered.
pub(crate) fn unanswered() -> Bytes {
    rpc::error_object(
        code::INTERNAL_ERROR,
        "the client did not answer in time",
        None,
    )
    .into()
}

/// The result that sends a modern client away to find the answers.
pub(crate) fn input_required(questions: &[Question], state: &str) -> Vec<u8> {
    let mut requests = vec![b'{'];
    for (index, question) in questions.iter().enumerate() {
        if index > 0 {
            requests.push(b',');
        }
        quote(&mut requests, &question.key);
        requests.push(b':');
        let mut request = Object::after(requests);
        request
            .str("method", &question.method)
            .raw("params", &question.params);
        requests = request.finish();
    }
    requests.push(b'}');
    let mut result = Object::with_capacity(requests.len() + state.len() + 96);
    result
        .str("resultType", "input_required")
        .raw("inputRequests", &requests)
        .str("requestState", state);
    result.finish()
}

#[cfg(test)]
mod tests;
