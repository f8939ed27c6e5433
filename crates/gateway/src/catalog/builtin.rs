//! The built-in tools as targets of calls. They are known, bounded and validated like every tool; a server that declares the capability serves
//! them. Where none does, nothing here executes them yet, and a call is refused with `ToolNotServed` once it was judged.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use vocab::{Level, ServerId};

use super::Target;
use crate::settings::{Access, Allow, Arrivals, ServerSpec, Standing, ToolRule, Transport};

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
    let tool = wire::builtin::find(name)?;
    let mut target = Target::unseen(Arc::clone(&SPEC), name);
    target.effect = tool.effect;
    target.is_open_world = tool.is_open_world;
    Some(Arc::new(target))
}
