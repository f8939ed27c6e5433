//! Every stage's verdict on a call, and what would have allowed it. Nothing is sent, counted or recorded.
//!
//! The call is a recorded one, by its id, or one that somebody imagines. It is explained against the rules and labels of now; what
//! was decided then stands beside it, from the ledger.

use std::sync::Arc;

use audit::{Filter, Record};
use bytes::Bytes;
use flow::Step;
use policy::Facts;
use vocab::{Mark, ServerId, Stage, Violation};
use wire::{Json, Limits, write::Object};

use crate::{
    Action, Ask, Caller, ClientFace, Door, Era, Gate, Proof,
    call::{self, Case, Received, SoFar},
    catalog::{Found, Target},
    meters::Peek,
};

/// A question about one call.
struct Imagined {
    ask: Ask,
    recorded: Option<Record>,
    remark: Option<&'static str>,
}

pub(crate) fn explain(gate: &Gate, question: Json<'_>) -> Result<Vec<u8>, String> {
    let imagined = match question.get("call").and_then(Json::as_str) {
        Some(call) => recorded(gate, &call)?,
        None => imagined(gate, question)?,
    };
    let ask = &imagined.ask;
    let received = call::receive(ask).map_err(|violation| violation.public())?;
    let target = look_up(gate, ask, &received)?;
    let rules = gate.inner().rules();
    let step = Step::new("explained", ask.caller.session());
    let so_far = ask.caller.signed().map_or_else(SoFar::default, |session| session.so_far(&call::counted_as(&target)));
    let case = Case { gate: gate.inner(), ask, step: &step, rules: &rules, so_far };
    let label = ask.caller.session().mark();
    let findings = call::find(case, &target);
    let names = call::NamesOf::new(&case, &received, &target);
    let others = names.others();
    let boundary = call::boundary(case, &received, &target, names.asked(), &others).map_err(|violation| violation.public())?;
    let meters = call::meters(&ask.caller, &target, boundary.as_ref());
    let peek = Peek(&meters);
    let asked = (names.asked(), boundary.as_ref());
    let facts = findings.facts(&target, &received, asked, rules.untrusted_influence, &peek);
    let mut page = Page::default();
    page.add(Stage::Verify, "credential_in_force", verdict(ask.caller.is_active()), "", "");
    page.add(Stage::Resolve, "name_known", "ok", &format!("`{}` of server `{}`", target.name, target.spec.id), "");
    page.checks(&facts, label, &imagined);
    page.bundle(&case, &received, &target, label);
    Ok(page.finish(&imagined, &target, label))
}

const fn verdict(is_ok: bool) -> &'static str {
    if is_ok { "ok" } else { "refused" }
}

fn look_up(gate: &Gate, ask: &Ask, received: &Received<'_>) -> Result<Arc<Target>, String> {
    match call::look_up(gate.inner(), ask, received).map_err(|violation| violation.public())? {
        Found::Target(target) => Ok(target),
        Found::NotYet(spec) => Ok(Arc::new(Target::unseen(spec, received.address.text()))),
        Found::Nothing => Err(format!("Resolve: `{}` is not in the catalog", audit::printable(received.address.text()))),
    }
}

fn imagined(gate: &Gate, question: Json<'_>) -> Result<Imagined, String> {
    let text = |key: &str| question.get(key).and_then(Json::as_str);
    let tool = text("tool").ok_or("say which call: `call` with its id, or `tool`, `arguments` and `caller`")?;
    let caller = text("caller").ok_or("say who would call: `caller` is a credential's id or name, or an execution")?;
    let found = gate.find_caller(&caller).or_else(|| gate.inner().signed.latest(&caller));
    let caller = found.ok_or_else(|| format!("there is no caller and no execution `{caller}`"))?;
    let arguments = question.get("arguments").map_or(&b"{}"[..], Json::as_bytes);
    Ok(Imagined { ask: ask(caller, None, Action::CallTool, &tool, arguments), recorded: None, remark: None })
}

fn recorded(gate: &Gate, call: &str) -> Result<Imagined, String> {
    let dir = gate.ledger().dir().to_owned();
    let records = audit::read(&dir, Filter { call: call.to_owned(), ..Filter::default() }).map_err(|error| error.to_string())?;
    let last = records.filter_map(Result::ok).last();
    let record = last.ok_or_else(|| format!("the ledger has no call `{call}`"))?;
    let action = Action::from_method(&record.action).ok_or_else(|| format!("`{}` is not a call", record.action))?;
    let caller = match record.execution.as_str() {
        "" => gate.find_caller(&record.caller),
        execution => gate.inner().signed.latest(execution),
    };
    let caller = caller.ok_or_else(|| format!("the credential `{}` is not in force any more", record.caller))?;
    let server = ServerId::parse(&record.server).map_err(|_| "the call never got as far as a server".to_owned())?;
    let body = audit::body(&dir, call).map_err(|error| error.to_string())?.bytes();
    let remark = body.is_none().then_some("its arguments were not kept, so it is explained without them");
    let body = body.filter(|body| Json::parse(body, Limits::new(1 << 20, 128)).is_ok());
    let (mount, name) = match record.target.as_str() {
        "" => (Some(server), &record.tool),
        // By the name that was used: lists of tools may have that one and not the other.
        _ => (None, &record.target),
    };
    let ask = ask(caller, mount, action, name, body.as_deref().unwrap_or(b"{}"));
    Ok(Imagined { ask, recorded: Some(record), remark })
}

fn ask(caller: Caller, mount: Option<ServerId>, action: Action, name: &str, arguments: &[u8]) -> Ask {
    let mut params = Object::new();
    match action {
        Action::ReadResource | Action::Subscribe | Action::Unsubscribe => params.str("uri", name),
        Action::TaskGet | Action::TaskUpdate | Action::TaskCancel | Action::TaskResult => params.str("taskId", name),
        Action::Complete => params.object("ref", |out| {
            out.str("type", "ref/prompt").str("name", name);
        }),
        Action::CallTool | Action::GetPrompt | Action::TaskList => params.str("name", name),
    };
    params.raw("arguments", arguments);
    let client = ClientFace { era: Era::Modern, capabilities: Bytes::from_static(b"{}"), log: None, progress: false };
    let params = params.finish().into();
    Ask { caller, door: Door::Cli, mount, session: "explain".into(), proof: Proof::Bearer, action, params, client }
}

/// The page as it grows: one row per check, under its stage.
#[derive(Default)]
struct Page {
    rows: Vec<(Stage, Vec<u8>)>,
    /// The first word that is not yes: `refused` or `ask`.
    verdict: Option<&'static str>,
}

impl Page {
    fn add(&mut self, stage: Stage, name: &str, verdict: &'static str, detail: &str, fix: &str) {
        match (verdict, self.verdict) {
            ("refused", None | Some("ask")) => self.verdict = Some("refused"),
            ("ask", None) => self.verdict = Some("ask"),
            _ => {}
        }
        let mut out = Object::new();
        out.str("name", name).str("verdict", verdict);
        if !detail.is_empty() {
            out.str("detail", detail);
        }
        if !fix.is_empty() {
            out.str("fix", fix);
        }
        self.rows.push((stage, out.finish()));
    }

    /// The detail of a violation ends in what would have allowed the call, after the semicolon.
    fn refused(&mut self, stage: Stage, name: &str, violation: &Violation) {
        let (detail, fix) = violation.detail.rsplit_once("; ").unwrap_or((&violation.detail, ""));
        self.add(stage, name, "refused", detail, fix);
    }

    fn checks(&mut self, facts: &Facts<'_>, label: Mark, imagined: &Imagined) {
        let session = imagined.ask.caller.session();
        let checks: Vec<_> = policy::findings(facts, label).collect();
        for stage in [Stage::Admit, Stage::Bound, Stage::Weigh, Stage::Shape] {
            if stage == Stage::Weigh {
                match policy::weigh(facts, |ceiling| session.weigh(ceiling)) {
                    Err(violation) => self.refused(stage, "no_write_down", &violation),
                    Ok(weighed) if weighed.asks() => {
                        self.add(stage, "no_write_down", "ok", "", "");
                        let fix = "`effect: read` for the tool, or `untrusted_influence: off`, would not ask";
                        self.add(stage, "untrusted_influence", "ask", "the session has read untrusted data", fix);
                    }
                    Ok(_) => self.add(stage, "no_write_down", "ok", &format!("the session's label is {label}"), ""),
                }
            }
            for (check, found) in checks.iter().filter(|(check, _)| check.stage == stage) {
                match found {
                    _ if stage == Stage::Shape && imagined.remark.is_some() => {
                        self.add(stage, check.name, "skipped", imagined.remark.unwrap_or_default(), "");
                    }
                    Ok(()) => self.add(stage, check.name, "ok", check.says, ""),
                    Err(violation) => self.refused(stage, check.name, violation),
                }
            }
        }
    }

    fn bundle(&mut self, case: &Case<'_>, received: &Received<'_>, target: &Target, label: Mark) {
        let mut question = call::question(case, received, target);
        question.label = label;
        let bundle = &case.rules.bundle;
        let decision = bundle.decide(&question);
        let notes: Vec<String> = decision
            .notes()
            .iter()
            .map(|note| match &note.operator {
                Some(text) => format!("policy `{}`: {text}", note.policy),
                None => format!("policy `{}`", note.policy),
            })
            .collect();
        let word = match decision.as_str() {
            "block" => "refused",
            "ask" => "ask",
            _ => "ok",
        };
        let detail = match notes.is_empty() {
            true => format!("bundle {} allows it", bundle.version()),
            false => format!("bundle {}: {} ({})", bundle.version(), decision.as_str(), notes.join("; ")),
        };
        let fix = match word {
            "ok" => String::new(),
            _ => bundle.explain(&question).would_allow.join("; "),
        };
        self.add(Stage::Judge, "bundle", word, &detail, &fix);
    }

    fn finish(self, imagined: &Imagined, target: &Target, label: Mark) -> Vec<u8> {
        let mut out = Object::new();
        out.str("verdict", self.verdict.unwrap_or("ok")).str("tool", &format!("{}__{}", target.spec.id, target.name));
        out.str("caller", imagined.ask.caller.id()).str("label", &label.to_string()).str("effect", target.effect.as_str());
        let arguments = Json::checked_before(&imagined.ask.params).get("arguments").map_or("{}", Json::text);
        out.str("arguments", &audit::printable(arguments));
        if let Some(record) = &imagined.recorded {
            out.object("recorded", |out| {
                out.str("call", &record.call).str("time", &record.time).str("verdict", &record.verdict);
                out.str("stage", &record.stage).str("violation", &record.violation).str("detail", &record.detail);
                out.str("label", &record.label).str("bundle", &record.bundle);
            });
        }
        if let Some(remark) = imagined.remark {
            out.str("remark", remark);
        }
        let mut stages: Vec<Vec<u8>> = Vec::new();
        for stage in Stage::ALL {
            let rows: Vec<Vec<u8>> = self.rows.iter().filter(|(of, _)| *of == stage).map(|(_, row)| row.clone()).collect();
            if !rows.is_empty() {
                let mut out = Object::new();
                out.str("stage", stage.as_str()).raw("checks", &[b"[", rows.join(&b","[..]).as_slice(), b"]"].concat());
                stages.push(out.finish());
            }
        }
        out.raw("stages", &[b"[", stages.join(&b","[..]).as_slice(), b"]"].concat());
        out.finish()
    }
}
