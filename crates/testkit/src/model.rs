//! The reference model of Admit to Judge: what a call must come to, in plain functions over plain data.
//!
//! It was written from the specification alone and shares no code with the gate, so that an error has to be made twice to
//! go unnoticed. It is slow and blunt on purpose: no caches, no indexes, no early preparation. [`random`] makes worlds and
//! calls; a test compares what the gate decides with what this says, and again with one check of [`Check::ORDER`] left
//! out, where a difference must show.

pub mod random;
mod shape;
mod signed;
mod world;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use signed::{ModelCapability, ModelSigned};
pub use world::{
    Access, Decision, Definition, Influence, Level, ModelCall, ModelCaller, ModelPlace,
    ModelPolicy, ModelServer, ModelTool, ModelWorld, Permission, When,
};

/// What must become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expected {
    Allow,
    /// A person must agree first.
    Ask,
    /// Refused with the stable code of a rule.
    Refuse(&'static str),
}

/// The checks by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    ServerState,
    ToolPermission,
    Definition,
    ServerAccess,
    ToolAccess,
    Account,
    Listed,
    Denied,
    Execution,
    ServerRate,
    ToolRate,
    Path,
    Volume,
    Domain,
    Command,
    WriteDown,
    UntrustedInfluence,
    Required,
    ArgumentsObject,
    Schema,
    Injection,
    Policy,
}

impl Check {
    /// The order in which they are made. The first refusal is the one that counts; a wish to ask waits for the rest.
    pub const ORDER: [Self; 22] = [
        Self::ServerState,
        Self::ToolPermission,
        Self::Definition,
        Self::ServerAccess,
        Self::ToolAccess,
        Self::Account,
        Self::Listed,
        Self::Denied,
        Self::Execution,
        Self::ServerRate,
        Self::ToolRate,
        Self::Path,
        Self::Volume,
        Self::Domain,
        Self::Command,
        Self::WriteDown,
        Self::UntrustedInfluence,
        Self::Required,
        Self::ArgumentsObject,
        Self::Schema,
        Self::Injection,
        Self::Policy,
    ];

    fn make(
        self,
        world: &ModelWorld,
        server: &ModelServer,
        tool: &ModelTool,
        call: &ModelCall,
    ) -> Expected {
        match self {
            Self::ServerState => refuse_if(
                server.blocked || server.classification.is_none(),
                "ServerNotApproved",
            ),
            Self::ToolPermission => {
                refuse_if(tool.permission == Permission::Blocked, "ToolNotAllowed")
            }
            Self::Definition => {
                refuse_if(tool.definition != Definition::Pinned, "DefinitionChanged")
            }
            Self::ServerAccess => refuse_if(
                !names_nobody(&server.access) && !names(&server.access, &call.caller),
                "PermissionDenied",
            ),
            Self::ToolAccess => refuse_if(!may_use(server, tool, &call.caller), "PermissionDenied"),
            Self::Account => {
                let connected =
                    call.caller.user.is_some() && call.caller.accounts.contains(&server.id);
                refuse_if(tool.needs_account && !connected, "PermissionDenied")
            }
            Self::Listed => signed_only(call, signed::listed),
            Self::Denied => signed_only(call, |signed| signed::denied(signed, &call.arguments)),
            Self::Execution => signed_only(call, signed::execution),
            Self::Path => signed_only(call, |signed| signed::path(signed, &call.arguments)),
            Self::Volume => volumes(call),
            Self::Domain => signed_only(call, |signed| signed::domain(signed, &call.arguments)),
            Self::Command => signed_only(call, |signed| signed::command(signed, &call.arguments)),
            Self::Required => signed_only(call, |signed| {
                signed::required(signed, tool, &call.arguments)
            }),
            Self::ServerRate => refuse_if(server.calls_left == Some(0), "RateLimitExceeded"),
            Self::ToolRate => refuse_if(tool.calls_left == Some(0), "RateLimitExceeded"),
            Self::WriteDown => refuse_if(
                server
                    .ceiling()
                    .is_some_and(|ceiling| call.secrecy > ceiling),
                "WouldViolateWriteDown",
            ),
            Self::UntrustedInfluence => match world.influence {
                Influence::Ask if call.untrusted && tool.consequential => {
                    let is_endorsed = world.policies.iter().any(|policy| {
                        policy.decision == Decision::Endorse
                            && policy
                                .when
                                .iter()
                                .all(|when| holds(when, server, tool, call))
                    });
                    if call.vouched || is_endorsed {
                        Expected::Allow
                    } else {
                        Expected::Ask
                    }
                }
                Influence::Block => {
                    refuse_if(call.untrusted && tool.consequential, "UntrustedInfluence")
                }
                _ => Expected::Allow,
            },
            Self::ArgumentsObject => refuse_if(!call.arguments.is_object(), "InvalidParameters"),
            // Required and null is missing, unless the schema knows null there: which is what a schema says by itself.
            Self::Schema => refuse_if(
                !shape::accepts_arguments(&tool.input_schema, &call.arguments),
                "InvalidParameters",
            ),
            Self::Injection => refuse_if(
                server.scans_for_injection && shape::holds_injection(&call.arguments),
                "PotentialInjection",
            ),
            Self::Policy => judge(world, server, tool, call),
        }
    }
}

/// What must become of this call.
pub fn expected(world: &ModelWorld, call: &ModelCall) -> Expected {
    expected_without(world, call, None)
}

/// The same with one check left out.
pub fn expected_without(world: &ModelWorld, call: &ModelCall, left_out: Option<Check>) -> Expected {
    let found = world
        .servers
        .get(call.server)
        .and_then(|server| Some((server, server.tools.get(call.tool)?)));
    let Some((server, tool)) = found else {
        return Expected::Refuse("ToolNotFound");
    };
    let mut ask = false;
    for check in Check::ORDER
        .into_iter()
        .filter(|check| Some(*check) != left_out)
    {
        match check.make(world, server, tool, call) {
            Expected::Allow => {}
            Expected::Ask => ask = true,
            refused @ Expected::Refuse(_) => return refused,
        }
    }
    if ask { Expected::Ask } else { Expected::Allow }
}

/// Whoever calls: no path to a volume climbs, and a volume that names somebody is for those.
fn volumes(call: &ModelCall) -> Expected {
    for place in &call.places {
        if place.path.split('/').any(|name| name == "..") {
            return Expected::Refuse("PathTraversalAttempt");
        }
        let access = place.volume.as_ref();
        if access.is_some_and(|access| !names_nobody(access) && !names(access, &call.caller)) {
            return Expected::Refuse("UnauthorizedVolumeAccess");
        }
    }
    Expected::Allow
}

/// What only callers with a context are held to.
fn signed_only(call: &ModelCall, says: impl FnOnce(&ModelSigned) -> Expected) -> Expected {
    call.signed.as_ref().map_or(Expected::Allow, says)
}

fn refuse_if(wrong: bool, code: &'static str) -> Expected {
    if wrong {
        Expected::Refuse(code)
    } else {
        Expected::Allow
    }
}

fn names_nobody(list: &Access) -> bool {
    list.users.is_empty() && list.departments.is_empty() && list.agents.is_empty()
}

fn names(list: &Access, caller: &ModelCaller) -> bool {
    caller
        .user
        .as_ref()
        .is_some_and(|user| list.users.contains(user))
        || caller
            .agent
            .as_ref()
            .is_some_and(|agent| list.agents.contains(agent))
        || caller
            .departments
            .iter()
            .any(|department| list.departments.contains(department))
}

/// A tool that is restricted, or whose rule names anybody, is for those named and those granted.
fn may_use(server: &ModelServer, tool: &ModelTool, caller: &ModelCaller) -> bool {
    let open = tool.permission != Permission::Restricted && names_nobody(&tool.access);
    let granted =
        |(to, what): &(String, String)| *to == server.id && (what == "*" || *what == tool.name);
    open || names(&tool.access, caller) || caller.grants.iter().any(granted)
}

/// Any block blocks, and so does a policy that cannot be worked out; then any ask asks; what nothing allows is refused.
fn judge(world: &ModelWorld, server: &ModelServer, tool: &ModelTool, call: &ModelCall) -> Expected {
    let mut decisions = Vec::new();
    for policy in &world.policies {
        if reads_a_structure(policy, server, tool, call) {
            return Expected::Refuse("PolicyDenied");
        }
        let failing = policy
            .when
            .iter()
            .find(|when| **when == When::Fails || !holds(when, server, tool, call));
        match failing {
            Some(When::Fails) => return Expected::Refuse("PolicyDenied"),
            Some(_) => {}
            None => decisions.push(policy.decision),
        }
    }
    let permits = |decision: &Decision| *decision != Decision::Endorse;
    if decisions.contains(&Decision::Block) || !decisions.iter().any(permits) {
        return Expected::Refuse("PolicyDenied");
    }
    if decisions.contains(&Decision::Ask) {
        Expected::Ask
    } else {
        Expected::Allow
    }
}

/// A policy that begins by naming this caller and this tool, or nobody, and reads a whole array or object as if it were one
/// value: a list with the forbidden name in it would slip past, so there is nothing to be had by one.
fn reads_a_structure(
    policy: &ModelPolicy,
    server: &ModelServer,
    tool: &ModelTool,
    call: &ModelCall,
) -> bool {
    let is_of_the_moment = |when: &&When| {
        matches!(
            when,
            When::ArgumentIs(..) | When::SecrecyAtLeast(_) | When::Untrusted | When::Fails
        )
    };
    let is_structure = |when: &When| match when {
        When::ArgumentIs(key, _) => call
            .arguments
            .get(key)
            .is_some_and(|value| value.is_array() || value.is_object()),
        _ => false,
    };
    policy.when.iter().any(is_structure)
        && policy
            .when
            .iter()
            .take_while(|when| !is_of_the_moment(when))
            .all(|when| holds(when, server, tool, call))
}

fn holds(when: &When, server: &ModelServer, tool: &ModelTool, call: &ModelCall) -> bool {
    match when {
        When::Server(id) => server.id == *id,
        When::Tool(id, name) => server.id == *id && tool.name == *name,
        When::User(user) => call.caller.user.as_ref() == Some(user),
        When::Department(department) => call.caller.departments.contains(department),
        When::Agent(agent) => call.caller.agent.as_ref() == Some(agent),
        When::Consequential => tool.consequential,
        When::SecrecyAtLeast(level) => call.secrecy >= *level,
        When::Untrusted => call.untrusted,
        When::ArgumentIs(key, text) => {
            call.arguments.get(key).and_then(Value::as_str) == Some(text)
        }
        When::Fails => false,
    }
}
