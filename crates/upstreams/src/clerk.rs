//! A worker of its own that makes the requests of one server's login.
//!
//! It has the same jail as the one that talks to servers and shares nothing with it: a refresh token, a client secret or a code never
//! comes near the process that parses what servers say. It lives as long as whoever asked for it.

use std::{sync::Arc, time::Duration};

use oauth::{Answer, Body, Exchange, Method, Near, Request};
use tokio::task::JoinHandle;
use wire::{Json, worker::method, write::Object};

use crate::{link::Word, settings::WorkerSettings, workers::Workers};

/// How long a document may take, and what the worker may take beyond it to start and to say so.
const PATIENCE: Duration = Duration::from_secs(10);
/// A token that was given and not received may be the last one, so it is waited for.
const LONG_PATIENCE: Duration = Duration::from_secs(60);
const SPARE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Clerk {
    workers: Arc<Workers>,
    task: JoinHandle<()>,
    near: Near,
}

impl Drop for Clerk {
    fn drop(&mut self) {
        // Its process goes with the task.
        self.task.abort();
    }
}

impl Clerk {
    /// Starts one for a server. `near` says which addresses that server may make it connect to.
    #[must_use]
    pub fn start(settings: WorkerSettings, near: Near) -> Self {
        let workers = Workers::new(settings);
        let task = tokio::spawn(Arc::clone(&workers).supervise());
        Self {
            workers,
            task,
            near,
        }
    }

    /// Makes one request. The text of an error is for people and holds nothing of what was sent.
    pub async fn exchange(&self, request: &Request) -> Exchange {
        let patience = match request.method {
            Method::Get => PATIENCE,
            Method::Post => LONG_PATIENCE,
        };
        let answer = self.ask(&self.params(request, patience), patience).await?;
        read(Json::checked_before(&answer)).ok_or_else(|| "the worker answered nonsense".to_owned())
    }

    /// What a server says to whoever comes without a token: the status, and its challenge if there is one.
    pub async fn knock(&self, server: &str, body: &str) -> Result<(u16, Option<String>), String> {
        let mut params = Object::new();
        params
            .str("method", "POST")
            .str("url", server)
            .str("reach", "anywhere")
            .u64("timeout_ms", millis(PATIENCE))
            .str("body", body);
        params.object("headers", |out| {
            out.str("content-type", "application/json")
                .str("accept", "application/json, text/event-stream");
        });
        let answer = self.ask(&params.finish(), PATIENCE).await?;
        let json = Json::checked_before(&answer);
        let status = json.get("status").and_then(Json::as_u64);
        let status = status.and_then(|status| status.try_into().ok());
        let challenge = json.path(&["headers", "www-authenticate"]);
        let challenge = challenge
            .and_then(Json::as_str)
            .map(|text| text.into_owned());
        Ok((status.ok_or("the worker answered nonsense")?, challenge))
    }

    async fn ask(&self, params: &[u8], patience: Duration) -> Result<Vec<u8>, String> {
        let mut links = self.workers.subscribe();
        let living = links.wait_for(|link| link.as_ref().is_some_and(|link| !link.is_severed()));
        let link = match tokio::time::timeout(LONG_PATIENCE, living).await {
            Ok(Ok(link)) => link.clone(),
            _ => None,
        };
        let link = link.ok_or("the worker that asks does not start")?;
        let asked = link.ask_within(method::EXCHANGE, params, patience + SPARE);
        match asked.await {
            Word::Result(answer) => Ok(answer.into_bytes().to_vec()),
            Word::Error { text, .. } => Err(text),
            Word::Lost | Word::Done | Word::Waits(_) | Word::Event { .. } => {
                Err("the worker that asks was lost".to_owned())
            }
        }
    }

    fn params(&self, request: &Request, patience: Duration) -> Vec<u8> {
        let mut out = Object::with_capacity(1024);
        let method = match request.method {
            Method::Get => "GET",
            Method::Post => "POST",
        };
        out.str("method", method)
            .str("url", request.to.url())
            .str("reach", self.near.reach(&request.to))
            .u64("timeout_ms", millis(patience));
        let (kind, body) = match &request.body {
            Body::None => (None, ""),
            Body::Form(form) => (Some("application/x-www-form-urlencoded"), form.expose()),
            Body::Json(json) => (Some("application/json"), json.expose()),
        };
        out.object("headers", |out| {
            out.str("accept", "application/json");
            if let Some(kind) = kind {
                out.str("content-type", kind);
            }
            for (name, value) in &request.headers {
                out.str(name, value.expose());
            }
        });
        let want: Vec<Vec<u8>> = request
            .want
            .iter()
            .map(|name| wire::write::quoted(name))
            .collect();
        out.raw(
            "want",
            &[b"[", want.join(&b","[..]).as_slice(), b"]"].concat(),
        )
        .str("body", body);
        out.finish()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn read(answer: Json<'_>) -> Option<Answer> {
    let status = answer.get("status").and_then(Json::as_u64)?;
    let header = |name: &str| answer.path(&["headers", name]).and_then(Json::as_str);
    let json = answer.get("json").filter(|json| json.is_object());
    let mut read = Answer::new(
        status.try_into().ok()?,
        json.map(|json| json.as_bytes().to_vec()),
    );
    read.retry_after = header("retry-after").and_then(|text| text.trim().parse().ok());
    read.dpop_nonce = header("dpop-nonce").map(|nonce| nonce.into_owned());
    Some(read)
}
