//! Steps 4a to 4c: paths, domains and accounts, commands and their time, within one capability, the agent's entry and the node.
//!
//! Every list that bounds a call must let it through, so a manifest never exceeds its context, nor either of them the node.

use std::time::Duration;

use vocab::Violation;
use wire::{
    Json,
    builtin::{self, argument},
};

use super::{
    Capability, PathPattern, Subcommands,
    command::{CommandLine, Said},
    domain::DomainPattern,
    examine::Examined,
    path::BadPath,
    reach::Family,
    refusal,
};

/// What the bounds of one capability say, with those of the agent and the node.
#[derive(Debug, Clone, Default)]
pub(super) struct Bounds {
    pub(super) path: Option<Violation>,
    pub(super) domain: Option<Violation>,
    pub(super) command: Option<Violation>,
}

impl Bounds {
    pub(super) fn hold(&self) -> bool {
        self.path.is_none() && self.domain.is_none() && self.command.is_none()
    }

    /// These, and what others say where these say nothing.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            path: self.path.or(other.path),
            domain: self.domain.or(other.domain),
            command: self.command.or(other.command),
        }
    }
}

impl Examined<'_, '_> {
    pub(super) fn bounds(&self, capability: Option<&Capability>) -> Bounds {
        Bounds {
            path: self.path(capability),
            domain: self.domain(capability),
            command: self.command(capability),
        }
    }

    fn path(&self, capability: Option<&Capability>) -> Option<Violation> {
        let own = capability.and_then(|capability| capability.path_allowlist.as_deref());
        let lists: Vec<&[PathPattern]> = own
            .into_iter()
            .chain(self.entry.and_then(|entry| entry.allowed_paths.as_deref()))
            .collect();
        if lists.is_empty() && !self.reach.is(Family::Files) {
            return None;
        }
        let wide;
        let places = if self.reach.is(Family::Files) || self.reach.is(Family::Command) {
            &self.reach.places
        } else {
            // Nobody knows what such a tool calls its paths.
            wide = self.reach.every_place();
            &wide
        };
        if let Some(place) = places
            .iter()
            .find(|place| place.path == Err(BadPath::Traversal))
        {
            return Some(refusal::climbing(&place.text));
        }
        if lists.is_empty() {
            return None;
        }
        let allowed = || {
            lists
                .iter()
                .flat_map(|list| list.iter())
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        for place in places {
            match &place.path {
                Ok(_) if self.reach.is_elsewhere(place) => {
                    return Some(refusal::outside(
                        &place.text,
                        "is relative, and only the server knows to what",
                        &allowed(),
                    ));
                }
                Err(BadPath::Unclear(why)) => {
                    return Some(refusal::outside(&place.text, why, &allowed()));
                }
                Ok(path)
                    if !lists
                        .iter()
                        .all(|list| list.iter().any(|pattern| pattern.covers(path))) =>
                {
                    return Some(refusal::outside(
                        &path.to_string(),
                        "is not covered by any entry",
                        &allowed(),
                    ));
                }
                _ => {}
            }
        }
        let is_missing = self.reach.family == Family::Files
            && self.reach.places.is_empty()
            && !self.requires(argument::PATH);
        is_missing.then(|| refusal::outside("", "is where a path should be", &allowed()))
    }

    /// Whether a missing argument is refused by name later, so that nothing needs to be said here.
    fn requires(&self, argument: &str) -> bool {
        builtin::find(self.call.tool)
            .is_some_and(|tool| tool.required().any(|field| field.name == argument))
    }

    fn domain(&self, capability: Option<&Capability>) -> Option<Violation> {
        let goes_out = [Family::Web, Family::Search, Family::Mail]
            .into_iter()
            .any(|family| self.reach.is(family));
        if !goes_out && !self.reach.is_unknown() {
            return None;
        }
        let own = capability.and_then(|capability| capability.domain_allowlist.as_deref());
        let lists: Vec<&[DomainPattern]> = own
            .into_iter()
            .chain(
                self.entry
                    .and_then(|entry| entry.allowed_domains.as_deref()),
            )
            .collect();
        let allowed = || {
            lists
                .iter()
                .flat_map(|list| list.iter())
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        if !lists.is_empty() {
            let wide;
            let addresses = if goes_out {
                &self.reach.addresses
            } else {
                wide = self.reach.every_address();
                &wide
            };
            for address in addresses {
                match &address.host {
                    Err(why) => return Some(refusal::not_domain(&address.text, why, &allowed())),
                    Ok(host)
                        if !lists
                            .iter()
                            .all(|list| list.iter().any(|pattern| pattern.matches(host))) =>
                    {
                        return Some(refusal::not_domain(
                            &host.to_string(),
                            "is not on the list",
                            &allowed(),
                        ));
                    }
                    Ok(_) => {}
                }
            }
            let is_missing = self.reach.addresses.is_empty()
                && match self.reach.family {
                    Family::Web => !self.requires(argument::URL),
                    Family::Mail => !self.reach.reads_mail,
                    _ => false,
                };
            if is_missing {
                return Some(refusal::not_domain(
                    "",
                    "is where an address should be",
                    &allowed(),
                ));
            }
        }
        self.account(capability?)
    }

    fn account(&self, capability: &Capability) -> Option<Violation> {
        let list = capability
            .account_allowlist
            .as_deref()
            .filter(|_| self.reach.is(Family::Mail))?;
        let allowed = || list.iter().map(ToString::to_string).collect::<Vec<_>>();
        if self.reach.accounts.is_empty() {
            return Some(refusal::not_domain(
                "",
                "is where an account should be named",
                &allowed(),
            ));
        }
        let other = self
            .reach
            .accounts
            .iter()
            .find(|account| !list.iter().any(|pattern| pattern.matches(account)))?;
        Some(refusal::not_domain(
            other,
            "is not an account on the list",
            &allowed(),
        ))
    }

    fn command(&self, capability: Option<&Capability>) -> Option<Violation> {
        let commands = capability.and_then(|capability| capability.command_allowlist.as_deref());
        let own = capability.and_then(|capability| capability.subcommand_allowlist.as_ref());
        let is_command = self.reach.is(Family::Command);
        // A list of commands also bounds a tool that says nothing about itself.
        let is_bounded_unknown = self.reach.is_unknown() && (commands.is_some() || own.is_some());
        if !is_command && !is_bounded_unknown {
            return None;
        }
        let lists = self.subcommand_lists(capability);
        let is_bounded = commands.is_some() || !lists.is_empty();
        let Some(line) = self.reach.command_line() else {
            let is_expected =
                self.reach.family == Family::Command && !self.requires(argument::COMMAND);
            return (is_bounded && is_expected)
                .then(|| refusal::not_command("", &[], "a bounded list"));
        };
        if let Some(other) = line.elsewhere.as_deref().filter(|_| is_bounded) {
            return Some(refusal::not_command(
                other,
                commands.unwrap_or_default(),
                "a bounded list, under the name `command`",
            ));
        }
        if self.requires(argument::COMMAND) && self.reach.has_blank_command() {
            return None;
        }
        if let Some(list) =
            commands.filter(|list| !list.iter().any(|own| own == "*" || *own == line.command))
        {
            return Some(refusal::not_command(
                &line.command,
                list,
                "the context's `command_allowlist`",
            ));
        }
        self.unsaid(&line, &lists).or_else(|| self.too_long())
    }

    /// Each list must allow it, so the node's holds whatever the manifest says.
    fn subcommand_lists<'l>(
        &'l self,
        capability: Option<&'l Capability>,
    ) -> Vec<(&'static str, &'l Subcommands)> {
        let entry = self
            .entry
            .and_then(|entry| entry.subcommand_allowlist.as_ref());
        let agent = self
            .scope
            .agent
            .and_then(|agent| agent.subcommand_allowlist.as_ref());
        let own = capability.and_then(|capability| capability.subcommand_allowlist.as_ref());
        [
            ("the `subcommand_allowlist` of the agent's tool", entry),
            ("the agent's `subcommand_allowlist`", agent),
            ("the context's `subcommand_allowlist`", own),
            (
                "the node's `subcommand_allowlist`",
                self.scope.ceilings.subcommand_allowlist.as_ref(),
            ),
        ]
        .into_iter()
        .filter_map(|(by, list)| Some((by, list?)))
        .collect()
    }

    fn unsaid(
        &self,
        line: &CommandLine,
        lists: &[(&'static str, &Subcommands)],
    ) -> Option<Violation> {
        let said: Vec<(&str, Said)> = lists
            .iter()
            .map(|(by, list)| (*by, list.says(line)))
            .collect();
        let command = said.iter().find_map(|(by, said)| match said {
            Said::NotCommand(allowed) => Some(refusal::not_command(&line.command, allowed, by)),
            _ => None,
        });
        command.or_else(|| {
            said.iter().find_map(|(by, said)| match said {
                Said::NotSubcommand(allowed) => Some(refusal::not_subcommand(
                    &line.command,
                    line.subcommand(),
                    allowed,
                    by,
                )),
                _ => None,
            })
        })
    }

    fn time_ceiling(&self) -> u64 {
        let own = self
            .entry
            .and_then(|entry| entry.timeout_ceiling_secs)
            .unwrap_or(u64::MAX);
        own.min(self.scope.ceilings.max_timeout_ceiling_secs)
    }

    /// Whole seconds, rounded up; `None` for what is no time at all.
    fn requested_secs(value: Json<'_>) -> Option<u64> {
        value.as_u64().or_else(|| {
            let number: f64 = value.text().parse().ok()?;
            // Beyond this nobody waits, and the conversion below would saturate.
            (0.0..=1e12).contains(&number).then(|| number.ceil() as u64)
        })
    }

    fn too_long(&self) -> Option<Violation> {
        let (requested, ceiling) = (self.reach.timeout?, self.time_ceiling());
        let is_within = Self::requested_secs(requested).is_some_and(|seconds| seconds <= ceiling);
        (!is_within).then(|| refusal::too_long(requested.text(), ceiling))
    }

    pub(super) fn command_time(&self) -> Duration {
        let wanted = self
            .reach
            .timeout
            .and_then(Self::requested_secs)
            .unwrap_or(self.scope.ceilings.default_timeout_secs);
        Duration::from_secs(wanted.min(self.time_ceiling()))
    }
}
