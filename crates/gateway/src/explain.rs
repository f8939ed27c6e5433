//! Every stage's verdict on a call, and what would have allowed it. Nothing is sent, counted or recorded.
//!
//! The call is a recorded one, by its id, or one that somebody imagines. It is explained against the rules and labels of now, under the
//! name that was asked for and in the session, context and agent that asked; what was decided then stands beside it, from the ledger.

mod page;

use std::sync::Arc;

use audit::{Filter, Record};
use callers::{ForGate, meters::SoFar};
use calls::{
    receive::{Received, receive},
    sent::parameters_of,
};
use flow::Step;
use upstreams::{
    catalog::{Found, Target, builtin},
    names::counted_as,
};
use vocab::{ServerId, Stage};
use wire::{Json, Limits, write::Object};

use crate::{
    Action, CallRequest, Caller, Door, Gate, Origin,
    call::{self, Case, Count},
    gate::InForce,
};
use page::Page;

/// Said where the session of a call is not in memory any more.
const FORGOTTEN: &str =
    "its session is forgotten, so it is explained without what that was opened for and had used up";

/// A question about one call.
struct Imagined {
    request: CallRequest,
    recorded: Option<Record>,
    /// What it is explained without.
    remark: Option<&'static str>,
    has_arguments: bool,
    /// Whether it comes from a session of signed calls, in force or not.
    is_signed: bool,
}

pub(crate) fn explain(gate: &Gate, question: Json<'_>) -> Result<api::Explanation, String> {
    let imagined = match question.get("call").and_then(Json::as_str) {
        Some(call) => match recorded(gate, &call)? {
            Recorded::Call(imagined) => *imagined,
            Recorded::Unjudgeable(page) => return Ok(*page),
        },
        None => imagined(gate, question)?,
    };
    judge(gate, &imagined)
}

fn judge(gate: &Gate, imagined: &Imagined) -> Result<api::Explanation, String> {
    let request = &imagined.request;
    let received = receive(request).map_err(|violation| violation.public())?;
    let mut page = Page::default();
    let now = &gate.inner().now();
    match now.admits(&request.caller, gate.inner().now_ms()) {
        Ok(()) => page.add(Stage::Verify, "credential_in_force", "ok", "", ""),
        Err(violation) => page.refused(Stage::Verify, "credential_in_force", &violation),
    }
    let label = request.caller.session().mark();
    let Some(target) = look_up(gate, now, imagined, &received)? else {
        let asked = audit::printable(received.address.text());
        let fix =
            "a server that offers it, or declares it among its `capabilities`, would be asked";
        page.add(
            Stage::Resolve,
            "name_known",
            "refused",
            &format!("`{asked}` is not in the catalog"),
            fix,
        );
        return Ok(page.finish(imagined, None, label));
    };
    page.add(
        Stage::Resolve,
        "name_known",
        "ok",
        &format!("`{}` of server `{}`", target.name, target.spec.id),
        "",
    );
    let step = Step::new("explained", request.caller.session());
    let so_far = request
        .caller
        .signed()
        .map_or_else(SoFar::default, |session| {
            session.so_far(&counted_as(&target))
        });
    let case = Case::new(gate.inner(), request, &step, now, so_far);
    let explained = call::gather(case, &received, &target, Count::Once, |gathered| {
        page.checks(gathered, label, imagined);
        page.bundle(
            &case,
            call::question(&case, &received, &target, gathered),
            label,
        );
        Ok(())
    });
    explained.map_err(|violation| violation.public())?;
    Ok(page.finish(imagined, Some(&target), label))
}

fn look_up(
    gate: &Gate,
    now: &InForce,
    imagined: &Imagined,
    received: &Received<'_>,
) -> Result<Option<Arc<Target>>, String> {
    let found = call::look_up(gate.inner(), now, &imagined.request, received)
        .map_err(|violation| violation.public())?;
    Ok(match found {
        Found::Target(target) => Some(target),
        Found::NotYet(spec) => Some(Arc::new(Target::unseen(spec, received.address.text()))),
        // Those who sign know the gate's own tools, also when their session is over.
        Found::Nothing if imagined.is_signed => builtin::find(received.address.text()),
        Found::Nothing => None,
    })
}

fn imagined(gate: &Gate, question: Json<'_>) -> Result<Imagined, String> {
    let text = |key: &str| question.get(key).and_then(Json::as_str);
    let tool = text("tool").ok_or(
        "say which call: `call` with its id, or `tool`, `arguments` and `caller` or `context`",
    )?;
    let (context, agent) = (text("context"), text("agent"));
    let caller = match (text("caller"), &context) {
        (Some(caller), _) => {
            let found = gate
                .find_caller(&caller)
                .or_else(|| gate.inner().signed.latest(&caller));
            found.ok_or_else(|| format!("there is no caller and no execution `{caller}`"))?
        }
        (None, Some(_)) => gate.inner().callers.nobody(),
        (None, None) => {
            return Err(
                "say who would call: `caller` is a credential's id or name, or an execution; or say in which `context`".into()
            );
        }
    };
    let is_signed = context.is_some() || caller.signed().is_some();
    let rules = gate.inner().rules();
    let mut tenant = caller.tenant().map(str::to_owned);
    if let Some(name) = &context {
        let known = rules
            .contexts
            .context(name)
            .ok_or_else(|| format!("there is no security context `{name}`"))?;
        tenant = tenant.or_else(|| known.tenant.clone());
    }
    let caller = match (&context, &agent) {
        (None, None) => caller,
        _ => caller.supposed(context.as_deref(), agent.as_deref(), tenant.as_deref()),
    };
    let arguments = question.get("arguments").map_or(&b"{}"[..], Json::as_bytes);
    Ok(Imagined {
        request: request_for(caller, None, Action::CallTool, &tool, arguments),
        recorded: None,
        remark: None,
        has_arguments: true,
        is_signed,
    })
}

/// What there is to say of a recorded call.
enum Recorded {
    Call(Box<Imagined>),
    /// It ended before it was a call that rules could judge: the record says why, and that is all.
    Unjudgeable(Box<api::Explanation>),
}

fn recorded(gate: &Gate, call: &str) -> Result<Recorded, String> {
    let dir = gate.ledger().dir().to_owned();
    let records = audit::read(
        &dir,
        Filter {
            call: call.to_owned(),
            ..Filter::default()
        },
    )
    .map_err(|error| error.to_string())?;
    // A reset of its session, or the erasing of its arguments, names a call too.
    let last = records
        .filter_map(Result::ok)
        .filter(Record::is_of_a_call)
        .last();
    let record = last.ok_or_else(|| format!("the ledger has no call `{call}`"))?;
    let action = Action::from_method(&record.action)
        .ok_or_else(|| format!("`{}` is not a call", record.action))?;
    if record.server.is_empty() && record.tool.is_empty() {
        return Ok(Recorded::Unjudgeable(Box::new(Page::of_record(&record))));
    }
    let (caller, mut remark) = who_called(gate, &record)?;
    let body = audit::body(&dir, call)
        .map_err(|error| error.to_string())?
        .bytes();
    let has_arguments = body.is_some();
    if !has_arguments {
        remark = Some("its arguments were not kept, so it is explained without them");
    }
    let body = body.filter(|body| Json::parse(body, Limits::new(1 << 20, 128)).is_ok());
    let (mount, name) = match (record.target.as_str(), ServerId::parse(&record.server)) {
        ("", Ok(server)) => (Some(server), &record.tool),
        // The gate's own tools, and names that lead nowhere.
        ("", Err(_)) => (None, &record.tool),
        // By the name that was used: lists of tools may have that one and not the other.
        _ => (None, &record.target),
    };
    let request = request_for(
        caller,
        mount,
        action,
        name,
        body.as_deref().unwrap_or(b"{}"),
    );
    let is_signed = !record.execution.is_empty();
    Ok(Recorded::Call(Box::new(Imagined {
        request,
        recorded: Some(record),
        remark,
        has_arguments,
        is_signed,
    })))
}

/// Who made a call, as they are now: its own session, or what that session was, where it has been forgotten.
fn who_called(gate: &Gate, record: &Record) -> Result<(Caller, Option<&'static str>), String> {
    let gone = || {
        format!(
            "the credential `{}` is not in force any more",
            record.caller
        )
    };
    if record.execution.is_empty() {
        return Ok((gate.find_caller(&record.caller).ok_or_else(gone)?, None));
    }
    let of_session = |caller: &Caller| {
        caller.signed().is_some_and(|session| {
            record.session.strip_prefix("seal:") == Some(session.id.as_str())
        })
    };
    if let Some(caller) = gate.inner().signed.all().into_iter().find(of_session) {
        return Ok((caller, None));
    }
    let owner = gate
        .find_caller(&record.caller)
        .unwrap_or_else(|| gate.inner().callers.nobody());
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let (context, agent, tenant) = (
        given(&record.context),
        given(&record.agent),
        given(&record.tenant),
    );
    let caller = owner.supposed(context.as_deref(), agent.as_deref(), tenant.as_deref());
    Ok((caller, Some(FORGOTTEN)))
}

fn request_for(
    caller: Caller,
    mount: Option<ServerId>,
    action: Action,
    name: &str,
    arguments: &[u8],
) -> CallRequest {
    let address = |params: &mut Object| {
        match action {
            Action::ReadResource | Action::Subscribe | Action::Unsubscribe => {
                params.str("uri", name)
            }
            Action::TaskGet | Action::TaskUpdate | Action::TaskCancel | Action::TaskResult => {
                params.str("taskId", name)
            }
            Action::Complete => params.object("ref", |out| {
                out.str("type", "ref/prompt").str("name", name);
            }),
            Action::CallTool | Action::GetPrompt => params.str("name", name),
        };
    };
    let params = parameters_of(action, Json::checked_before(arguments), address);
    let params = params.into();
    CallRequest {
        caller,
        door: Door::Cli,
        mount,
        lane: "explain".into(),
        origin: Origin::Operator,
        action,
        params,
    }
}
