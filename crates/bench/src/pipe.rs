//! The load over a pair of pipes: the same calls, sent to a stdio server with nothing in between.

use std::{collections::HashMap, process::Stdio, rc::Rc, time::Instant};

use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::LocalSet,
};

use super::{
    load::{Measured, Plan, Tape, measure},
    reply::answers,
    template::{Era, Template, call_body},
    texts::Text,
};

/// Starts `command` and keeps `plan.connections` calls in flight on its pipes.
pub async fn run(command: &[String], plan: Plan) -> Result<Measured> {
    let (program, arguments) = command
        .split_first()
        .context("a command is needed after --")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdin = child.stdin.take().context("the server has no stdin")?;
    let stdout = child.stdout.take().context("the server has no stdout")?;
    let tape = Rc::new(Tape::default());
    let (requests, queue) = mpsc::unbounded_channel();
    let local = LocalSet::new();
    let writer = local.spawn_local(write(stdin, queue));
    let (size, in_flight, shared) = (plan.size, plan.connections, Rc::clone(&tape));
    let reader = local
        .spawn_local(async move { converse(stdout, &requests, &shared, size, in_flight).await });
    let measured = local
        .run_until(async move {
            let measured = measure(&tape, &plan).await;
            reader.await.context("the reader died")??;
            writer.await.context("the writer died")??;
            anyhow::Ok(measured)
        })
        .await?;
    child.wait().await?;
    Ok(measured)
}

/// Ends, and with it the server's input, when nobody can ask for more.
async fn write(mut stdin: ChildStdin, mut queue: mpsc::UnboundedReceiver<Vec<u8>>) -> Result<()> {
    while let Some(request) = queue.recv().await {
        stdin.write_all(&request).await?;
    }
    Ok(())
}

async fn converse(
    mut stdout: ChildStdout,
    requests: &mpsc::UnboundedSender<Vec<u8>>,
    tape: &Tape,
    size: usize,
    in_flight: usize,
) -> Result<()> {
    let mut line = call_body("echo", Era::Legacy, Text::Prose, size);
    line.push(b'\n');
    let mut call = Template::new(line);
    let mut open = HashMap::new();
    let mut ask = |open: &mut HashMap<u64, Instant>| {
        let id = tape.id();
        open.insert(id, Instant::now());
        requests
            .send(call.stamped(id).to_vec())
            .context("the writer ended early")
    };
    for _ in 0..in_flight {
        ask(&mut open)?;
    }
    let mut lines = Answers {
        buffer: BytesMut::with_capacity(1 << 20),
        searched: 0,
    };
    while !open.is_empty() {
        let answer = lines.next(&mut stdout).await?;
        let id = id_of(&answer).context("an answer without an id")?;
        let started = open
            .remove(&id)
            .context("an answer to nothing that was asked")?;
        tape.record(started.elapsed());
        answers(&answer, id)?;
        if !tape.stop.get() {
            ask(&mut open)?;
        }
    }
    Ok(())
}

struct Answers {
    buffer: BytesMut,
    /// Bytes already known to hold no line break.
    searched: usize,
}

impl Answers {
    async fn next(&mut self, stdout: &mut ChildStdout) -> Result<BytesMut> {
        loop {
            if let Some(at) =
                memchr::memchr(b'\n', self.buffer.get(self.searched..).unwrap_or_default())
            {
                let end = self.searched + at + 1;
                self.searched = 0;
                return Ok(self.buffer.split_to(end));
            }
            self.searched = self.buffer.len();
            ensure!(
                stdout.read_buf(&mut self.buffer).await? > 0,
                "the server ended"
            );
        }
    }
}

fn id_of(line: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(line, b"\"id\":")? + 5;
    std::str::from_utf8(line.get(at..at + 10)?)
        .ok()?
        .parse()
        .ok()
}
