//! What the tools for the web are used with: the worker that fetches, pages that were fetched a moment ago, and how often a host was
//! asked. Whether there are such tools, and for whom, is part of what is in force.

pub(crate) mod cache;
pub(crate) mod manners;

use std::sync::Arc;

use calls::receive::Received;
use upstreams::{catalog::Target, catalog::builtin, web};
use wire::{
    Json,
    builtin::{Executor, Tool},
};

use crate::{
    Caller,
    settings::{WebSettings, WebTerms},
};
use cache::Cache;
use manners::Manners;

/// The argument that makes a look at the world leave something behind.
pub(crate) const SAVE_TO: &str = "save_to";
/// The ports of the web.
const PORTS: [u16; 2] = [80, 443];

#[derive(Debug)]
pub(crate) struct Web {
    pub(crate) programs: web::Web,
    pub(crate) cache: Cache,
    pub(crate) manners: Manners,
}

impl Web {
    pub(crate) fn new(settings: WebSettings) -> Self {
        Self {
            programs: web::Web::new(settings),
            cache: Cache::default(),
            manners: Manners::default(),
        }
    }
}

impl WebTerms {
    fn is_for(&self, caller: &Caller) -> bool {
        self.access.is_open() || caller.is_listed(&self.access)
    }

    /// The built-in tool of this name, for a caller who may use it.
    pub(crate) fn target(
        &self,
        caller: &Caller,
        name: &str,
        received: &Received<'_>,
    ) -> Option<Arc<Target>> {
        let kept = received
            .arguments
            .and_then(|arguments| arguments.get(SAVE_TO));
        let keeps = kept.is_some_and(|path| !path.is_null());
        builtin::on_web(name, keeps).filter(|_| self.is_for(caller))
    }

    /// The tools for the web that a caller has.
    pub(crate) fn tools(&self, caller: &Caller) -> impl Iterator<Item = &'static Tool> + use<> {
        let is_for = self.is_for(caller);
        let can_search = !self.engines.is_empty();
        wire::builtin::all().filter(move |tool| {
            let is_search = tool.name == wire::builtin::SEARCH;
            tool.executor == Executor::Web && is_for && (can_search || !is_search)
        })
    }

    /// Whether an operator wrote this host, alone or with this port.
    fn names(&self, host: &str, port: u16) -> bool {
        let with_port = format!("{host}:{port}");
        let is_web = PORTS.contains(&port);
        let mut hosts = self.hosts.iter();
        hosts.any(|one| *one == with_port || (is_web && one == host))
    }

    /// The ranges of addresses that a host may have besides those that everybody reaches; `None`: the port is closed.
    pub(crate) fn opened(&self, host: &str, port: u16) -> Option<&[String]> {
        match (self.names(host, port), PORTS.contains(&port)) {
            (true, _) => Some(&self.networks),
            (false, true) => Some(&[]),
            (false, false) => None,
        }
    }
}

/// An argument, unless it is missing or null.
pub(crate) fn argument<'a>(arguments: Json<'a>, key: &str) -> Option<Json<'a>> {
    arguments.get(key).filter(|value| !value.is_null())
}
