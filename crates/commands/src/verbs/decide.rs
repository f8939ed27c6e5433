//! `servers review|approve`, `session`, `approvals`, `policy explain`: what a person decides, carried to the gate as the operator.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    time::{SystemTime, UNIX_EPOCH},
};

use api::ask;
use config::finding::nearest;
use home::{Home, tokens};
use serde_json::{Value, json};
use terminal::{Exit, Screen, Trouble, style::tame};

use crate::{
    args,
    line::{Line, reason},
    render,
    verbs::{lineage, servers},
};

/// How many of the results a session has read are shown with it.
const RECENT: usize = 10;
/// And with an approval, which is decided by them.
const MOST_READ: usize = 100;

/// The edits that a running gate makes itself, so that it records who and why. `None`: it is another verb, or no gate runs.
pub fn change_server(
    verb: &args::Servers,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Option<Exit>, Trouble> {
    let id = match verb {
        args::Servers::Classify(args) => &args.id,
        args::Servers::Add(args) => &args.id,
        args::Servers::Block(args) => &args.id,
        args::Servers::Unblock(args) => &args.id,
        _ => return Ok(None),
    };
    let mut line = match Line::as_operator(home) {
        Ok(line) => line,
        Err(trouble) if trouble.exit == Exit::NotRunning => return Ok(None),
        Err(trouble) => return Err(trouble),
    };
    if let args::Servers::Add(args) = verb {
        return servers::add(args, &mut line, home, screen).map(Some);
    }
    known_server(&mut line, id)?;
    if let args::Servers::Classify(args) = verb {
        return servers::classify(args, &mut line, home, screen).map(Some);
    }
    let done = match verb {
        args::Servers::Block(args) => {
            let reason = reason(Some(&args.reason))?;
            line.ask_for(ask::BlockServer, id, &api::MustReason { reason })?;
            "blocked"
        }
        args::Servers::Unblock(args) => {
            let reason = reason(args.reason.as_deref())?;
            line.ask_for(ask::UnblockServer, id, &api::Reasoned { reason })?;
            "unblocked"
        }
        _ => return Ok(None),
    };
    let file = home.config_file();
    screen.show(
        &json!({ "server": id, "done": done, "file": file }),
        &format!("Server {id} {done} in {}.\n", file.display()),
    )?;
    Ok(Some(Exit::Done))
}

/// An id goes into a path, so it is looked up first; that also gives a better answer than "method not found".
pub(super) fn known_server(line: &mut Line, id: &str) -> Result<(), Trouble> {
    let servers = line.ask(ask::Servers)?;
    if servers.iter().any(|server| server.id == id) {
        return Ok(());
    }
    let hint = nearest(id, servers.iter().map(|server| server.id.as_str()));
    let hint = hint
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default();
    Err(Trouble::usage(format!("there is no server `{id}`{hint}")))
}

pub fn review(args: &args::Review, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let (mut line, id) = (Line::as_operator(home)?, &args.id);
    known_server(&mut line, id)?;
    let mut review = line.ask_for(ask::Definitions, id, &api::Nothing {})?;
    for name in &args.names {
        let names = || {
            review
                .definitions
                .iter()
                .map(|definition| definition.name.as_str())
        };
        if !names().any(|known| known == name) {
            let hint = nearest(name, names())
                .map(|near| format!("; did you mean `{near}`?"))
                .unwrap_or_default();
            return Err(Trouble::usage(format!("`{id}` has no `{name}`{hint}")));
        }
    }
    let extent = if args.names.is_empty() {
        render::Extent::Overview
    } else {
        render::Extent::Full
    };
    review
        .definitions
        .retain(|definition| args.names.is_empty() || args.names.contains(&definition.name));
    screen.show(&review, &render::review(&review, extent, screen.style))?;
    Ok(Exit::Done)
}

pub fn approve_definitions(
    args: &args::ApproveDefinitions,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    known_server(&mut line, &args.id)?;
    let approve = api::ApproveDefinitions {
        names: Some(args.names.clone()),
        seen: None,
        reason: reason(args.reason.as_deref())?,
    };
    let answer = line.ask_for(ask::ApproveDefinitions, &args.id, &approve)?;
    let text = match answer.approved {
        0 => format!("No definition of {} is waiting for approval.\n", args.id),
        1 => format!("Approved one definition of {}, as it is now.\n", args.id),
        count => format!(
            "Approved {count} definitions of {}, as they are now.\n",
            args.id
        ),
    };
    screen.show(&answer, &text)?;
    Ok(Exit::Done)
}

pub fn session(
    verb: &args::Session,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    let sessions = line.ask(ask::Sessions)?;
    match verb {
        args::Session::Show(args::SessionShow { caller: None }) => {
            screen.show(&sessions, &render::sessions(&sessions, screen.style))?;
        }
        args::Session::Show(args::SessionShow {
            caller: Some(caller),
        }) => {
            let session = one_session(&sessions, caller)?;
            let read = match session.head() {
                Some(head) => lineage::read_by(home, head, RECENT)?,
                None => Vec::new(),
            };
            let text =
                render::session(session, screen.style) + &lineage::render_read(&read, screen.style);
            screen.show(&json!({ "session": session, "read": read }), &text)?;
        }
        args::Session::Reset(args) => {
            let session = one_session(&sessions, &args.caller)?;
            if !args.yes && !confirmed(session)? {
                return Err(Trouble::failed("nothing was changed"));
            }
            let reason = reason(Some(&args.reason))?;
            let reset = api::MustReason { reason };
            let answer = line.ask_for(ask::ResetSession, &session.caller, &reset)?;
            let text = format!(
                "{} begins a new session: it has seen nothing.\n",
                tame(&session.name)
            );
            screen.show(&answer, &text)?;
        }
    }
    Ok(Exit::Done)
}

fn one_session<'a>(
    sessions: &'a [api::Session],
    caller: &str,
) -> Result<&'a api::Session, Trouble> {
    if let Some(session) = sessions.iter().find(|session| session.caller == caller) {
        return Ok(session);
    }
    let named: Vec<&api::Session> = sessions
        .iter()
        .filter(|session| session.name == caller)
        .collect();
    match named.as_slice() {
        [session] => Ok(session),
        [] => {
            let hint = nearest(caller, sessions.iter().map(|session| session.name.as_str()));
            let hint = hint
                .map(|name| format!("; did you mean `{name}`?"))
                .unwrap_or_default();
            Err(Trouble::usage(format!("no caller `{caller}`{hint}")))
        }
        _ => Err(Trouble::usage(format!(
            "several callers are called `{caller}`; name it by its id"
        ))),
    }
}

/// Asks back on a terminal. Anywhere else nobody could answer, so the option must have been given.
fn confirmed(session: &api::Session) -> Result<bool, Trouble> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(Trouble::usage(
            "this lets the caller's next calls go where its last ones could not; say --yes if you mean it",
        ));
    }
    let mut terminal = io::stderr().lock();
    write!(
        terminal,
        "{} has seen {} data. If the agent still remembers it, a new session lets it send that anywhere.\nBegin a new session? [y/N] ",
        tame(&session.name),
        tame(&session.label)
    )?;
    terminal.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

pub fn approvals(
    verb: &args::Approvals,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    let now_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
    let (ids, given, yes) = match verb {
        args::Approvals::List(args) => {
            let approvals = ask_approvals(&mut line, args.all)?;
            screen.show(
                &approvals,
                &render::approvals(&approvals, now_ms, screen.style),
            )?;
            return Ok(Exit::Done);
        }
        args::Approvals::Show(args) => {
            let all = ask_approvals(&mut line, true)?;
            let chosen: Vec<&api::Approval> = if args.ids.is_empty() {
                all.iter().filter(|one| one.state == "pending").collect()
            } else {
                let chosen = args.ids.iter().map(|id| one_approval(&all, id));
                chosen.collect::<Result<_, _>>()?
            };
            show_approvals(&chosen, now_ms, home, screen)?;
            return Ok(Exit::Done);
        }
        args::Approvals::Lasting => {
            let lasting = line.ask(ask::Lasting)?;
            screen.show(&lasting, &render::lasting(&lasting, now_ms, screen.style))?;
            return Ok(Exit::Done);
        }
        args::Approvals::Revoke(args) => {
            let reason = reason(args.reason.as_deref())?;
            let lasting = line.ask(ask::Lasting)?;
            let mut named = lasting
                .iter()
                .filter(|one| !args.id.is_empty() && one.id.starts_with(&args.id));
            let id = match (named.next(), named.next()) {
                (Some(one), None) => one.id.clone(),
                _ => args.id.clone(),
            };
            let done = line.ask_for(ask::Revoke, &id, &api::Reasoned { reason })?;
            screen.show(&done, &format!("Done: {}.\n", tame(&done.detail)))?;
            return Ok(Exit::Done);
        }
        args::Approvals::Approve(args) => (args.ids.clone(), &args.reason, Some(args.holds)),
        args::Approvals::Deny(args) => (vec![args.id.clone()], &args.reason, None),
    };
    let all = ask_approvals(&mut line, true)?;
    // All of them are looked up before the first is answered.
    let chosen = ids.iter().map(|id| one_approval(&all, id));
    let chosen = chosen.collect::<Result<Vec<_>, _>>()?;
    let (mut answers, mut text) = (Vec::new(), String::new());
    for approval in chosen {
        let reason = reason(given.as_deref())?;
        let call = format!(
            "{}__{} for {}",
            tame(&approval.server),
            tame(&approval.tool),
            tame(&approval.name)
        );
        let id = tame(&approval.id);
        let answer = match yes {
            Some(holds) => {
                let lasts = holds == args::YesFor::Conversation;
                text.push_str(&match lasts {
                    true => format!("Approved {id}: {call}, with these targets for this conversation. Take it back: portcullis approvals revoke {id}\n"),
                    false => format!("Approved {id}: {call}, once, as it was shown.\n"),
                });
                line.ask_for(ask::Approve, &approval.id, &api::Yes { reason, lasts })?
            }
            None => {
                text.push_str(&format!("Denied {id}: {call}.\n"));
                line.ask_for(ask::Deny, &approval.id, &api::Reasoned { reason })?
            }
        };
        answers.push(answer);
    }
    match answers.as_slice() {
        [answer] => screen.show(answer, &text)?,
        answers => screen.show(&answers, &text)?,
    }
    Ok(Exit::Done)
}

/// Several are shown one after the other.
fn show_approvals(
    chosen: &[&api::Approval],
    now_ms: u64,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<(), Trouble> {
    let shown = chosen.iter().map(|approval| with_story(approval, home));
    let shown = shown.collect::<Result<Vec<_>, _>>()?;
    let texts: Vec<String> = shown
        .iter()
        .map(|approval| render::approval(approval, now_ms, screen.style))
        .collect();
    match shown.as_slice() {
        [] => screen.show(&shown, "Nothing waits for a person.\n"),
        [one] => screen.show(one, &texts.concat()),
        several => screen.show(&several, &texts.join("\n")),
    }
}

fn ask_approvals(line: &mut Line, all: bool) -> Result<Vec<api::Approval>, Trouble> {
    line.ask_for(ask::Approvals, "", &api::AllOrOpen { all })
}

/// The gate names the last result the session had read; the ledger tells what that was, and what came before it.
fn with_story(approval: &api::Approval, home: &Home) -> Result<api::Approval, Trouble> {
    let mut lineage = Vec::new();
    for head in &approval.lineage {
        match lineage::read_by(home, head, MOST_READ)?.as_slice() {
            [] => lineage.push(head.clone()),
            read => lineage.extend(read.iter().map(|call| {
                let label = if call.label_after.is_empty() {
                    &call.label
                } else {
                    &call.label_after
                };
                format!("{}  {}/{}  {label}", call.call, call.server, call.tool)
            })),
        }
    }
    Ok(api::Approval {
        lineage,
        ..approval.clone()
    })
}

/// By its whole id, or by a beginning that only one of those that can still be answered has.
fn one_approval<'a>(
    approvals: &'a [api::Approval],
    id: &str,
) -> Result<&'a api::Approval, Trouble> {
    if let Some(approval) = approvals.iter().find(|approval| approval.id == id) {
        return Ok(approval);
    }
    let begins: Vec<&api::Approval> = approvals
        .iter()
        .filter(|approval| !id.is_empty() && approval.id.starts_with(id))
        .collect();
    let pending: Vec<&api::Approval> = begins
        .iter()
        .copied()
        .filter(|approval| approval.state == "pending")
        .collect();
    match (begins.as_slice(), pending.as_slice()) {
        ([approval], _) | (_, [approval]) => Ok(approval),
        ([], _) => Err(Trouble::usage(format!(
            "no approval `{id}`; `portcullis approvals list --all` shows them"
        ))),
        _ => Err(Trouble::usage(format!(
            "several approvals begin with `{id}`; write more of it"
        ))),
    }
}

/// Exit 3 when the gate would refuse the call now.
pub fn explain(
    args: &args::PolicyExplain,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let question = match (&args.call, &args.tool) {
        (Some(call), _) => api::Explain {
            call: Some(call.clone()),
            ..api::Explain::default()
        },
        (None, tool) => {
            let arguments: Value = serde_json::from_str(&args.arguments)
                .map_err(|error| Trouble::usage(format!("--arguments is not JSON: {error}")))?;
            api::Explain {
                call: None,
                tool: tool.clone(),
                arguments: Some(arguments),
                caller: args.caller.clone(),
                context: args.context.clone(),
                agent: args.agent.clone(),
            }
        }
    };
    let mut line = Line::as_operator(home)?;
    let answer = line.ask_for(ask::Explain, "", &question)?;
    let mut view = answer.clone();
    let names = tokens::caller_names(home);
    view.caller = view.caller.map(|caller| names.name(&caller).to_owned());
    screen.show(&answer, &render::explanation(&view, screen.style))?;
    let refused = view
        .stages
        .iter()
        .flat_map(|stage| &stage.checks)
        .any(|check| check.verdict == "refused");
    Ok(if refused { Exit::Refused } else { Exit::Done })
}

#[cfg(test)]
mod tests;
