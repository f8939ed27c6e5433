//! The courier: carries what the gate's sinks send over HTTP, and brings back the status.
//!
//! The gate says where to, with which headers and which body; the courier decides nothing and keeps nothing but idle connections. It
//! follows no redirect, because what it carries is signed for one receiver. It must never hold memory without a bound or let one
//! receiver delay another.

use std::{cell::RefCell, collections::HashMap, io, rc::Rc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use tokio::{
    sync::Semaphore,
    task::LocalSet,
    time::{interval, timeout},
};
use wire::{Json, worker::method, write::Object};

use crate::{
    desk,
    failure::Failure,
    net::{Client, Net, Payload, Target},
    output::Out,
};

/// Requests under way at once; more are refused, and their sinks come again.
const MAX_UNDER_WAY: usize = 64;
/// Receivers whose idle connections are kept.
const MAX_RECEIVERS: usize = 64;
const MAX_HEADERS: usize = 64;
/// The largest answer that is read, and how much of it is passed on.
const MAX_ANSWER: usize = 1 << 20;
const SHOWN: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(30);
const SWEEP: Duration = Duration::from_secs(10);
/// How long the last lines may take to leave.
const LAST_WORDS: Duration = Duration::from_secs(2);

struct Courier {
    net: Rc<Net>,
    out: Out,
    receivers: RefCell<HashMap<(bool, String), Rc<Client>>>,
    room: Rc<Semaphore>,
}

/// Runs until the gate says `shutdown` or closes its end. Everything happens on this one thread.
pub(crate) async fn run(start: desk::Start) -> io::Result<()> {
    LocalSet::new().run_until(serve(start)).await
}

async fn serve(start: desk::Start) -> io::Result<()> {
    let out = Out::new(start.total_bytes, Rc::clone(&start.net.memory));
    let courier = Rc::new(Courier {
        net: Rc::new(start.net),
        out: out.clone(),
        receivers: RefCell::default(),
        room: Rc::new(Semaphore::new(MAX_UNDER_WAY)),
    });
    let mut writer = tokio::task::spawn_local(out.clone().write_to(start.sink));
    let sweeper = Rc::clone(&courier);
    tokio::task::spawn_local(async move {
        let mut ticks = interval(SWEEP);
        loop {
            ticks.tick().await;
            sweeper
                .receivers
                .borrow()
                .values()
                .for_each(|client| client.sweep());
        }
    });
    let outcome = tokio::select! {
        outcome = desk::read(start.input, start.total_bytes, &out, &start.confinement, |id, method, params| {
            let is_known = method == method::POST;
            if is_known {
                courier.post(id, params);
            }
            is_known
        }) => outcome,
        // The gate no longer reads us: as good as closing our input.
        _ = &mut writer => Ok(()),
    };
    let _ = timeout(LAST_WORDS, out.flushed()).await;
    outcome
}

impl Courier {
    fn post(self: &Rc<Self>, id: u64, params: Json<'_>) {
        let (request, client) = match self.prepare(params) {
            Ok(prepared) => prepared,
            Err(failure) => return self.out.failure(id, &failure),
        };
        let Ok(slot) = self.room.try_acquire() else {
            return self
                .out
                .failure(id, &Failure::refused("too many requests are under way"));
        };
        slot.forget();
        let limit = params
            .get("timeout_ms")
            .and_then(Json::as_u64)
            .map_or(PATIENCE, Duration::from_millis);
        let courier = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let done = timeout(limit, carry(client, request)).await;
            courier.room.add_permits(1);
            let late =
                |_| Failure::timeout(format!("timeout: no reply within {} ms", limit.as_millis()));
            match done.map_err(late).and_then(|done| done) {
                Ok(receipt) => courier.out.result(id, &receipt),
                Err(failure) => courier.out.failure(id, &failure),
            }
        });
    }

    fn prepare(&self, params: Json<'_>) -> Result<(Request<Payload>, Rc<Client>), Failure> {
        let text = |key: &str| {
            params
                .get(key)
                .and_then(Json::as_str)
                .ok_or_else(|| Failure::invalid(format!("`{key}` is missing")))
        };
        let target = Target::parse(&text("url")?)?;
        let mut request = Request::new(Payload::from(text("body")?.into_owned().into_bytes()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.path.clone().into();
        *request.headers_mut() = headers(params)?;
        Ok((request, self.client(target)?))
    }

    fn client(&self, target: Target) -> Result<Rc<Client>, Failure> {
        let mut receivers = self.receivers.borrow_mut();
        let key = (target.tls, target.place());
        if let Some(client) = receivers.get(&key) {
            return Ok(Rc::clone(client));
        }
        if receivers.len() >= MAX_RECEIVERS {
            receivers.clear();
        }
        let client = Client::new(Rc::clone(&self.net), target)?;
        receivers.insert(key, Rc::clone(&client));
        Ok(client)
    }
}

/// The headers that the gate gives; nothing that shows headers shows their values.
pub(crate) fn headers(params: Json<'_>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    let given = params.get("headers").into_iter().flat_map(Json::fields);
    for (name, value) in given.take(MAX_HEADERS) {
        let name = HeaderName::try_from(name.as_ref())
            .map_err(|_| Failure::invalid("a header's name is not valid"))?;
        let value = value
            .as_str()
            .and_then(|value| HeaderValue::try_from(value.as_ref()).ok());
        let mut value = value.ok_or_else(|| {
            Failure::invalid(format!("the value of the header `{name}` is not valid"))
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// `{"status":…,"body":"…"}`
async fn carry(client: Rc<Client>, request: Request<Payload>) -> Result<Bytes, Failure> {
    let exchange = client.send(request, MAX_ANSWER).await?;
    let status = exchange.status.as_u16();
    // Only the status counts; a body that breaks off or is too long takes nothing back.
    let body = exchange.whole().await.unwrap_or_default();
    let shown = body.get(..body.len().min(SHOWN)).unwrap_or_default();
    let mut out = Object::with_capacity(shown.len() + 32);
    out.u64("status", u64::from(status))
        .str("body", &String::from_utf8_lossy(shown));
    Ok(out.finish().into())
}
