//! The credentials of one configuration. A set is made before it is in force and never changes; another takes its place.

use std::{collections::HashMap, sync::Arc};

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
        // Another token under the same id is another credential.
        if known.0.credential.digest != caller.0.credential.digest {
            return None;
        }
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
}

#[cfg(test)]
mod tests {
    use vocab::{Label, Level, Mark, ServerId, View};

    use super::*;
    use crate::caller::{Callers, ForGate as _, Role};

    fn credential(id: &str, token: &str) -> Credential {
        Credential {
            id: id.to_owned(),
            name: id.to_owned(),
            role: Role::Client,
            view: View::Double,
            grants: Vec::new(),
            user: None,
            departments: Vec::new(),
            agent: None,
            tenant: None,
            context: None,
            digest: Sha256::digest(token.as_bytes()).into(),
        }
    }

    #[test]
    fn who_comes_back_has_seen_what_they_saw() {
        let callers = Callers::new(Vec::new(), [0; 32]);
        let put = |before: &CredentialSet, credentials| {
            let after = callers.prepare(before, credentials);
            callers.retire(before, &after);
            after
        };
        let first = put(&CredentialSet::default(), vec![credential("a", "ta")]);
        let held = first.identify("ta").unwrap();
        let label = Label::of(
            Mark::trusted(Level::Restricted),
            ServerId::parse("s").unwrap(),
        );
        drop(held.session().absorb(&label));
        let none = put(&first, Vec::new());
        assert!(!held.is_active());
        let back = put(&none, vec![credential("a", "tb")]);
        let again = back.identify("tb").unwrap();
        assert!(again.is_active() && !held.is_active());
        assert_eq!(again.session().mark().secrecy, Level::Restricted);
    }

    #[test]
    fn who_holds_a_credential_as_it_was_must_come_again() {
        let callers = Callers::new(Vec::new(), [0; 32]);
        let before = callers.prepare(&CredentialSet::default(), vec![credential("a", "ta")]);
        let other = |change: fn(&mut Credential)| {
            let mut other = credential("a", "ta");
            change(&mut other);
            other
        };
        for (what, is_same, after) in [
            ("nothing", true, credential("a", "ta")),
            (
                "what it is granted",
                true,
                other(|a| a.grants = vec!["s__*".to_owned()]),
            ),
            ("token", false, credential("a", "tb")),
            ("role", false, other(|a| a.role = Role::Operator)),
            ("tenant", false, other(|a| a.tenant = Some("t".to_owned()))),
            (
                "context",
                false,
                other(|a| a.context = Some("c".to_owned())),
            ),
        ] {
            let before = callers.prepare(&before, vec![credential("a", "ta")]);
            let held = before.identify("ta").unwrap();
            let after = callers.prepare(&before, vec![after]);
            assert!(held.is_active(), "{what}: nothing is in force yet");
            callers.retire(&before, &after);
            assert_eq!(held.is_active(), is_same, "{what}");
            assert!(after.of_id("a").unwrap().is_active(), "{what}");
            assert_eq!(after.current(&held).is_none(), what == "token", "{what}");
        }
    }
}
