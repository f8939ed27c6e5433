//! The built-in tools as targets of calls. They are known, bounded and validated like every tool; a server that declares the capability
//! serves them. Where none does and the gate does not either, a call is refused with `ToolNotServed` once it was judged.

use std::{sync::Arc, time::Duration};

use callers::meters::Metered;
use policy::Budget;
use vocab::{Effect, Level, ServerId};
use wire::builtin::{self, Executor, Tool};

use super::Target;
use crate::{executions::Execution, pins, route::Route, settings::TargetSpec};

/// What one call of the gate's own tools may cost.
const BUDGET: Budget = Budget {
    time: Duration::from_secs(60),
    result_bytes: 1 << 20,
};

/// What one command may cost at most; the ceilings of its context are lower. Its output is printed twice, and a byte of it may become six.
const COMMAND_BUDGET: Budget = Budget {
    time: Duration::from_secs(3600),
    result_bytes: 16 << 20,
};

/// What one call on a volume may cost. Text is told twice: for clients that read structured content, and for those that do not.
const ON_VOLUME: Budget = Budget {
    time: Duration::from_secs(60),
    result_bytes: 16 << 20,
};

/// What one look at the world may cost. An image travels as text, a third longer than it is.
const ON_WEB: Budget = Budget {
    time: Duration::from_secs(120),
    result_bytes: 16 << 20,
};

/// The built-in tool of this name, if there is one.
pub fn find(name: &str) -> Option<Arc<Target>> {
    let tool = builtin::find(name)?;
    let budget = match tool.executor {
        Executor::Command => COMMAND_BUDGET,
        _ => BUDGET,
    };
    let spec = terms(tool.ceiling, budget);
    Some(Arc::new(target(tool, name, Route::to(tool.executor), spec)))
}

/// The same for a tool that is executed on a volume which may hold no more than `ceiling`. Who only looks leaves nothing there.
pub fn on_volume(name: &str, ceiling: Level) -> Option<Arc<Target>> {
    let tool = builtin::find(name).filter(|tool| tool.executor == Executor::Volume)?;
    let ceiling = match tool.effect {
        Effect::Read => Level::Restricted,
        Effect::Consequential => ceiling,
    };
    let spec = terms(ceiling, ON_VOLUME);
    Some(Arc::new(target(tool, name, Some(Route::Volume), spec)))
}

/// The same for a tool that looks at the world, where an operator lets it. One that keeps what it found changes something.
pub fn on_web(name: &str, keeps: bool) -> Option<Arc<Target>> {
    let tool = builtin::find(name).filter(|tool| tool.executor == Executor::Web)?;
    let found = target(tool, name, Some(Route::Web), terms(tool.ceiling, ON_WEB));
    Some(Arc::new(Target {
        effect: if keeps {
            Effect::Consequential
        } else {
            found.effect
        },
        ..found
    }))
}

/// The same for commands that run in a volume which may hold no more than `ceiling`.
pub fn in_volume(name: &str, ceiling: Level) -> Option<Arc<Target>> {
    let tool = builtin::find(name).filter(|tool| tool.executor == Executor::Command)?;
    let spec = terms(tool.ceiling.min(ceiling), COMMAND_BUDGET);
    Some(Arc::new(target(tool, name, Some(Route::Command), spec)))
}

/// The same where an executor runs it: what may be sent there, and whether its results may be anyone's words, is the execution's to say.
pub fn at(execution: &Arc<Execution>, name: &str) -> Option<Arc<Target>> {
    let tool = builtin::find(name).filter(|tool| tool.executor == Executor::Command)?;
    let saved = execution.saved();
    let spec = TargetSpec {
        accepts: Some(saved.accepts.min(tool.ceiling)),
        ..terms(tool.ceiling, COMMAND_BUDGET)
    };
    let route = Route::Execution(Arc::clone(execution));
    Some(Arc::new(Target {
        is_open_world: tool.is_open_world || !saved.is_closed,
        ..target(tool, name, Some(route), spec)
    }))
}

fn target(tool: &Tool, name: &str, route: Option<Route>, spec: TargetSpec) -> Target {
    Target {
        spec: Arc::new(spec),
        route,
        name: name.to_owned(),
        era: None,
        header_params: Vec::new(),
        definition: None,
        is_typed: !tool.output.is_empty(),
        standing: pins::Standing::Approved,
        effect: tool.effect,
        is_open_world: tool.is_open_world,
        meters: Metered::default(),
        is_absent: false,
    }
}

/// Everybody may use it, within the context that bounds them.
fn terms(ceiling: Level, budget: Budget) -> TargetSpec {
    TargetSpec {
        classification: Some(ceiling),
        injection_scan: false,
        ..TargetSpec::new(ServerId::built_in(), budget)
    }
}
