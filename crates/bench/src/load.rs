//! The load: a number of connections, each with one call in flight, for a fixed time.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::LocalSet,
    time::sleep,
};

use super::{
    meter,
    reply::{Replies, Reply},
    template::{Address, Era, FIRST_ID, Template},
};

/// How long a reply may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to do and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    pub connections: usize,
    pub size: usize,
    pub warm_up: Duration,
    pub measure: Duration,
    /// The processes whose CPU time and memory are read at both ends of the measured time.
    pub pids: Vec<u32>,
}

/// What was measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Measured {
    pub calls: usize,
    pub seconds: f64,
    pub calls_per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    /// Of the processes that were watched.
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
}

/// Shared by the connections of one run; all of them live on one thread.
#[derive(Debug, Default)]
pub(super) struct Tape {
    measuring: Cell<bool>,
    pub(super) stop: Cell<bool>,
    latencies: RefCell<Vec<Duration>>,
    next_id: Cell<u64>,
}

impl Tape {
    pub(super) fn id(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        FIRST_ID + id
    }

    pub(super) fn record(&self, latency: Duration) {
        if self.measuring.get() {
            self.latencies.borrow_mut().push(latency);
        }
    }
}

/// Loads an HTTP address.
pub async fn http(address: Address, plan: Plan) -> Result<Measured> {
    let tape = Rc::new(Tape::default());
    let local = LocalSet::new();
    let mut connections = Vec::with_capacity(plan.connections);
    for _ in 0..plan.connections {
        let (address, tape, size) = (address.clone(), Rc::clone(&tape), plan.size);
        connections.push(local.spawn_local(async move { drive(&address, size, &tape).await }));
    }
    local
        .run_until(async move {
            let measured = measure(&tape, &plan).await;
            for connection in connections {
                connection.await.context("a connection's task died")??;
            }
            Ok(measured)
        })
        .await
}

/// Opens connections that each ask for something and never read the answer; the memory it says is the most that was seen meanwhile.
pub async fn unread(address: Address, plan: Plan) -> Result<Measured> {
    let mut open = Vec::with_capacity(plan.connections);
    let mut most = Measured::default();
    let mut refused = 0;
    for _ in 0..plan.connections {
        match ask_and_forget(&address, plan.size).await {
            Ok(line) => open.push(line),
            Err(_) => refused += 1,
        }
        most.resident_bytes = most
            .resident_bytes
            .max(meter::usage(&plan.pids).resident_bytes);
    }
    let started = Instant::now();
    while started.elapsed() < plan.measure {
        sleep(Duration::from_millis(50)).await;
        most.resident_bytes = most
            .resident_bytes
            .max(meter::usage(&plan.pids).resident_bytes);
    }
    ensure!(refused < plan.connections, "no connection was taken");
    most.calls = open.len();
    most.seconds = started.elapsed().as_secs_f64();
    Ok(most)
}

async fn ask_and_forget(address: &Address, size: usize) -> Result<Line> {
    let mut line = Line::open(address).await?;
    let mut call = address.call(line.session.clone().as_deref(), size);
    line.stream.write_all(call.stamped(FIRST_ID + 1)).await?;
    Ok(line)
}

/// Opens and closes the measured time, and says what happened in it.
pub(super) async fn measure(tape: &Tape, plan: &Plan) -> Measured {
    sleep(plan.warm_up).await;
    let before = meter::usage(&plan.pids);
    let started = Instant::now();
    tape.measuring.set(true);
    sleep(plan.measure).await;
    // A measurement without a call says nothing; on a busy machine one call can take longer than the time allotted.
    while tape.latencies.borrow().is_empty() && started.elapsed() < PATIENCE {
        sleep(Duration::from_millis(20)).await;
    }
    tape.measuring.set(false);
    let seconds = started.elapsed().as_secs_f64();
    let after = meter::usage(&plan.pids);
    tape.stop.set(true);
    let mut latencies = tape.latencies.take();
    latencies.sort_unstable();
    Measured {
        calls: latencies.len(),
        seconds,
        calls_per_second: latencies.len() as f64 / seconds,
        p50_us: quantile(&latencies, 0.50),
        p99_us: quantile(&latencies, 0.99),
        max_us: quantile(&latencies, 1.0),
        cpu_seconds: after.cpu_seconds - before.cpu_seconds,
        resident_bytes: after.resident_bytes,
    }
}

/// In microseconds; zero when nothing was measured.
pub(super) fn quantile(sorted: &[Duration], q: f64) -> f64 {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .map_or(0.0, |latency| latency.as_secs_f64() * 1e6)
}

async fn drive(address: &Address, size: usize, tape: &Tape) -> Result<()> {
    let mut line = Line::open(address).await?;
    let mut call = address.call(line.session.clone().as_deref(), size);
    while !tape.stop.get() {
        let id = tape.id();
        let started = Instant::now();
        let reply = line.exchange(call.stamped(id)).await?;
        tape.record(started.elapsed());
        reply.answers(id)?;
        line.recycle(reply.body);
    }
    Ok(())
}

/// One keep-alive connection with its MCP session.
#[derive(Debug)]
pub struct Line {
    stream: TcpStream,
    buffer: BytesMut,
    replies: Replies,
    session: Option<String>,
}

impl Line {
    /// Connects, and opens a session where the era has them.
    pub async fn open(address: &Address) -> Result<Self> {
        let stream = TcpStream::connect(&address.authority)
            .await
            .with_context(|| format!("cannot connect {}", address.authority))?;
        stream.set_nodelay(true)?;
        let mut line = Self {
            stream,
            buffer: BytesMut::with_capacity(64 << 10),
            replies: Replies::default(),
            session: None,
        };
        if address.era == Era::Legacy {
            line.initialize(address).await?;
        }
        Ok(line)
    }

    async fn initialize(&mut self, address: &Address) -> Result<()> {
        let hello = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
        let reply = self
            .exchange(&address.request("initialize", None, hello))
            .await?;
        ensure!(
            reply.status == 200,
            "initialize: {} {}",
            reply.status,
            String::from_utf8_lossy(&reply.body)
        );
        self.session = reply.session;
        let ready = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let reply = self
            .exchange(&address.request("notifications/initialized", self.session.as_deref(), ready))
            .await?;
        ensure!(
            reply.status == 202 || reply.status == 200,
            "initialized: {}",
            reply.status
        );
        Ok(())
    }

    /// Gives a body back, so that its memory is used again.
    pub(super) fn recycle(&mut self, body: Vec<u8>) {
        self.replies.recycle(body);
    }

    /// One call of the echo tool, checked.
    pub async fn call(&mut self, address: &Address, size: usize) -> Result<()> {
        let mut call: Template = address.call(self.session.as_deref(), size);
        self.exchange(call.stamped(FIRST_ID + 1))
            .await?
            .answers(FIRST_ID + 1)
    }

    pub(super) async fn exchange(&mut self, request: &[u8]) -> Result<Reply> {
        // Large requests are answered while they are still being sent, so both directions move at once.
        let (mut reading, mut writing) = self.stream.split();
        let (replies, buffer) = (&mut self.replies, &mut self.buffer);
        let send = async { writing.write_all(request).await.context("cannot send") };
        let receive = async {
            loop {
                if let Some(reply) = replies.take(buffer)? {
                    return Ok(reply);
                }
                ensure!(
                    reading.read_buf(buffer).await? > 0,
                    "the connection was closed in the middle of a reply"
                );
            }
        };
        let both = async { tokio::try_join!(send, receive) };
        let ((), reply) = tokio::time::timeout(PATIENCE, both)
            .await
            .context("no reply in time")??;
        Ok(reply)
    }
}
