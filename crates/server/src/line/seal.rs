//! The SEAL door on a line, for the command line: the same requests, and answers with the status they would have had over HTTP.

use bytes::Bytes;
use gateway::{Caller, Pass};
use http::Method;
use wire::{Json, write::Object};

use crate::{
    door::Door,
    mcp::{
        answer::{Answer, Problem},
        legacy::Incoming,
    },
    refused, seal,
};

pub(super) async fn answer(
    door: &Door,
    caller: &Caller,
    verb: &str,
    incoming: &Incoming<'_>,
) -> (Answer, Pass) {
    let ours = |problem: Problem| (problem.into(), Pass::default());
    let Some(verb) = seal::Verb::parse(verb) else {
        return ours(Problem::no_method(incoming.method));
    };
    let text = |key: &str| incoming.param(key).and_then(Json::as_str);
    let Some(method) = text("method").and_then(|method| Method::from_bytes(method.as_bytes()).ok())
    else {
        return ours(Problem::invalid_params(
            "`method` must be GET, POST or DELETE",
        ));
    };
    let body = incoming
        .param("body")
        .map(|body| incoming.body.slice_ref(body.as_bytes()));
    let request = seal::Request {
        method,
        verb,
        caller: Some(caller.clone()),
        bearer: text("bearer").map(|token| token.into_owned()),
        query: text("query").unwrap_or_default().into_owned(),
        body: body.unwrap_or_else(|| Bytes::from_static(b"{}")),
        guest: None,
    };
    let is_noted = request.verb.is_noted();
    let said = seal::perform(door, request).await;
    if !is_noted && said.status.is_client_error() {
        refused::note_one(
            door,
            "seal",
            caller,
            incoming.method,
            refused::rule(said.status),
            "",
        );
    }
    let mut out = Object::with_capacity(said.body.len() + 32);
    out.u64("status", said.status.as_u16().into())
        .raw("body", &said.body);
    (Answer::result(caller.counted(out.finish())), said.pass)
}
