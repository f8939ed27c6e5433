//! Which server serves a dotted name such as `web.fetch`: an exact capability first, then `web.*`.
//!
//! The table is written with the catalog, so that a call costs one lookup. Each tenant has its own, over the one that everybody
//! shares. A name that an entry claims exactly never goes to a server that only claims its kind, connected or not.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use vocab::ServerId;

use super::{About, Found, Listed, Mounted, Table, Target, build::renamed_raw};
use crate::{Sight, settings::ServerSpec};

#[derive(Debug, Default)]
pub(super) struct Routes {
    /// By tenant; the empty name is for what everybody shares.
    tenants: HashMap<Box<str>, Index>,
}

#[derive(Debug, Default)]
struct Index {
    names: Table,
    /// As servers list now, and as it was approved.
    listed: Vec<Listed>,
    approved: Vec<Listed>,
    exact: HashMap<Box<str>, ServerId>,
    /// Without the `.*`.
    kinds: HashMap<Box<str>, ServerId>,
}

impl Routes {
    /// Must know every server before the first tool is added.
    pub(super) fn claim(&mut self, spec: &ServerSpec) {
        let index = self
            .tenants
            .entry(spec.tenant.as_deref().unwrap_or_default().into())
            .or_default();
        for capability in &spec.capabilities {
            let (claims, name) = match capability.strip_suffix(".*") {
                Some(kind) => (&mut index.kinds, kind),
                None => (&mut index.exact, capability.as_str()),
            };
            claims.entry(name.into()).or_insert_with(|| spec.id.clone());
        }
    }

    /// Enters one tool under the dotted names that its server's capabilities give it.
    pub(super) fn add(&mut self, about: &About, target: &Arc<Target>, shown: Option<&[u8]>) {
        self.enter(about, Some(target), |index| &mut index.listed, shown);
    }

    /// The same for a tool as it was approved. `absent` is where its names lead if the server does not list it now.
    pub(super) fn add_approved(
        &mut self,
        about: &About,
        absent: Option<&Arc<Target>>,
        shown: Option<&Bytes>,
    ) {
        self.enter(
            about,
            absent,
            |index| &mut index.approved,
            shown.map(|raw| &raw[..]),
        );
    }

    fn enter(
        &mut self,
        about: &About,
        target: Option<&Arc<Target>>,
        list: fn(&mut Index) -> &mut Vec<Listed>,
        shown: Option<&[u8]>,
    ) {
        let spec = &about.spec;
        let Some(index) = self
            .tenants
            .get_mut(spec.tenant.as_deref().unwrap_or_default())
        else {
            return;
        };
        for name in dotted(&spec.capabilities, &about.own) {
            let owner = index
                .exact
                .get(name.as_str())
                .or_else(|| kind_owner(&index.kinds, &name));
            let is_taken = index
                .names
                .get(name.as_str())
                .is_some_and(|known| known.spec.id != spec.id || *known.name != *about.own);
            if owner != Some(&spec.id) || is_taken {
                continue;
            }
            if let Some(raw) = shown {
                let raw = renamed_raw(raw, "name", &name);
                list(index).push(Listed {
                    name: name.clone(),
                    raw,
                    server: spec.id.clone(),
                    about: about.clone(),
                });
            }
            if let Some(target) = target {
                index
                    .names
                    .entry(name.into())
                    .or_insert_with(|| Arc::clone(target));
            }
        }
    }

    /// What a dotted name leads to, for callers of one tenant.
    pub(super) fn find(
        &self,
        tenant: Option<&str>,
        name: &str,
        servers: &HashMap<ServerId, Mounted>,
    ) -> Found {
        let own = tenant.and_then(|tenant| self.tenants.get(tenant));
        for index in own.into_iter().chain(self.tenants.get("")) {
            if let Some(target) = index.names.get(name) {
                return Found::Target(Arc::clone(target));
            }
            // Only names that are in no table come here: those of servers that have not shown theirs.
            let owner = index
                .exact
                .get(name)
                .or_else(|| kind_owner(&index.kinds, name));
            match owner.and_then(|id| servers.get(id)) {
                Some(mounted) if mounted.face.is_none() => {
                    return Found::NotYet(Arc::clone(&mounted.spec));
                }
                _ => {}
            }
        }
        Found::Nothing
    }

    pub(super) fn listed(&self, sight: &Sight) -> Vec<Listed> {
        let own = sight
            .caller()
            .tenant()
            .and_then(|tenant| self.tenants.get(tenant));
        let mut names = BTreeSet::new();
        let all = own
            .into_iter()
            .chain(self.tenants.get(""))
            .flat_map(|index| {
                let live = index
                    .listed
                    .iter()
                    .filter(|listed| sight.shows_live(&listed.about));
                live.chain(
                    index
                        .approved
                        .iter()
                        .filter(|listed| sight.shows_approved(&listed.about)),
                )
            });
        all.filter(|listed| names.insert(listed.name.as_str()))
            .cloned()
            .collect()
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

/// Every dotted name that the capabilities could be taken to give a server's tool, whether or not it is reached under it: what is
/// denied or bounded under one of them is denied or bounded for the tool.
pub fn dotted_names(spec: &ServerSpec, tool: &str) -> Vec<String> {
    let mut names: Vec<String> = spec
        .capabilities
        .iter()
        .filter_map(|capability| given(capability, tool))
        .map(|(name, _)| name)
        .collect();
    names.dedup();
    names
}

/// The dotted names under which capabilities show a tool. What it calls itself counts most, then what is claimed by name; a tool that
/// says nothing is of the server's kind only if the server is of one kind.
fn dotted(capabilities: &[String], tool: &str) -> Vec<String> {
    let all: Vec<(String, Claim)> = capabilities
        .iter()
        .filter_map(|capability| given(capability, tool))
        .collect();
    let Some(best) = all.iter().map(|(_, claim)| *claim).max() else {
        return Vec::new();
    };
    let mut names: Vec<String> = all
        .into_iter()
        .filter(|(_, claim)| *claim == best)
        .map(|(name, _)| name)
        .collect();
    names.dedup();
    if best == Claim::Kind && names.len() > 1 {
        Vec::new()
    } else {
        names
    }
}

/// How a tool comes by a dotted name, the better the later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// By its server's kind.
    Kind,
    /// A capability names it without its kind.
    Named,
    /// It calls itself so.
    Own,
}

/// The name that one capability gives a tool. A server may call it `web.fetch`, `web_fetch` or just `fetch`.
fn given(capability: &str, tool: &str) -> Option<(String, Claim)> {
    let Some(kind) = capability.strip_suffix(".*") else {
        let (_, short) = capability.split_once('.')?;
        let claim = match tool {
            tool if tool == capability || tool == capability.replace('.', "_") => Claim::Own,
            tool if tool == short => Claim::Named,
            _ => return None,
        };
        return Some((capability.to_owned(), claim));
    };
    let own = tool
        .strip_prefix(kind)
        .and_then(|rest| rest.strip_prefix(['.', '_']));
    let (rest, claim) = own.map_or((tool, Claim::Kind), |rest| (rest, Claim::Own));
    (!rest.is_empty()).then(|| (format!("{kind}.{rest}"), claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_shown_under_the_names_its_server_declares() {
        let names = |capabilities: &[&str], tool: &str| {
            dotted(
                &capabilities
                    .iter()
                    .map(|&text| text.to_owned())
                    .collect::<Vec<_>>(),
                tool,
            )
        };
        for tool in ["web.fetch", "web_fetch", "fetch"] {
            assert_eq!(names(&["web.fetch"], tool), ["web.fetch"]);
            assert_eq!(names(&["web.*"], tool), ["web.fetch"]);
        }
        assert!(names(&["web.fetch"], "search").is_empty());
        assert_eq!(
            names(&["web.*"], "website"),
            ["web.website"],
            "a prefix ends at a dot"
        );
        assert!(names(&["web.*"], "web.").is_empty());
        assert!(names(&[], "fetch").is_empty());
    }

    #[test]
    fn a_tool_of_a_server_of_many_kinds_is_of_the_kind_it_says() {
        let capabilities = ["fs.*", "cmd.run", "web.*"].map(str::to_owned);
        assert_eq!(
            dotted(&capabilities, "cmd.run"),
            ["cmd.run"],
            "not fs.cmd.run"
        );
        assert_eq!(dotted(&capabilities, "fs_read"), ["fs.read"]);
        assert_eq!(dotted(&capabilities, "run"), ["cmd.run"], "claimed by name");
        assert!(
            dotted(&capabilities, "fetch").is_empty(),
            "of which kind is not said"
        );
        assert_eq!(
            dotted(&["a.*", "a.b.*"].map(str::to_owned), "a.b.c"),
            ["a.b.c"]
        );
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
