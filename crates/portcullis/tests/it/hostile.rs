//! One server behind the gate is hostile: the gate stays up, memory stays bounded, other servers do not notice.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Era, Target};
use testkit::everything::HttpFixture;
use testkit::gate::Gate;
use testkit::hostile::{Hostile, HostileProcess, Script, Verdict};
use testkit::procfs;

use crate::support::{
    admin, alone, await_state, client, config, connected, fixture, gate, http, percentile, program,
    server, stdio, worker_pid,
};

const SEED: u64 = 0x5eed;
const MIB: u64 = 1 << 20;
/// The largest result is 32 MiB, and a debug build holds it more than once on its way.
const MOST_MEMORY: u64 = 192 * MIB;
/// What a caller of another server may have to wait, on two cores that the attack also uses. What the machine itself makes a
/// process wait is measured at the same time, without the gate, and added once for each process of the road.
const GOOD_P99: Duration = Duration::from_millis(250);
/// Enough calls for a p99 that is more than the worst one; but no attack is kept up longer than this.
const ENOUGH: usize = 200;
const LONGEST: Duration = Duration::from_secs(6);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Over {
    Http,
    Stdio,
}

macro_rules! attacks {
    ($(fn $name:ident: $script:ident over $($over:ident),+;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $(attack(Script::$script, Over::$over).await;)+
            }
        )*

        const ATTACKS: &[(Script, &[Over])] = &[$((Script::$script, &[$(Over::$over),+])),*];
    };
}

attacks! {
    fn an_honest_server_is_the_control: Honest over Http, Stdio;
    fn answers_to_other_ids_are_dropped: WrongId over Http, Stdio;
    fn only_answers_to_other_ids_is_no_answer: WrongIdOnly over Http, Stdio;
    fn ids_that_are_no_ids_deliver_nothing: OddIds over Http, Stdio;
    fn a_second_answer_is_dropped: DoubleReply over Http, Stdio;
    fn an_answer_before_its_request_is_dropped: EarlyReply over Http, Stdio;
    fn a_dripping_answer_arrives: Drip over Http, Stdio;
    fn dripping_forever_ends_at_the_timeout: DripForever over Http, Stdio;
    fn silence_after_some_bytes_ends_at_the_timeout: HangAt over Http, Stdio;
    fn a_cut_answer_is_an_error: CloseAt over Http, Stdio;
    fn random_bytes_are_an_error: Garbage over Http, Stdio;
    fn a_web_page_is_an_error: NotJson over Http, Stdio;
    fn an_empty_reply_is_an_error: Empty over Http;
    fn server_errors_are_errors: ServerErrors over Http;
    fn a_redirect_is_not_followed: Redirect over Http;
    fn a_huge_head_is_refused: HugeHeader over Http;
    fn a_gzip_bomb_does_not_unfold: GzipBomb over Http;
    fn endless_events_end: EndlessEvents over Http, Stdio;
    fn a_giant_event_is_refused: GiantEvent over Http, Stdio;
    fn a_huge_result_is_refused: HugeResult over Http, Stdio;
    fn a_deep_result_is_refused: DeepJson over Http, Stdio;
    fn a_result_with_duplicate_keys_is_refused: DuplicateKeys over Http, Stdio;
    fn a_result_that_is_not_utf8_is_refused: BadUtf8 over Http, Stdio;
    fn half_a_surrogate_is_refused: LoneSurrogate over Http, Stdio;
    fn not_a_number_is_refused: NotANumber over Http, Stdio;
    fn a_result_that_is_no_object_is_refused: NotAResult over Http, Stdio;
    fn a_flood_of_requests_reaches_nobody: AskFlood over Http, Stdio;
    fn a_flood_of_progress_reaches_nobody: ProgressFlood over Http, Stdio;
    fn a_flood_of_list_changes_is_borne: ChangeFlood over Http, Stdio;
    fn a_million_tools_are_cut: MillionTools over Http, Stdio;
    fn a_page_taller_than_the_cap_is_refused: TallPage over Http, Stdio;
    fn a_cursor_loop_ends: CursorLoop over Http, Stdio;
    fn endless_pages_end: CursorEndless over Http, Stdio;
    fn bad_names_are_left_out: BadNames over Http, Stdio;
    fn a_slow_handshake_delays_nobody: SlowHandshake over Http, Stdio;
    fn a_server_that_leaves_at_every_call: ExitAtCall over Http, Stdio;
    fn chatter_on_stdout_is_skipped: StdoutNoise over Stdio;
    fn an_endless_line_costs_that_line_only: LongLine over Stdio;
    fn a_flood_on_stderr_is_borne: StderrFlood over Stdio;
    fn a_deaf_server_still_answers: Deaf over Stdio;
}

/// Of repeated and look-alike names the first is kept; impossible ones are not listed at all.
#[tokio::test]
async fn only_proper_names_are_listed() {
    let upstream = Hostile::start(Script::BadNames, SEED).await.unwrap();
    let gate = connected(&[("bad", http(&upstream.url(), "classification: PUBLIC"))]).await;
    let names = client(&gate, Era::Modern).await.tool_names().await.unwrap();
    for name in ["bad__echo", "bad__act"] {
        assert_eq!(
            names.iter().filter(|listed| *listed == name).count(),
            1,
            "{name} in {names:?}"
        );
    }
    let strange: Vec<&String> = names
        .iter()
        .filter(|name| !["bad__echo", "bad__act", "bad__bare"].contains(&name.as_str()))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}

/// At every byte an answer can be cut or left hanging at, the call ends in an error and the next one is not disturbed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_cut_at_any_byte_is_an_error() {
    let (cutter, hanger) = (
        Hostile::start(Script::CloseAt, SEED).await.unwrap(),
        Hostile::start(Script::HangAt, SEED).await.unwrap(),
    );
    let entry = "classification: PUBLIC, timeout: 700ms";
    let servers = config(&[
        ("cut", http(&cutter.url(), entry)),
        ("hang", http(&hanger.url(), entry)),
    ]);
    let gate = gate(&format!(
        "limits: {{ max_concurrent_calls_per_caller: 256 }}\n{servers}"
    ))
    .await;
    for id in ["cut", "hang"] {
        await_state(&gate, id, "connected", Duration::from_secs(15)).await;
    }
    let caller = client(&gate, Era::Modern).await;
    // An answer has some 130 bytes; beyond its end the last byte is held back.
    for at in 0..160 {
        let called = caller
            .call("cut__echo", json!({"text": "secret", "at": at}))
            .await
            .unwrap();
        assert!(
            called.is_error && !called.text.contains("secret"),
            "cut at {at}: {}",
            called.answer
        );
        assert_eq!(
            called.error_code(),
            Some("upstream_unavailable"),
            "cut at {at}: {}",
            called.answer
        );
    }
    let params =
        |at: usize| json!({"name": "hang__echo", "arguments": {"text": "secret", "at": at}});
    let pending: Vec<_> = (0..160)
        .map(|at| caller.start("tools/call", params(at)))
        .collect();
    for (at, call) in pending.into_iter().enumerate() {
        let answer = call.answer().await.unwrap();
        assert_eq!(
            answer.pointer("/result/_meta/portcullis~1error/error_code"),
            Some(&json!("timeout")),
            "hung at {at}: {answer}"
        );
    }
}

#[test]
fn every_script_is_played_wherever_it_can_be() {
    for script in Script::ALL {
        let played: Vec<Over> = ATTACKS
            .iter()
            .filter(|(known, _)| known == script)
            .flat_map(|(_, over)| over.to_vec())
            .collect();
        let wanted = [
            (script.on_http(), Over::Http),
            (script.on_stdio(), Over::Stdio),
        ];
        let wanted: Vec<Over> = wanted
            .into_iter()
            .filter_map(|(can, over)| can.then_some(over))
            .collect();
        assert_eq!(played, wanted, "{script}: {}", script.about());
    }
}

async fn attack(script: Script, over: Over) {
    let _alone = alone().await;
    let yard = Yard::open(script, over).await;
    let honest = Honest::start(&yard.gate, &yard.good).await;
    let client = client(&yard.gate, Era::Modern).await;
    if script.verdict() != Verdict::Unreachable {
        yard.await_attacker().await;
    }
    let began = Instant::now();
    for turn in 0.. {
        if turn >= 3 && (honest.calls() >= ENOUGH || began.elapsed() > LONGEST) {
            break;
        }
        match script.verdict() {
            Verdict::Unreachable => tokio::time::sleep(Duration::from_millis(100)).await,
            verdict => yard.call(&client, verdict, turn).await,
        }
    }
    yard.assert_standing(honest.stop().await).await;
    assert_nothing_leaked(&yard, &client).await;
}

/// What a caller must see of one call to the attacker.
impl Yard {
    async fn call(&self, client: &Client, verdict: Verdict, turn: usize) {
        let text = format!("turn {turn}");
        let began = Instant::now();
        let called = client
            .call("bad__echo", json!({"text": text}))
            .await
            .expect("every call gets a definite answer");
        let took = began.elapsed();
        assert!(
            took < Duration::from_secs(12),
            "{}: the answer took {took:?}: {}\n{}",
            self.script,
            called.answer,
            self.gate.output()
        );
        match verdict {
            Verdict::Answer => assert_eq!(called.text, text, "{}: {}", self.script, called.answer),
            Verdict::Either if !called.is_error => {
                assert_eq!(called.text, text, "{}: {}", self.script, called.answer)
            }
            Verdict::Error | Verdict::Either | Verdict::Unreachable => {
                assert!(called.is_error, "{}: {}", self.script, called.answer);
                assert_ne!(
                    called.text, "FORGED",
                    "{}: a forged answer was delivered",
                    self.script
                );
                let known = ["upstream_unavailable", "timeout"];
                let code = called.error_code().unwrap_or_default();
                assert!(
                    known.contains(&code),
                    "{}: the caller cannot tell what happened: {}",
                    self.script,
                    called.answer
                );
            }
        }
        assert!(
            !called.answer.to_string().contains("FORGED"),
            "{}: {}",
            self.script,
            called.answer
        );
    }
}

async fn assert_nothing_leaked(yard: &Yard, client: &Client) {
    let asked: Vec<Value> = client
        .seen()
        .into_iter()
        .filter(|message| message.get("id").is_some())
        .collect();
    assert!(
        asked.is_empty(),
        "requests of the server reached a client that can answer none: {asked:?}"
    );
    assert!(
        client.seen_of("notifications/progress").is_empty(),
        "progress for no token reached the client"
    );
    if let Some(upstream) = &yard.upstream {
        let account = upstream.account().await.unwrap();
        assert_eq!(account.canary_visits, 0, "a redirect was followed");
        let token = yard.gate.token().unwrap();
        let seen = account.authorizations;
        assert!(
            !seen.iter().any(|header| header.contains(&token)),
            "the client's own token was passed on: {seen:?}"
        );
    }
}

/// What never answers is waited for briefly; what answers after a flood gets the time a debug build needs for it.
fn entry_of(script: Script) -> &'static str {
    match script.verdict() {
        Verdict::Answer | Verdict::Either => "classification: PUBLIC, timeout: 30s",
        Verdict::Error | Verdict::Unreachable => "classification: PUBLIC, timeout: 1s",
    }
}

/// A gate with a good server and a bad one.
struct Yard {
    gate: Gate,
    script: Script,
    upstream: Option<HostileProcess>,
    good: HttpFixture,
}

impl Yard {
    async fn open(script: Script, over: Over) -> Self {
        let good = fixture().await;
        let (entry, upstream) = match over {
            Over::Http => {
                let bad = entry_of(script);
                let upstream = HostileProcess::start(Path::new(&program("hostile")), script, SEED)
                    .await
                    .unwrap();
                (http(upstream.url(), bad), Some(upstream))
            }
            Over::Stdio => {
                let (hostile, seed) = (program("hostile"), SEED.to_string());
                let args = [
                    "-n",
                    "15",
                    &hostile,
                    "--stdio",
                    "--script",
                    script.name(),
                    "--seed",
                    &seed,
                ];
                (stdio("nice", &args, entry_of(script)), None)
            }
        };
        let gate = gate(&config(&[
            ("good", http(&good.url(), "classification: PUBLIC")),
            ("bad", entry),
        ]))
        .await;
        await_state(&gate, "good", "connected", Duration::from_secs(10)).await;
        Self {
            gate,
            script,
            upstream,
            good,
        }
    }

    /// Over stdio some scripts end the process with every call; it comes back by itself.
    async fn await_attacker(&self) {
        await_state(&self.gate, "bad", "connected", Duration::from_secs(15)).await;
    }

    async fn assert_standing(&self, mut seen: Seen) {
        let script = self.script;
        let status = admin(&self.gate, "GET", "status").await;
        assert_eq!(
            status["worker"]["restarts"],
            0,
            "{script}: the worker had to be replaced\n{}",
            self.gate.output()
        );
        let worker = worker_pid(&self.gate).await.expect("a worker");
        let (of_gate, of_worker) = (
            procfs::peak_resident_bytes(self.gate.pid()),
            procfs::peak_resident_bytes(worker),
        );
        let (count, p99) = (
            seen.through_gate.len(),
            percentile(&mut seen.through_gate, 99),
        );
        let direct = percentile(&mut seen.direct, 99);
        println!(
            "{script}: {count} honest calls, p99 {p99:?}, direct {direct:?}; gate {} MiB, worker {} MiB",
            of_gate / MIB,
            of_worker / MIB
        );
        assert!(
            of_gate + of_worker <= MOST_MEMORY,
            "{script}: gate {} MiB, worker {} MiB",
            of_gate / MIB,
            of_worker / MIB
        );
        assert!(
            p99 <= GOOD_P99 + 3 * direct,
            "{script}: another server's p99 was {p99:?} over {count} calls, direct {direct:?}"
        );
        assert_eq!(server(&self.gate, "good").await["state"], "connected");
    }
}

/// A caller of the good server who never stops and checks every answer.
struct Honest {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<Seen>,
}

/// How long calls of the good server took, by turns through the gate and without it.
#[derive(Default)]
struct Seen {
    through_gate: Vec<Duration>,
    direct: Vec<Duration>,
}

impl Honest {
    async fn start(gate: &Gate, good: &HttpFixture) -> Self {
        let client = client(gate, Era::Legacy).await;
        let direct = Client::plain(&Target::new(&good.url(), None).unwrap(), Era::Legacy)
            .await
            .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let calls = Arc::new(AtomicUsize::new(0));
        let (asked, counted) = (stop.clone(), calls.clone());
        let task = tokio::spawn(async move {
            let mut seen = Seen::default();
            for turn in 0_u64.. {
                if asked.load(Ordering::Relaxed) {
                    break;
                }
                let text = format!("honest {turn}");
                seen.through_gate
                    .push(timed(&client, "good__echo", &text).await);
                seen.direct.push(timed(&direct, "echo", &text).await);
                counted.store(seen.through_gate.len(), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            seen
        });
        Self { stop, calls, task }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    async fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.task
            .await
            .expect("the honest caller saw nothing wrong")
    }
}

async fn timed(client: &Client, tool: &str, text: &str) -> Duration {
    let began = Instant::now();
    let called = client
        .call(tool, json!({"text": text}))
        .await
        .expect("the good server answers");
    assert_eq!(
        called.text, text,
        "the good server's answer was disturbed: {}",
        called.answer
    );
    began.elapsed()
}
