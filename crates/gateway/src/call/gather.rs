//! What the checks and the bundle look at, gathered from the call, its target and its caller: for those who decide a call, and for those
//! who explain one. Nothing is changed or counted here.

use ::provenance::Ruling;
use callers::{ForGate, meters::Metered};
use calls::{
    receive::{Address, Received},
    sent::Sent,
};
use policy::{
    Account, Act, Boundary, Influence, Meter, OnVolume, Permission, Principal, Question, Standing,
};
use upstreams::{catalog::Target, pins};
use vocab::{ServerId, Violation};
use wire::Json;

use super::{
    Case, Count, context,
    provenance::{self, Looked},
};
use crate::{Action, Caller, volumes::Named};

/// Everything that Admit to Judge look at.
pub(crate) struct Gathered<'a> {
    pub(crate) facts: &'a policy::Facts<'a>,
    pub(crate) sent: &'a Sent<'a>,
    /// What the call counts against.
    pub(super) meters: &'a Metered,
    /// Why there is nothing that could list the tool: its caller's context is gone, or for others.
    pub(crate) unbounded: Option<&'a Violation>,
    /// Where its arguments came from, where that matters.
    pub(super) looked: &'a Looked,
}

/// Gathers it and hands it over. Limits are looked at and not counted.
pub(crate) fn gather<T>(
    case: Case<'_>,
    received: &Received<'_>,
    target: &Target,
    count: Count,
    with: impl FnOnce(&Gathered<'_>) -> Result<T, Violation>,
) -> Result<T, Violation> {
    let names = context::names_of(&case, received, target);
    let others = names.others();
    let sent = Sent::new(case.request, received, Some(target))?.with(case.answer, received)?;
    let bounded = sent.bounded(received);
    let (boundary, unbounded) =
        match context::boundary(case, target, names.asked(), &others, &bounded) {
            Ok(boundary) => (boundary, None),
            Err(violation) => (None, Some(violation)),
        };
    let boundary = boundary.as_ref();
    let request = case.request;
    let has_account = |server: &ServerId, user: &str| {
        let tenant = request.caller.tenant();
        case.gate.account(server, tenant, user).is_some()
    };
    let findings = Findings::new(&request.caller, request.action, target, has_account);
    let meters = context::meters(&request.caller, target, boundary);
    let named = case
        .now
        .volumes
        .named_by(&request.caller, target, sent.arguments());
    let on_volumes: Vec<_> = named.iter().map(Named::fact).collect();
    let influence = influence(case);
    let looked = provenance::look(case, target, sent.judged(), influence);
    context::looking(count, &meters, |meter| {
        let asked = (names.asked(), boundary, on_volumes.as_slice());
        let led = (influence, looked.ruling.as_ref());
        with(&Gathered {
            facts: &findings.facts(target, &sent, asked, led, meter),
            sent: &sent,
            meters: &meters,
            unbounded: unbounded.as_ref(),
            looked: &looked,
        })
    })
}

/// What untrusted data may lead to is decided when a call is made. A question of its own server makes no other call of it.
fn influence(case: Case<'_>) -> Influence {
    if case.answer.is_some() {
        Influence::Off
    } else {
        case.now.rules.untrusted_influence
    }
}

/// What was found out once per decision and lives as long as it.
#[derive(Debug)]
struct Findings {
    account: OwnedAccount,
    permission: Permission,
    may_use_server: bool,
    is_named: bool,
    /// Why the definition cannot be checked against, if it cannot.
    unusable: Option<String>,
    is_call: bool,
}

#[derive(Debug)]
enum OwnedAccount {
    Shared,
    Connected(String),
    Missing {
        user: String,
        tenant: Option<String>,
    },
    Nobody,
}

impl Findings {
    /// `has_account` says whether a user has connected an account to a server.
    fn new(
        caller: &Caller,
        action: Action,
        target: &Target,
        has_account: impl FnOnce(&ServerId, &str) -> bool,
    ) -> Self {
        let spec = &target.spec;
        // Only tools have rules of their own, which hold for their tasks too; the rest follows its server.
        let rule = action.is_of_tool().then(|| spec.rule(&target.name));
        let is_listed =
            rule.is_some_and(|rule| !rule.access.is_open() && caller.is_listed(&rule.access));
        let permission = match rule {
            Some(rule) if rule.permission == Permission::Permitted && !rule.access.is_open() => {
                Permission::Restricted
            }
            Some(rule) => rule.permission,
            None => Permission::Permitted,
        };
        let account = match (
            rule.is_some_and(|rule| rule.requires_user_auth),
            caller.user(),
        ) {
            (false, _) => OwnedAccount::Shared,
            (true, None) => OwnedAccount::Nobody,
            (true, Some(user)) if has_account(&spec.id, user) => {
                OwnedAccount::Connected(user.to_owned())
            }
            (true, Some(user)) => OwnedAccount::Missing {
                user: user.to_owned(),
                tenant: caller.tenant().map(str::to_owned),
            },
        };
        let is_call = action == Action::CallTool;
        let input = target
            .definition
            .as_deref()
            .filter(|_| is_call)
            .map(|definition| definition.input());
        Self {
            account,
            permission,
            may_use_server: spec.access.is_open() || caller.is_listed(&spec.access),
            is_named: is_listed || caller.is_granted(&spec.id, &target.name),
            unusable: input.and_then(|input| input.as_ref().err().cloned()),
            is_call,
        }
    }

    fn facts<'a>(
        &'a self,
        target: &'a Target,
        sent: &'a Sent<'_>,
        (asked, boundary, on_volumes): (&'a str, Option<&'a Boundary<'a>>, &'a [OnVolume<'a>]),
        (influence, ruling): (Influence, Option<&'a Ruling>),
        meter: &'a dyn Meter,
    ) -> policy::Facts<'a> {
        let input = target.definition.as_deref().filter(|_| self.is_call);
        policy::Facts {
            server: &target.spec.id,
            state: target.spec.admission(),
            target: &target.name,
            permission: self.permission,
            standing: match (&target.standing, &self.unusable) {
                (pins::Standing::Quarantined(why), _) => Standing::Quarantined(why),
                (pins::Standing::Approved, Some(why)) => Standing::Quarantined(why),
                (pins::Standing::Approved, None) => Standing::Approved,
            },
            may_use_server: self.may_use_server,
            is_named: self.is_named,
            account: match &self.account {
                OwnedAccount::Shared => Account::Shared,
                OwnedAccount::Connected(user) => Account::Connected(user),
                OwnedAccount::Missing { user, tenant } => Account::Missing {
                    user,
                    tenant: tenant.as_deref(),
                },
                OwnedAccount::Nobody => Account::Nobody,
            },
            meter,
            accepts: target.spec.accepts,
            effect: target.effect,
            influence,
            ruling,
            arguments: sent.arguments(),
            sent: sent.judged(),
            input_schema: input.and_then(|definition| definition.input().as_ref().ok()?.as_ref()),
            scans_injection: target.spec.injection_scan,
            built_in: self.is_call.then_some(asked),
            boundary,
            on_volumes,
        }
    }
}

/// The question the bundle is asked.
pub(crate) fn question<'a>(
    case: &Case<'a>,
    received: &'a Received<'_>,
    target: &'a Target,
    gathered: &'a Gathered<'_>,
) -> Question<'a> {
    let caller = &case.request.caller;
    Question {
        principal: principal(caller),
        act: act(case.request.action, &received.address),
        server: target.spec.id.as_str(),
        target: &target.name,
        level: target.spec.classification.unwrap_or_default(),
        effect: target.effect,
        is_open_world: target.is_open_world,
        arguments: gathered.facts.sent.map_or(b"", Json::as_bytes),
        // The label that was weighed takes its place.
        label: vocab::Mark::default(),
        session_calls: caller.session().calls(),
        target_calls: caller.counts().of(&count_key(target)),
        now_ms: case.gate.now_ms(),
        door: case.request.door.as_str(),
        provenance: gathered.looked.origins.as_ref(),
    }
}

fn principal(caller: &Caller) -> Principal<'_> {
    Principal {
        caller: caller.id(),
        user: caller.user(),
        agent: caller.agent(),
        departments: caller.departments(),
        context: caller.context(),
        is_operator: caller.is_operator(),
    }
}

fn act(action: Action, address: &Address<'_>) -> Act {
    match (action, address) {
        (action, _) if action.is_of_tool() => Act::Call,
        (Action::GetPrompt, _) => Act::Get,
        (Action::Complete, Address::Resource(_)) => Act::CompleteResource,
        (Action::Complete, _) => Act::CompletePrompt,
        (Action::Subscribe | Action::Unsubscribe, _) => Act::Subscribe,
        _ => Act::Read,
    }
}

/// Under which a target is counted.
pub(super) fn count_key(target: &Target) -> String {
    format!("{}/{}", target.spec.id, target.name)
}
