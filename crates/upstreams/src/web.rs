//! The worker that fetches what agents ask for, and the processes that make pages into text.
//!
//! The worker has the jail of every worker: network, no files. It is started with the first request; a gate that fetches nothing has
//! none. A page is given, as the bytes it is, to a converter that has neither, and that is killed when it takes too long.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use sandbox::jail;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::pipe,
    sync::Semaphore,
};
use wire::{Json, Limits, worker::method, write::Object};

use crate::{
    link::{ErrorKind, Word},
    settings::WorkerSettings,
    workers::Workers,
};

/// What the worker may take beyond the time that the server has.
const SPARE: Duration = Duration::from_secs(2);
/// How long one page may take to become text.
const CONVERSION: Duration = Duration::from_secs(10);
/// Converters at once.
const CONVERTERS: usize = 4;
/// What a converter may say: its text, of which some letters become six.
const MOST_SAID: u64 = 32 << 20;

/// The programs that it takes.
#[derive(Debug, Clone)]
pub struct WebSettings {
    pub fetcher: WorkerSettings,
    /// The worker program, one of whose roles makes pages into text.
    pub converter: PathBuf,
}

#[derive(Debug)]
pub struct Web {
    settings: WebSettings,
    workers: OnceLock<Arc<Workers>>,
    converters: Semaphore,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    pub url: &'a str,
    pub headers: Vec<(&'static str, String)>,
    /// With one it is a POST.
    pub form: Option<String>,
    /// Ranges of addresses that may be reached besides those that everybody reaches.
    pub also: &'a [String],
    pub max_bytes: usize,
    pub time: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetched {
    pub status: u16,
    pub content_type: String,
    pub location: Option<String>,
    pub retry_after: Option<String>,
    pub body: Bytes,
    /// Whether the body goes on.
    pub is_cut: bool,
}

/// Why nothing came. The text is made of the host, a status or a number, and of nothing that a stranger wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// The address is one that may not be reached.
    Inside(String),
    Late(String),
    TooLarge(String),
    /// The server cannot be reached, or did not answer as servers do.
    Unreachable(String),
    /// The worker was lost, or has no room.
    Worker(String),
}

impl Web {
    #[must_use]
    pub fn new(settings: WebSettings) -> Self {
        Self {
            settings,
            workers: OnceLock::new(),
            converters: Semaphore::new(CONVERTERS),
        }
    }

    /// Makes one request. No redirect is followed.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn open(&self, asked: &Asked<'_>) -> Result<Fetched, NoAnswer> {
        let workers = self.workers.get_or_init(|| {
            let workers = Workers::new(self.settings.fetcher.clone());
            tokio::spawn(Arc::clone(&workers).supervise());
            workers
        });
        let lost = || NoAnswer::Worker("the worker that fetches does not start".to_owned());
        let mut links = workers.subscribe();
        let living = links.wait_for(|link| link.as_ref().is_some_and(|link| !link.is_severed()));
        let link = match tokio::time::timeout(asked.time, living).await {
            Ok(Ok(link)) => link.clone(),
            _ => None,
        };
        let link = link.ok_or_else(lost)?;
        let params = params(asked);
        let word = link.ask_within(method::OPEN, &params, asked.time + SPARE);
        match word.await {
            Word::Result(answer) => read(Json::checked_before(&answer))
                .ok_or_else(|| NoAnswer::Worker("the worker answered nonsense".to_owned())),
            Word::Error { text, kind, .. } => Err(match kind {
                ErrorKind::Refused => NoAnswer::Inside(text),
                ErrorKind::Timeout => NoAnswer::Late(text),
                ErrorKind::TooLarge => NoAnswer::TooLarge(text),
                ErrorKind::NoRoom => NoAnswer::Worker(text),
                _ => NoAnswer::Unreachable(text),
            }),
            Word::Lost | Word::Done | Word::Waits(_) | Word::Event { .. } => Err(NoAnswer::Worker(
                "the worker that fetches was lost".to_owned(),
            )),
        }
    }

    /// Has a process of its own make text of a page, or hits of an engine's answer. `head` says which.
    ///
    /// # Errors
    /// If it could not, in words for the operator: it failed, took too long, or said nonsense.
    pub async fn convert(&self, head: Object, body: &[u8]) -> Result<Bytes, String> {
        let _place = self.converters.acquire().await.map_err(|_| "closed")?;
        let mut first = head.finish();
        first.push(b'\n');
        let program = self.settings.converter.clone();
        let spawned = tokio::task::spawn_blocking(move || {
            jail::Worker::new(program)
                .args(["--role", "convert"])
                .spawn()
        });
        let spawned = spawned.await.map_err(|error| error.to_string())?;
        let spawned = spawned.map_err(|error| error.to_string())?;
        // Dropping it at the end of this kills it.
        let _process = spawned.child;
        let pipe = |error: std::io::Error| error.to_string();
        let mut input = pipe::Sender::from_owned_fd(spawned.stdin).map_err(pipe)?;
        let output = pipe::Receiver::from_owned_fd(spawned.stdout).map_err(pipe)?;
        let write = async {
            input.write_all(&first).await?;
            input.write_all(body).await?;
            drop(input);
            Ok::<_, std::io::Error>(())
        };
        let mut said = Vec::new();
        let mut output = output.take(MOST_SAID + 1);
        let talk = async { tokio::join!(write, output.read_to_end(&mut said)) };
        let (written, heard) = tokio::time::timeout(CONVERSION, talk)
            .await
            .map_err(|_| "the converter took too long and was ended")?;
        // What it did not want to read does not matter, if it said something.
        heard.map_err(pipe)?;
        if said.is_empty() {
            let why = written
                .err()
                .map_or_else(String::new, |error| format!(": {error}"));
            return Err(format!("the converter ended without a word{why}"));
        }
        let limits = Limits::new(usize::try_from(MOST_SAID).unwrap_or(usize::MAX), 8);
        match Json::parse(&said, limits) {
            Ok(json) if json.is_object() => Ok(said.into()),
            _ => Err("the converter said nonsense".to_owned()),
        }
    }
}

fn params(asked: &Asked<'_>) -> Vec<u8> {
    let mut out = Object::with_capacity(1024);
    out.str("method", if asked.form.is_some() { "POST" } else { "GET" })
        .str("url", asked.url);
    out.object("headers", |out| {
        for (name, value) in &asked.headers {
            out.str(name, value);
        }
    });
    let also: Vec<Vec<u8>> = asked
        .also
        .iter()
        .map(|one| wire::write::quoted(one))
        .collect();
    let time = u64::try_from(asked.time.as_millis()).unwrap_or(u64::MAX);
    out.raw(
        "also",
        &[b"[", also.join(&b","[..]).as_slice(), b"]"].concat(),
    )
    .u64("max_bytes", asked.max_bytes as u64)
    .u64("timeout_ms", time)
    .str("body", asked.form.as_deref().unwrap_or_default());
    out.finish()
}

fn read(answer: Json<'_>) -> Option<Fetched> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let header = |name: &str| {
        let value = answer.path(&["headers", name])?.as_str()?;
        Some(value.into_owned())
    };
    let body = answer.get("body").and_then(Json::as_str)?;
    Some(Fetched {
        status: answer.get("status")?.as_u64()?.try_into().ok()?,
        content_type: header("content-type").unwrap_or_default(),
        location: header("location"),
        retry_after: header("retry-after"),
        body: STANDARD.decode(body.as_bytes()).ok()?.into(),
        is_cut: answer.get("cut").and_then(Json::as_bool)?,
    })
}
