//! The clerk: makes the requests of one server's login and hands back the members that the gate asked for.
//!
//! The gate says where to, with which headers and which body, and how far inside the address may be; the clerk decides nothing. It is
//! a process of one server, so a server that names a hostile authorization server endangers its own tokens only. It keeps no
//! connection and nothing of what it carried.
//!
//! **Invariant: what is sent to one place goes to no other.** A request with a body follows no redirect, one without stays at its
//! origin. Tests `a_body_follows_no_redirect`, `a_document_is_fetched_within_its_origin`.

use std::{io, rc::Rc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use tokio::{sync::Semaphore, task::LocalSet, time::timeout};
use wire::{Json, Limits, worker::method, write::Object};

use crate::{
    courier, desk,
    failure::Failure,
    net::{Bounds, Client, Exchange, Net, Payload, Reach, Target},
    output::Out,
};

const MAX_UNDER_WAY: usize = 4;
/// The largest answer that is read.
const MAX_ANSWER: usize = 64 << 10;
const MAX_DEPTH: usize = 16;
const MAX_REDIRECTS: usize = 3;
/// Members that may be asked for.
const MAX_WANTED: usize = 64;
/// A header that is longer is not passed on.
const MAX_HEADER: usize = 4 << 10;
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the last lines may take to leave.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What of an answer's headers means anything to a login.
const HEADERS: [&str; 4] = [
    "www-authenticate",
    "retry-after",
    "dpop-nonce",
    "cache-control",
];

/// Runs until the gate says `shutdown` or closes its end. Everything happens on this one thread.
pub(crate) async fn run(start: desk::Start) -> io::Result<()> {
    LocalSet::new().run_until(serve(start)).await
}

async fn serve(start: desk::Start) -> io::Result<()> {
    let out = Out::new(start.total_bytes, Rc::clone(&start.net.memory));
    let net = Rc::new(start.net);
    let room = Rc::new(Semaphore::new(MAX_UNDER_WAY));
    let mut writer = tokio::task::spawn_local(out.clone().write_to(start.sink));
    let (confinement, total_bytes) = (start.confinement, start.total_bytes);
    let outcome = tokio::select! {
        outcome = desk::read(start.input, total_bytes, &out, &confinement, |id, method, params| {
            let is_known = method == method::EXCHANGE;
            if is_known {
                exchange(&net, &room, &out, id, params);
            }
            is_known
        }) => outcome,
        // The gate no longer reads us: as good as closing our input.
        _ = &mut writer => Ok(()),
    };
    let _ = timeout(LAST_WORDS, out.flushed()).await;
    outcome
}

fn exchange(net: &Rc<Net>, room: &Rc<Semaphore>, out: &Out, id: u64, params: Json<'_>) {
    let errand = match Errand::read(params) {
        Ok(errand) => errand,
        Err(failure) => return out.failure(id, &failure),
    };
    let Ok(place) = room.try_acquire() else {
        return out.failure(id, &Failure::refused("too many requests are under way"));
    };
    place.forget();
    let (net, room, out) = (Rc::clone(net), Rc::clone(room), out.clone());
    tokio::task::spawn_local(async move {
        let limit = errand.patience;
        let done = timeout(limit, errand.run(&net)).await;
        room.add_permits(1);
        let late =
            |_| Failure::timeout(format!("timeout: no reply within {} ms", limit.as_millis()));
        match done.map_err(late).and_then(|done| done) {
            Ok(answer) => out.result(id, &answer),
            Err(failure) => out.failure(id, &failure),
        }
    });
}

/// One request to make.
struct Errand {
    method: Method,
    target: Target,
    headers: HeaderMap,
    body: Bytes,
    want: Vec<String>,
    reach: Reach,
    patience: Duration,
}

impl Errand {
    fn read(params: Json<'_>) -> Result<Self, Failure> {
        let text = |key: &str| params.get(key).and_then(Json::as_str);
        let missing = |key: &str| Failure::invalid(format!("`{key}` is missing"));
        let method = match text("method").as_deref() {
            Some("GET") => Method::GET,
            Some("POST") => Method::POST,
            _ => return Err(Failure::invalid("`method` must be GET or POST")),
        };
        let reach = text("reach").as_deref().and_then(Reach::read);
        let want = params.get("want").into_iter().flat_map(Json::items);
        Ok(Self {
            method,
            target: Target::parse(&text("url").ok_or_else(|| missing("url"))?)?,
            headers: courier::headers(params)?,
            body: text("body").unwrap_or_default().into_owned().into(),
            want: want
                .filter_map(Json::as_str)
                .map(std::borrow::Cow::into_owned)
                .take(MAX_WANTED)
                .collect(),
            reach: reach.ok_or_else(|| missing("reach"))?,
            patience: params
                .get("timeout_ms")
                .and_then(Json::as_u64)
                .map_or(PATIENCE, Duration::from_millis),
        })
    }

    async fn run(self, net: &Rc<Net>) -> Result<Bytes, Failure> {
        let client = Client::within(
            Rc::clone(net),
            self.target.clone(),
            Bounds::within(self.reach),
        )?;
        let mut path = self.target.path.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::new(Payload::from(self.body.clone()));
            *request.method_mut() = self.method.clone();
            *request.uri_mut() = path.into();
            *request.headers_mut() = self.headers.clone();
            let answer = client.send(request, MAX_ANSWER).await?;
            match self.follow(&answer)? {
                Some(next) => path = next.path,
                None => return self.receipt(answer).await,
            }
        }
        Err(Failure::upstream(format!(
            "{} redirects more than {MAX_REDIRECTS} times",
            self.target.place()
        )))
    }

    /// Where a redirect leads, if it is one that may be followed.
    fn follow(&self, answer: &Exchange) -> Result<Option<Target>, Failure> {
        let is_redirect = matches!(
            answer.status,
            StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT
        );
        if !is_redirect || self.method != Method::GET {
            return Ok(None);
        }
        let location = answer.headers.get(header::LOCATION);
        let location = location.and_then(|location| location.to_str().ok());
        let Some(location) = location else {
            return Ok(None);
        };
        let next = self.target.join(location)?;
        match next.same_origin(&self.target) {
            true => Ok(Some(next)),
            false => Err(Failure::refused(format!(
                "{} redirects to {}; redirects to another host, port or scheme are not followed",
                self.target.place(),
                next.place()
            ))),
        }
    }

    /// `{"status":…,"headers":{…},"json":{the wanted members}}`; `json` is null where the answer is no object.
    async fn receipt(&self, answer: Exchange) -> Result<Bytes, Failure> {
        let mut out = Object::new();
        out.u64("status", u64::from(answer.status.as_u16()));
        out.object("headers", |out| {
            for name in HEADERS {
                let values = answer.headers.get_all(name).iter();
                let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
                let joined = values.join(", ");
                if !joined.is_empty() && joined.len() <= MAX_HEADER {
                    out.str(name, &joined);
                }
            }
        });
        let body = answer.whole().await?;
        let json = Json::parse(&body, Limits::new(MAX_ANSWER, MAX_DEPTH));
        match json.ok().filter(|json| json.is_object()) {
            Some(json) => out.object("json", |out| {
                for name in &self.want {
                    if let Some(member) = json.get(name) {
                        // A member may be written over several lines; ours is one.
                        let mut text = member.as_bytes().to_vec();
                        wire::write::flatten(&mut text);
                        out.raw(name, &text);
                    }
                }
            }),
            None => out.raw("json", b"null"),
        };
        Ok(out.finish().into())
    }
}
