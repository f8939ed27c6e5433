//! JSON-RPC batches, which only 2025-03-26 has. Each element goes the way it would go alone; the responses come back together.
//!
//! A batch has one reply, so its calls cannot stream: progress is not reported, and servers that ask the client something
//! meanwhile are told that it cannot be asked.

use std::sync::Arc;

use bytes::Bytes;
use gateway::Caller;
use tokio::{sync::Semaphore, task::JoinSet};
use wire::{
    Json,
    mcp::code,
    rpc::{self, Id, Message},
};

use super::{
    answer::{Answer, Problem},
    calls::{Call, Step, Turn},
    client::Client,
    legacy::{self, Incoming},
    peer::Peer,
};
use crate::{door::Door, parcel::Parcel};

const MAX_ELEMENTS: usize = 100;
const AT_ONCE: usize = 8;

/// Carries out the batch that `body`, already checked, holds. `None`: nothing in it wants a response.
pub(crate) async fn run(
    door: &Door,
    client: &Client,
    peer: &Arc<Peer>,
    body: &Bytes,
) -> Result<Option<Parcel>, Problem> {
    let batch = Json::checked_before(body.trim_ascii());
    match batch.items().take(MAX_ELEMENTS + 1).count() {
        0 => {
            return Err(Problem::new(
                code::INVALID_REQUEST,
                "Invalid request: the batch is empty",
            ));
        }
        count if count > MAX_ELEMENTS => {
            return Err(Problem::new(
                code::INVALID_REQUEST,
                "Invalid request: the batch has more than 100 elements",
            ));
        }
        _ => {}
    }
    let mut done: Vec<(usize, Parcel)> = Vec::new();
    let mut under_way = JoinSet::new();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    for (index, element) in batch.items().enumerate() {
        let (id, method, params) = match rpc::read(element) {
            Ok(Message::Request { id, method, params }) => (id, method, params),
            Ok(other) => {
                legacy::hear(peer, &other, body);
                continue;
            }
            Err(error) => {
                let problem = Problem::new(
                    code::INVALID_REQUEST,
                    &format!("Invalid request: {}", error.problem),
                );
                done.push((index, rpc::error(error.id.as_ref(), &problem.object).into()));
                continue;
            }
        };
        // A place is taken before the call starts, so that no more than a few run at once.
        let place = Arc::clone(&places).acquire_owned().await;
        match legacy::turn(
            door,
            client,
            peer,
            &Incoming {
                id: id.clone(),
                method: &method,
                params,
                body,
                outline: None,
            },
        ) {
            Turn::Now(answer, pass) => done.push((index, Parcel::new(answer.message(&id), pass))),
            Turn::Listen => done.push((
                index,
                Answer::from(Problem::no_method(&method))
                    .message(&id)
                    .into(),
            )),
            Turn::Call(call) => {
                under_way.spawn(async move {
                    let _place = place;
                    (index, finish(call, id).await)
                });
            }
        }
    }
    while let Some(joined) = under_way.join_next().await {
        done.extend(joined.ok());
    }
    done.sort_by_key(|(index, ..)| *index);
    Ok((!done.is_empty()).then(|| join(&client.caller, done)))
}

async fn finish(mut call: Box<Call>, id: Id) -> Parcel {
    call.mute();
    loop {
        if let Step::Done(answer, pass) = call.step().await {
            return answer.parcel(&id, pass);
        }
    }
}

/// The responses in one text, which holds and counts as much as they do.
fn join(caller: &Caller, done: Vec<(usize, Parcel)>) -> Parcel {
    let (mut out, mut passes) = (vec![b'['], Vec::new());
    for (position, (_, message)) in done.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        message
            .pieces()
            .iter()
            .for_each(|piece| out.extend_from_slice(piece));
        passes.extend(message.into_passes());
    }
    out.push(b']');
    Parcel::holding(caller.counted(out), passes)
}
