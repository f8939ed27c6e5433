//! Carrying a call to its end over HTTP.
//!
//! The reply is plain JSON when the call's first word is its last. Only when something comes before the end, or nothing for a
//! while, does it become a stream; so the status can still be chosen by the answer, and short calls never pay for a stream.

use std::{sync::Arc, time::Duration};

use gateway::Pass;
use http::StatusCode;
use tokio::sync::mpsc;
use vocab::ErrorCode;
use wire::{mcp::code, rpc::Id};

use crate::{
    mcp::{
        answer::Answer,
        calls::{Call, Step},
        session::Session,
        stream::Kind,
    },
    reply::{self, Body, Reply, refusal},
};

/// A call that says nothing for this long gets a stream, so that its client sees a living connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// Events a modern client may lag behind before its call waits.
pub(super) const MODERN_QUEUE: usize = 64;

pub(super) fn legacy_reply(answer: &Answer, id: &Id, pass: Pass) -> Reply {
    match answer {
        Answer::Unauthenticated => reply::unauthenticated("Unknown or revoked credential"),
        _ => reply::json(StatusCode::OK, Body::Whole(answer.parcel(id, pass))),
    }
}

pub(super) fn modern_reply(answer: &Answer, id: &Id, pass: Pass) -> Reply {
    let status = match answer {
        Answer::Unauthenticated => return reply::unauthenticated("Unknown or revoked credential"),
        Answer::Result { .. } => StatusCode::OK,
        Answer::Error(problem) => match problem.code {
            code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            code::HEADER_MISMATCH
            | code::MISSING_CLIENT_CAPABILITY
            | code::UNSUPPORTED_PROTOCOL_VERSION => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        },
    };
    reply::json(status, Body::Whole(answer.parcel(id, pass)))
}

pub(super) async fn carry_legacy(mut call: Box<Call>, session: &Arc<Session>) -> Reply {
    let first = match tokio::time::timeout(PATIENCE, call.step()).await {
        Ok(Step::Done(answer, pass)) => return legacy_reply(&answer, &call.id, pass),
        Ok(Step::Message(message)) => Some(message),
        Err(_) => None,
    };
    let Ok((writer, frames)) = session.streams.open(Kind::Call, session.is_primed()) else {
        call.cancel();
        return refusal(
            StatusCode::CONFLICT,
            ErrorCode::InvalidInput,
            "This session has enough streams open",
        );
    };
    // The task outlives the connection: hanging up is not cancelling, and the client may come back for the rest.
    tokio::spawn(async move {
        if let Some(first) = first {
            writer.send(first).await;
        }
        loop {
            match call.step().await {
                Step::Message(message) => writer.send(message).await,
                Step::Done(answer, pass) => {
                    writer.send(answer.parcel(&call.id, pass)).await;
                    return writer.end();
                }
            }
        }
    });
    reply::events(frames)
}

pub(super) async fn carry_modern(mut call: Box<Call>) -> Reply {
    call.cancel_when_dropped();
    let first = match tokio::time::timeout(PATIENCE, call.step()).await {
        Ok(Step::Done(answer, pass)) => return modern_reply(&answer, &call.id, pass),
        Ok(Step::Message(message)) => Some(message),
        Err(_) => None,
    };
    let (events, frames) = mpsc::channel(MODERN_QUEUE);
    tokio::spawn(async move {
        let carried = async {
            if let Some(first) = first {
                events.send(first.into_event(None)).await.ok()?;
            }
            loop {
                let (message, last) = match call.step().await {
                    Step::Message(message) => (message, false),
                    Step::Done(answer, pass) => (answer.parcel(&call.id, pass), true),
                };
                events.send(message.into_event(None)).await.ok()?;
                if last {
                    return Some(());
                }
            }
        };
        // Hanging up ends the race, and dropping the call then cancels it.
        tokio::select! {
            _ = carried => {}
            () = events.closed() => {}
        }
    });
    reply::events(frames)
}
