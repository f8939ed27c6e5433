//! A context of the model in the words of the policy crate.

use std::collections::BTreeMap;

use policy::context::{
    AgentTool, AgentTools, Boundary, Call, Capability, Ceilings, Denial, DomainPattern,
    PathPattern, Scope, SecurityContext, Subcommands, ToolPattern, examine,
};
use testkit::model::{ModelCall, ModelCapability, ModelSigned};
use wire::Json;

/// Everything a boundary is examined from: the arguments as a text, and the context of a signed call.
pub(crate) struct Bound {
    pub(crate) arguments: Vec<u8>,
    parts: Option<Parts>,
}

struct Parts {
    asked: String,
    calls: u64,
    context: SecurityContext,
    agent: Option<AgentTools>,
    session: Option<Vec<ToolPattern>>,
    ceilings: Ceilings,
}

impl Bound {
    pub(crate) fn new(call: &ModelCall) -> Self {
        let parts = call.signed.as_ref().map(|signed| Parts {
            asked: signed.asked.clone(),
            calls: signed.calls,
            context: context(signed),
            agent: signed.agent.as_ref().map(|tools| AgentTools {
                name: "agent".to_owned(),
                tools: tools
                    .iter()
                    .map(|name| AgentTool {
                        pattern: pattern(name),
                        ..AgentTool::default()
                    })
                    .collect(),
                max_calls_per_execution: signed.limit,
                ..AgentTools::default()
            }),
            session: signed
                .session
                .as_ref()
                .map(|names| names.iter().map(|name| pattern(name)).collect()),
            ceilings: Ceilings::default(),
        });
        Self {
            arguments: call.arguments.to_string().into_bytes(),
            parts,
        }
    }

    pub(crate) fn examine(&self) -> Option<Boundary<'_>> {
        let parts = self.parts.as_ref()?;
        let scope = Scope {
            context: &parts.context,
            agent: parts.agent.as_ref(),
            ceilings: &parts.ceilings,
            session_patterns: parts.session.as_deref(),
        };
        let call = Call {
            tool: &parts.asked,
            aliases: &[],
            server: None,
            arguments: Some(Json::checked_before(&self.arguments)),
            calls_so_far: parts.calls,
            tool_calls_so_far: 0,
        };
        Some(examine(scope, &call))
    }
}

fn pattern(text: &str) -> ToolPattern {
    ToolPattern::parse(text).expect("a pattern")
}

fn context(signed: &ModelSigned) -> SecurityContext {
    SecurityContext {
        name: "model".to_owned(),
        capabilities: signed.capabilities.iter().map(capability).collect(),
        deny_list: signed
            .deny
            .iter()
            .map(|text| Denial::parse(text).expect("a denial"))
            .collect(),
        ..SecurityContext::default()
    }
}

fn capability(own: &ModelCapability) -> Capability {
    let path = |text: &String| PathPattern::parse(text).expect("a path");
    let domain = |text: &String| DomainPattern::parse(text).expect("a domain");
    let commands = |list: &Vec<(String, Vec<String>)>| {
        Subcommands::ByCommand(list.iter().cloned().collect::<BTreeMap<_, _>>())
    };
    Capability {
        tool_pattern: pattern(&own.pattern),
        path_allowlist: own
            .paths
            .as_ref()
            .map(|list| list.iter().map(path).collect()),
        domain_allowlist: own
            .domains
            .as_ref()
            .map(|list| list.iter().map(domain).collect()),
        subcommand_allowlist: own.commands.as_ref().map(commands),
        ..Capability::default()
    }
}
