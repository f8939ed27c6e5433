//! `portcullis executions`: agents whose commands an executor runs.

use api::ask;
use home::Home;
use terminal::{Exit, Screen, Trouble, style::tame};

use crate::{
    args,
    line::{Line, reason},
    render,
};

pub fn run(verb: &args::Executions, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    match verb {
        args::Executions::List => {
            let all = line.ask(ask::Executions)?;
            screen.show(&all, &render::executions(&all, screen.style))?;
        }
        args::Executions::Show(args) => {
            let all = line.ask(ask::Executions)?;
            let found = all.iter().find(|execution| execution.id == args.id);
            let found = found.ok_or_else(|| {
                Trouble::failed(format!(
                    "there is no execution `{}`; `portcullis executions list` shows those there are",
                    args.id
                ))
            })?;
            screen.show(found, &render::execution(found))?;
        }
        args::Executions::Begin(args) => {
            let asked = api::BeginExecution {
                caller: args.caller.clone(),
                execution: args.execution.clone(),
                accepts: Some(args.accepts.clone()),
                closed: args.closed,
                ttl_seconds: args.ttl,
            };
            let begun = line.ask_for(ask::BeginExecution, "", &asked)?;
            let text = format!(
                "AEGIS_EXECUTION_ID={}\nAEGIS_DISPATCH_TOKEN={}\nAEGIS_ORCHESTRATOR_URL={}\n",
                tame(&begun.execution_id),
                tame(&begun.token),
                tame(begun.url.trim_end_matches("/v1/dispatch-gateway")),
            );
            screen.show(&begun, &text)?;
        }
        args::Executions::End(args) => {
            let why = api::Reasoned {
                reason: reason(args.reason.as_deref())?,
            };
            let answer = line.ask_for(ask::EndExecution, &args.id, &why)?;
            screen.show(&answer, &format!("{}\n", tame(&answer.detail)))?;
        }
    }
    Ok(Exit::Done)
}
