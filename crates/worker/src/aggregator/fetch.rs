//! Fetching one JSON document for the gate, which opens no connection itself: the key set of an identity provider.
//!
//! No credential is sent, a redirect is followed only within its origin, TLS is verified as for servers, and clear text is for this
//! machine alone. What comes back is one JSON object within its cap, or nothing: the gate never sees other bytes.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use tokio::time::timeout;
use wire::{Json, Limits, write};

use super::{
    Aggregator,
    methods::{Done, serve},
};
use crate::{
    failure::Failure,
    net::{Client, Net, Payload, Target},
};

const MAX_REDIRECTS: usize = 3;
/// No document of this kind is longer, whatever the gate allows.
const MAX_BYTES: usize = 1 << 20;
const LONGEST: Duration = Duration::from_secs(30);
const DEPTH: usize = 16;

/// What to fetch, and what it may cost.
struct Wanted {
    target: Target,
    max_bytes: usize,
    patience: Duration,
}

impl Wanted {
    fn read(params: Json<'_>) -> Result<Self, Failure> {
        let url = params
            .get("url")
            .and_then(Json::as_str)
            .ok_or_else(|| Failure::invalid("`url` is missing"))?;
        let target = Target::parse(&url)?;
        let local = target.bare_host() == "localhost"
            || target
                .bare_host()
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        if !target.tls && !local {
            return Err(Failure::refused(
                "keys are fetched over https; http is for this machine alone",
            ));
        }
        let number = |key| params.get(key).and_then(Json::as_u64);
        let max_bytes = number("max_bytes")
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(MAX_BYTES)
            .min(MAX_BYTES);
        let patience = number("timeout_ms")
            .map_or(LONGEST, Duration::from_millis)
            .min(LONGEST);
        Ok(Self {
            target,
            max_bytes,
            patience,
        })
    }
}

pub(super) fn start(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    let wanted = match Wanted::read(params) {
        Ok(wanted) => wanted,
        Err(failure) => return aggregator.hub.out.failure(id, &failure),
    };
    let net = Rc::clone(&aggregator.hub.net);
    serve(aggregator, id, async move {
        let late = |_| {
            Failure::timeout(format!(
                "timeout: no answer within {} ms",
                wanted.patience.as_millis()
            ))
        };
        let document = timeout(
            wanted.patience,
            Box::pin(document(net, wanted.target, wanted.max_bytes)),
        )
        .await
        .map_err(late)??;
        Ok(Done::Result(document))
    });
}

async fn document(net: Rc<Net>, mut target: Target, max_bytes: usize) -> Result<Bytes, Failure> {
    let client = Client::new(net, target.clone())?;
    for _ in 0..=MAX_REDIRECTS {
        let mut request = Request::new(Payload::default());
        *request.uri_mut() = Uri::from(target.path.clone());
        request.headers_mut().insert(
            header::ACCEPT,
            HeaderValue::from_static("application/json, application/jwk-set+json"),
        );
        let agent = HeaderValue::from_static(concat!("portcullis/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(header::USER_AGENT, agent);
        let exchange = client.send(request, max_bytes).await?;
        if exchange.status.is_redirection() {
            let location = exchange
                .headers
                .get(header::LOCATION)
                .and_then(|value| value.to_str().ok());
            let there = target.join(
                location.ok_or_else(|| Failure::upstream("it redirects, but not to anywhere"))?,
            )?;
            if !target.same_origin(&there) {
                let place = target.place();
                return Err(Failure::refused(format!(
                    "{place} redirects to {}, which is not followed",
                    there.place()
                )));
            }
            target = there;
            continue;
        }
        if exchange.status != http::StatusCode::OK {
            return Err(Failure::upstream(format!(
                "{} answered with HTTP {}",
                target.place(),
                exchange.status.as_u16()
            )));
        }
        return one_object(&exchange.whole().await?, max_bytes);
    }
    Err(Failure::upstream(format!(
        "{} redirects more than {MAX_REDIRECTS} times",
        target.place()
    )))
}

/// The document on one line, if it is a JSON object.
fn one_object(body: &[u8], max_bytes: usize) -> Result<Bytes, Failure> {
    let json = Json::parse(body, Limits::new(max_bytes, DEPTH))
        .map_err(|error| Failure::invalid(format!("the answer is not acceptable JSON: {error}")))?;
    if !json.is_object() {
        return Err(Failure::invalid("the answer is not a JSON object"));
    }
    let mut text = json.as_bytes().to_vec();
    write::flatten(&mut text);
    Ok(text.into())
}
