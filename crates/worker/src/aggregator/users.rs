//! The connections of a server's users: opened by a user's first call, shared by their next ones, closed when idle, replaced or in the
//! way.
//!
//! Invariant: a connection is found only by the user it was opened for and with the credential it was opened with.

#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{Notify, OnceCell},
    time::Instant,
};
use wire::write::Object;

use super::{
    connection::Connection,
    delegate::{self, Credential, Site},
    incoming::known,
    terms::{Owner, Plans},
};
use crate::failure::Failure;

/// Users of one server who have a connection at the same time.
pub(super) const MAX_USERS: usize = 64;
/// How long a connection is kept that its user does not use.
pub(super) const IDLE: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct Users {
    /// `None`: the server knows no users.
    site: Option<Rc<Site>>,
    places: RefCell<HashMap<Rc<str>, Rc<Place>>>,
    /// Replaced by others, and still finishing calls.
    leaving: RefCell<Vec<Rc<Place>>>,
    closed: RefCell<Option<Failure>>,
    closing: Notify,
}

/// One user's connection, or the attempt to open it.
#[derive(Debug)]
struct Place {
    credential: Rc<Credential>,
    conn: OnceCell<Rc<Connection>>,
    /// Why it could not be opened: those who waited for it need not find out again one after the other.
    failed: RefCell<Option<Failure>>,
    calls: Cell<usize>,
    used: Cell<Instant>,
    /// Closed with its last call.
    is_leaving: Cell<bool>,
    /// What it took over from the system's connection.
    plans: RefCell<Option<Rc<Plans>>>,
    log_level: RefCell<Option<Rc<str>>>,
}

/// A place for the time of one call.
#[derive(Debug)]
struct Claim(Rc<Place>);

/// A user's connection for the time of one call.
#[derive(Debug)]
pub(crate) struct Lease {
    claim: Claim,
    conn: Rc<Connection>,
}

impl Lease {
    pub(crate) const fn conn(&self) -> &Rc<Connection> {
        &self.conn
    }
}

/// The connection of this user, opened if it is not there.
pub(super) async fn lease(
    system: &Rc<Connection>,
    credential: &Rc<Credential>,
) -> Result<Lease, Failure> {
    let Owner::System(users) = &system.owner else {
        return Err(delegate::no_users(&system.server));
    };
    let Some(site) = &users.site else {
        return Err(delegate::no_users(&system.server));
    };
    let claim = users.claim(&system.server, credential)?;
    let opened = tokio::select! {
        biased;
        failure = users.closed() => Err(failure),
        opened = claim.0.open(system, site) => opened,
    };
    match opened {
        Ok(conn) => {
            claim.0.follow(system, &conn).await;
            Ok(Lease { claim, conn })
        }
        Err(failure) => {
            users.dismiss(&claim.0);
            Err(failure)
        }
    }
}

/// The next call of this user opens a connection of its own.
pub(super) fn dismiss(system: &Connection, lease: &Lease) {
    if let Owner::System(users) = &system.owner {
        users.dismiss(&lease.claim.0);
    }
}

impl Users {
    /// Of a server that knows no users.
    pub(crate) fn none() -> Self {
        Self {
            site: None,
            places: RefCell::default(),
            leaving: RefCell::default(),
            closed: RefCell::default(),
            closing: Notify::new(),
        }
    }

    pub(crate) fn of(site: Rc<Site>) -> Self {
        Self {
            site: Some(site),
            ..Self::none()
        }
    }

    fn claim(&self, server: &str, credential: &Rc<Credential>) -> Result<Claim, Failure> {
        let before = self.places.borrow().get(&credential.user).cloned();
        match before {
            Some(place) if place.serves(credential) => return Ok(Claim::new(place)),
            Some(place) => self.dismiss(&place),
            None => self.make_room(server)?,
        }
        let place = Rc::new(Place::new(Rc::clone(credential)));
        self.places
            .borrow_mut()
            .insert(Rc::clone(&credential.user), Rc::clone(&place));
        Ok(Claim::new(place))
    }

    /// Lets the user go who has been idle longest, if there are too many.
    fn make_room(&self, server: &str) -> Result<(), Failure> {
        let longest_idle = {
            let places = self.places.borrow();
            if places.len() < MAX_USERS {
                return Ok(());
            }
            places
                .values()
                .filter(|place| place.is_idle())
                .min_by_key(|place| place.used.get())
                .cloned()
        };
        let Some(place) = longest_idle else {
            return Err(Failure::refused(format!(
                "{MAX_USERS} users have calls under way at `{server}`; try again later"
            )));
        };
        self.dismiss(&place);
        Ok(())
    }

    /// Takes a connection from its user. Calls under way on it come to their end first.
    fn dismiss(&self, place: &Rc<Place>) {
        let mut places = self.places.borrow_mut();
        if places
            .get(&place.credential.user)
            .is_some_and(|current| Rc::ptr_eq(current, place))
        {
            places.remove(&place.credential.user);
        }
        drop(places);
        if place.is_leaving.replace(true) {
            return;
        }
        if place.is_idle() {
            return place.close(Failure::upstream(
                "the user's connection is no longer needed",
            ));
        }
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|place| !place.is_idle());
        leaving.push(Rc::clone(place));
    }

    /// Lets go of what nobody has used for a while.
    pub(crate) fn sweep(&self) {
        let old: Vec<Rc<Place>> = self
            .places
            .borrow()
            .values()
            .filter(|place| place.is_old())
            .cloned()
            .collect();
        for place in old {
            self.dismiss(&place);
        }
        self.leaving.borrow_mut().retain(|place| !place.is_idle());
        for conn in self
            .places
            .borrow()
            .values()
            .filter_map(|place| place.conn.get())
        {
            conn.link.sweep();
        }
    }

    /// Ends every user's connection: the server is gone.
    pub(crate) fn close(&self, failure: &Failure) {
        self.closed
            .borrow_mut()
            .get_or_insert_with(|| failure.clone());
        self.closing.notify_waiters();
        for place in self.places.take().into_values().chain(self.leaving.take()) {
            place.is_leaving.set(true);
            place.close(failure.clone());
        }
    }

    /// Resolves once the server is gone, with the reason.
    async fn closed(&self) -> Failure {
        loop {
            let closing = self.closing.notified();
            if let Some(failure) = &*self.closed.borrow() {
                return failure.clone();
            }
            closing.await;
        }
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .places
            .borrow()
            .keys()
            .map(ToString::to_string)
            .collect();
        names.sort();
        names
    }
}

impl Place {
    fn new(credential: Rc<Credential>) -> Self {
        Self {
            credential,
            conn: OnceCell::new(),
            failed: RefCell::default(),
            calls: Cell::new(0),
            used: Cell::new(Instant::now()),
            is_leaving: Cell::new(false),
            plans: RefCell::default(),
            log_level: RefCell::default(),
        }
    }

    fn serves(&self, credential: &Credential) -> bool {
        *self.credential == *credential && !self.conn.get().is_some_and(|conn| conn.is_closed())
    }

    fn is_idle(&self) -> bool {
        self.calls.get() == 0
    }

    fn is_old(&self) -> bool {
        let is_lost = self.conn.get().is_none_or(|conn| conn.is_closed());
        self.is_idle() && (is_lost || self.used.get().elapsed() >= IDLE)
    }

    /// Opens the connection, or waits for whoever is opening it. If that one gives up, the next takes over.
    async fn open(&self, system: &Rc<Connection>, site: &Site) -> Result<Rc<Connection>, Failure> {
        let opened = self.conn.get_or_try_init(|| async {
            if let Some(failure) = &*self.failed.borrow() {
                return Err(failure.clone());
            }
            let opened = delegate::open(system, site, &self.credential).await;
            if let Err(failure) = &opened {
                self.failed.replace(Some(failure.clone()));
            }
            opened
        });
        opened.await.cloned()
    }

    /// Brings a user's connection up to date with what is known of the server as a whole.
    async fn follow(&self, system: &Connection, conn: &Rc<Connection>) {
        let plans = Rc::clone(&system.plans.borrow());
        let known_plans = self.plans.replace(Some(Rc::clone(&plans)));
        if !known_plans.is_some_and(|known| Rc::ptr_eq(&known, &plans)) {
            conn.plans.replace(plans);
        }
        let level = system.log_level.borrow().clone();
        let Some(wanted) = level.clone().filter(|_| *self.log_level.borrow() != level) else {
            return;
        };
        self.log_level.replace(level);
        let mut params = Object::new();
        params.str("level", &wanted);
        let params = Bytes::from(params.finish());
        if let Err(failure) = conn.request("logging/setLevel", Some(known(&params))).await {
            tracing::debug!(
                server = &*conn.server,
                "the level of log messages was not taken: {failure}"
            );
        }
    }

    fn close(&self, failure: Failure) {
        if let Some(conn) = self.conn.get() {
            conn.close(failure, false);
        }
    }
}

impl Claim {
    fn new(place: Rc<Place>) -> Self {
        place.calls.set(place.calls.get() + 1);
        Self(place)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let place = &self.0;
        place.calls.set(place.calls.get().saturating_sub(1));
        place.used.set(Instant::now());
        if place.is_leaving.get() && place.is_idle() {
            place.close(Failure::upstream("the user's connection was replaced"));
        }
    }
}
