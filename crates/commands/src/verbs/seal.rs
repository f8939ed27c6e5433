//! `portcullis seal …`: signed calls from a shell, over the same door as any client's.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use home::{Home, private_file, signing};
use identity::AgentKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use terminal::{
    Exit, Screen, Trouble,
    style::{cell, table},
};
use wire::{Json, Limits, write::Object};

use crate::{
    args,
    line::{Line, refused, text},
    result::{Outcome, is_refusal},
};

/// What `attest` keeps beside the key.
#[derive(Serialize, Deserialize)]
struct Kept {
    security_token: String,
    execution_id: String,
    expires_at: String,
}

pub fn run(verb: &args::Seal, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    match verb {
        args::Seal::Keygen(args) => keygen(&args.file, screen),
        args::Seal::Attest(args) => attest(args, home, screen),
        args::Seal::Call(args) => call(args, home, screen),
        args::Seal::Tools(args) => tools(&args.key, home, screen),
        args::Seal::Sessions(args) => sessions(args.all, home, screen),
        args::Seal::Revoke(args) => revoke(&args.execution, home, screen),
        args::Seal::Run(args) => launch(args, home),
        args::Seal::Rotate => {
            let id = {
                let (_, resolved) = crate::files::of_home(home)?;
                signing::rotate(home, &resolved).map_err(Trouble::failed)?
            };
            crate::verbs::status::reload_if_running(home)?;
            screen.show(
                &json!({ "key": id }),
                &format!("Tokens are signed by key {id} from now on.\n"),
            )?;
            Ok(Exit::Done)
        }
    }
}

fn keygen(file: &Path, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let pem = signing::new_key().map_err(Trouble::failed)?;
    private_file::create(file, &pem)
        .map_err(|error| Trouble::failed(format!("cannot write {}: {error}", file.display())))?;
    let public = read_key(file)?.public().to_base64();
    screen.show(
        &json!({ "file": file, "public_key": public }),
        &format!("{public}\n"),
    )?;
    Ok(Exit::Done)
}

fn read_key(file: &Path) -> Result<AgentKey, Trouble> {
    let pem = fs::read(file)
        .map_err(|error| Trouble::usage(format!("cannot read {}: {error}", file.display())))?;
    AgentKey::parse(&pem).map_err(|error| Trouble::usage(format!("{}: {error}", file.display())))
}

fn session_file(key: &Path) -> PathBuf {
    key.with_extension("session")
}

fn read_session(key: &Path) -> Result<Kept, Trouble> {
    let file = session_file(key);
    let kept = fs::read(&file).map_err(|_| {
        Trouble::usage(format!(
            "{} has no session; run `seal attest` first",
            key.display()
        ))
    })?;
    serde_json::from_slice(&kept)
        .map_err(|error| Trouble::failed(format!("{}: {error}; attest again", file.display())))
}

/// One request of the SEAL door: the status it would have had over HTTP, and the body.
fn ask(line: &mut Line, verb: &str, method: &str, rest: &str) -> Result<(u64, Value), Trouble> {
    let answer = line.request_raw(
        &format!("portcullis/seal/{verb}"),
        &format!("{{\"method\":\"{method}\"{rest}}}"),
    )?;
    let status = answer
        .get("status")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    Ok((status, answer.get("body").cloned().unwrap_or_default()))
}

/// The body of an answer that says yes.
fn succeeded((status, body): (u64, Value)) -> Result<Value, Trouble> {
    if (200..=299).contains(&status) {
        return Ok(body);
    }
    let message = [
        text(&body, "/error/message"),
        text(&body, "/message"),
        text(&body, "/error"),
    ];
    let message = message
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or("the gate refused");
    let exit = match status {
        _ if is_refusal(text(&body, "/error/data/violation")) => Exit::Refused,
        502..=504 => Exit::Upstream,
        _ => Exit::Refused,
    };
    let message = format!("{} ({status})", audit::printable(message));
    let mut error = body
        .get("error")
        .filter(|error| error.is_object())
        .cloned()
        .unwrap_or_else(|| json!({}));
    if let (Some(fields), Some(code)) = (error.as_object_mut(), body.get("error_code")) {
        fields.insert("error_code".to_owned(), code.clone());
    }
    Err(Trouble::new(exit, message).about(error))
}

fn attest(args: &args::Attest, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let key = read_key(&args.key)?;
    let mut body = json!({ "public_key": key.public().to_base64() });
    if let Some(fields) = body.as_object_mut() {
        fields.extend(
            args.context
                .iter()
                .map(|name| ("security_context".to_owned(), json!(name))),
        );
        fields.extend(
            args.agent
                .iter()
                .map(|id| ("agent_id".to_owned(), json!(id))),
        );
        fields.extend(
            args.execution
                .iter()
                .map(|id| ("execution_id".to_owned(), json!(id))),
        );
    }
    let mut line = Line::as_client(home, None)?;
    let attested = succeeded(ask(
        &mut line,
        "attest",
        "POST",
        &format!(",\"body\":{body}"),
    )?)?;
    let kept: Kept = serde_json::from_value(attested.clone()).map_err(Trouble::failed)?;
    let bytes = serde_json::to_vec_pretty(&kept).map_err(Trouble::failed)?;
    private_file::replace(&session_file(&args.key), &bytes)?;
    let context = text(&attested, "/security_context");
    let shown = json!({
        "execution_id": kept.execution_id, "expires_at": kept.expires_at, "session_id": attested.get("session_id"),
        "security_context": context,
    });
    let words = format!(
        "Execution {} may call within `{context}` until {}.\n",
        kept.execution_id, kept.expires_at
    );
    screen.show(&shown, &words)?;
    Ok(Exit::Done)
}

fn call(args: &args::SealCall, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let (key, kept) = (read_key(&args.key)?, read_session(&args.key)?);
    let arguments = Json::parse(args.arguments.as_bytes(), Limits::default())
        .map_err(|error| Trouble::usage(format!("arguments are not JSON: {error}")))?;
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(Trouble::failed)?;
    let mut params = Object::new();
    params.str("name", &args.tool).json("arguments", arguments);
    let mut payload = Object::new();
    payload
        .str("jsonrpc", "2.0")
        .str("id", &format!("req-{:016x}", u64::from_be_bytes(seed)));
    payload
        .str("method", "tools/call")
        .raw("params", &params.finish());
    let payload = payload.finish();
    let now_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis());
    let envelope = key.envelope(
        Json::checked_before(&payload),
        &kept.security_token,
        u64::try_from(now_ms).unwrap_or(u64::MAX),
    );
    let envelope = String::from_utf8(envelope).map_err(Trouble::failed)?;
    let mut line = Line::as_client(home, None)?;
    let answered = invoke(&mut line, &envelope)?;
    answered.show(screen)?;
    Ok(answered.exit())
}

/// The result as the gate wrote it.
fn invoke(line: &mut Line, envelope: &str) -> Result<Outcome, Trouble> {
    let asked = format!("{{\"method\":\"POST\",\"body\":{envelope}}}");
    let answer = line
        .exchange_text("portcullis/seal/invoke", &asked)?
        .map_err(|error| refused(&error))?;
    let json = Json::checked_before(answer.as_bytes());
    let status = json
        .get("status")
        .and_then(Json::as_u64)
        .unwrap_or_default();
    match json.path(&["body", "result"]) {
        Some(result) if (200..=299).contains(&status) => Outcome::new(result.text().to_owned()),
        _ => {
            let body = json.get("body").map_or("null", Json::text);
            succeeded((status, serde_json::from_str(body).map_err(Trouble::failed)?))
                .and_then(|_| Outcome::new("{}".to_owned()))
        }
    }
}

fn tools(key: &Path, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let token = json!(read_session(key)?.security_token);
    let mut line = Line::as_client(home, None)?;
    let listed = succeeded(ask(
        &mut line,
        "tools",
        "GET",
        &format!(",\"bearer\":{token}"),
    )?)?;
    let names: Vec<&str> = listed
        .get("tools")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|tool| text(tool, "/name"))
        .collect();
    let words: String = names
        .iter()
        .map(|name| format!("{}\n", audit::printable(name)))
        .collect();
    screen.show(
        &listed,
        if words.is_empty() {
            "Nothing: no tool there is lies within the context.\n"
        } else {
            &words
        },
    )?;
    Ok(Exit::Done)
}

fn sessions(all: bool, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    let query = if all { ",\"query\":\"all\"" } else { "" };
    let listed = succeeded(ask(&mut line, "sessions", "GET", query)?)?;
    let sessions = listed
        .get("sessions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let rows: Vec<_> = sessions
        .iter()
        .map(|session| {
            let shown = |pointer: &str| cell(audit::printable(text(session, pointer)));
            let calls = session
                .get("calls")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            let columns = [
                "/execution_id",
                "/sub",
                "/security_context_name",
                "/session_status",
                "/expires_at",
            ];
            columns
                .iter()
                .map(|column| shown(column))
                .chain([cell(calls.to_string())])
                .collect()
        })
        .collect();
    let words = match rows.as_slice() {
        [] => "No sessions of signed calls. Begin one with: portcullis seal attest\n".to_owned(),
        rows => table(
            &[
                "EXECUTION",
                "AGENT",
                "CONTEXT",
                "STATUS",
                "EXPIRES",
                "CALLS",
            ],
            rows,
            screen.style,
        ),
    };
    screen.show(&sessions, &words)?;
    Ok(Exit::Done)
}

fn revoke(execution: &str, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    let revoked = succeeded(ask(
        &mut line,
        &format!("sessions/{execution}"),
        "DELETE",
        "",
    )?)?;
    screen.show(
        &revoked,
        &format!("The session of {} is over.\n", audit::printable(execution)),
    )?;
    Ok(Exit::Done)
}

/// Becomes the program, with what it needs to attest: its exit code and its signals are its own.
fn launch(args: &args::SealRun, home: &Home) -> Result<Exit, Trouble> {
    let mut line = Line::as_operator(home)?;
    let body =
        json!({ "security_context": args.context, "agent_id": args.agent, "uses": args.uses });
    let made = succeeded(ask(
        &mut line,
        "workloads",
        "POST",
        &format!(",\"body\":{body}"),
    )?)?;
    let status = line.ask(api::ask::Status)?;
    let url = status.url.trim_end_matches("/mcp");
    let (program, rest) = args
        .command
        .split_first()
        .ok_or_else(|| Trouble::usage("say which program"))?;
    let error = Command::new(program)
        .args(rest)
        .env("SEAL_GATEWAY_URL", url)
        .env("SEAL_WORKLOAD_ID", text(&made, "/workload_id"))
        .env("SEAL_SECURITY_CONTEXT", text(&made, "/security_context"))
        .exec();
    Err(Trouble::usage(format!("cannot start {program}: {error}")))
}
