//! Calls: a method of MCP passed to a server, with everything that may happen before its reply.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use wire::{
    Json,
    mcp::code,
    write::{self, Object},
};

use super::{
    Aggregator,
    call::{Abilities, Answer, Call, Stop},
    catalog,
    connection::Connection,
    delegate::{self, Credential},
    incoming::known,
    outgoing::{About, Outgoing, Params},
    terms::Allow,
};
use crate::failure::{Failure, Kind, clip};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// How often one call may come back for more input.
const MAX_ROUNDS: usize = 8;
/// Questions a server may put into one round.
const MAX_QUESTIONS: usize = 16;

/// A call as the gate described it.
#[derive(Debug)]
pub(crate) struct Forward {
    pub(crate) method: String,
    pub(crate) params: Option<Bytes>,
    /// The client's capabilities, reduced to what this server may use.
    capabilities: Bytes,
    log_level: Option<String>,
    /// The client does its own rounds of input.
    mrtr: bool,
}

impl Forward {
    /// A plain call: nobody to ask, no progress, no log.
    pub(crate) fn plain(method: &str, params: Option<Bytes>) -> Self {
        Self {
            method: method.to_owned(),
            params,
            capabilities: Bytes::from_static(b"{}"),
            log_level: None,
            mrtr: false,
        }
    }

    fn about(&self, progress: bool) -> About<'_> {
        About {
            capabilities: &self.capabilities,
            log_level: self.log_level.as_deref(),
            progress,
        }
    }
}

/// Starts what `forward` asks for. The first request is spliced here, from the line as it stands.
pub(crate) fn start(aggregator: &Rc<Aggregator>, id: u64, line: &Bytes, params: Json<'_>) {
    let started = read(aggregator, id, line, params);
    match started {
        Ok(Started {
            conn,
            call,
            forward,
            first,
        }) => spawn(aggregator, conn, call, forward, first),
        Err(failure) => aggregator.hub.out.failure(id, &failure),
    }
}

struct Started {
    conn: Rc<Connection>,
    call: Rc<Call>,
    forward: Forward,
    first: First,
}

/// What a call begins with.
enum First {
    /// With its request.
    Ready(Outgoing),
    /// With a connection that carries this credential.
    For(Rc<Credential>),
}

fn read(
    aggregator: &Rc<Aggregator>,
    id: u64,
    line: &Bytes,
    params: Json<'_>,
) -> Result<Started, Failure> {
    let attached = aggregator.attached(id);
    let mut spec = Fields::default();
    for (key, value) in params.fields() {
        match &*key {
            "server" => spec.server = value.as_str(),
            "method" => spec.method = value.as_str(),
            "lane" => spec.lane = value.as_str(),
            "caps" => spec.caps = Some(value),
            "log" => spec.log = value.as_str(),
            "progress" => spec.progress = value.as_bool().unwrap_or(false),
            "mrtr" => spec.mrtr = value.as_bool().unwrap_or(false),
            "timeout_ms" => spec.timeout_ms = value.as_u64(),
            "params" => spec.params = Some(value),
            "as" => spec.credential = Some(Credential::read(value)?),
            _ => {}
        }
    }
    let missing = |key: &str| Failure::invalid(format!("`{key}` is missing"));
    let server = spec.server.ok_or_else(|| missing("server"))?;
    let method = spec.method.ok_or_else(|| missing("method"))?;
    let conn = aggregator.servers.connected(&server)?;
    let params = attached.or_else(|| spec.params.map(|params| line.slice_ref(params.as_bytes())));
    let caps = spec.caps.unwrap_or(Json::EMPTY_OBJECT);
    let forward = Forward {
        method: method.into_owned(),
        params,
        capabilities: reduced(caps, conn.options.allow),
        log_level: spec.log.map(|level| level.into_owned()),
        mrtr: spec.mrtr,
    };
    let budget = spec
        .timeout_ms
        .map_or(DEFAULT_TIMEOUT, Duration::from_millis);
    let lane = spec.lane.map_or_else(String::new, |lane| lane.into_owned());
    let call = Rc::new(Call::new(
        id,
        lane,
        Abilities::read(caps),
        spec.progress,
        budget,
    ));
    let first = match spec.credential {
        None => First::Ready(prepare(&conn, &call, &forward, forward.params.as_ref())?),
        Some(credential) => First::For(Rc::new(credential)),
    };
    Ok(Started {
        conn,
        call,
        forward,
        first,
    })
}

#[derive(Default)]
struct Fields<'a> {
    server: Option<std::borrow::Cow<'a, str>>,
    method: Option<std::borrow::Cow<'a, str>>,
    lane: Option<std::borrow::Cow<'a, str>>,
    caps: Option<Json<'a>>,
    log: Option<std::borrow::Cow<'a, str>>,
    progress: bool,
    mrtr: bool,
    timeout_ms: Option<u64>,
    params: Option<Json<'a>>,
    credential: Option<Credential>,
}

/// The client's capabilities without the questions this server may not ask.
fn reduced(caps: Json<'_>, allow: Allow) -> Bytes {
    let refused: Vec<&str> = [
        ("sampling", allow.sampling),
        ("roots", allow.roots),
        ("elicitation", allow.elicitation),
    ]
    .into_iter()
    .filter(|(key, allowed)| !allowed && caps.get(key).is_some())
    .map(|(key, _)| key)
    .collect();
    if refused.is_empty() {
        return Bytes::copy_from_slice(caps.as_bytes());
    }
    write::replace_fields(caps, &refused, |_| {}).into()
}

/// Runs a call in a task of its own and answers for it.
fn spawn(
    aggregator: &Rc<Aggregator>,
    conn: Rc<Connection>,
    call: Rc<Call>,
    forward: Forward,
    first: First,
) {
    let aggregator = Rc::clone(aggregator);
    aggregator.began(&call);
    tokio::task::spawn_local(async move {
        let outcome = match first {
            First::Ready(first) => run(&conn, &call, &forward, first).await,
            First::For(credential) => {
                Box::pin(delegate::run(&conn, &call, &forward, &credential)).await
            }
        };
        aggregator.ended(&call);
        match outcome {
            Ok(result) => aggregator.hub.out.result(call.id, &result),
            Err(failure) => aggregator.hub.out.failure(call.id, &failure),
        }
    });
}

/// Runs a call to its end, whichever way it ends.
pub(crate) async fn run(
    conn: &Rc<Connection>,
    call: &Rc<Call>,
    forward: &Forward,
    first: Outgoing,
) -> Result<Bytes, Failure> {
    let stop = tokio::select! {
        biased;
        outcome = rounds(conn, call, forward, first) => {
            call.drop_asks();
            return outcome;
        }
        stop = call.interrupted() => stop,
    };
    call.drop_asks();
    match &stop {
        Stop::Cancelled => conn.cancel_upstream(call.upstream.get(), "cancelled by the client"),
        Stop::TimedOut => conn.cancel_upstream(call.upstream.get(), "timeout"),
        Stop::Closed(_) => {}
    }
    Err(stopped(call, stop))
}

/// What a call that was stopped ends with.
pub(crate) fn stopped(call: &Call, stop: Stop) -> Failure {
    match stop {
        Stop::Cancelled => Failure::new(Kind::Cancelled, "the call was cancelled"),
        Stop::TimedOut => Failure::timeout(format!(
            "timeout: no reply within {} ms",
            call.budget().as_millis()
        )),
        Stop::Closed(failure) => failure,
    }
}

/// Builds the request, with the headers a modern HTTP server compares to it.
pub(crate) fn prepare(
    conn: &Rc<Connection>,
    call: &Call,
    forward: &Forward,
    params: Option<&Bytes>,
) -> Result<Outgoing, Failure> {
    let params = Params::owned(params);
    let mut outgoing = Outgoing::new(conn, &forward.method, params, &forward.about(call.progress))?;
    outgoing.awaits_logs = forward.log_level.is_some() && conn.is_http() && !conn.is_modern();
    if forward.method == "tools/call"
        && let Some(name) = params.get("name").and_then(Json::as_str)
        && let Some(plan) = conn.plans.borrow().get(&*name)
    {
        if let Some(reason) = &plan.invalid {
            return Err(Failure::refused(format!(
                "the tool `{}` cannot be called: {reason}",
                clip(&name)
            )));
        }
        if conn.is_modern() && conn.is_http() {
            outgoing
                .headers
                .extend(plan.headers(params.get("arguments"))?);
        }
    }
    Ok(outgoing)
}

async fn rounds(
    conn: &Rc<Connection>,
    call: &Rc<Call>,
    forward: &Forward,
    first: Outgoing,
) -> Result<Bytes, Failure> {
    let mut result = once(conn, call, forward, forward.params.as_ref(), first).await?;
    if forward.mrtr || !conn.is_modern() {
        return Ok(result);
    }
    for _ in 0..MAX_ROUNDS {
        if !wants_input(&result) {
            return Ok(result);
        }
        let params = Box::pin(answered(conn, call, forward.params.as_ref(), &result)).await?;
        let next = prepare(conn, call, forward, Some(&params))?;
        result = once(conn, call, forward, Some(&params), next).await?;
    }
    if wants_input(&result) {
        return Err(Failure::upstream(format!(
            "the server asked for input more than {MAX_ROUNDS} times"
        )));
    }
    Ok(result)
}

/// One exchange. If the server says the headers do not match, its tools may have changed: they are asked for, once.
async fn once(
    conn: &Rc<Connection>,
    call: &Rc<Call>,
    forward: &Forward,
    params: Option<&Bytes>,
    outgoing: Outgoing,
) -> Result<Bytes, Failure> {
    let failure = match conn.exchange(&outgoing, Some(call)).await {
        Err(failure)
            if failure.code() == Some(code::HEADER_MISMATCH)
                && forward.method == "tools/call"
                && conn.is_http() =>
        {
            failure
        }
        outcome => return outcome,
    };
    Box::pin(catalog::refresh_plans(conn)).await;
    let again = prepare(conn, call, forward, params)?;
    if again.headers == outgoing.headers {
        return Err(failure);
    }
    conn.exchange(&again, Some(call)).await
}

/// Is this result a request for input? Nearly none is, so the cheap test comes first.
fn wants_input(result: &Bytes) -> bool {
    memchr::memmem::find(result, b"input_required").is_some()
        && known(result)
            .get("resultType")
            .and_then(Json::as_str)
            .as_deref()
            == Some("input_required")
}

/// Puts the server's questions to the client and returns the params of the next round.
async fn answered(
    conn: &Rc<Connection>,
    call: &Rc<Call>,
    params: Option<&Bytes>,
    result: &Bytes,
) -> Result<Bytes, Failure> {
    let result = known(result);
    let mut waiting = Vec::new();
    for (name, question) in result
        .get("inputRequests")
        .into_iter()
        .flat_map(Json::fields)
    {
        let method = question
            .get("method")
            .and_then(Json::as_str)
            .unwrap_or_default();
        let asked = question.get("params");
        if !conn.options.allow.permits(&method) || !call.abilities.allows(&method, asked) {
            return Err(Failure::refused(format!(
                "the server asked for `{}`, which this client does not support",
                clip(&method)
            )));
        }
        let opened = if waiting.len() < MAX_QUESTIONS {
            call.open_ask(None)
        } else {
            None
        };
        let Some((key, answer)) = opened else {
            return Err(Failure::refused(
                "the server asked too many questions at once",
            ));
        };
        conn.hub.out.event(call.id, "ask", |line| {
            line.str("key", &key)
                .str("method", &method)
                .json("params", asked.unwrap_or(Json::EMPTY_OBJECT));
        });
        waiting.push((name.into_owned(), answer));
    }
    let mut responses = Object::new();
    for (name, answer) in waiting {
        match answer.await {
            Ok(Answer::Result(answer)) => responses.raw(&name, &answer),
            Ok(Answer::Error(error)) => {
                let failure = Failure::rpc(error);
                return Err(Failure::refused(format!(
                    "the client did not answer the server's question: {}",
                    failure.text
                )));
            }
            Err(_) => return Err(Failure::refused("the server's question was dropped")),
        };
    }
    let responses = responses.finish();
    let before = params.map_or(Json::EMPTY_OBJECT, known);
    let next = write::replace_fields(before, &["inputResponses", "requestState"], |out| {
        if result.get("inputRequests").is_some() {
            out.raw("inputResponses", &responses);
        }
        if let Some(state) = result.get("requestState") {
            out.json("requestState", state);
        }
    });
    Ok(next.into())
}
