//! Proofs of possession (RFC 9449): a token may be bound to a key, and then each request comes with a proof that its sender has the
//! key.
//!
//! The key is in the gate, which signs for the server that the login is for and for no other. Here a proof is asked for, put into the
//! request that it is for, and forgotten. A server may want to see a nonce of its own in the proof: the newest one is kept, and a request
//! that was refused for want of it is sent once more.
//!
//! **Invariant: no key comes into this process.** Test `logins::proofs::a_bound_token_goes_out_with_a_proof_for_each_request`.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use tokio::{
    sync::{Semaphore, oneshot},
    time::timeout,
};

use super::hub::Hub;
use crate::{
    failure::Failure,
    net::{Client, Exchange, Payload, Target},
};

/// Proofs that are asked for at the same time; the gate listens to twice as many.
const MOST_ASKED: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);
const MAX_NONCE: usize = 512;
const PROOF: HeaderName = HeaderName::from_static("dpop");
const NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// What the gate was asked for and has not given.
#[derive(Debug)]
pub(crate) struct Proofs {
    /// The request of the gate that proofs are asked for with.
    listener: Cell<Option<u64>>,
    next: Cell<u64>,
    open: RefCell<HashMap<u64, oneshot::Sender<HeaderValue>>>,
    room: Semaphore,
}

impl Proofs {
    pub(super) fn new() -> Self {
        Self {
            listener: Cell::new(None),
            next: Cell::new(1),
            open: RefCell::default(),
            room: Semaphore::new(MOST_ASKED),
        }
    }

    pub(super) fn listen(&self, id: u64) {
        self.listener.set(Some(id));
    }

    /// What the gate gives; without a proof whoever asked fails at once.
    pub(super) fn give(&self, asked: u64, proof: Option<&str>) {
        let waiting = self.open.borrow_mut().remove(&asked);
        let proof = proof.and_then(|proof| HeaderValue::try_from(proof).ok());
        if let (Some(waiting), Some(mut proof)) = (waiting, proof) {
            proof.set_sensitive(true);
            // Whoever asked may have gone.
            let _ = waiting.send(proof);
        }
    }
}

/// The key that a connection's requests are proved with, by the number that the gate gave it, and the server's newest nonce.
#[derive(Debug)]
pub(crate) struct Prover {
    hub: Rc<Hub>,
    key: Cell<Option<u64>>,
    nonce: RefCell<Option<String>>,
}

impl Prover {
    pub(super) fn new(hub: &Rc<Hub>, key: Option<u64>) -> Self {
        Self {
            hub: Rc::clone(hub),
            key: Cell::new(key),
            nonce: RefCell::default(),
        }
    }

    pub(super) fn replace(&self, key: Option<u64>) {
        self.key.set(key);
    }

    /// Sends a request, with a proof if its token is bound to a key. Says also whether the server refused it only because it wants
    /// another nonce in the proof.
    pub(super) async fn send(
        &self,
        client: &Rc<Client>,
        mut request: Request<Payload>,
        limit: usize,
    ) -> Result<(Exchange, bool), Failure> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let shown = self
            .prove(&method, client.origin(), &path, request.headers_mut())
            .await?;
        let exchange = client.send(request, limit).await?;
        let wants = self.hears(exchange.status, &exchange.headers, shown.as_deref());
        Ok((exchange, wants))
    }

    /// Puts a proof for this request among its headers, if its token is bound to a key. Answers the nonce that is in it.
    async fn prove(
        &self,
        method: &Method,
        origin: &Target,
        path: &str,
        headers: &mut HeaderMap,
    ) -> Result<Option<String>, Failure> {
        let Some(key) = self.key.get() else {
            return Ok(None);
        };
        let nonce = self.nonce.borrow().clone();
        let address = format!("{}://{}{path}", origin.scheme(), origin.place());
        let asked = timeout(PATIENCE, self.ask(key, method, &address, nonce.as_deref()));
        let proof = asked.await.ok().flatten().ok_or_else(|| {
            Failure::refused("the gate gave no proof for the token of this login")
        })?;
        headers.insert(PROOF, proof);
        Ok(nonce)
    }

    async fn ask(
        &self,
        key: u64,
        method: &Method,
        address: &str,
        nonce: Option<&str>,
    ) -> Option<HeaderValue> {
        let proofs = &self.hub.proofs;
        let _place = proofs.room.acquire().await.ok()?;
        let listener = proofs.listener.get()?;
        let asked = proofs.next.get();
        proofs.next.set(asked + 1);
        let (send, given) = oneshot::channel();
        proofs.open.borrow_mut().insert(asked, send);
        let _open = Open(&self.hub, asked);
        self.hub.out.event(listener, "proof", |line| {
            line.u64("asked", asked)
                .u64("key", key)
                .str("htm", method.as_str())
                .str("htu", address);
            if let Some(nonce) = nonce {
                line.str("nonce", nonce);
            }
        });
        given.await.ok()
    }

    /// Keeps the nonce of an answer. Whether the request was refused only because its proof had another one.
    fn hears(&self, status: StatusCode, headers: &HeaderMap, shown: Option<&str>) -> bool {
        if self.key.get().is_none() {
            return false;
        }
        let text = |name| {
            headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
        };
        let Some(nonce) = text(NONCE).filter(|nonce| nonce.len() <= MAX_NONCE) else {
            return false;
        };
        self.nonce.replace(Some(nonce.to_owned()));
        let wants = text(header::WWW_AUTHENTICATE)
            .is_some_and(|challenge| challenge.contains("use_dpop_nonce"));
        status == StatusCode::UNAUTHORIZED && wants && shown != Some(nonce)
    }
}

/// A question that is forgotten when nobody waits for it any more.
struct Open<'a>(&'a Hub, u64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.proofs.open.borrow_mut().remove(&self.1);
    }
}
