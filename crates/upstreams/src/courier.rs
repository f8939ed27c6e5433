//! A worker of its own that carries what sinks send over HTTP.
//!
//! It has the same jail as the one that talks to servers and shares nothing with it, so neither's trouble is the other's. It is started
//! with the first parcel; a gate without such sinks has none.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use vocab::Redacted;
use wire::{Json, worker::method, write::Object};

use crate::{link::Word, settings::WorkerSettings, workers::Workers};

/// What the worker may take beyond the time that the receiver has.
const SPARE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Courier {
    settings: WorkerSettings,
    workers: OnceLock<Arc<Workers>>,
}

/// What a receiver answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    pub status: u16,
    /// The beginning of it.
    pub body: String,
}

impl Courier {
    #[must_use]
    pub fn new(settings: WorkerSettings) -> Self {
        Self {
            settings,
            workers: OnceLock::new(),
        }
    }

    /// POSTs `body` to `url`. The text of an error is for the operator and holds no header.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(String, Redacted<String>)],
        body: &str,
        patience: Duration,
    ) -> Result<Delivered, String> {
        let workers = self.workers.get_or_init(|| {
            let workers = Workers::new(self.settings.clone());
            tokio::spawn(Arc::clone(&workers).supervise());
            workers
        });
        let mut links = workers.subscribe();
        let living = links.wait_for(|link| link.as_ref().is_some_and(|link| !link.is_severed()));
        let link = match tokio::time::timeout(patience, living).await {
            Ok(Ok(link)) => link.clone(),
            _ => None,
        };
        let link = link.ok_or("the worker that sends it does not start")?;
        match link
            .ask_within(
                method::POST,
                &params(url, headers, body, patience),
                patience + SPARE,
            )
            .await
        {
            Word::Result(answer) => read(Json::checked_before(&answer))
                .ok_or_else(|| "the worker answered nonsense".to_owned()),
            Word::Error { text, .. } => Err(text),
            Word::Lost | Word::Done | Word::Waits(_) | Word::Event { .. } => {
                Err("the worker that sends it was lost".to_owned())
            }
        }
    }
}

fn params(
    url: &str,
    headers: &[(String, Redacted<String>)],
    body: &str,
    patience: Duration,
) -> Vec<u8> {
    let mut out = Object::with_capacity(body.len() + 512);
    out.str("url", url);
    out.object("headers", |out| {
        for (name, value) in headers {
            out.str(name, value.expose());
        }
    });
    out.u64(
        "timeout_ms",
        u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
    )
    .str("body", body);
    out.finish()
}

fn read(answer: Json<'_>) -> Option<Delivered> {
    let status = answer
        .get("status")
        .and_then(Json::as_u64)?
        .try_into()
        .ok()?;
    Some(Delivered {
        status,
        body: answer.get("body").and_then(Json::as_str)?.into_owned(),
    })
}
