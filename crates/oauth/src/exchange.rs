//! Requests that are to be made, and the answers that came: what passes between this crate and whoever carries it out.

use secrets::Secret;
use wire::{Json, Limits};
use zeroize::Zeroizing;

use crate::{Address, Problem, Step};

/// No document or answer is longer.
const MAX_BYTES: usize = 64 << 10;
const MAX_DEPTH: usize = 16;
/// The longest error code that means anything.
const MAX_ERROR: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

#[derive(Debug)]
pub enum Body {
    None,
    /// `application/x-www-form-urlencoded`, encoded.
    Form(Secret),
    Json(Secret),
}

/// A request to make. Printing it shows no header and no body.
#[derive(Debug)]
pub struct Request {
    pub step: Step,
    pub method: Method,
    pub to: Address,
    pub headers: Vec<(&'static str, Secret)>,
    pub body: Body,
    /// The members of the answer that count; no others need be handed over.
    pub want: &'static [&'static str],
}

/// The answer to a request.
pub struct Answer {
    pub status: u16,
    /// The wanted members, as a JSON object; nothing if the answer was no object.
    pub json: Option<Zeroizing<Vec<u8>>>,
    /// Seconds of `Retry-After`.
    pub retry_after: Option<u64>,
    pub dpop_nonce: Option<String>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// What became of a request: an answer, or why there is none.
pub type Exchange = Result<Answer, String>;

impl Answer {
    /// An answer without headers that matter.
    #[must_use]
    pub fn new(status: u16, json: Option<Vec<u8>>) -> Self {
        Self {
            status,
            json: json.map(Zeroizing::new),
            retry_after: None,
            dpop_nonce: None,
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The members, read strictly.
    pub(crate) fn object(&self) -> Option<Json<'_>> {
        let text = self.json.as_ref()?;
        let json = Json::parse(text, Limits::new(MAX_BYTES, MAX_DEPTH)).ok()?;
        json.is_object().then_some(json)
    }

    /// The OAuth error it holds, whatever its status: some answer with 200 and an error.
    pub(crate) fn error(&self) -> Option<String> {
        let error = self.object()?.get("error")?.as_str()?;
        Some(error.chars().take(MAX_ERROR).collect())
    }

    pub(crate) fn refusal(&self, step: Step, place: &Address) -> Problem {
        let description = self
            .object()
            .and_then(|json| json.get("error_description"))
            .and_then(Json::as_str)
            .map(|text| crate::theirs(&text));
        match self.error() {
            Some(error) => Problem::Refused {
                step,
                place: place.shown(),
                error,
                description,
            },
            None => Problem::Status {
                step,
                place: place.shown(),
                status: self.status,
            },
        }
    }
}

/// Pairs as a form, with one spelling.
pub(crate) fn form(pairs: &[(&str, &str)]) -> Secret {
    let mut out = url::form_urlencoded::Serializer::new(String::new());
    Secret::new(out.extend_pairs(pairs).finish())
}

/// A text member, at most so many bytes and printable ASCII; anything else counts as not there.
pub(crate) fn text(json: Json<'_>, name: &str, longest: usize) -> Option<String> {
    let text = json.get(name)?.as_str()?;
    let is_fine = !text.is_empty()
        && text.len() <= longest
        && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    is_fine.then(|| text.into_owned())
}
