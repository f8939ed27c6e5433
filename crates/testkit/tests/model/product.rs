//! The gate's side: a call of the model as the facts and the question that the policy crate decides on.

use std::time::Duration;

use policy::{
    Account, Act, Binding, Boundary, Budget, Bundle, Evidence, Exceeded, Facts, Judged, Meter,
    OnVolume, Permission, Principal, Question, ServerState, Standing, findings,
};
use provenance::Ruling;
use shape::Schema;
use testkit::model::{
    self, Access, Expected, ModelCall, ModelCaller, ModelPlace, ModelPolicy, ModelServer,
    ModelTool, ModelWorld, When,
};
use vocab::{Effect, Integrity, Label, Level, Mark, ServerId, Stage, Violation};
use wire::{Json, Limits};

use crate::signed::Bound;

const BUDGET: Budget = Budget {
    time: Duration::from_secs(1),
    result_bytes: 1 << 20,
};
/// Any moment does; this one is in 2026.
const NOW_MS: u64 = 1_790_000_000_000;

/// What the gate prepares of a world when it loads its configuration.
pub(crate) struct Prepared {
    bundle: Bundle,
    ids: Vec<ServerId>,
    schemas: Vec<Vec<Schema>>,
    /// The evidence that a person's words vouch for a call.
    vouched: Ruling,
}

/// There is no other way to such evidence than words and a call that names what they do.
fn vouched() -> Ruling {
    let mut index = provenance::Index::new(provenance::Key::new([0; 32]), provenance::MAX_BYTES);
    index.say("write to bob@example.com");
    let call = Json::checked_before(br#"{"to":"bob@example.com"}"#);
    let roles = provenance::Roles::default();
    let call = provenance::Call {
        server: "mail",
        tool: "send",
        roles: &roles,
        sent: call,
    };
    let ruling = provenance::weigh(&index, call);
    assert!(matches!(ruling, Ruling::Vouched(_)));
    ruling
}

impl Prepared {
    pub(crate) fn new(world: &ModelWorld) -> Self {
        let text: String = world.policies.iter().map(cedar).collect();
        let bundle = Bundle::load("random", &[("random.cedar".to_owned(), text.clone())]);
        let compile = |tool: &ModelTool| {
            Schema::compile(tool.input_schema.to_string().as_bytes()).expect("a plain schema")
        };
        Self {
            bundle: bundle.unwrap_or_else(|problems| panic!("{problems:?} in\n{text}")),
            ids: world
                .servers
                .iter()
                .map(|server| ServerId::parse(&server.id).expect("a proper id"))
                .collect(),
            schemas: world
                .servers
                .iter()
                .map(|server| server.tools.iter().map(compile).collect())
                .collect(),
            vouched: vouched(),
        }
    }
}

/// A policy of the model in the language of bundles.
fn cedar(policy: &ModelPolicy) -> String {
    let head = match policy.decision {
        model::Decision::Allow => "permit",
        model::Decision::Endorse => "@effect(\"endorse\")\npermit",
        model::Decision::Ask => "@effect(\"ask\")\npermit",
        model::Decision::Block => "forbid",
    };
    let conditions: Vec<String> = policy.when.iter().map(condition).collect();
    let when = if conditions.is_empty() {
        String::new()
    } else {
        format!("\nwhen {{ {} }}", conditions.join(" && "))
    };
    format!("{head} (principal, action == Action::\"call\", resource){when};\n")
}

fn condition(when: &When) -> String {
    match when {
        When::Server(id) => format!("resource in Server::\"{id}\""),
        When::Tool(id, name) => format!("resource == Tool::\"{id}/{name}\""),
        When::User(user) => format!("principal in User::\"{user}\""),
        When::Department(department) => format!("principal in Department::\"{department}\""),
        When::Agent(agent) => format!("principal in Agent::\"{agent}\""),
        When::Consequential => "resource.effect == Effect::\"consequential\"".to_owned(),
        When::SecrecyAtLeast(level) => format!("context.label.secrecy >= {}", *level as u8),
        When::Untrusted => "context.label.is_untrusted".to_owned(),
        When::ArgumentIs(key, text) => {
            format!(
                "context.arguments.hasTag(\"{key}\") && context.arguments.getTag(\"{key}\") == \"{text}\""
            )
        }
        When::Fails => format!("context.time.unix * {} > 0", i64::MAX),
    }
}

struct CallsLeft([Option<u32>; 2]);

impl Meter for CallsLeft {
    fn count(&self) -> Result<(), Exceeded> {
        if self.0.contains(&Some(0)) {
            return Err(Exceeded {
                limit: "a limit".to_owned(),
                calls: 1,
                retry_after: Duration::from_secs(1),
            });
        }
        Ok(())
    }
}

/// One call as the gate sees it.
pub(crate) struct Seen<'a> {
    pub(crate) world: &'a ModelWorld,
    prepared: &'a Prepared,
    pub(crate) call: &'a ModelCall,
    server: &'a ModelServer,
    pub(crate) tool: &'a ModelTool,
    arguments: &'a [u8],
    boundary: Option<Boundary<'a>>,
    on_volumes: Vec<OnVolume<'a>>,
    meter: CallsLeft,
}

impl<'a> Seen<'a> {
    pub(crate) fn new(
        world: &'a ModelWorld,
        prepared: &'a Prepared,
        call: &'a ModelCall,
        bound: &'a Bound,
    ) -> Option<Self> {
        let server = world.servers.get(call.server)?;
        let tool = server.tools.get(call.tool)?;
        let meter = CallsLeft([server.calls_left, tool.calls_left]);
        let (arguments, boundary) = (bound.arguments.as_slice(), bound.examine());
        Some(Self {
            world,
            prepared,
            call,
            server,
            tool,
            arguments,
            boundary,
            on_volumes: (call.places.iter())
                .map(|place| on_volume(place, &call.caller))
                .collect(),
            meter,
        })
    }

    fn facts(&self) -> Facts<'_> {
        let (server, tool, caller) = (self.server, self.tool, &self.call.caller);
        let granted =
            |(to, what): &(String, String)| *to == server.id && (what == "*" || *what == tool.name);
        let permission = match tool.permission {
            model::Permission::Blocked => Permission::Blocked,
            model::Permission::Restricted => Permission::Restricted,
            model::Permission::Permitted if tool.access == Access::default() => {
                Permission::Permitted
            }
            model::Permission::Permitted => Permission::Restricted,
        };
        Facts {
            server: &self.prepared.ids[self.call.server],
            state: match server.classification {
                _ if server.blocked => ServerState::Blocked("it is"),
                Some(at) => ServerState::Classified(level(at)),
                None => ServerState::Untrusted,
            },
            target: &tool.name,
            permission,
            standing: match tool.definition {
                model::Definition::Pinned => Standing::Approved,
                model::Definition::Changed => Standing::Quarantined("it changed"),
                model::Definition::New => Standing::Quarantined("it is new"),
            },
            may_use_server: server.access == Access::default() || is_listed(&server.access, caller),
            is_named: is_listed(&tool.access, caller) || caller.grants.iter().any(granted),
            account: match &caller.user {
                _ if !tool.needs_account => Account::Shared,
                Some(user) if caller.accounts.contains(&server.id) => Account::Connected(user),
                Some(user) => Account::Missing { user, tenant: None },
                None => Account::Nobody,
            },
            meter: &self.meter,
            accepts: server.accepts.map(level),
            effect: self.effect(),
            influence: match self.world.influence {
                model::Influence::Off => policy::Influence::Off,
                model::Influence::Ask => policy::Influence::Ask,
                model::Influence::Block => policy::Influence::Block,
            },
            ruling: Some(if self.call.vouched {
                &self.prepared.vouched
            } else {
                &Ruling::NothingSaid
            }),
            arguments: Some(
                Json::parse(self.arguments, Limits::new(1 << 20, 64)).expect("what serde wrote"),
            ),
            sent: Some(Json::checked_before(self.arguments)),
            input_schema: Some(&self.prepared.schemas[self.call.server][self.call.tool]),
            scans_injection: server.scans_for_injection,
            built_in: None,
            boundary: self.boundary.as_ref(),
            on_volumes: &self.on_volumes,
        }
    }

    fn question(&self) -> Question<'_> {
        let caller = &self.call.caller;
        Question {
            principal: Principal {
                caller: "credential",
                user: caller.user.as_deref(),
                agent: caller.agent.as_deref(),
                departments: &caller.departments,
                context: None,
                is_operator: false,
            },
            act: Act::Call,
            server: &self.server.id,
            target: &self.tool.name,
            level: self.server.classification.map_or(Level::Public, level),
            effect: self.effect(),
            is_open_world: false,
            arguments: self.arguments,
            label: self.mark(),
            session_calls: 0,
            target_calls: 0,
            now_ms: NOW_MS,
            door: "mcp",
            provenance: None,
        }
    }

    fn effect(&self) -> Effect {
        if self.tool.consequential {
            Effect::Consequential
        } else {
            Effect::Read
        }
    }

    fn mark(&self) -> Mark {
        let integrity = if self.call.untrusted {
            Integrity::Untrusted
        } else {
            Integrity::Trusted
        };
        Mark {
            secrecy: level(self.call.secrecy),
            integrity,
        }
    }

    fn session(&self) -> flow::Session {
        let label = Label::of(self.mark(), self.prepared.ids[self.call.server].clone());
        flow::Session::restore(label, 0, "")
    }

    /// The stages as the call path runs them.
    pub(crate) fn judged(&self) -> Result<Judged<()>, Violation> {
        let facts = self.facts();
        let admitted = policy::admit(&facts)?;
        let bounded = policy::bound(&facts, BUDGET, BUDGET)?;
        let session = self.session();
        let weighed = policy::weigh(&facts, |ceiling| session.weigh(ceiling))?;
        let shaped = policy::shape(&facts)?;
        let evidence = Evidence {
            admitted,
            bounded,
            weighed,
            shaped,
        };
        let binding = Binding {
            caller: "credential",
            action: "call",
            definition: "",
        };
        policy::judge(
            &facts,
            evidence,
            &self.prepared.bundle,
            self.question(),
            binding,
            (),
        )
    }

    /// A copy of those stages made of the same checks, with one of them switched off.
    pub(crate) fn judged_without(&self, off: &str) -> Expected {
        let facts = self.facts();
        let found: Vec<_> = findings(&facts, self.mark())
            .filter(|(check, _)| check.name != off)
            .collect();
        let refusal = |stage: Stage| {
            found
                .iter()
                .filter(|(check, _)| check.stage == stage)
                .find_map(|(_, verdict)| verdict.as_ref().err())
        };
        let ceiling = self.server.ceiling().map_or(Level::Public, level);
        let too_secret = off != "write_down" && self.session().weigh(ceiling).is_err();
        let refused = refusal(Stage::Admit)
            .or_else(|| refusal(Stage::Bound))
            .map(|violation| violation.rule.code());
        let refused = refused.or_else(|| too_secret.then_some("WouldViolateWriteDown"));
        let refused = refused.or_else(|| {
            refusal(Stage::Weigh)
                .or_else(|| refusal(Stage::Shape))
                .map(|found| found.rule.code())
        });
        if let Some(code) = refused {
            return Expected::Refuse(code);
        }
        let influenced = off != "influence_allowed"
            && self.world.influence == model::Influence::Ask
            && self.call.untrusted
            && self.tool.consequential
            && !self.call.vouched;
        let decision = if off == "judge" {
            policy::cedar::Decision::Allow
        } else {
            self.prepared.bundle.decide(&self.question())
        };
        match decision {
            policy::cedar::Decision::Block(_) => Expected::Refuse("PolicyDenied"),
            policy::cedar::Decision::Ask(..) => Expected::Ask,
            policy::cedar::Decision::Endorse(_) => Expected::Allow,
            _ if influenced => Expected::Ask,
            _ => Expected::Allow,
        }
    }
}

fn on_volume<'a>(place: &'a ModelPlace, caller: &ModelCaller) -> OnVolume<'a> {
    let is_for = |access: &Access| *access == Access::default() || is_listed(access, caller);
    OnVolume {
        path: &place.path,
        volume: place
            .volume
            .as_ref()
            .map(|access| ("volume", is_for(access))),
    }
}

fn is_listed(list: &Access, caller: &ModelCaller) -> bool {
    let has = |names: &[String], name: &Option<String>| {
        name.as_ref().is_some_and(|name| names.contains(name))
    };
    has(&list.users, &caller.user)
        || has(&list.agents, &caller.agent)
        || caller
            .departments
            .iter()
            .any(|department| list.departments.contains(department))
}

fn level(of: model::Level) -> Level {
    match of {
        model::Level::Public => Level::Public,
        model::Level::Internal => Level::Internal,
        model::Level::Confidential => Level::Confidential,
        model::Level::Restricted => Level::Restricted,
    }
}

pub(crate) fn outcome(judged: Result<Judged<()>, Violation>) -> Expected {
    match judged {
        Ok(Judged::Permitted(_)) => Expected::Allow,
        Ok(Judged::Asked(_)) => Expected::Ask,
        Ok(Judged::Rewritten(rewritten)) => panic!("nothing here rewrites: {rewritten:?}"),
        Err(violation) => Expected::Refuse(violation.rule.code()),
    }
}
