//! Names of the built-in tools. They are known, bounded and validated like every tool; a server that declares the capability serves
//! them. Where none does, nothing here executes them yet, and a call is refused with `ToolNotServed` once it was judged.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use vocab::{Effect, Level, ServerId};

use super::Target;
use crate::settings::{Access, Allow, Arrivals, ServerSpec, Standing, ToolRule, Transport};

const READS: [&str; 34] = [
    "aegis.agent.export",
    "aegis.agent.list",
    "aegis.agent.logs",
    "aegis.agent.search",
    "aegis.agent.wait",
    "aegis.execute.status",
    "aegis.execute.wait",
    "aegis.runtime.list",
    "aegis.schema.get",
    "aegis.schema.validate",
    "aegis.system.config",
    "aegis.system.info",
    "aegis.task.list",
    "aegis.task.logs",
    "aegis.task.status",
    "aegis.task.wait",
    "aegis.tools.list",
    "aegis.tools.search",
    "aegis.workflow.executions.get",
    "aegis.workflow.executions.list",
    "aegis.workflow.export",
    "aegis.workflow.list",
    "aegis.workflow.logs",
    "aegis.workflow.search",
    "aegis.workflow.status",
    "aegis.workflow.validate",
    "aegis.workflow.wait",
    "email.read",
    "fs.glob",
    "fs.grep",
    "fs.list",
    "fs.read",
    "web.fetch",
    "web.search",
];

const ACTS: [&str; 28] = [
    "aegis.agent.create",
    "aegis.agent.delete",
    "aegis.agent.generate",
    "aegis.agent.update",
    "aegis.execute",
    "aegis.execute.intent",
    "aegis.task.cancel",
    "aegis.task.execute",
    "aegis.task.remove",
    "aegis.workflow.cancel",
    "aegis.workflow.create",
    "aegis.workflow.delete",
    "aegis.workflow.demote",
    "aegis.workflow.generate",
    "aegis.workflow.promote",
    "aegis.workflow.remove",
    "aegis.workflow.run",
    "aegis.workflow.signal",
    "aegis.workflow.update",
    "cmd.run",
    "email.send",
    "fs.create",
    "fs.create.dir",
    "fs.create_dir",
    "fs.delete",
    "fs.edit",
    "fs.multi_edit",
    "fs.write",
];

static SPEC: LazyLock<Arc<ServerSpec>> = LazyLock::new(|| {
    Arc::new(ServerSpec {
        id: ServerId::built_in(),
        transport: Transport::Nothing,
        // In-house, as far as anything can be said of what nothing executes.
        classification: Some(Level::Confidential),
        blocked: None,
        standing: Standing::Skipped("built in".to_owned()),
        timeout: Duration::from_secs(60),
        max_result_bytes: 1 << 20,
        access: Access::default(),
        rate: None,
        default_rule: ToolRule::default(),
        rules: BTreeMap::new(),
        open_world: None,
        injection_scan: false,
        redact_results: true,
        new_definitions: Arrivals::Quarantine,
        narrowed_definitions: Arrivals::Quarantine,
        recheck: Duration::MAX,
        health: None,
        allow: Allow {
            sampling: false,
            roots: false,
            elicitation: false,
        },
        capabilities: Vec::new(),
        tenant: None,
    })
});

/// The built-in tool of this name, if there is one.
pub(crate) fn find(name: &str) -> Option<Arc<Target>> {
    let effect = if READS.contains(&name) {
        Effect::Read
    } else if ACTS.contains(&name) {
        Effect::Consequential
    } else {
        return None;
    };
    let mut target = Target::unseen(Arc::clone(&SPEC), name);
    target.effect = effect;
    // What comes from the web or by mail may be anyone's words.
    target.is_open_world = name.starts_with("web.") || name.starts_with("email.");
    Some(Arc::new(target))
}
