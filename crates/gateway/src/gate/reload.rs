//! How a configuration takes the place of the one in force: everything that can fail, one append to the ledger, one store, and then what
//! follows from it.
//!
//! **Invariant: a reload is whole or not at all.** Before the store nothing has changed; after it nothing can fail. Tests
//! `a_reload_that_fails_at_any_step_leaves_everything_as_it_was`, `reloading_a_bad_file_keeps_the_old_set`,
//! `a_ledger_that_cannot_record_keeps_the_configuration_before`.

use std::sync::{Arc, PoisonError};

use api::Problem;
use audit::Change;
use callers::Credential;
use upstreams::upstream::{Replacement, ServerNote};
use vocab::ServerId;

use super::{Edit, Gate, InForce, Inner, Reading};
use crate::{
    Caller, problem,
    settings::{Configuration, ServerSpec},
};

/// A server whose arguments or results are no longer scanned is worth a record of its own, each time that is decided.
struct OptOut {
    server: ServerId,
    detail: String,
}

impl Gate {
    /// Reads the configuration again and puts it in force; says what was applied, or which step failed and why.
    pub(crate) fn reload(&self) -> Result<String, Problem> {
        // One at a time: what was read last is what is in force last.
        let _turn = self
            .0
            .reloading
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Reading {
            configuration,
            then,
        } = self.0.program.read()?;
        let applied = self.0.put_in_force(configuration)?;
        then();
        Ok(applied)
    }

    pub(crate) fn edit(&self, edit: &Edit) -> Result<(), Problem> {
        self.0.program.edit(edit)
    }
}

impl Inner {
    /// Makes everything be exactly as this says, on record. Calls under way go on under the configuration they began with.
    fn put_in_force(&self, configuration: Configuration) -> Result<String, Problem> {
        let before = self.now();
        let (next, servers) = self.prepared(&before, configuration);
        let opt_outs = opt_outs(&before, &servers);
        let (detail, summary) = described(&next, servers.len());
        self.hub.replace(
            servers,
            next.terms.attempts,
            |error| unchanged("reading `portcullis.lock`", Problem::invalid(error)),
            |replacement| {
                let applied = Change {
                    action: "config.applied",
                    detail: &detail,
                    bundle: next.rules.bundle.version(),
                    ..Change::default()
                };
                let credentials = before.credentials.changes_to(&next.credentials);
                let recorded = self.record(Some(applied), &opt_outs, &credentials, replacement);
                recorded.map_err(|error| {
                    unchanged("recording it in the ledger", problem::ledger(&error))
                })?;
                self.in_force.swap(InForce {
                    servers: Arc::clone(&replacement.servers),
                    ..next.clone()
                });
                Ok::<_, Problem>(())
            },
        )?;
        self.follow(&before);
        Ok(summary)
    }

    /// The first configuration of a gate. A ledger that cannot record stops calls by itself, so it does not stop the gate.
    pub(super) fn begin_with(&self, configuration: Configuration) {
        let before = self.now();
        let (next, servers) = self.prepared(&before, configuration);
        let opt_outs = opt_outs(&before, &servers);
        let begun = self.hub.replace(
            servers,
            next.terms.attempts,
            |error| error,
            |replacement| {
                if let Err(error) = self.record(None, &opt_outs, &[], replacement) {
                    tracing::error!(%error, "the ledger is not available");
                }
                self.in_force.swap(InForce {
                    servers: Arc::clone(&replacement.servers),
                    ..next.clone()
                });
                Ok(())
            },
        );
        if let Err(error) = begun {
            tracing::error!(error, "the servers cannot be connected");
        }
        self.follow(&before);
    }

    /// The parts of a configuration as they will be in force, but for the servers.
    fn prepared(
        &self,
        before: &InForce,
        configuration: Configuration,
    ) -> (InForce, Vec<ServerSpec>) {
        let Configuration {
            servers,
            volumes,
            web,
            credentials,
            rules,
            terms,
            seal,
            awaiting_restart,
        } = configuration;
        let next = InForce {
            credentials: Arc::new(self.callers.prepare(&before.credentials, credentials)),
            providers: Arc::new(before.providers.follow(rules.oauth.as_ref())),
            terms: Arc::new(terms),
            rules: Arc::new(rules),
            seal,
            servers: Arc::clone(&before.servers),
            volumes: Arc::new(before.volumes.follow(volumes)),
            web,
            awaiting_restart: Arc::new(awaiting_restart),
        };
        (next, servers)
    }

    /// Everything that there is to record of a configuration, by one append.
    fn record(
        &self,
        applied: Option<Change<'_>>,
        opt_outs: &[OptOut],
        credentials: &[(&'static str, &Credential)],
        replacement: &Replacement,
    ) -> Result<(), audit::LedgerUnavailable> {
        let details: Vec<String> = credentials
            .iter()
            .map(|(_, credential)| format!("{} `{}`", credential.role, credential.name))
            .collect();
        let mut changes: Vec<Change<'_>> = applied.into_iter().collect();
        changes.extend(opt_outs.iter().map(|opt_out| Change {
            action: "server.opt-out",
            server: opt_out.server.as_str(),
            detail: &opt_out.detail,
            ..Change::default()
        }));
        let named = credentials.iter().zip(&details);
        changes.extend(
            named.map(|((action, credential), detail)| of_credential(action, credential, detail)),
        );
        changes.extend(replacement.notes.iter().map(of_server));
        if changes.is_empty() {
            return Ok(());
        }
        self.ledger.append(&changes).map(drop)
    }

    /// What follows from the configuration that is in force now, for those who were let in under the one before.
    fn follow(&self, before: &InForce) {
        let now = self.now();
        let terms = &now.terms;
        self.callers
            .set_largest(terms.ceiling.result_bytes, terms.door.max_body_bytes);
        self.callers
            .allow_anonymous(!terms.door.requires_credential);
        self.callers.retire(&before.credentials, &now.credentials);
        self.callers
            .keep_vouched(|id| Caller::is_certified(id) || now.providers.vouch_for(id));
        self.signed.refresh((&self.callers, &now.credentials));
    }
}

/// Nothing has changed, because this step failed.
fn unchanged(step: &str, problem: Problem) -> Problem {
    Problem {
        sentence: format!(
            "{}\n{step} failed; the configuration before stays in force",
            problem.sentence
        ),
        ..problem
    }
}

fn described(next: &InForce, servers: usize) -> (String, String) {
    let credentials = next.credentials.len();
    let awaiting = match next.awaiting_restart.as_slice() {
        [] => String::new(),
        keys => format!("; in force after a restart: {}", keys.join(", ")),
    };
    let counted = format!("{servers} servers, {credentials} credentials");
    let version = next.rules.bundle.version();
    (
        format!("{counted}{awaiting}"),
        format!("{counted}, policies {version}{awaiting}"),
    )
}

fn opt_outs(before: &InForce, servers: &[ServerSpec]) -> Vec<OptOut> {
    let mut found = Vec::new();
    for spec in servers {
        let known = before.servers.upstream(&spec.id).map(|known| known.spec());
        let scans = known.as_ref().is_none_or(|known| known.injection_scan);
        let redacts = known.as_ref().is_none_or(|known| known.redact_results);
        for (was, is, key) in [
            (scans, spec.injection_scan, "injection_scan"),
            (redacts, spec.redact_results, "redact_results"),
        ] {
            if was && !is {
                found.push(OptOut {
                    server: spec.id.clone(),
                    detail: format!("`{key}` is off"),
                });
            }
        }
    }
    found
}

fn of_credential<'a>(action: &'a str, credential: &'a Credential, detail: &'a str) -> Change<'a> {
    Change {
        action,
        target: &credential.id,
        user: credential.user.as_deref().unwrap_or_default(),
        agent: credential.agent.as_deref().unwrap_or_default(),
        tenant: credential.tenant.as_deref().unwrap_or_default(),
        detail,
        ..Change::default()
    }
}

fn of_server(note: &ServerNote) -> Change<'_> {
    Change {
        action: note.action,
        server: note.server.as_str(),
        detail: &note.detail,
        ..Change::default()
    }
}
