//! What a caller is shown of servers' words and lists, as doors ask for it. Whether it is, `upstreams` says.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use callers::ForGate;
use upstreams::{
    callable,
    words::{Occasion, Withheld, label_of, own_pass},
};
use vocab::{Effect, Label, ServerId};
use wire::{builtin::Tool, write::Object};

use crate::{
    Caller, Change, Gate, Listed, Pass, Sight, Source,
    gate::Inner,
    settings::{Rules, TargetSpec},
};

/// How many words were withheld because nobody who might have seen them had asked.
#[derive(Debug, Default)]
pub(crate) struct Unheard(AtomicU64);

impl Unheard {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Inner {
    /// The one door for words of servers.
    pub(crate) async fn pass(
        &self,
        rules: &Rules,
        caller: &Caller,
        spec: &TargetSpec,
        label: Label,
        occasion: Occasion<'_>,
    ) -> Result<Pass, Withheld> {
        self.hub
            .pass(
                (&self.state, &rules.contexts),
                caller,
                spec,
                label,
                occasion,
            )
            .await
    }

    /// Whether a caller's context lets it use anything of a server.
    pub(crate) fn lists_any_of(&self, caller: &Caller, spec: &TargetSpec) -> bool {
        let now = self.now();
        now.catalog()
            .lists_any_of(&now.rules.contexts, caller, spec)
    }
}

impl Gate {
    /// Must be asked before a change that carries a server's words is shown to a caller; `None`: it must not be shown. `is_awaited`
    /// says that this caller asked for exactly this. That a list changed is nobody's words.
    pub async fn deliver(
        &self,
        caller: &Caller,
        change: &Change,
        is_awaited: bool,
    ) -> Option<Pass> {
        let (Change::Updated { server, .. }
        | Change::Log { server, .. }
        | Change::ElicitationComplete { server, .. }) = change
        else {
            return Some(own_pass());
        };
        let inner = self.inner();
        let now = inner.now();
        let spec = now.servers.upstream(server)?.spec();
        let label = label_of(&spec, now.catalog().is_open_world(server));
        let occasion = if is_awaited {
            Occasion::Awaited
        } else {
            Occasion::Unasked
        };
        self.noted(
            caller,
            server,
            inner.pass(&now.rules, caller, &spec, label, occasion).await,
        )
    }

    /// For words that were shown once and kept: asks everything anew, against the label as it is now. `None`: they must not be shown
    /// again.
    pub fn pass_kept(&self, caller: &Caller, source: &Source) -> Option<Pass> {
        let inner = self.inner();
        inner.hub.pass_kept(&inner.rules().contexts, caller, source)
    }

    /// How much a caller sees of servers' lists now.
    #[must_use]
    pub fn sight(&self, caller: &Caller) -> Sight {
        self.catalog().sight(caller)
    }

    /// Whether a caller is told that a list of a server changed.
    #[must_use]
    pub fn hears_of_list(&self, caller: &Caller, server: &ServerId, is_approved: bool) -> bool {
        self.inner().hub.hears_of_list(caller, server, is_approved)
    }

    /// The tools a caller may call by name, within a security context.
    #[must_use]
    pub fn callable(
        &self,
        sight: &Sight,
        context: Option<&str>,
        mount: Option<&ServerId>,
    ) -> Vec<Listed> {
        let now = self.inner().now();
        now.catalog()
            .callable(&now.rules.contexts, sight, context, mount)
    }

    /// The tools for files that a caller may call by name, as lists show them. An operator declared the volumes, so nothing else approves
    /// them.
    #[must_use]
    pub fn volume_tools(&self, caller: &Caller, context: Option<&str>) -> Vec<Bytes> {
        let now = self.inner().now();
        let rules = &now.rules;
        let supposed = context
            .filter(|_| caller.context().is_none())
            .map(|context| caller.supposed(Some(context), caller.agent_name(), caller.tenant()));
        let caller = supposed.as_ref().unwrap_or(caller);
        let is_listed = |tool: &&Tool| callable::lists_method(&rules.contexts, caller, tool.name);
        let on_web = now.web.iter().flat_map(|web| web.tools(caller));
        let tools = now.volumes.tools(caller).into_iter().chain(on_web);
        tools.filter(is_listed).map(shown_tool).collect()
    }

    /// Whether a caller's context lists what is no tool, by the name of its method.
    #[must_use]
    pub fn lists_method(&self, caller: &Caller, method: &str) -> bool {
        callable::lists_method(&self.inner().rules().contexts, caller, method)
    }

    /// Whether there is a security context of this name for a caller.
    #[must_use]
    pub fn has_context(&self, caller: &Caller, name: &str) -> bool {
        self.inner()
            .rules()
            .contexts
            .context(name)
            .is_some_and(|context| context.admits_tenant(caller.tenant()))
    }

    fn noted(
        &self,
        caller: &Caller,
        server: &ServerId,
        passed: Result<Pass, Withheld>,
    ) -> Option<Pass> {
        match passed {
            Ok(pass) => Some(pass),
            Err(withheld) => {
                self.inner().unheard.0.fetch_add(1, Ordering::Relaxed);
                match withheld {
                    Withheld::Unsaved(error) => {
                        tracing::error!(
                            error,
                            "a session's label could not be saved, so nothing is shown"
                        )
                    }
                    withheld => {
                        tracing::debug!(%server, caller = caller.id(), ?withheld, "words were withheld")
                    }
                }
                None
            }
        }
    }
}

fn shown_tool(tool: &'static Tool) -> Bytes {
    let mut out = Object::new();
    out.str("name", tool.name)
        .str("description", tool.says)
        .raw("inputSchema", &tool.input_schema())
        .object("annotations", |out| {
            let reads = tool.effect == Effect::Read;
            let is_idempotent = reads || matches!(tool.name, "fs.write" | "fs.create_dir");
            out.bool("readOnlyHint", reads)
                .bool("destructiveHint", !reads)
                .bool("idempotentHint", is_idempotent)
                .bool("openWorldHint", tool.is_open_world);
        });
    out.finish().into()
}
