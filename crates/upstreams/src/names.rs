//! The names of what a call addresses: under which it is asked for, listed, denied and counted.

use vocab::{ServerId, View};

use crate::catalog::{Target, dotted_names};

/// Under which a target is counted, whatever name it was asked for by. What is no tool has no count of its own.
pub fn counted_as(target: &Target) -> String {
    match &target.definition {
        None if target.spec.id != ServerId::built_in() => target.spec.id.to_string(),
        _ => View::Double.expose(&target.spec.id, &target.name),
    }
}

/// Every name of what a call addresses.
#[derive(Debug)]
pub struct NamesOf {
    asked: String,
    others: Vec<String>,
}

impl NamesOf {
    /// Behind a door that shows one server, tools have that server's names; lists of tools have the gate's.
    pub fn tool(is_mounted: bool, name: &str, target: &Target) -> Self {
        let exposed = View::Double.expose(&target.spec.id, &target.name);
        let asked = if is_mounted {
            exposed.clone()
        } else {
            name.to_owned()
        };
        let dotted = target
            .server()
            .map(|server| dotted_names(server, &target.name))
            .unwrap_or_default();
        let built_in = wire::builtin::find(name).filter(|_| target.spec.id == ServerId::built_in());
        let aliases = built_in
            .into_iter()
            .flat_map(|tool| tool.other_names(name))
            .map(str::to_owned);
        let others = [target.name.clone(), exposed]
            .into_iter()
            .chain(dotted)
            .chain(aliases);
        let others = others.filter(|other| *other != asked).collect();
        Self { asked, others }
    }

    pub fn asked(&self) -> &str {
        &self.asked
    }

    pub fn others(&self) -> Vec<&str> {
        self.others.iter().map(String::as_str).collect()
    }

    /// What is no tool has the name of its method: `resources.read`, `prompts.get`. Denials of its server hold for it too.
    #[must_use]
    pub fn method(method: &str, target: &Target) -> Self {
        Self {
            asked: method.replace('/', "."),
            others: vec![View::Double.expose(&target.spec.id, &target.name)],
        }
    }

    /// A method that is asked of nothing known.
    #[must_use]
    pub fn unknown(method: &str) -> Self {
        Self {
            asked: method.replace('/', "."),
            others: Vec::new(),
        }
    }

    /// What is asked about a task is asked of its tool; denials may name the method as well.
    #[must_use]
    pub fn or_method(mut self, method: &str) -> Self {
        self.others.push(method.replace('/', "."));
        self
    }
}
