//! The servers we are connected to, by name and generation.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use super::connection::Connection;
use crate::failure::Failure;

/// Connections of one name: usually one; two while a new one takes over.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    by_name: RefCell<HashMap<Rc<str>, Vec<Rc<Connection>>>>,
}

impl Servers {
    /// Adds a connection; calls go to the newest generation from now on. One of the same generation is replaced.
    pub(crate) fn add(&self, conn: Rc<Connection>) {
        let replaced = {
            let mut by_name = self.by_name.borrow_mut();
            let all = by_name.entry(Rc::clone(&conn.server)).or_default();
            if all.iter().any(|other| Rc::ptr_eq(other, &conn)) {
                return;
            }
            let same = all
                .iter()
                .position(|other| other.generation == conn.generation)
                .map(|at| all.remove(at));
            all.push(conn);
            all.sort_by_key(|conn| conn.generation);
            same
        };
        if let Some(replaced) = replaced {
            replaced.close(Failure::upstream("the connection was replaced"), false);
        }
    }

    /// Ends one generation of a server. False if there is none.
    pub(crate) fn remove(&self, server: &str, generation: u64) -> bool {
        let removed = {
            let mut by_name = self.by_name.borrow_mut();
            let Some(all) = by_name.get_mut(server) else {
                return false;
            };
            let removed = all
                .iter()
                .position(|conn| conn.generation == generation)
                .map(|at| all.remove(at));
            if all.is_empty() {
                by_name.remove(server);
            }
            removed
        };
        if let Some(conn) = &removed {
            conn.close(
                Failure::upstream(format!("the server `{server}` was disconnected")),
                false,
            );
        }
        removed.is_some()
    }

    /// The newest live connection.
    pub(crate) fn get(&self, server: &str) -> Option<Rc<Connection>> {
        let by_name = self.by_name.borrow();
        by_name
            .get(server)?
            .iter()
            .rev()
            .find(|conn| !conn.is_closed())
            .cloned()
    }

    pub(crate) fn connected(&self, server: &str) -> Result<Rc<Connection>, Failure> {
        if let Some(conn) = self.get(server) {
            return Ok(conn);
        }
        let known = self.by_name.borrow().contains_key(server);
        Err(Failure::not_found(if known {
            format!("server not connected: {server}")
        } else {
            format!("server not found: {server}")
        }))
    }

    pub(crate) fn sweep(&self) {
        for conn in self.by_name.borrow().values().flatten() {
            conn.sweep();
        }
    }

    pub(crate) fn close_all(&self, failure: &Failure) {
        for conn in self.by_name.take().into_values().flatten() {
            conn.close(failure.clone(), false);
        }
    }
}
