//! Which records, or events of records, somebody wants.
//!
//! The conditions are the columns that people ask by, in `vocab::record_columns`. Whoever asks, of the files, of the index, on the bus or
//! for a sink, asks with this.

use crate::bus::{Event, project};
use crate::record::Record;

macro_rules! draw_filter {
    ([] $({ $name:ident $kind:ident $asked:literal $what:literal })*) => {
        /// What is wanted; an empty text is no condition, and all conditions must hold.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Filter {
            /// Only records with this `seq` or a later one.
            pub from: u64,
            /// Only records from this time on, in milliseconds since 1970.
            pub since_ms: u64,
            /// Only records before this time; 0 is no condition.
            pub until_ms: u64,
            /// Of events only: the whole name, or what comes after `::`.
            pub event: String,
            /// Of events only.
            pub family: String,
            pub kind: String,
            /// The level of the session after the record.
            pub level: String,
            $(#[doc = $asked] pub $name: String,)*
        }

        impl Filter {
            /// The names of the conditions, as in `family=approval`.
            pub const KEYS: &'static [&'static str] =
                &["event", "family", "kind", "level", $(stringify!($name),)*];

            /// Sets one condition; `false` if there is none of that name.
            pub fn set(&mut self, key: &str, value: &str) -> bool {
                let place = match key {
                    "event" => &mut self.event,
                    "family" => &mut self.family,
                    "kind" => &mut self.kind,
                    "level" => &mut self.level,
                    $(stringify!($name) => &mut self.$name,)*
                    _ => return false,
                };
                value.clone_into(place);
                true
            }

            /// Whether a record is wanted. Conditions on events hold for every record.
            #[must_use]
            pub fn matches(&self, record: &Record) -> bool {
                let holds = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
                record.seq >= self.from
                    && record.ms >= self.since_ms
                    && (self.until_ms == 0 || record.ms < self.until_ms)
                    && holds(&self.kind, &record.kind)
                    && holds(&self.level, record.level())
                    $(&& holds(&self.$name, &record.$name))*
            }

            /// The conditions that are columns of the index, by name.
            pub fn columns(&self) -> impl Iterator<Item = (&'static str, &str)> {
                let all = [
                    ("kind", &self.kind),
                    ("level", &self.level),
                    $((stringify!($name), &self.$name),)*
                ];
                let given = all.into_iter().filter(|(_, wanted)| !wanted.is_empty());
                given.map(|(name, wanted)| (name, wanted.as_str()))
            }
        }
    };
}
vocab::record_columns!(asked => draw_filter []);

impl Filter {
    /// The events of a record that are wanted.
    pub(crate) fn events(&self, record: &Record) -> Vec<Event> {
        if !self.matches(record) {
            return Vec::new();
        }
        let mut events = project(record);
        events.retain(|event| self.names(event));
        events
    }

    fn names(&self, event: &Event) -> bool {
        let name = event.event.as_str();
        let short = name.split_once("::").map_or(name, |(_, name)| name);
        let is_named = self.event.is_empty() || self.event == name || self.event == short;
        is_named && (self.family.is_empty() || self.family == event.family)
    }
}
