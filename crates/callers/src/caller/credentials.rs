//! The credentials of one configuration. A set is made before it is in force and never changes; another takes its place.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use sha2::{Digest, Sha256};

use super::{Caller, Credential};

/// Every credential that one configuration knows.
#[derive(Debug, Default)]
pub struct CredentialSet {
    by_digest: HashMap<[u8; 32], Caller>,
    by_id: HashMap<String, Caller>,
}

impl FromIterator<Caller> for CredentialSet {
    fn from_iter<T: IntoIterator<Item = Caller>>(callers: T) -> Self {
        let mut set = Self::default();
        for caller in callers {
            set.by_digest
                .insert(caller.0.credential.digest, caller.clone());
            set.by_id.insert(caller.id().to_owned(), caller);
        }
        set
    }
}

impl CredentialSet {
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Caller> {
        self.by_id.values()
    }

    pub(super) fn of_id(&self, id: &str) -> Option<&Caller> {
        self.by_id.get(id)
    }

    /// Who presents this token.
    #[must_use]
    pub fn identify(&self, token: &str) -> Option<Caller> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        self.by_digest.get(&digest).cloned()
    }

    /// The same party with its credential as this set has it; `None` if this set has no such credential. Who has no bearer of their own is
    /// part of no set, and stays as they are.
    #[must_use]
    pub fn current(&self, caller: &Caller) -> Option<Caller> {
        if caller.0.credential.digest == [0; 32] {
            return Some(caller.clone());
        }
        let known = self.by_id.get(caller.id())?;
        let same = |of: &Caller| Arc::ptr_eq(&of.0, &known.0);
        Some(match (&caller.0.signed, &caller.0.owner) {
            (None, _) => known.clone(),
            (Some(_), Some(owner)) if same(owner) => caller.clone(),
            (Some(session), _) => known.sign(Arc::clone(session)),
        })
    }

    /// What becomes of credentials when `after` takes the place of this set, as a word for the ledger.
    #[must_use]
    pub fn changes_to<'a>(&'a self, after: &'a Self) -> Vec<(&'static str, &'a Credential)> {
        let only = |of: &'a Self, other: &Self, action| -> Vec<(&'static str, &'a Credential)> {
            let mut only: Vec<_> = of
                .iter()
                .filter(|caller| !other.by_id.contains_key(caller.id()))
                .map(|caller| (action, &caller.0.credential))
                .collect();
            only.sort_by_key(|(_, credential)| &credential.id);
            only
        };
        let mut changes = only(after, self, "credential.created");
        changes.extend(only(self, after, "credential.revoked"));
        changes
    }

    /// Those that `after` does not have are inactive at once, in calls under way too.
    pub fn retire(&self, after: &Self) {
        let gone = self
            .iter()
            .filter(|caller| !after.by_id.contains_key(caller.id()));
        for caller in gone {
            caller.0.shared.active.store(false, Ordering::Release);
        }
    }
}
