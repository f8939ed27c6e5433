//! Callers by the names people gave them. The ledger knows a caller by the id of its credential; a person knows it by its name.

use std::collections::HashMap;

use audit::{Event, Record};

/// From the id of a credential to its name, revoked ones included: old records are about those too.
#[derive(Debug, Default)]
pub struct CallerNames {
    names: HashMap<String, String>,
}

impl CallerNames {
    /// From the ids and names of credentials, revoked ones included.
    #[must_use]
    pub fn new<'a>(credentials: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Self {
        let mut times: HashMap<&str, usize> = HashMap::new();
        credentials
            .clone()
            .for_each(|(_, name)| *times.entry(name).or_default() += 1);
        // Two credentials of one name are told apart by their ids.
        let shown = |id: &str, name: &str| {
            if times.get(name) == Some(&1) {
                name.to_owned()
            } else {
                format!("{name} ({id})")
            }
        };
        Self {
            names: credentials
                .map(|(id, name)| (id.to_owned(), shown(id, name)))
                .collect(),
        }
    }

    /// The name of a caller; the id where there is none.
    #[must_use]
    pub fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.names.get(id).map_or(id, String::as_str)
    }

    #[must_use]
    pub fn knows(&self, id: &str) -> bool {
        self.names.contains_key(id)
    }

    /// The id behind a name, or what was given if that is an id, or the name of nobody or of several.
    #[must_use]
    pub fn id<'a>(&'a self, given: &'a str) -> &'a str {
        match self.names.iter().find(|(_, name)| name.as_str() == given) {
            Some((id, _)) if !self.knows(given) => id,
            _ => given,
        }
    }

    /// The record as a person reads it.
    #[must_use]
    pub fn in_record(&self, record: &Record) -> Record {
        let mut named = record.clone();
        named.caller = self.name(&record.caller).to_owned();
        named.session = self.name(&record.session).to_owned();
        named
    }

    /// The event as a person reads it.
    #[must_use]
    pub fn in_event(&self, event: &Event) -> Event {
        let mut named = event.clone();
        named.caller = self.name(&event.caller).to_owned();
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_have_names_and_namesakes_have_ids_too() {
        let known = [("a1", "laptop"), ("b2", "build"), ("c3", "laptop")];
        let names = CallerNames::new(known.into_iter());
        assert_eq!(names.name("b2"), "build");
        assert_eq!(names.name("c3"), "laptop (c3)");
        assert_eq!(names.name("gone"), "gone");
        assert_eq!(
            (
                names.id("build"),
                names.id("a1"),
                names.id("laptop"),
                names.id("nobody")
            ),
            ("b2", "a1", "laptop", "nobody")
        );
        let record = Record {
            caller: "b2".into(),
            session: "c3".into(),
            ..Record::default()
        };
        let shown = names.in_record(&record);
        assert_eq!(
            (shown.caller.as_str(), shown.session.as_str()),
            ("build", "laptop (c3)")
        );
    }
}
