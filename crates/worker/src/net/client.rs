//! Kept-alive connections to one origin.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderValue, Request, header};
use sandbox::shared::Block;

use super::{
    Account, Bounds, Exchange, Net, Payload, Reach, Target,
    exchange::{Conn, NoResponse},
};
use crate::failure::Failure;

/// Idle connections kept for one origin.
const MAX_IDLE: usize = 128;
const IDLE: Duration = Duration::from_secs(30);

pub(crate) struct Client {
    net: Rc<Net>,
    origin: Target,
    host: HeaderValue,
    bounds: Bounds,
    idle: RefCell<Vec<Idle>>,
}

struct Idle {
    conn: Conn,
    until: Instant,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("origin", &self.origin.place())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// For an address that the operator wrote.
    pub(crate) fn new(net: Rc<Net>, origin: Target) -> Result<Rc<Self>, Failure> {
        Self::within(net, origin, Bounds::within(Reach::Anywhere))
    }

    /// For an address that somebody else wrote.
    pub(crate) fn within(
        net: Rc<Net>,
        origin: Target,
        bounds: Bounds,
    ) -> Result<Rc<Self>, Failure> {
        let host = origin.host_header()?;
        Ok(Rc::new(Self {
            net,
            origin,
            host,
            bounds,
            idle: RefCell::new(Vec::new()),
        }))
    }

    /// Sends a request whose URI is a path of this origin. The response may hold at most `limit` bytes.
    ///
    /// A request goes out twice only if the first connection closed before a byte of it left: what may have had an effect is never
    /// repeated.
    pub(crate) async fn send(
        self: &Rc<Self>,
        mut request: Request<Payload>,
        limit: usize,
    ) -> Result<Exchange, Failure> {
        request
            .headers_mut()
            .insert(header::HOST, self.host.clone());
        while let Some(mut conn) = self.checkout() {
            match conn.send(request).await {
                Ok(response) => return Exchange::new(response, conn, Rc::clone(self), limit),
                Err(NoResponse {
                    unsent: Some(again),
                    ..
                }) => request = again,
                Err(NoResponse {
                    unsent: None,
                    failure,
                }) => return Err(failure),
            }
        }
        // Boxed, because this is rare and large, and the future around it is made for every call.
        let mut conn =
            Box::pin(async { Conn::open(self.net.dial(&self.origin, &self.bounds).await?).await })
                .await?;
        match conn.send(request).await {
            Ok(response) => Exchange::new(response, conn, Rc::clone(self), limit),
            Err(NoResponse { failure, .. }) => Err(failure),
        }
    }

    /// The connection used last: it is the least likely to have been closed meanwhile.
    fn checkout(&self) -> Option<Conn> {
        let now = Instant::now();
        loop {
            let mut idle = self.idle.borrow_mut().pop()?;
            if idle.until > now && idle.conn.is_ready() {
                return Some(idle.conn);
            }
        }
    }

    pub(super) fn keep(&self, mut conn: Conn, headers: &HeaderMap) {
        let stay = keep_alive(headers).map_or(IDLE, |announced| {
            announced.saturating_sub(Duration::from_secs(1)).min(IDLE)
        });
        if stay.is_zero() || !conn.is_ready() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() < MAX_IDLE {
            idle.push(Idle {
                conn,
                until: Instant::now() + stay,
            });
        }
    }

    /// Closes connections that were idle too long or that the server closed.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.idle
            .borrow_mut()
            .retain_mut(|idle| idle.until > now && idle.conn.is_ready());
    }

    /// Room in the memory shared with the gate.
    pub(super) fn shared(&self, bytes: usize) -> Option<Block> {
        self.net.memory.block(bytes)
    }

    pub(super) fn account(&self) -> &Account {
        &self.net.held
    }

    pub(crate) const fn origin(&self) -> &Target {
        &self.origin
    }
}

/// How long the server says it keeps an idle connection (`Keep-Alive: timeout=5`).
fn keep_alive(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("keep-alive")?.to_str().ok()?;
    let seconds = value
        .split(',')
        .find_map(|part| part.trim().strip_prefix("timeout="))?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}
