//! Which server serves a dotted name such as `web.fetch`: an exact capability first, then `web.*`.
//!
//! The table is written with the catalog, so that a call costs one lookup. Each tenant has its own, over the one that everybody
//! shares. A name that an entry claims exactly never goes to a server that only claims its kind, connected or not.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use vocab::ServerId;

use super::{Found, Listed, Mounted, Table, Target, build::renamed_raw};
use crate::settings::ServerSpec;

#[derive(Debug, Default)]
pub(super) struct Routes {
    /// By tenant; the empty name is for what everybody shares.
    tenants: HashMap<Box<str>, Index>,
}

#[derive(Debug, Default)]
struct Index {
    names: Table,
    listed: Vec<Listed>,
    exact: HashMap<Box<str>, ServerId>,
    /// Without the `.*`.
    kinds: HashMap<Box<str>, ServerId>,
}

impl Routes {
    /// Must know every server before the first tool is added.
    pub(super) fn claim(&mut self, spec: &ServerSpec) {
        let index = self.tenants.entry(spec.tenant.as_deref().unwrap_or_default().into()).or_default();
        for capability in &spec.capabilities {
            let (claims, name) = match capability.strip_suffix(".*") {
                Some(kind) => (&mut index.kinds, kind),
                None => (&mut index.exact, capability.as_str()),
            };
            claims.entry(name.into()).or_insert_with(|| spec.id.clone());
        }
    }

    /// Enters one tool under the dotted names that its server's capabilities give it.
    pub(super) fn add(&mut self, target: &Arc<Target>, shown: Option<&[u8]>) {
        let spec = &target.spec;
        let Some(index) = self.tenants.get_mut(spec.tenant.as_deref().unwrap_or_default()) else { return };
        for name in dotted(&spec.capabilities, &target.name) {
            let owner = index.exact.get(name.as_str()).or_else(|| kind_owner(&index.kinds, &name));
            if owner != Some(&spec.id) || index.names.contains_key(name.as_str()) {
                continue;
            }
            if let Some(raw) = shown {
                let raw = renamed_raw(raw, "name", &name);
                let tenant = spec.tenant.as_deref().map(Arc::from);
                index.listed.push(Listed { name: name.clone(), raw, server: spec.id.clone(), tenant });
            }
            index.names.insert(name.into(), Arc::clone(target));
        }
    }

    /// What a dotted name leads to, for callers of one tenant.
    pub(super) fn find(&self, tenant: Option<&str>, name: &str, servers: &HashMap<ServerId, Mounted>) -> Found {
        let own = tenant.and_then(|tenant| self.tenants.get(tenant));
        for index in own.into_iter().chain(self.tenants.get("")) {
            if let Some(target) = index.names.get(name) {
                return Found::Target(Arc::clone(target));
            }
            // Only names that are in no table come here: those of servers that have not shown theirs.
            let owner = index.exact.get(name).or_else(|| kind_owner(&index.kinds, name));
            match owner.and_then(|id| servers.get(id)) {
                Some(mounted) if mounted.face.is_none() => return Found::NotYet(Arc::clone(&mounted.spec)),
                _ => {}
            }
        }
        Found::Nothing
    }

    pub(super) fn listed(&self, tenant: Option<&str>) -> Vec<Listed> {
        let own = tenant.and_then(|tenant| self.tenants.get(tenant));
        let mut names = BTreeSet::new();
        let all = own.into_iter().chain(self.tenants.get("")).flat_map(|index| &index.listed);
        all.filter(|listed| names.insert(listed.name.as_str())).cloned().collect()
    }
}

/// The server of the narrowest kind that a name is of: `a.b.*` before `a.*`.
fn kind_owner<'a>(kinds: &'a HashMap<Box<str>, ServerId>, name: &str) -> Option<&'a ServerId> {
    let mut kind = name;
    while let Some((shorter, last)) = kind.rsplit_once('.') {
        if let Some(owner) = kinds.get(shorter).filter(|_| !last.is_empty()) {
            return Some(owner);
        }
        kind = shorter;
    }
    None
}

/// The dotted names of a server's tool, whether or not it is reached under them: what is said of one of them is said of the tool.
pub(crate) fn dotted_names(spec: &ServerSpec, tool: &str) -> Vec<String> {
    dotted(&spec.capabilities, tool)
}

/// The dotted names under which capabilities show a tool. A server may call it `web.fetch`, `web_fetch` or just `fetch`.
fn dotted(capabilities: &[String], tool: &str) -> Vec<String> {
    let mut names = Vec::new();
    for capability in capabilities {
        match capability.strip_suffix(".*") {
            None => {
                let short = capability.split_once('.').map_or("", |(_, rest)| rest);
                if [capability.as_str(), short].contains(&tool) || capability.replace('.', "_") == tool {
                    names.push(capability.clone());
                }
            }
            Some(kind) => {
                let rest = tool.strip_prefix(kind).and_then(|rest| rest.strip_prefix(['.', '_'])).unwrap_or(tool);
                if !rest.is_empty() {
                    names.push(format!("{kind}.{rest}"));
                }
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_shown_under_the_names_its_server_declares() {
        let names = |capabilities: &[&str], tool: &str| {
            dotted(&capabilities.iter().map(|&text| text.to_owned()).collect::<Vec<_>>(), tool)
        };
        for tool in ["web.fetch", "web_fetch", "fetch"] {
            assert_eq!(names(&["web.fetch"], tool), ["web.fetch"]);
            assert_eq!(names(&["web.*"], tool), ["web.fetch"]);
        }
        assert!(names(&["web.fetch"], "search").is_empty());
        assert_eq!(names(&["web.*"], "website"), ["web.website"], "a prefix ends at a dot");
        assert!(names(&["web.*"], "web.").is_empty());
        assert!(names(&[], "fetch").is_empty());
    }

    #[test]
    fn the_narrowest_kind_owns_a_name() {
        let id = |text: &str| ServerId::parse(text).unwrap();
        let kinds = HashMap::from([("a".into(), id("wide")), ("a.b".into(), id("narrow"))]);
        assert_eq!(kind_owner(&kinds, "a.b.c"), Some(&id("narrow")));
        assert_eq!(kind_owner(&kinds, "a.c"), Some(&id("wide")));
        assert_eq!(kind_owner(&kinds, "ab.c"), None);
        assert_eq!(kind_owner(&kinds, "a."), None);
        assert_eq!(kind_owner(&kinds, "a"), None);
    }
}
