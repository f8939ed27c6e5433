//! Which events a listener wants.

use super::Event;

/// An empty text is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// The whole name, or only what comes after `::`.
    pub event: String,
    pub family: String,
    pub caller: String,
    pub tool: String,
    pub server: String,
    pub verdict: String,
    pub tenant: String,
    pub session: String,
}

impl EventFilter {
    /// The names a listener may write, as in `family=approval`.
    pub const KEYS: [&'static str; 8] = [
        "event", "family", "caller", "tool", "server", "verdict", "tenant", "session",
    ];

    /// Sets one condition; `false` if there is none of that name.
    pub fn set(&mut self, key: &str, value: &str) -> bool {
        let place = match key {
            "event" => &mut self.event,
            "family" => &mut self.family,
            "caller" => &mut self.caller,
            "tool" => &mut self.tool,
            "server" => &mut self.server,
            "verdict" => &mut self.verdict,
            "tenant" => &mut self.tenant,
            "session" => &mut self.session,
            _ => return false,
        };
        value.clone_into(place);
        true
    }

    #[must_use]
    pub fn matches(&self, event: &Event) -> bool {
        let conditions = [
            (&self.family, &event.family),
            (&self.caller, &event.caller),
            (&self.tool, &event.tool),
            (&self.server, &event.server),
            (&self.verdict, &event.verdict),
            (&self.tenant, &event.tenant),
            (&self.session, &event.session),
        ];
        self.names(&event.event)
            && conditions
                .iter()
                .all(|(wanted, found)| wanted.is_empty() || wanted == found)
    }

    fn names(&self, event: &str) -> bool {
        let short = event.split_once("::").map_or(event, |(_, name)| name);
        self.event.is_empty() || self.event == event || self.event == short
    }
}
