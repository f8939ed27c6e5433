//! The dispatch door: the executor of an execution asks for work and answers with results, one JSON object each way.
//!
//! Nothing is decided here. Who has no bearer of an execution in force is told the same, whatever is wrong with it, before a byte of the
//! body is read. What a message comes to is the gate's to say.

use bytes::Bytes;
use gateway::{DispatchRefusal, Executor};
use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use wire::dispatch::{FromExecutor, ToExecutor};

use crate::{
    body, crowd,
    door::Door,
    guard, refused,
    reply::{self, Body, Reply, Why},
    seal,
};

/// What everybody is told who is not an executor of the execution that they name.
const STRANGER: &str = "This needs the bearer of an execution in force";
const NO_MODEL: &str = "This gate has no model provider, so it cannot generate; run the model elsewhere, and `attach` for the commands";

pub(crate) async fn answer(door: &Door, parts: &Parts, body: Incoming) -> Reply {
    if parts.method != Method::POST {
        return reply::wrong_method("POST");
    }
    let executor = seal::bearer(&parts.headers).and_then(|token| door.gate.executor(&token));
    let Some(executor) = executor else {
        door.gate.strangers("executor");
        return stranger();
    };
    crowd::recognise(parts, executor.caller());
    let reply = known(door, &executor, parts, body).await;
    refused::note(door, "dispatch", executor.caller(), parts, &reply);
    reply
}

async fn known(door: &Door, executor: &Executor, parts: &Parts, body: Incoming) -> Reply {
    if let Err(refused) = guard::sends_json(&parts.headers) {
        return *refused;
    }
    let Some(_place) = executor.place() else {
        return error(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_requests",
            "This execution has as many requests under way as it may have",
        );
    };
    let most = executor
        .largest_message()
        .min(door.gate.settings().max_body_bytes);
    let text = match body::read(body, most, None, Some(executor.caller())).await {
        Ok(text) => text,
        Err(refused) => return *refused,
    };
    let message = match read(text, most) {
        Ok(message) => message,
        Err(reply) => return *reply,
    };
    let answered = tokio::select! {
        // What an executor posts is heard, also while the gate closes.
        biased;
        answered = door.gate.dispatch(executor, message) => answered,
        // Who waits for work is let go; the next gate at this place has it, or this one again.
        () = door.closing() => Ok(ToExecutor::Idle { retry_after_ms: 1000 }),
    };
    match answered {
        Ok(told) => write(StatusCode::OK, &told),
        Err(DispatchRefusal::NotItsOwn) => stranger(),
        Err(DispatchRefusal::UnknownDispatch) => error(
            StatusCode::CONFLICT,
            "unknown_dispatch",
            "This execution has no such dispatch; drop the result and attach again",
        ),
        Err(DispatchRefusal::NoModel) => {
            error(StatusCode::NOT_IMPLEMENTED, "not_implemented", NO_MODEL)
        }
        Err(DispatchRefusal::Broken(detail)) => {
            tracing::error!(detail, "an executor could not be answered");
            error(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "Portcullis could not answer",
            )
        }
    }
}

fn read(text: Bytes, most: usize) -> Result<FromExecutor, reply::Refused> {
    FromExecutor::parse(&text, most)
        .map_err(|why| error(StatusCode::BAD_REQUEST, why.code(), &why.to_string()).into())
}

fn stranger() -> Reply {
    let mut reply = error(StatusCode::UNAUTHORIZED, "unauthenticated", STRANGER);
    reply
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    reply
}

fn error(status: StatusCode, code: &str, sentence: &str) -> Reply {
    let told = ToExecutor::Error {
        error: code.to_owned(),
        message: sentence.to_owned(),
    };
    write(status, &told)
}

fn write(status: StatusCode, told: &ToExecutor) -> Reply {
    let mut reply = reply::json(status, Body::whole(told.write()));
    reply
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// Says in this door's form what was refused before this door was asked.
pub(crate) fn reword(reply: &mut Reply) {
    let Some(why) = reply.extensions_mut().remove::<Why>() else {
        return;
    };
    let told = ToExecutor::Error {
        error: why.code.as_str().to_owned(),
        message: why.sentence,
    };
    *reply.body_mut() = Body::whole(told.write());
}
