//! One connection, shared: questions are written as they come, answers are handed out in the order of the questions.
//!
//! **Invariant: nobody waits for a store that does not answer.** Whoever asks says how long they wait; a connection whose oldest question
//! has waited for [`PATIENCE`] is given up, so that a store that hangs or is cut off is noticed although nothing was closed. Tests
//! `a_store_that_hangs_is_given_up_and_found_again`, `a_store_that_is_gone_answers_nobody_and_keeps_nobody`.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until, timeout},
};
use vocab::Redacted;

use crate::value::{Malformed, Value, command, parse};

/// Questions that may wait for their turn or for their answer; more than that are refused at once.
const MOST_WAITING: usize = 1024;
/// How long the oldest question may wait before the connection counts as dead, and how long connecting may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// After a failed attempt questions are refused for this long without another one.
const PAUSE: Duration = Duration::from_millis(200);
const READ_CHUNK: usize = 16 << 10;

/// Where a store is, and as whom we come.
#[derive(Debug)]
pub struct Target {
    /// `host:port`.
    pub address: String,
    pub database: u32,
    pub user: Option<String>,
    pub password: Option<Redacted<String>>,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("the store did not answer in time")]
    Late,
    #[error("too many questions wait for the store")]
    Busy,
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("the store refused: {0}")]
    Refused(String),
}

impl Error {
    fn io(error: &io::Error) -> Self {
        Self::Unreachable(error.to_string())
    }
}

struct Question {
    bytes: Vec<u8>,
    answer: oneshot::Sender<Result<Value, Error>>,
}

/// A handle; the connection is made when the first question comes, and ends with the last handle.
#[derive(Debug, Clone)]
pub struct Client {
    questions: mpsc::Sender<Question>,
}

impl Client {
    /// Needs a tokio runtime.
    #[must_use]
    pub fn new(target: Target) -> Self {
        let (questions, asked) = mpsc::channel(MOST_WAITING);
        tokio::spawn(keep(Arc::new(target), asked));
        Self { questions }
    }

    /// Asks, and waits no longer than `patience`. An answer that says `-ERR` is an error.
    pub async fn ask(&self, words: &[&[u8]], patience: Duration) -> Result<Value, Error> {
        let (answer, answered) = oneshot::channel();
        let question = Question {
            bytes: command(words),
            answer,
        };
        self.questions.try_send(question).map_err(|_| Error::Busy)?;
        match timeout(patience, answered).await {
            Err(_) => Err(Error::Late),
            Ok(Err(_)) => Err(Error::Unreachable("the connection ended".to_owned())),
            Ok(Ok(Ok(Value::Error(text)))) => Err(Error::Refused(text)),
            Ok(Ok(answer)) => answer,
        }
    }
}

async fn keep(target: Arc<Target>, mut asked: mpsc::Receiver<Question>) {
    let mut not_before = Instant::now();
    while let Some(first) = asked.recv().await {
        if Instant::now() < not_before {
            let _ = first.answer.send(Err(Error::Unreachable(
                "it could not be reached a moment ago".to_owned(),
            )));
            continue;
        }
        let connected = match timeout(PATIENCE, connect(&target)).await {
            Ok(connected) => connected,
            Err(_) => Err(Error::Late),
        };
        match connected {
            Ok(stream) => {
                let error = converse(stream, first, &mut asked).await;
                tracing::debug!(address = target.address, %error, "the connection to the store ended");
            }
            Err(error) => {
                not_before = Instant::now() + PAUSE;
                let _ = first.answer.send(Err(error));
            }
        }
    }
}

async fn connect(target: &Target) -> Result<TcpStream, Error> {
    let mut stream = TcpStream::connect(&target.address)
        .await
        .map_err(|error| Error::io(&error))?;
    stream
        .set_nodelay(true)
        .map_err(|error| Error::io(&error))?;
    let mut greeting = Vec::new();
    if let Some(password) = &target.password {
        let password = password.expose().as_bytes();
        greeting.push(match &target.user {
            Some(user) => command(&[b"AUTH", user.as_bytes(), password]),
            None => command(&[b"AUTH", password]),
        });
    }
    if target.database != 0 {
        greeting.push(command(&[
            b"SELECT",
            target.database.to_string().as_bytes(),
        ]));
    }
    let mut read = Vec::new();
    for bytes in greeting {
        stream
            .write_all(&bytes)
            .await
            .map_err(|error| Error::io(&error))?;
        if let Value::Error(text) = answer(&mut stream, &mut read).await? {
            return Err(Error::Refused(text));
        }
    }
    Ok(stream)
}

/// The next answer; `read` keeps what came after it.
async fn answer(stream: &mut TcpStream, read: &mut Vec<u8>) -> Result<Value, Error> {
    loop {
        if let Some((value, taken)) = parse(read)? {
            read.drain(..taken);
            return Ok(value);
        }
        let mut chunk = [0; 512];
        let count = stream
            .read(&mut chunk)
            .await
            .map_err(|error| Error::io(&error))?;
        if count == 0 {
            return Err(Error::Unreachable("it hung up".to_owned()));
        }
        read.extend_from_slice(chunk.get(..count).unwrap_or_default());
    }
}

/// Answers that are waited for, oldest first, and since when.
#[derive(Default)]
struct Waiting(VecDeque<(Instant, oneshot::Sender<Result<Value, Error>>)>);

impl Waiting {
    fn deadline(&self) -> Instant {
        let oldest = self.0.front().map(|(since, _)| *since);
        oldest.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600)) + PATIENCE
    }

    fn fail(&mut self, error: &Error) {
        for (_, answer) in self.0.drain(..) {
            let _ = answer.send(Err(error.clone()));
        }
    }
}

/// Ends with the reason why the connection is of no more use; whoever waits is told it.
async fn converse(
    stream: TcpStream,
    first: Question,
    asked: &mut mpsc::Receiver<Question>,
) -> Error {
    let (mut reader, mut writer) = stream.into_split();
    let mut waiting = Waiting::default();
    let mut unsent = first.bytes;
    waiting.0.push_back((Instant::now(), first.answer));
    let mut read = Vec::new();
    let mut chunk = vec![0; READ_CHUNK];
    let ended = loop {
        let deadline = waiting.deadline();
        let has_room = waiting.0.len() < MOST_WAITING;
        tokio::select! {
            written = writer.write(&unsent), if !unsent.is_empty() => match written {
                Ok(count) => drop(unsent.drain(..count)),
                Err(error) => break Error::io(&error),
            },
            question = asked.recv(), if has_room => match question {
                Some(question) => {
                    unsent.extend_from_slice(&question.bytes);
                    waiting.0.push_back((Instant::now(), question.answer));
                }
                None => break Error::Unreachable("nobody asks any more".to_owned()),
            },
            count = reader.read(&mut chunk) => {
                match count {
                    Ok(0) => break Error::Unreachable("it hung up".to_owned()),
                    Ok(count) => read.extend_from_slice(chunk.get(..count).unwrap_or_default()),
                    Err(error) => break Error::io(&error),
                }
                if let Err(error) = hand_out(&mut read, &mut waiting) {
                    break error;
                }
            }
            () = sleep_until(deadline) => break Error::Late,
        }
    };
    waiting.fail(&ended);
    ended
}

fn hand_out(read: &mut Vec<u8>, waiting: &mut Waiting) -> Result<(), Error> {
    while let Some((value, taken)) = parse(read)? {
        read.drain(..taken);
        let Some((_, answer)) = waiting.0.pop_front() else {
            return Err(Error::Unreachable(
                "it answers what nobody asked".to_owned(),
            ));
        };
        let _ = answer.send(Ok(value));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
