//! What a running gate is made with and cannot change: the address of its door, and what its worker was started with.
//!
//! Everything else of the configuration is taken on the fly. A file that changes one of these is applied but for them, and says so.

use std::{net::SocketAddr, path::PathBuf};

use config::{Resolved, stores::StoreSpec};
use gateway::settings::Terms;

use crate::wiring;

#[derive(Debug)]
pub(super) struct Fixed {
    /// `None`: the command line says where, whatever the file does.
    listen: Option<SocketAddr>,
    doors: Vec<doors::DoorSpec>,
    admin_listen: Option<SocketAddr>,
    ca_files: Vec<PathBuf>,
    result_bytes: usize,
    stores: Vec<StoreSpec>,
}

impl Fixed {
    pub(super) fn of(resolved: &Resolved, has_own_address: bool) -> Self {
        Self {
            listen: (!has_own_address).then_some(resolved.listen),
            doors: resolved.doors.clone(),
            admin_listen: resolved.admin_listen,
            ca_files: resolved.ca_files.clone(),
            result_bytes: wiring::worker_result_bytes(resolved),
            stores: resolved.stores.clone(),
        }
    }

    /// Keys whose values in this configuration are in force only after a restart.
    pub(super) fn awaiting_restart(&self, resolved: &Resolved) -> Vec<&'static str> {
        let differs = [
            (
                "listen",
                self.listen.is_some_and(|listen| listen != resolved.listen),
            ),
            ("doors", self.doors != resolved.doors),
            ("admin_listen", self.admin_listen != resolved.admin_listen),
            ("trust.ca_files", self.ca_files != resolved.ca_files),
            ("secrets.stores", self.stores != resolved.stores),
            // Less can be had of the worker there is; more cannot.
            (
                "limits.max_result_bytes",
                wiring::worker_result_bytes(resolved) > self.result_bytes,
            ),
        ];
        differs
            .into_iter()
            .filter(|(_, differs)| *differs)
            .map(|(key, _)| key)
            .collect()
    }

    /// What requests and calls are held to, as far as this gate can.
    pub(super) fn terms(&self, resolved: &Resolved) -> Terms {
        let mut terms = resolved.terms.clone();
        terms.ceiling.result_bytes = terms.ceiling.result_bytes.min(self.result_bytes);
        terms
    }
}

#[cfg(test)]
mod tests {
    use super::Fixed;

    fn resolved(yaml: &str) -> config::Resolved {
        config::parse("portcullis.yaml".as_ref(), yaml).unwrap()
    }

    #[test]
    fn only_what_cannot_change_waits_for_a_restart() {
        let began = resolved("listen: 127.0.0.1:7000\n");
        let moved = resolved(
            "listen: 127.0.0.1:7001\nauthentication: none\nlimits: { max_depth: 8, max_result_bytes: 1 MiB }\n",
        );
        assert_eq!(
            Fixed::of(&began, false).awaiting_restart(&moved),
            ["listen"]
        );
        assert!(
            Fixed::of(&began, true).awaiting_restart(&moved).is_empty(),
            "--listen stands above the file"
        );
        assert_eq!(
            Fixed::of(&began, false).terms(&moved).ceiling.result_bytes,
            1 << 20
        );

        let more = resolved(
            "listen: 127.0.0.1:7000\ntrust: { ca_files: [a.pem] }\nlimits: { max_result_bytes: 64 MiB }\n",
        );
        assert_eq!(
            Fixed::of(&began, false).awaiting_restart(&more),
            ["trust.ca_files", "limits.max_result_bytes"]
        );
        assert_eq!(
            Fixed::of(&began, false).terms(&more).ceiling.result_bytes,
            32 << 20,
            "what the worker can deliver"
        );
    }
}
