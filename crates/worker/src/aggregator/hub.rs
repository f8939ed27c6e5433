//! What every connection shares: the way out, the network, the source of ids, and who watches.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use tokio::task::JoinHandle;
use wire::write::Object;

use super::proofs::Proofs;
use crate::{net::Net, output::Out};

#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) out: Out,
    pub(crate) net: Rc<Net>,
    next_id: Cell<u64>,
    watchers: RefCell<Vec<u64>>,
    strays: Cell<u64>,
    farewells: RefCell<Vec<JoinHandle<()>>>,
    pub(crate) proofs: Proofs,
}

impl Hub {
    pub(crate) fn new(out: Out, net: Rc<Net>) -> Rc<Self> {
        Rc::new(Self {
            out,
            net,
            next_id: Cell::new(1),
            watchers: RefCell::default(),
            strays: Cell::new(0),
            farewells: RefCell::default(),
            proofs: Proofs::new(),
        })
    }

    /// An id for an upstream request. One source for the whole process, so none is ever used twice.
    pub(crate) fn next_id(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    pub(crate) fn watch(&self, id: u64) {
        let mut watchers = self.watchers.borrow_mut();
        if !watchers.contains(&id) {
            watchers.push(id);
        }
    }

    /// Tells every watcher about something that belongs to no call.
    pub(crate) fn tell(
        &self,
        event: &str,
        server: &str,
        generation: u64,
        fill: impl Fn(&mut Object),
    ) {
        for id in self.watchers.borrow().iter() {
            self.out.event(*id, event, |line| {
                line.str("server", server).u64("generation", generation);
                fill(line);
            });
        }
    }

    /// Remembers a goodbye that is still being said.
    pub(crate) fn farewell(&self, task: JoinHandle<()>) {
        let mut farewells = self.farewells.borrow_mut();
        farewells.retain(|task| !task.is_finished());
        farewells.push(task);
    }

    /// Waits for every goodbye; each is bounded in time.
    pub(crate) async fn say_farewell(&self) {
        for task in self.farewells.take() {
            let _ = task.await;
        }
    }

    /// Counts a message nobody waits for: a wrong id, a second reply, a reply before its request. Few of them are logged.
    pub(crate) fn stray(&self, server: &str, what: &str) {
        let count = self.strays.get() + 1;
        self.strays.set(count);
        if count <= 8 || count.is_power_of_two() {
            tracing::warn!(
                server,
                total = count,
                "dropped a message from the server: {what}"
            );
        }
    }
}
