//! What a call sends: every field that reaches the server, and the one text that all judges read.
//!
//! **Invariant: what is not in a [`Sent`] is not forwarded, and everything in it is judged.** Test `what_is_sent_is_what_was_judged`. The checks, the caller's security context, the
//! bundle, the person who is asked, the ledger's digest and the kept body all read [`Sent::judged`]: the arguments, and under
//! [`BESIDE`] what goes beside them. Fields that the protocol does not know for a method are dropped.
//!
//! What a server is told for each hop anew (protocol version, the gate's own name, a progress token) is written by the gate and its
//! worker, and never taken from a client.

use std::borrow::Cow;

use bytes::Bytes;
use policy::BESIDE;
use upstreams::catalog::Target;
use vocab::{Rule, Violation};
use wire::{
    Json,
    json::{RawField, decode_key},
    mcp::{Era, meta},
    write::{self, Object, Pieces},
};

use crate::{
    Action, CallRequest,
    receive::{Address, Received},
};

/// Keys of `_meta` that differ from one try to the next of the same call, by the standard for trace context.
const TRACE: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// Everything of a call that goes to the server, besides which method and whom it is for.
#[derive(Debug)]
pub struct Sent<'a> {
    /// Only where the method has arguments.
    arguments: Option<RawField<'a>>,
    /// The other fields, each by its name.
    beside: Vec<(&'static str, Cow<'a, [u8]>)>,
    /// What the judges read, where that is not the arguments themselves.
    whole: Option<Vec<u8>>,
}

impl<'a> Sent<'a> {
    /// `target` is `None` where the call ended before one was found; then everything counts that might have been sent.
    pub fn new(
        request: &CallRequest,
        received: &Received<'a>,
        target: Option<&Target>,
    ) -> Result<Self, Violation> {
        let has_arguments = matches!(request.action, Action::CallTool | Action::GetPrompt);
        let arguments = received
            .fields
            .iter()
            .find(|(key, _)| has_arguments && decode_key(key) == "arguments")
            .copied();
        let mut beside: Vec<_> = fields(request, target)
            .filter_map(|name| Some((name, Cow::Borrowed(received.get(name)?.as_bytes()))))
            .collect();
        if let Some(meta) = received
            .get("_meta")
            .filter(|_| !is_subscription(request.action))
            .and_then(kept_meta)
        {
            beside.push(("_meta", Cow::Owned(meta)));
        }
        let mut sent = Self {
            arguments,
            beside,
            whole: None,
        };
        if !sent.beside.is_empty() {
            sent.whole = Some(sent.written(received)?);
        }
        Ok(sent)
    }

    /// The same with what the client answered in the middle of the call.
    pub fn with(
        mut self,
        answer: Option<(&str, &[u8])>,
        received: &Received<'_>,
    ) -> Result<Self, Violation> {
        let Some((key, text)) = answer.filter(|(_, text)| !text.is_empty()) else {
            return Ok(self);
        };
        let mut answers = Object::new();
        answers.raw(key, text);
        self.beside.retain(|(name, _)| *name != "inputResponses");
        self.beside
            .push(("inputResponses", Cow::Owned(answers.finish())));
        self.whole = Some(self.written(received)?);
        Ok(self)
    }

    pub fn arguments(&self) -> Option<Json<'a>> {
        self.arguments.map(|(_, value)| value)
    }

    /// Everything that is sent, as one object; `None` where nothing is.
    pub fn judged(&self) -> Option<Json<'_>> {
        self.whole
            .as_deref()
            .map(Json::checked_before)
            .or_else(|| self.arguments())
    }

    /// The same as bytes that outlive the call's own text.
    pub fn kept(&self, request: &CallRequest) -> Bytes {
        match (&self.whole, self.arguments()) {
            (Some(whole), _) => Bytes::copy_from_slice(whole),
            (None, Some(arguments)) => request.params.bytes().slice_ref(arguments.as_bytes()),
            (None, None) => Bytes::new(),
        }
    }

    /// What the lists of a security context bound: also the address, where that says which resource.
    pub fn bounded(&self, received: &Received<'_>) -> Cow<'_, [u8]> {
        let judged = self.judged();
        let Address::Resource(uri) = &received.address else {
            return Cow::Borrowed(judged.map_or(b"{}", Json::as_bytes));
        };
        let judged = judged.unwrap_or(Json::EMPTY_OBJECT);
        Cow::Owned(write::replace_fields(judged, &["uri"], |out| {
            out.str("uri", uri);
            if let Some(other) = judged.get("uri") {
                // A template may have a variable of that name.
                out.json("uris", other);
            }
        }))
    }

    /// The parameters for the server, from nothing but this, its own name for what is addressed, and its own state.
    pub fn parameters(
        &self,
        request: &CallRequest,
        (field, name): (&str, &[u8]),
        state: Option<&[u8]>,
    ) -> Pieces {
        let long: Vec<RawField<'_>> = self.arguments.into_iter().collect();
        write::lead_fields(&request.params, &long, &[], |out| {
            out.raw(field, name);
            for (name, value) in &self.beside {
                match (*name, state) {
                    ("requestState", Some(state)) => out.raw(name, state),
                    // A state that was not opened is not ours to pass on.
                    ("requestState", None) => out,
                    _ => out.raw(name, value),
                };
            }
        })
    }

    fn written(&self, received: &Received<'_>) -> Result<Vec<u8>, Violation> {
        let mut out = Object::new();
        let mut taken = false;
        let mut copy = |object: Option<Json<'_>>, out: &mut Object, except: Option<&str>| {
            for (key, value) in object.map(Json::raw_fields).unwrap_or_default() {
                let name = decode_key(key);
                taken |= name == BESIDE;
                if except != Some(&*name) {
                    out.copied(key, value);
                }
            }
        };
        copy(
            self.arguments().filter(|arguments| arguments.is_object()),
            &mut out,
            None,
        );
        if let Some(argument) = received.get("argument").filter(|_| self.has("argument")) {
            // What is completed is judged by the name it will be sent under.
            let named = argument
                .get("name")
                .and_then(Json::as_str)
                .zip(argument.get("value"));
            let name = named.as_ref().map(|(name, _)| &**name);
            let resolved = received
                .get("context")
                .and_then(|context| context.get("arguments"));
            copy(
                resolved.filter(|resolved| resolved.is_object()),
                &mut out,
                name,
            );
            if let Some((name, value)) = &named {
                taken |= name == BESIDE;
                out.json(name, *value);
            }
        }
        if taken {
            let hint = format!(
                "no argument can be called `{BESIDE}` in a call that sends more than arguments"
            );
            return Err(Violation::new(Rule::Malformed, hint.clone()).with_hint(hint));
        }
        out.object(BESIDE, |out| {
            for (name, value) in &self.beside {
                out.raw(name, value);
            }
        });
        Ok(out.finish())
    }

    fn has(&self, name: &str) -> bool {
        self.beside.iter().any(|(own, _)| *own == name)
    }
}

/// The fields of `params` that a method has beside its address, its arguments and `_meta`. There are no others.
fn fields(request: &CallRequest, target: Option<&Target>) -> impl Iterator<Item = &'static str> {
    let all: &[&'static str] = match request.action {
        Action::CallTool => &["task", "inputResponses", "requestState"],
        Action::GetPrompt | Action::ReadResource | Action::TaskUpdate => {
            &["inputResponses", "requestState"]
        }
        Action::Complete => &["argument", "context"],
        Action::Subscribe
        | Action::Unsubscribe
        | Action::TaskGet
        | Action::TaskCancel
        | Action::TaskResult => &[],
    };
    let is_legacy_server = target.is_some_and(|target| target.era == Some(Era::Legacy));
    let acts_for_user = target.is_some_and(|target| {
        request.action == Action::CallTool && target.spec.rule(&target.name).requires_user_auth
    });
    // What is asked about a task later would go out under the gate's own name, so a user's call is never made one.
    // The 2025 way to ask for a task means nothing to a server of the other kind: the call is then made synchronously.
    let may_be_task = request.origin.may_begin_tasks()
        && !acts_for_user
        && (target.is_none() || is_legacy_server);
    // Only the newer protocol answers questions with another request; a server of the older kind gets them in the middle of a call.
    let may_answer = request.origin.answers_anew() && !is_legacy_server;
    all.iter().copied().filter(move |name| match *name {
        "task" => may_be_task,
        "inputResponses" => may_answer,
        _ => true,
    })
}

const fn is_subscription(action: Action) -> bool {
    matches!(action, Action::Subscribe | Action::Unsubscribe)
}

/// What of `_meta` is the caller's own to pass on: not the protocol's keys, which are written anew for every hop.
fn kept_meta(json: Json<'_>) -> Option<Vec<u8>> {
    let mut out = Object::new();
    let mut any = false;
    let mut fields = json.fields();
    while let Some((key, value)) = fields.next_raw() {
        let name = Json::checked_before(key).as_str()?;
        let ours = name.starts_with(meta::PREFIX) && name != meta::RELATED_TASK;
        if !ours && name != meta::PROGRESS_TOKEN {
            out.copied(key, value);
            any = true;
        }
    }
    any.then(|| out.finish())
}

/// The same call without its trace context, if it has one. A call that a person is asked about is bound to what is sent, and a trace
/// differs each time the agent tries again.
pub fn untraced(request: &CallRequest) -> Option<CallRequest> {
    let params = Json::checked_before(&request.params);
    let meta = params
        .get("_meta")
        .filter(|meta| TRACE.iter().any(|key| meta.get(key).is_some()))?;
    let meta = write::replace_fields(meta, &TRACE, |_| ());
    let params = write::replace_fields(params, &["_meta"], |out| {
        out.raw("_meta", &meta);
    });
    Some(CallRequest {
        params: params.into(),
        ..request.clone()
    })
}

/// The parameters that a kept body was made of, for looking at a call again. `address` writes whom it was for.
pub fn parameters_of(action: Action, body: Json<'_>, address: impl FnOnce(&mut Object)) -> Vec<u8> {
    let beside = body.get(BESIDE).unwrap_or(Json::EMPTY_OBJECT);
    write::replace_fields(beside, &[], |out| {
        address(out);
        if matches!(action, Action::CallTool | Action::GetPrompt) {
            out.raw("arguments", &write::replace_fields(body, &[BESIDE], |_| ()));
        }
    })
}
