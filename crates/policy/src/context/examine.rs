//! One call against its context, its agent's list and the ceilings of the node.
//!
//! The steps are those of the tool policy: listed, not denied, within the execution's calls, then paths, domains and commands. All are
//! worked out at once, and the check table decides in which order they are heard.

use std::time::Duration;

use vocab::Violation;
use wire::Json;

use super::{
    AgentTool, AgentTools, Capability, Ceilings, SecurityContext, ToolPattern,
    bounds::Bounds,
    reach::{Family, Reach},
    refusal,
};
use crate::Budget;

/// What a call is bound by.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub context: &'a SecurityContext,
    /// The manifest of the agent, where there is one.
    pub agent: Option<&'a AgentTools>,
    pub ceilings: &'a Ceilings,
    /// What the session was opened for. `None`: for whatever its context allows; an empty list: for nothing.
    pub session_patterns: Option<&'a [ToolPattern]>,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The name that was asked for. Only this one is looked up in lists that allow.
    pub tool: &'a str,
    /// Other names of the same tool: how its server calls it, how other doors show it. Denials and bounds hold under these too.
    pub aliases: &'a [&'a str],
    pub server: Option<&'a str>,
    pub arguments: Option<Json<'a>>,
    /// Calls the execution has made, and those of this tool among them.
    pub calls_so_far: u64,
    pub tool_calls_so_far: u64,
}

impl<'a> Call<'a> {
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + Clone {
        std::iter::once(self.tool).chain(self.aliases.iter().copied())
    }
}

/// How one call stands to everything that bounds it.
#[derive(Debug, Clone)]
pub struct Boundary<'a> {
    context: &'a SecurityContext,
    tool: &'a str,
    listed: Option<Violation>,
    denied: Option<Violation>,
    spent: Option<Violation>,
    bounds: Bounds,
    capability: Option<(usize, &'a Capability)>,
    is_command: bool,
    time: Option<Duration>,
    output_bytes: Option<u64>,
    concurrency: Option<u32>,
}

fn verdict(violation: &Option<Violation>) -> Result<(), Violation> {
    violation.clone().map_or(Ok(()), Err)
}

impl<'a> Boundary<'a> {
    #[must_use]
    pub const fn context(&self) -> &'a SecurityContext {
        self.context
    }

    /// The name that was asked for.
    #[must_use]
    pub const fn tool(&self) -> &'a str {
        self.tool
    }

    pub(crate) fn listed(&self) -> Result<(), Violation> {
        verdict(&self.listed)
    }

    pub(crate) fn denied(&self) -> Result<(), Violation> {
        verdict(&self.denied)
    }

    pub(crate) fn spent(&self) -> Result<(), Violation> {
        verdict(&self.spent)
    }

    pub(crate) fn path(&self) -> Result<(), Violation> {
        verdict(&self.bounds.path)
    }

    /// Whether the lists of paths and the denials let it through: for a place that only turned out to be meant.
    #[must_use]
    pub fn lets_path(&self) -> bool {
        self.denied.is_none() && self.bounds.path.is_none()
    }

    pub(crate) fn domain(&self) -> Result<(), Violation> {
        verdict(&self.bounds.domain)
    }

    pub(crate) fn command(&self) -> Result<(), Violation> {
        verdict(&self.bounds.command)
    }

    /// The capability the call is made under, and its place in the context: whose rate and concurrency it counts against.
    #[must_use]
    pub const fn capability(&self) -> Option<(usize, &'a Capability)> {
        self.capability
    }

    /// Whether it runs a command, under whatever name.
    #[must_use]
    pub const fn is_command(&self) -> bool {
        self.is_command
    }

    /// How many such calls may run at once.
    #[must_use]
    pub const fn concurrency(&self) -> Option<u32> {
        self.concurrency
    }

    /// What a command may print, and the most any call of this context may answer; `OutputSizeLimitExceeded` beyond it.
    #[must_use]
    pub const fn output_bytes(&self) -> Option<u64> {
        self.output_bytes
    }

    /// The time a command is given.
    #[must_use]
    pub const fn time(&self) -> Option<Duration> {
        self.time
    }

    /// The budget, never more than the boundary allows.
    #[must_use]
    pub fn narrow(&self, budget: Budget) -> Budget {
        let bytes = self
            .output_bytes
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(usize::MAX);
        Budget {
            time: self.time.unwrap_or(budget.time).min(budget.time),
            result_bytes: budget.result_bytes.min(bytes),
        }
    }
}

/// Works out every step. Costs nothing that grows with anything but the context and the arguments.
#[must_use]
pub fn examine<'a>(scope: Scope<'a>, call: &Call<'a>) -> Boundary<'a> {
    let reach = Reach::of(call, &scope.ceilings.search_host);
    let entry = scope.agent.and_then(|agent| closest_entry(agent, call));
    let examined = Examined {
        scope,
        call,
        reach: &reach,
        entry,
    };
    let (capability, own) = examined.capability(call.tool);
    let bounds = examined
        .other_names()
        .fold(own, |bounds, name| bounds.and(examined.capability(name).1));
    let deny_list = &scope.context.deny_list;
    let denial = deny_list
        .iter()
        .find(|denial| denial.denies(call.names(), &reach))
        .or_else(|| {
            // Where no list has refused a path that cannot be read, a denial is not got around by it.
            deny_list
                .iter()
                .find(|denial| bounds.path.is_none() && denial.may_deny(call.names(), &reach))
        });
    let is_command = reach.family == Family::Command || reach.command.is_some();
    let smallest = |limits: [Option<u64>; 3]| limits.into_iter().flatten().min();
    let ceilings = scope.ceilings;
    Boundary {
        context: scope.context,
        tool: call.tool,
        listed: examined.unlisted(),
        denied: denial.map(|denial| refusal::denied(call.tool, denial, &scope.context.name)),
        spent: examined.spent(),
        bounds,
        capability,
        is_command,
        time: is_command.then(|| examined.command_time()),
        output_bytes: smallest([
            capability.and_then(|(_, capability)| capability.max_response_size),
            is_command.then_some(ceilings.max_output_bytes),
            entry
                .filter(|_| is_command)
                .and_then(|entry| entry.max_output_bytes),
        ]),
        concurrency: [
            capability.and_then(|(_, capability)| capability.max_concurrent),
            is_command.then_some(ceilings.max_concurrent_per_execution),
        ]
        .into_iter()
        .flatten()
        .min(),
    }
}

/// The entry that describes the tool most closely; of two alike, the first.
fn closest_entry<'a>(agent: &'a AgentTools, call: &Call<'_>) -> Option<&'a AgentTool> {
    let matching = agent.tools.iter().filter(|entry| entry.matches(call));
    matching.rev().max_by_key(|entry| entry.pattern.closeness())
}

impl AgentTool {
    fn matches(&self, call: &Call<'_>) -> bool {
        self.pattern.matches(call.tool)
            && self
                .server
                .as_deref()
                .is_none_or(|server| call.server == Some(server))
    }
}

/// A call being examined, with the entry of the agent's list it falls under.
pub(super) struct Examined<'a, 'c> {
    pub(super) scope: Scope<'a>,
    pub(super) call: &'c Call<'a>,
    pub(super) reach: &'c Reach<'a>,
    pub(super) entry: Option<&'a AgentTool>,
}

impl<'a> Examined<'a, '_> {
    /// Why the tool is on none of the lists it must be on.
    fn unlisted(&self) -> Option<Violation> {
        let (tool, context) = (self.call.tool, self.scope.context);
        let texts = |patterns: &mut dyn Iterator<Item = &ToolPattern>| {
            patterns.map(ToString::to_string).collect::<Vec<_>>()
        };
        if let Some(off) = self
            .scope
            .ceilings
            .disabled
            .iter()
            .find(|off| self.call.names().any(|name| off.matches(name)))
        {
            let detail = format!(
                "`{off}` is switched off on this node; `enabled: true` in `builtin_dispatchers` would allow it"
            );
            return Some(refusal::not_allowed(tool, &[], detail));
        }
        if let Some(patterns) = self
            .scope
            .session_patterns
            .filter(|all| !all.iter().any(|pattern| pattern.matches(tool)))
        {
            let allowed = texts(&mut patterns.iter());
            let detail = format!(
                "the session was opened for {}; one opened for `{tool}` would be allowed",
                refusal::listed(&allowed)
            );
            return Some(refusal::not_allowed(tool, &allowed, detail));
        }
        if let (Some(agent), None) = (self.scope.agent, self.entry) {
            let allowed: Vec<String> = agent.tools.iter().map(ToString::to_string).collect();
            let detail = format!(
                "agent `{}` lists {}; `{tool}` among its `tools` would allow it",
                agent.name,
                refusal::listed(&allowed)
            );
            return Some(refusal::not_allowed(tool, &allowed, detail));
        }
        let has_capability = context
            .capabilities
            .iter()
            .any(|capability| capability.tool_pattern.matches(tool));
        (!has_capability).then(|| {
            let allowed = texts(&mut context.capabilities.iter().map(|capability| &capability.tool_pattern));
            let detail = format!(
                "context `{}` has capabilities for {}; one with a `tool_pattern` for `{tool}` would allow it",
                context.name,
                refusal::listed(&allowed)
            );
            refusal::not_allowed(tool, &allowed, detail)
        })
    }

    fn spent(&self) -> Option<Violation> {
        let agent = self.scope.agent?;
        let over = |limit: Option<u64>, current: u64, bucket: &str| {
            limit
                .filter(|limit| current >= *limit)
                .map(|limit| refusal::spent(bucket, limit, current, &agent.name))
        };
        over(
            agent.max_calls_per_execution,
            self.call.calls_so_far,
            "max_calls_per_execution",
        )
        .or_else(|| {
            over(
                self.entry?.max_calls_per_execution,
                self.call.tool_calls_so_far,
                self.call.tool,
            )
        })
    }

    /// Its names in families that the one it was asked by is not in, where a capability bounds them. A tool that fetches under one name
    /// and reads under another keeps the bounds of both.
    fn other_names(&self) -> impl Iterator<Item = &'a str> {
        let asked = Family::of(self.call.tool);
        let others = self
            .call
            .aliases
            .iter()
            .copied()
            .filter(move |name| ![Family::Other, asked].contains(&Family::of(name)));
        let capabilities = &self.scope.context.capabilities;
        // What matches everything matched the name that was asked for too.
        others.filter(|name| {
            capabilities
                .iter()
                .any(|one| one.tool_pattern.closeness() > 0 && one.tool_pattern.matches(name))
        })
    }

    /// Of the capabilities that match, the closest whose bounds hold; else the closest, and what its bounds say.
    fn capability(&self, name: &str) -> (Option<(usize, &'a Capability)>, Bounds) {
        let capabilities = self.scope.context.capabilities.iter().enumerate();
        let mut matching: Vec<_> = capabilities
            .filter(|(_, one)| one.tool_pattern.matches(name))
            .collect();
        matching.sort_by_key(|(_, one)| std::cmp::Reverse(one.tool_pattern.closeness()));
        let mut closest = None;
        for found in matching {
            let bounds = self.bounds(Some(found.1));
            if bounds.hold() {
                return (Some(found), bounds);
            }
            closest.get_or_insert((Some(found), bounds));
        }
        closest.unwrap_or_else(|| (None, self.bounds(None)))
    }
}
