//! What a caller may call by name: for lists, never for deciding.
//!
//! A name is listed if the lists of its caller's context, agent and session would let it be called with some arguments, under the rules
//! that calls are examined by: lists that allow look at the name itself, lists that deny at every name of the same tool.

use callers::Caller;
use policy::{
    Contexts, SecurityContext,
    context::{AgentTools, ToolPattern},
};
use vocab::{ServerId, View};

use crate::{
    ListKind, Sight,
    catalog::{Catalog, Found, Listed, Names},
    names::NamesOf,
    settings::TargetSpec,
};

impl Catalog {
    /// The tools a caller may call by name, within a security context: dotted names first, then those of single servers. Behind a door
    /// that shows one server, that server's.
    #[must_use]
    pub fn callable(
        &self,
        contexts: &Contexts,
        sight: &Sight,
        context: Option<&str>,
        mount: Option<&ServerId>,
    ) -> Vec<Listed> {
        let caller = sight.caller();
        let lists = Lists::of(contexts, caller, context);
        let routed = if mount.is_none() {
            self.routed(sight)
        } else {
            Vec::new()
        };
        let named = self
            .listed(ListKind::Tools, mount, sight)
            .into_iter()
            .cloned();
        let shown = |listed: &Listed| match &lists {
            Lists::Everything => true,
            Lists::Nothing => false,
            Lists::Of(lists) => lists.name(listed, caller, self, mount),
        };
        routed.into_iter().chain(named).filter(shown).collect()
    }

    /// Whether a caller's context lets it use anything of a server: one of its tools, its resources or its prompts.
    #[must_use]
    pub fn lists_any_of(&self, contexts: &Contexts, caller: &Caller, spec: &TargetSpec) -> bool {
        let lists = match Lists::of(contexts, caller, caller.context()) {
            Lists::Everything => return true,
            Lists::Nothing => return false,
            Lists::Of(lists) => lists,
        };
        let mut tools = self.live(ListKind::Tools, Some(&spec.id), View::Raw).iter();
        tools.any(|listed| lists.name(listed, caller, self, Some(&spec.id)))
            || ["resources.read", "prompts.get"]
                .iter()
                .any(|method| lists.allow(method, &[], Some(&spec.id)))
    }
}

/// Whether a caller's context lists what is no tool, by the name of its method: `prompts.get`, `resources.read`.
#[must_use]
pub fn lists_method(contexts: &Contexts, caller: &Caller, method: &str) -> bool {
    match Lists::of(contexts, caller, caller.context()) {
        Lists::Everything => true,
        Lists::Nothing => false,
        Lists::Of(lists) => lists.allow(method, &[], None),
    }
}

/// Every list a name must be on.
struct OwnLists<'a> {
    context: &'a SecurityContext,
    agent: Option<&'a AgentTools>,
    /// Switched off on this node.
    disabled: &'a [ToolPattern],
    /// What the session was opened for.
    session: Option<&'a [ToolPattern]>,
}

enum Lists<'a> {
    /// No context bounds the caller.
    Everything,
    /// Its context is gone, or its agent is for another.
    Nothing,
    Of(OwnLists<'a>),
}

impl<'a> Lists<'a> {
    fn of(contexts: &'a Contexts, caller: &'a Caller, context: Option<&str>) -> Self {
        let Some(name) = context else {
            return Self::Everything;
        };
        let known = contexts
            .context(name)
            .filter(|context| context.admits_tenant(caller.tenant()));
        let Some(context) = known else {
            return Self::Nothing;
        };
        let agent = caller.agent_name().and_then(|agent| contexts.agent(agent));
        if agent
            .and_then(|agent| agent.security_context.as_deref())
            .is_some_and(|wanted| wanted != name)
        {
            return Self::Nothing;
        }
        let session = caller.signed().map(|session| session.patterns.as_slice());
        Self::Of(OwnLists {
            context,
            agent,
            disabled: &contexts.ceilings().disabled,
            session,
        })
    }
}

impl OwnLists<'_> {
    fn name(
        &self,
        listed: &Listed,
        caller: &Caller,
        catalog: &Catalog,
        mount: Option<&ServerId>,
    ) -> bool {
        let names = Names {
            mount,
            view: caller.view(),
            tenant: caller.tenant(),
        };
        let Found::Target(target) = catalog.tool(names, &listed.name) else {
            return false;
        };
        let names = NamesOf::tool(mount.is_some(), &listed.name, &target);
        self.allow(names.asked(), &names.others(), Some(&listed.server))
    }

    fn allow(&self, asked: &str, others: &[&str], server: Option<&ServerId>) -> bool {
        let is_listed =
            |patterns: &[ToolPattern]| patterns.iter().any(|pattern| pattern.matches(asked));
        let has_agent = |agent: &AgentTools| {
            agent.tools.iter().any(|entry| {
                let own_server = entry
                    .server
                    .as_deref()
                    .is_none_or(|own| server.is_some_and(|server| server.as_str() == own));
                entry.pattern.matches(asked) && own_server
            })
        };
        let mut all = std::iter::once(asked).chain(others.iter().copied());
        let is_off = |name: &str| {
            self.disabled.iter().any(|off| off.matches(name))
                || self
                    .context
                    .deny_list
                    .iter()
                    .any(|own| own.denies_all_of(name))
        };
        self.context.may_call(asked)
            && self.session.is_none_or(is_listed)
            && self.agent.is_none_or(has_agent)
            && !all.any(is_off)
    }
}
