//! Forms that change something: who sent them is proven here, what they ask for is an operation like any other.

use std::{collections::BTreeMap, sync::Arc};

use api::{Kind, Problem, Reason, Role, ask};
use console::Notice;
use gateway::{NotOpened, Proof};
use http::{HeaderValue, StatusCode, header, request::Parts};
use sha2::{Digest as _, Sha256};

use super::{COOKIE, Desk, Form, field, page, see, views};
use crate::{door::Door, reply::Reply};

/// Begins a visit, and leads to where the person was.
pub(super) fn log_in(door: &Arc<Door>, parts: &Parts, form: &Form) -> Reply {
    let key = match field(form, "key") {
        "" => Ok(None),
        text => unhex(text).map(Some).ok_or(NotOpened::BadKey),
    };
    let opened = key.and_then(|key| door.gate.open_visit(field(form, "code"), key.as_deref()));
    // Only a path of ours: the first sign after the slash makes another host of it.
    let again = Some(field(form, "again"))
        .filter(|path| path.starts_with('/') && !path.starts_with("//") && !path.contains('\\'))
        .unwrap_or("/");
    match opened {
        Ok((cookie, _)) => {
            let mut reply = see(again);
            let cookie = format!(
                "{COOKIE}={}; Path=/; Secure; HttpOnly; SameSite=Strict",
                cookie.expose()
            );
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                reply.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            reply
        }
        Err(error) => {
            let mut reply = page(parts, console::login(Some(error.sentence()), again));
            *reply.status_mut() = StatusCode::FORBIDDEN;
            reply
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) || text.len() > 512 {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

pub(super) async fn answer(desk: &Desk<'_>, form: &Form) -> Result<Reply, Problem> {
    if !desk.visitor.is_own_form(field(form, "form")) {
        return Err(not_opened(NotOpened::ForeignForm));
    }
    let path = desk.parts.uri.path().to_owned();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    // These two change nothing: they only take more with them than an address holds.
    match parts.as_slice() {
        ["policy"] => return views::policy(desk, field(form, "draft")).await,
        ["ledger"] => return views::ledger(desk, true).await,
        _ => {}
    }
    prove(desk, &path, form)?;
    let name = |text: &str| api::unescaped(text).ok_or_else(|| views::nothing(&path));
    match parts.as_slice() {
        ["logout"] => {
            desk.door.gate.close_visit(desk.visitor);
            let mut reply = page(desk.parts, console::logged_out());
            let all = HeaderValue::from_static("\"cookies\", \"storage\"");
            reply.headers_mut().insert("clear-site-data", all);
            Ok(reply)
        }
        ["approvals", id, "answer"] => approval(desk, &name(id)?, form).await,
        ["servers", id, act] => server(desk, &name(id)?, act, form).await,
        ["sessions", caller, "reset"] => session(desk, &name(caller)?, form).await,
        ["visits", id, "end"] => {
            let input = api::Reasoned::default();
            let ended = desk.ask(ask::EndVisit, &name(id)?, &input).await;
            views::visits(desk, Some(notice(ended.map(|done| done.detail)))).await
        }
        _ => Err(views::nothing(&path)),
    }
}

fn not_opened(error: NotOpened) -> Problem {
    Problem {
        kind: Kind::NotAllowed,
        code: "not_proven".into(),
        sentence: error.sentence().to_owned(),
        fix: String::new(),
    }
}

/// Whether this person's own browser signed the form, or the person typed a fresh code into it.
fn prove(desk: &Desk<'_>, path: &str, form: &Form) -> Result<(), Problem> {
    let code = field(form, "code");
    let signature = field(form, "_signature");
    let proven = if signature.is_empty() {
        if code.is_empty() {
            Err(NotOpened::Unsigned)
        } else {
            desk.door.gate.prove_visit(desk.visitor, Proof::Code(code))
        }
    } else {
        let at = field(form, "_at");
        let message = signed_text(path, form, at);
        match (unhex(signature), at.parse()) {
            (Some(signature), Ok(at_ms)) => {
                let proof = Proof::Signature {
                    message: message.as_bytes(),
                    signature: &signature,
                    at_ms,
                };
                desk.door.gate.prove_visit(desk.visitor, proof)
            }
            _ => Err(NotOpened::Unsigned),
        }
    };
    proven.map_err(not_opened)
}

/// What the browser signs: everything of the form but the signature itself.
fn signed_text(path: &str, form: &Form, at: &str) -> String {
    let mut text = String::new();
    for (name, value) in form.iter().filter(|(name, _)| !name.starts_with('_')) {
        for part in [name, value] {
            text.push_str(&part.replace("\r\n", "\n").replace('\r', "\n"));
            text.push('\0');
        }
    }
    let digest = Sha256::digest(text.as_bytes());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("portcullis-console\nPOST\n{path}\n{digest}\n{at}")
}

fn notice(outcome: Result<String, Problem>) -> Notice {
    match outcome {
        Ok(text) => Notice::Done(text),
        Err(problem) => Notice::Failed(problem.to_string()),
    }
}

fn reason(form: &Form) -> Result<Option<Reason>, Problem> {
    match field(form, "reason") {
        "" => Ok(None),
        text => Reason::try_from(text.to_owned())
            .map(Some)
            .map_err(Problem::invalid),
    }
}

fn must_reason(form: &Form) -> Result<api::MustReason, Problem> {
    let text = api::text(&BTreeMap::from([("reason", field(form, "reason"))]));
    api::read(&text)
}

async fn approval(desk: &Desk<'_>, id: &str, form: &Form) -> Result<Reply, Problem> {
    let shown = desk.ask(ask::ShowApproval, id, &api::Nothing {}).await?;
    let approve = match field(form, "answer") {
        "approve" => true,
        "deny" => false,
        _ => return Err(Problem::invalid("an answer is approve or deny")),
    };
    let refused = if console::approval_digest(&shown) != field(form, "seen") {
        Some("What is asked is not what was shown to you. Read it again, and answer then.")
    } else if approve && field(form, "read") != "yes" {
        Some("Approving needs that you have read to the end: tick the box below the text.")
    } else {
        None
    };
    if let Some(refused) = refused {
        let mut reply = views::approval(desk, id, Some(Notice::Failed(refused.to_owned()))).await?;
        *reply.status_mut() = StatusCode::CONFLICT;
        return Ok(reply);
    }
    let input = api::Reasoned {
        reason: reason(form)?,
    };
    let answered = match approve {
        true => {
            // A yes from here is for this call alone.
            let yes = api::Yes {
                reason: input.reason,
                lasts: false,
            };
            desk.ask(ask::Approve, id, &yes).await
        }
        false => desk.ask(ask::Deny, id, &input).await,
    };
    let told = answered.map(|approval| format!("{} — it is on record.", approval.state));
    views::approval(desk, id, Some(notice(told))).await
}

async fn server(desk: &Desk<'_>, id: &str, act: &str, form: &Form) -> Result<Reply, Problem> {
    let outcome = match act {
        "classify" => {
            let input = api::Classify {
                level: Some(field(form, "level").to_owned()),
                reason: reason(form)?,
                ..api::Classify::default()
            };
            let changed = desk.ask(ask::ClassifyServer, id, &input).await;
            changed.map(|change| format!("{} is {}", change.server, change.state))
        }
        "block" => {
            let changed = desk.ask(ask::BlockServer, id, &must_reason(form)?).await;
            changed.map(|change| format!("{} is {}", change.server, change.state))
        }
        "unblock" => {
            let input = api::Reasoned {
                reason: reason(form)?,
            };
            let changed = desk.ask(ask::UnblockServer, id, &input).await;
            changed.map(|change| format!("{} is {}", change.server, change.state))
        }
        "retry" => {
            let done = desk.ask(ask::RetryServer, id, &api::Nothing {}).await;
            done.map(|done| done.detail)
        }
        "approve" => return definitions(desk, id, form).await,
        _ => return Err(views::nothing(desk.parts.uri.path())),
    };
    views::server(desk, id, Some(notice(outcome))).await
}

/// Approves the definitions that were ticked, as they were shown.
async fn definitions(desk: &Desk<'_>, id: &str, form: &Form) -> Result<Reply, Problem> {
    let ticked = form.iter().filter(|(key, _)| key == "tick");
    let seen: BTreeMap<String, String> = ticked
        .filter_map(|(_, value)| value.rsplit_once(' '))
        .map(|(name, digest)| (name.to_owned(), digest.to_owned()))
        .collect();
    if seen.is_empty() {
        let text = "Nothing was ticked, so nothing was approved.".to_owned();
        return views::review(desk, id, Some(Notice::Failed(text))).await;
    }
    let input = api::ApproveDefinitions {
        names: Some(seen.keys().cloned().collect()),
        seen: Some(seen),
        reason: reason(form)?,
    };
    let approved = desk.ask(ask::ApproveDefinitions, id, &input).await;
    let told = approved.map(|approved| {
        format!(
            "{} definitions of {} are approved",
            approved.approved, approved.server
        )
    });
    views::review(desk, id, Some(notice(told))).await
}

async fn session(desk: &Desk<'_>, caller: &str, form: &Form) -> Result<Reply, Problem> {
    if !desk.may(Role::Operator) {
        return Err(Problem::needs_role(Role::Operator));
    }
    let sessions = desk.ask(ask::Sessions, "", &api::Nothing {}).await?;
    let named = sessions
        .iter()
        .any(|session| session.caller == caller && session.name == field(form, "name"));
    if !named {
        let text = "The name that was typed is not this caller's, so nothing was done.".to_owned();
        return views::session(desk, caller, Some(Notice::Failed(text))).await;
    }
    let reset = desk
        .ask(ask::ResetSession, caller, &must_reason(form)?)
        .await;
    let told = reset.map(|reset| {
        format!(
            "A new session has begun: {} has seen nothing. It had seen {}.",
            field(form, "name"),
            reset.was
        )
    });
    views::session(desk, caller, Some(notice(told))).await
}
