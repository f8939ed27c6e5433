//! JSON-RPC batches, which only 2025-03-26 has. Each element goes the way it would go alone; the responses come back together.
//!
//! A batch has one reply, so its calls cannot stream: progress is not reported, and servers that ask the client something
//! meanwhile are told that it cannot be asked.

use std::sync::Arc;

use bytes::Bytes;
use gateway::Pass;
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
use crate::door::Door;

const MAX_ELEMENTS: usize = 100;
const AT_ONCE: usize = 8;

/// The responses in one text, with the evidence to hold until it has left.
pub(crate) type Joined = (Bytes, Vec<Pass>);

/// Carries out the batch that `body`, already checked, holds. `None`: nothing in it wants a response.
pub(crate) async fn run(door: &Door, client: &Client, peer: &Arc<Peer>, body: &Bytes) -> Result<Option<Joined>, Problem> {
    let batch = Json::checked_before(body.trim_ascii());
    match batch.items().take(MAX_ELEMENTS + 1).count() {
        0 => return Err(Problem::new(code::INVALID_REQUEST, "Invalid request: the batch is empty")),
        count if count > MAX_ELEMENTS => {
            return Err(Problem::new(code::INVALID_REQUEST, "Invalid request: the batch has more than 100 elements"));
        }
        _ => {}
    }
    let mut done: Vec<(usize, Bytes, Pass)> = Vec::new();
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
                let problem = Problem::new(code::INVALID_REQUEST, &format!("Invalid request: {}", error.problem));
                done.push((index, rpc::error(error.id.as_ref(), &problem.object).into(), Pass::default()));
                continue;
            }
        };
        // A place is taken before the call starts, so that no more than a few run at once.
        let place = Arc::clone(&places).acquire_owned().await;
        match legacy::turn(door, client, peer, &Incoming { id: id.clone(), method: &method, params, body, outline: None }) {
            Turn::Now(answer) => done.push((index, answer.message(&id), Pass::default())),
            Turn::Listen => done.push((index, Answer::from(Problem::no_method(&method)).message(&id), Pass::default())),
            Turn::Call(call) => {
                under_way.spawn(async move {
                    let _place = place;
                    let (message, pass) = finish(call, id).await;
                    (index, message, pass)
                });
            }
        }
    }
    while let Some(joined) = under_way.join_next().await {
        done.extend(joined.ok());
    }
    done.sort_by_key(|(index, ..)| *index);
    Ok((!done.is_empty()).then(|| (join(&done), done.into_iter().map(|(.., pass)| pass).collect())))
}

async fn finish(mut call: Box<Call>, id: Id) -> (Bytes, Pass) {
    call.mute();
    loop {
        if let Step::Done(answer, pass) = call.step().await {
            return (answer.message(&id), pass);
        }
    }
}

fn join(done: &[(usize, Bytes, Pass)]) -> Bytes {
    let mut out = vec![b'['];
    for (position, (_, message, _)) in done.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        out.extend_from_slice(message);
    }
    out.push(b']');
    out.into()
}
