//! The modern half of the HTTP door: one POST, checked header against body, answered on its own.

use std::sync::Arc;

use bytes::Bytes;
use gateway::Era;
use http::StatusCode;
use tokio::sync::mpsc;
use wire::{
    Json,
    json::Outline,
    mcp::code,
    rpc::{Id, Message},
};

use super::{
    Visit,
    carry::{MODERN_QUEUE, carry_modern, modern_reply},
    errored,
};
use crate::{
    mcp::{
        answer::Problem,
        calls::Turn,
        client::Client,
        headers,
        legacy::Incoming,
        listen::{Filter, Listener, Outlet},
        meta::Meta,
        modern,
    },
    reply::{self, Refused, Reply},
};

impl Visit<'_> {
    pub(super) async fn modern(
        &self,
        message: Message<'_>,
        body: &Bytes,
        outline: &Outline<'_>,
    ) -> Result<Reply, Refused> {
        let (id, method, params) = match message {
            Message::Request { id, method, params } => (id, method, params),
            // Nothing a stateless client could notify us of outlives its own request.
            Message::Notification { .. } => return Ok(reply::empty(StatusCode::ACCEPTED)),
            Message::Result { id, .. } => return Err(unasked(Some(&id))),
            Message::Error { id, .. } => return Err(unasked(id.as_ref())),
        };
        let wrong = |problem: Problem| errored(StatusCode::BAD_REQUEST, Some(&id), &problem);
        let meta = Meta::read(params, body).map_err(wrong)?;
        headers::version_agrees(self.headers, &meta.version).map_err(wrong)?;
        meta.spoken().map_err(wrong)?;
        headers::method_agrees(self.headers, &method).map_err(wrong)?;
        if modern::knows(&method) {
            headers::name_agrees(self.headers, &method, params).map_err(wrong)?;
        }
        let client = Client {
            caller: self.caller.clone(),
            door: gateway::Door::McpHttp,
            mount: self.mount.clone(),
            lane: format!("modern:{}:{}", self.caller.id(), self.door.serial()).into(),
            era: Era::Modern,
            capabilities: meta.capabilities.clone(),
            log: meta.log,
        };
        let incoming = Incoming {
            id: id.clone(),
            method: &method,
            params,
            body,
            outline: Some(outline),
        };
        modern::params_agree(self.door, &client, self.headers, &incoming).map_err(wrong)?;
        match modern::turn(self.door, &client, meta, &incoming, None) {
            Turn::Now(answer, pass) => Ok(modern_reply(&answer, &id, pass)),
            Turn::Call(call) => Ok(carry_modern(call).await),
            Turn::Listen => self.listen(client, id.clone(), params).map_err(wrong),
        }
    }

    fn listen(&self, client: Client, id: Id, params: Option<Json<'_>>) -> Result<Reply, Problem> {
        let filter = Filter::read(params)?;
        let seat = self.door.listeners.enter(client.caller.id())?;
        let (events, frames) = mpsc::channel(MODERN_QUEUE);
        let listener = Listener {
            client,
            id,
            filter,
            seat,
            registration: None,
        };
        tokio::spawn(listener.run(Arc::clone(self.door), Outlet::Events(events)));
        Ok(reply::events(frames))
    }
}

fn unasked(id: Option<&Id>) -> Refused {
    errored(
        StatusCode::BAD_REQUEST,
        id,
        &Problem::new(
            code::INVALID_REQUEST,
            "Nothing was asked that this could answer",
        ),
    )
}
