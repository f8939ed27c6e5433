//! Contexts in the words of their configuration, and what becomes of calls.

mod domains;
mod evil;
mod order;
mod paths;
mod steps;
mod values;

use vocab::{Rule, Violation};
use wire::{Json, Limits};

use super::*;

pub(super) fn tool(text: &str) -> ToolPattern {
    ToolPattern::parse(text).unwrap()
}

pub(super) fn paths(list: &[&str]) -> Option<Vec<PathPattern>> {
    Some(
        list.iter()
            .map(|text| PathPattern::parse(text).unwrap())
            .collect(),
    )
}

pub(super) fn domains(list: &[&str]) -> Option<Vec<DomainPattern>> {
    Some(
        list.iter()
            .map(|text| DomainPattern::parse(text).unwrap())
            .collect(),
    )
}

pub(super) fn accounts(list: &[&str]) -> Option<Vec<AccountPattern>> {
    Some(
        list.iter()
            .map(|text| AccountPattern::parse(text).unwrap())
            .collect(),
    )
}

pub(super) fn by_command(list: &[(&str, &[&str])]) -> Option<Subcommands> {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    Some(Subcommands::ByCommand(
        list.iter()
            .map(|(command, first)| ((*command).to_owned(), texts(first)))
            .collect(),
    ))
}

pub(super) fn capability(pattern: &str) -> Capability {
    Capability {
        tool_pattern: tool(pattern),
        ..Capability::default()
    }
}

pub(super) fn context(capabilities: Vec<Capability>, deny: &[&str]) -> SecurityContext {
    SecurityContext {
        name: "test".to_owned(),
        capabilities,
        deny_list: deny
            .iter()
            .map(|text| Denial::parse(text).unwrap())
            .collect(),
        ..SecurityContext::default()
    }
}

pub(super) fn agent(tools: &[&str]) -> AgentTools {
    let entry = |text: &&str| AgentTool {
        pattern: tool(text),
        ..AgentTool::default()
    };
    AgentTools {
        name: "coder".to_owned(),
        tools: tools.iter().map(entry).collect(),
        ..AgentTools::default()
    }
}

/// A world in which calls are made.
pub(super) struct World {
    pub(super) context: SecurityContext,
    pub(super) agent: Option<AgentTools>,
    pub(super) ceilings: Ceilings,
    pub(super) session: Option<Vec<ToolPattern>>,
    pub(super) calls: u64,
}

impl World {
    pub(super) fn of(context: SecurityContext) -> Self {
        Self {
            context,
            agent: None,
            ceilings: Ceilings::default(),
            session: None,
            calls: 0,
        }
    }

    pub(super) fn with<T>(
        &self,
        tool: &str,
        aliases: &[&str],
        arguments: &str,
        see: impl FnOnce(&Boundary<'_>) -> T,
    ) -> T {
        self.with_server(None, tool, aliases, arguments, see)
    }

    fn with_server<T>(
        &self,
        server: Option<&str>,
        tool: &str,
        aliases: &[&str],
        arguments: &str,
        see: impl FnOnce(&Boundary<'_>) -> T,
    ) -> T {
        let arguments = Json::parse(arguments.as_bytes(), Limits::default()).unwrap();
        let scope = Scope {
            context: &self.context,
            agent: self.agent.as_ref(),
            ceilings: &self.ceilings,
            session_patterns: self.session.as_deref(),
        };
        let call = Call {
            tool,
            aliases,
            server,
            arguments: Some(arguments),
            calls_so_far: self.calls,
            tool_calls_so_far: self.calls,
        };
        see(&examine(scope, &call))
    }

    /// The same of a call to a server of somebody else's.
    pub(super) fn foreign(
        &self,
        tool: &str,
        aliases: &[&str],
        arguments: &str,
    ) -> Option<Violation> {
        self.with_server(Some("up"), tool, aliases, arguments, first)
    }

    /// The first refusal, in the order of the steps.
    pub(super) fn refusal(&self, tool: &str, arguments: &str) -> Option<Violation> {
        self.with(tool, &[], arguments, first)
    }

    pub(super) fn rule(&self, tool: &str, arguments: &str) -> Option<Rule> {
        self.refusal(tool, arguments)
            .map(|violation| violation.rule)
    }
}

pub(super) fn first(boundary: &Boundary<'_>) -> Option<Violation> {
    [
        boundary.listed(),
        boundary.denied(),
        boundary.spent(),
        boundary.path(),
        boundary.domain(),
        boundary.command(),
    ]
    .into_iter()
    .find_map(Result::err)
}
