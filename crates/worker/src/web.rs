//! The web role: makes one request to an address that the gate let through, and hands back status, a few headers and the body.
//!
//! The gate decides every step: a redirect is told and not followed, and the gate asks for the next address if it may be asked for. This
//! role never looks at what a body means; the gate gives it to a process of its own for that ([`crate::convert`]). It keeps no
//! connection, no cookie and nothing of what it carried.
//!
//! **Invariant: what an agent asks for is fetched from addresses that everybody reaches**, and from those that an operator opened. Tests
//! `an_inner_address_is_refused_before_a_byte_is_sent`, `no_address_inside_is_ever_connected_to`.

use std::{
    io,
    rc::Rc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use tokio::{sync::Semaphore, task::LocalSet, time::timeout};
use wire::{Json, worker::method, write::Object};

use crate::{
    courier, desk,
    failure::Failure,
    net::{Bounds, Client, Exchange, Net, Network, Payload, Target},
    output::Out,
};

const MAX_UNDER_WAY: usize = 16;
/// The largest body that is taken, unpacked.
const MAX_BODY: usize = 10 << 20;
/// Of an answer that is no success, an agent reads the beginning.
const MAX_ERROR: usize = 64 << 10;
const MAX_NETWORKS: usize = 64;
/// A header that is longer is not passed on.
const MAX_HEADER: usize = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a server may take to begin its answer, from looking up its name on.
const FIRST_BYTE: Duration = Duration::from_secs(25);
/// How long nothing may come, and from when on how much must have come for each second.
const SILENCE: Duration = Duration::from_secs(10);
const LEAST_PER_SECOND: u64 = 1 << 10;
/// How long the last lines may take to leave.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What of an answer's headers means anything to the gate.
const HEADERS: [&str; 5] = [
    "content-type",
    "location",
    "retry-after",
    "etag",
    "last-modified",
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
            let is_known = method == method::OPEN;
            if is_known {
                open(&net, &room, &out, id, params);
            }
            is_known
        }) => outcome,
        // The gate no longer reads us: as good as closing our input.
        _ = &mut writer => Ok(()),
    };
    let _ = timeout(LAST_WORDS, out.flushed()).await;
    outcome
}

fn open(net: &Rc<Net>, room: &Rc<Semaphore>, out: &Out, id: u64, params: Json<'_>) {
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
        let late = |_| Failure::timeout(format!("no whole answer within {} ms", limit.as_millis()));
        match done.map_err(late).and_then(|done| done) {
            Ok(answer) => out.result(id, &answer),
            Err(failure) => out.failure(id, &failure),
        }
    });
}

/// One request, as the gate says it.
struct Errand {
    method: Method,
    target: Target,
    headers: HeaderMap,
    body: Bytes,
    bounds: Bounds,
    /// The most that is taken of an answer.
    most: usize,
    patience: Duration,
}

impl Errand {
    fn read(params: Json<'_>) -> Result<Self, Failure> {
        let text = |key: &str| params.get(key).and_then(Json::as_str);
        let method = match text("method").as_deref() {
            Some("GET") => Method::GET,
            Some("POST") => Method::POST,
            _ => return Err(Failure::invalid("`method` must be GET or POST")),
        };
        let url = text("url").ok_or_else(|| Failure::invalid("`url` is missing"))?;
        let also = params.get("also").into_iter().flat_map(Json::items);
        let also = also.take(MAX_NETWORKS).map(|text| {
            let network = text.as_str().and_then(|text| Network::read(&text));
            network.ok_or_else(|| Failure::invalid("`also` must be ranges of addresses"))
        });
        let mut headers = courier::headers(params)?;
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let most = params.get("max_bytes").and_then(Json::as_u64);
        let most = most.and_then(|most| usize::try_from(most).ok());
        Ok(Self {
            method,
            target: Target::parse(&url)?,
            headers,
            body: text("body").unwrap_or_default().into_owned().into(),
            bounds: Bounds::global_and(also.collect::<Result<_, _>>()?),
            most: most.unwrap_or(MAX_BODY).min(MAX_BODY),
            patience: params
                .get("timeout_ms")
                .and_then(Json::as_u64)
                .map_or(PATIENCE, Duration::from_millis),
        })
    }

    async fn run(self, net: &Rc<Net>) -> Result<Bytes, Failure> {
        let client = Client::within(Rc::clone(net), self.target.clone(), self.bounds)?;
        let mut request = Request::new(Payload::from(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.target.path.clone().into();
        *request.headers_mut() = self.headers;
        let silent = |_| {
            Failure::timeout(format!(
                "{} did not begin to answer within {} seconds",
                self.target.place(),
                FIRST_BYTE.as_secs()
            ))
        };
        let answer = timeout(FIRST_BYTE, client.send(request, MAX_BODY)).await;
        let answer = answer.map_err(silent)??;
        let (status, headers) = (answer.status, answer.headers.clone());
        let (body, is_cut) = match status {
            status if status.is_success() => (whole(answer, self.most).await?, false),
            status if status.is_redirection() || status == StatusCode::NOT_MODIFIED => {
                (Vec::new(), false)
            }
            _ => beginning(answer).await,
        };
        let mut out = Object::with_capacity(body.len() * 4 / 3 + 1024);
        out.u64("status", u64::from(status.as_u16()));
        out.object("headers", |out| {
            for name in HEADERS {
                let value = headers.get(name).and_then(|value| value.to_str().ok());
                if let Some(value) = value.filter(|value| value.len() <= MAX_HEADER) {
                    out.str(name, value);
                }
            }
        });
        out.bool("cut", is_cut).str("body", &STANDARD.encode(&body));
        Ok(out.finish().into())
    }
}

/// The whole body, if it is not too long and keeps coming.
async fn whole(mut answer: Exchange, most: usize) -> Result<Vec<u8>, Failure> {
    let kind = answer.content_type();
    let too_large = |bytes: &str| {
        Failure::too_large(format!(
            "the answer is {} {bytes}; at most {most} are taken",
            if kind.is_empty() {
                "of no stated type,"
            } else {
                &kind
            }
        ))
    };
    let announced = answer.headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if let Some(bytes) = announced.filter(|bytes| *bytes > most) {
        return Err(too_large(&format!("of {bytes} bytes")));
    }
    let begun = Instant::now();
    let mut body = Vec::new();
    while let Some(chunk) = next(&mut answer, begun, body.len()).await? {
        if body.len() + chunk.len() > most {
            return Err(too_large("and goes on"));
        }
        body.extend_from_slice(&chunk);
        answer.hold(body.len())?;
    }
    Ok(body)
}

/// What an answer begins with; what is wrong with the rest does not matter.
async fn beginning(mut answer: Exchange) -> (Vec<u8>, bool) {
    let begun = Instant::now();
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = next(&mut answer, begun, body.len()).await {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ERROR {
            body.truncate(MAX_ERROR);
            return (body, true);
        }
    }
    (body, false)
}

async fn next(
    answer: &mut Exchange,
    begun: Instant,
    so_far: usize,
) -> Result<Option<Bytes>, Failure> {
    let chunk = timeout(SILENCE, answer.chunk()).await;
    let slow = || Failure::timeout("the answer comes too slowly");
    let chunk = chunk.map_err(|_| slow())??;
    let passed = begun.elapsed();
    let least = passed.as_secs().saturating_mul(LEAST_PER_SECOND);
    if chunk.is_some() && passed > SILENCE && (so_far as u64) < least {
        return Err(slow());
    }
    Ok(chunk)
}
