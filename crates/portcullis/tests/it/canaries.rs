//! No secret in any byte written: fifty canaries in seven spellings through every door and every error path, then not one of them in the
//! ledger, the kept arguments, the index, the state, the log, the snapshots, the exports or the reports.
//!
//! What counts as a secret is said in docs/operate/ledger.md. *Held* canaries are values the gate itself holds: they count in every spelling.
//! *Shaped* ones look like well-known tokens and *strangers'* ones are credentials that nobody issued: those count as they are written
//! and as JSON escapes them; what else a caller may have done to a text, only the caller knows.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{Client, Era, Target};
use testkit::everything::HttpFixture;
use testkit::gate::{Gate, Setup};
use testkit::shifty::{Shifty, Shown, tool};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::operator::{SOON, done, post, shifty};
use crate::support::{
    admin_target, alone, await_state, client, eventually, fixture, http, new_token, portcullis,
    stdio,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Held,
    Stranger,
    Shaped,
}

#[derive(Clone, Debug)]
struct Canary {
    sort: Sort,
    value: String,
}

/// Sixteen digits that no other canary has.
fn mark(n: usize) -> String {
    format!(
        "{:016x}",
        (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    )
}

fn canaries() -> Vec<Canary> {
    let held = (0..12).map(|n| (Sort::Held, format!("hc{n}/Zq+{}=k", mark(n))));
    let strangers = (12..24).map(|n| {
        (
            Sort::Stranger,
            if n % 2 == 0 {
                format!("pct_{}{}", mark(n), mark(n))
            } else {
                format!("stranger-{}", mark(n))
            },
        )
    });
    let letters =
        |n: usize, count: usize| mark(n).repeat(5).chars().take(count).collect::<String>();
    let capitals = |n: usize| {
        mark(n)
            .chars()
            .map(|c| char::from(b'A' + u8::try_from(c.to_digit(16).unwrap()).unwrap()))
            .collect::<String>()
    };
    let shaped = [
        format!("ghp_{}", letters(24, 36)),
        format!("gho_{}", letters(25, 36)),
        format!("github_pat_{}", letters(26, 70)),
        format!("glpat-{}", letters(27, 20)),
        format!("xoxb-{}", letters(28, 40)),
        format!("AKIA{}", capitals(29)),
        format!("AIza{}", letters(30, 35)),
        format!("ya29.{}", letters(31, 40)),
        format!("GOCSPX-{}", letters(32, 28)),
        format!("sk-ant-{}", letters(33, 40)),
        format!("sk-proj-{}", letters(34, 40)),
        format!("sk_live_{}", letters(35, 24)),
        format!("npm_{}", letters(36, 36)),
        format!("pypi-AgE{}", letters(37, 60)),
        format!("dckr_pat_{}", letters(38, 30)),
        format!("hf_{}", letters(39, 36)),
        format!("dop_v1_{}", letters(40, 64)),
        format!("SG.{}.{}", letters(41, 22), letters(41, 43)),
        format!("shpat_{}", letters(42, 32)),
        format!("hvs.{}", letters(43, 30)),
        format!("lin_api_{}", letters(44, 40)),
        format!("glc_{}", letters(45, 40)),
        format!("tskey-auth-{}", letters(46, 30)),
        format!(
            "eyJ{}.eyJ{}.{}",
            letters(47, 20),
            letters(47, 20),
            letters(47, 30)
        ),
        format!("postgres://admin:{}@db.internal", letters(48, 24)),
        format!("pct_{}", letters(49, 24)),
    ];
    let shaped = shaped.into_iter().map(|value| (Sort::Shaped, value));
    held.chain(strangers)
        .chain(shaped)
        .map(|(sort, value)| Canary { sort, value })
        .collect()
}

/// The seven spellings.
fn spellings(value: &str) -> [String; 7] {
    let bytes = value.as_bytes();
    let hex = |before: &str| {
        bytes
            .iter()
            .map(|byte| format!("{before}{byte:02x}"))
            .collect::<String>()
    };
    let base64 = base64(bytes);
    [
        value.to_owned(),
        base64
            .trim_end_matches('=')
            .replace('+', "-")
            .replace('/', "_"),
        base64,
        hex(""),
        hex("%"),
        hex("\\u00"),
        value.chars().rev().collect(),
    ]
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let number = group
            .iter()
            .fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
            << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = if place > group.len() {
                b'='
            } else {
                DIGITS[number >> (18 - 6 * place) & 63]
            };
            out.push(char::from(digit));
        }
    }
    out
}

/// The spellings of a canary that must not be found.
fn secret_spellings(canary: &Canary) -> Vec<String> {
    let all = spellings(&canary.value);
    let upper: Vec<String> = all[3..5].iter().map(|text| text.to_uppercase()).collect();
    // What a password in a URL is about is the password.
    let bare = canary
        .value
        .split_once("admin:")
        .and_then(|(_, rest)| rest.split_once('@'))
        .map(|(password, _)| password.to_owned());
    match canary.sort {
        Sort::Held => all.into_iter().chain(upper).collect(),
        Sort::Stranger | Sort::Shaped => {
            let plain = bare.unwrap_or(canary.value.clone());
            vec![plain.clone(), spellings(&plain)[5].clone()]
        }
    }
}

/// An upstream that answers every request with an error that repeats what it was sent.
async fn parrot() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut heard = vec![0; 16 << 10];
            let count = stream.read(&mut heard).await.unwrap_or(0);
            let body = String::from_utf8_lossy(&heard[..count]).into_owned();
            let head = format!(
                "HTTP/1.1 500 {}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                "no",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    format!("http://{address}/mcp")
}

struct World {
    gate: Gate,
    up: Shifty,
    /// Not talked to here, and there for as long as the gate is.
    _others: (Shifty, HttpFixture),
    canaries: Vec<Canary>,
}

impl World {
    async fn open() -> World {
        let canaries = canaries();
        assert_eq!(canaries.len(), 50);
        let held = |n: usize| canaries[n].value.clone();
        let mut shown = Shown::usual();
        shown.tools.extend([
            tool("fail", "Fails"),
            tool("never", "Is blocked"),
            tool("own", "Wants an account"),
            tool("pay", "Pays"),
        ]);
        let up = shifty(shown).await;
        let news = shifty(Shown::usual()).await;
        let everything = fixture().await;
        let up_entry = http(
            &up.url(),
            "classification: INTERNAL, open_world: false, bearer: \"env:CANARY_0\", headers: { X-Key: \"env:CANARY_1\" }, \
             tools: { never: blocked, own: { requires_user_auth: true }, pay: { effect: consequential } }",
        );
        let says = "echo \"$KEY\" >&2; echo \"not json $KEY\"; exit 3";
        let yaml = format!(
            "policy: {{ bundle: observe }}\nmcp_servers:\n  up: {up_entry}\n  news: {}\n  form: {}\n  parrot: {}\n  dead: {}\n  noisy: {}\n  gone: {}\n",
            http(
                &news.url(),
                "classification: PUBLIC, open_world: true, headers: { X-Key: \"env:CANARY_2\" }"
            ),
            http(
                &everything.url(),
                "classification: INTERNAL, allow: { elicitation: true }"
            ),
            http(
                &parrot().await,
                "classification: PUBLIC, bearer: \"env:CANARY_3\", headers: { X-Key: \"env:CANARY_4\" }"
            ),
            http(
                "http://127.0.0.1:9/mcp",
                "classification: PUBLIC, bearer: \"env:CANARY_5\""
            ),
            stdio(
                "sh",
                &["-c", says],
                "classification: PUBLIC, env: { KEY: \"env:CANARY_6\" }"
            ),
            stdio(
                "/does/not/exist",
                &[],
                "classification: PUBLIC, env: { KEY: \"env:CANARY_7\" }"
            ),
        );
        let mut setup = Setup::new(portcullis(), yaml).env("PORTCULLIS_LOG", "debug,hyper=info");
        for n in 0..8 {
            setup = setup.env(&format!("CANARY_{n}"), &held(n));
        }
        let gate = setup.start().await.unwrap();
        for id in ["up", "news", "form"] {
            await_state(&gate, id, "connected", SOON).await;
        }
        // What lives in the vault: a secret that a server added later uses, and users' own accounts.
        let set = gate
            .cli_with_input(&["secret", "set", "later"], &held(8))
            .await
            .unwrap();
        assert_eq!(set.code, Some(0), "{set:?}");
        let add = [
            "servers",
            "add",
            "late",
            "--url",
            &up.url(),
            "--bearer",
            "keychain:later",
            "--classification",
            "INTERNAL",
            "--yes",
        ];
        done(&gate, &add).await;
        await_state(&gate, "late", "connected", SOON).await;
        for (n, user) in [(9, "ann"), (10, "bob")] {
            let kept = gate
                .cli_with_input(&["connect-account", "up", "--user", user], &held(n))
                .await
                .unwrap();
            assert_eq!(kept.code, Some(0), "{kept:?}");
        }
        let set = gate
            .cli_with_input(&["secret", "set", "unused"], &held(11))
            .await
            .unwrap();
        assert_eq!(set.code, Some(0), "{set:?}");
        World {
            gate,
            up,
            _others: (news, everything),
            canaries,
        }
    }

    /// Each account is used once, so that the gate holds it; one canary is held by nobody but the vault.
    async fn spend_accounts(&self) {
        for user in ["ann", "bob"] {
            let token = new_token(&self.gate, user, &["--user", user]).await;
            let agent = Client::plain(
                &self.gate.target().unwrap().with_token(Some(&token)),
                Era::Modern,
            )
            .await
            .unwrap();
            let called = agent
                .call("up__own", json!({"text": "mine"}))
                .await
                .unwrap();
            assert!(!called.is_error, "{}", called.answer);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_canary_is_in_any_byte_written() {
    let _alone = alone().await;
    let mut world = World::open().await;
    world.spend_accounts().await;
    let (legacy, modern) = (
        client(&world.gate, Era::Legacy).await,
        client(&world.gate, Era::Modern).await,
    );
    for (n, canary) in world.canaries.iter().enumerate() {
        for (spelling, text) in spellings(&canary.value).iter().enumerate() {
            // A stranger's credential is one where it is shown as one. Of a shape only its owner could know other spellings.
            if canary.sort == Sort::Stranger || canary.sort == Sort::Shaped && spelling == 5 {
                continue;
            }
            let agent = if (n + spelling) % 2 == 0 {
                &modern
            } else {
                &legacy
            };
            call_with(agent, n + spelling, text).await;
        }
        knock(&world.gate, canary).await;
        line_door(&world.gate, &canary.value).await;
        if canary.sort != Sort::Stranger {
            say_to_operator(&world.gate, canary).await;
            escaped(&world.gate, &canary.value).await;
        }
    }
    ask_a_person(&world).await;
    answer_a_form(&world).await;
    assert!(
        world.up.ever_heard(&world.canaries[0].value),
        "the secret itself is spent where it belongs"
    );
    let outside = tempfile::tempdir().unwrap();
    read_everything(&world.gate, outside.path()).await;
    world.gate.stop().await.unwrap();
    // An export needs a signed head, and the last one covers everything.
    let file = outside.path().join("all.ledger");
    done(
        &world.gate,
        &["audit", "export", "--out", file.to_str().unwrap()],
    )
    .await;

    let mut places = files_below(world.gate.home());
    places.extend(files_below(outside.path()));
    places.retain(|path| !is_where_it_belongs(path));
    assert!(places.len() > 15, "{places:?}");
    let mut written: Vec<(String, Vec<u8>)> = places
        .iter()
        .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
        .collect();
    written.push((
        "the kept arguments, unsealed".to_owned(),
        unsealed(&world.gate.home().join("ledger")),
    ));
    let total: usize = written.iter().map(|(_, bytes)| bytes.len()).sum();
    let mut hits = Vec::new();
    for (n, canary) in world.canaries.iter().enumerate() {
        // What only the vault has, nobody can have looked for: it must be nowhere as it is. In arguments it is a text like any other.
        let needles = if n == 11 {
            Vec::new()
        } else {
            secret_spellings(canary)
        };
        for needle in needles {
            for (place, bytes) in &written {
                if memchr_find(bytes, needle.as_bytes()) {
                    hits.push(format!(
                        "{:?} canary {n} `{needle}` in {place}",
                        canary.sort
                    ));
                }
            }
        }
    }
    hits.dedup();
    println!(
        "{} files and {total} bytes searched for {} canaries",
        written.len(),
        world.canaries.len()
    );
    assert!(
        hits.is_empty(),
        "{} hits:\n{}",
        hits.len(),
        hits.iter().take(40).cloned().collect::<Vec<_>>().join("\n")
    );
}

/// A spelling through the tools, in a way that depends on `turn`: permitted, refused, malformed, unknown, failed.
async fn call_with(agent: &Client, turn: usize, text: &str) {
    let request = async |method: &str, params: Value| drop(agent.request(method, params).await);
    let call = async |name: &str, arguments: Value| {
        request("tools/call", json!({"name": name, "arguments": arguments})).await
    };
    call("up__say", json!({ "text": text })).await;
    match turn % 12 {
        0 => call("up__give", json!({"value": {text: [text, {"deep": text}]}})).await,
        1 => call("up__never", json!({ "text": text })).await,
        2 => call(&format!("up__{text}"), json!({})).await,
        3 => call(text, json!({ "text": text })).await,
        4 => call("up__say", json!({"text": 5, "extra": text})).await,
        5 => call("up__say", json!({"text": format!("$(curl {text}); rm -rf / && ../../etc/passwd")})).await,
        6 => call("up__fail", json!({ "text": format!("upstream says {text}") })).await,
        7 => request("resources/read", json!({"uri": format!("portcullis://up/note://{text}")})).await,
        8 => request("prompts/get", json!({"name": format!("up__{text}"), "arguments": {text: text}})).await,
        9 => request(text, json!({ "text": text })).await,
        10 => {
            request(
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": text}, "argument": {"name": text, "value": text}}),
            )
            .await
        }
        _ => call("news__say", json!({ "text": text })).await,
    }
}

/// A canary at the doors over HTTP: as a credential, in headers, in the path, in what is no JSON.
async fn knock(gate: &Gate, canary: &Canary) {
    let value = &canary.value;
    let target = gate.target().unwrap();
    let json_type = ("content-type".to_owned(), "application/json".to_owned());
    let body = || {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"x": value}})
            .to_string()
            .into_bytes()
    };
    let stranger: Target = target.with_token(Some(value));
    for (target, method) in [
        (&stranger, "POST"),
        (&stranger, "GET"),
        (&stranger, "DELETE"),
    ] {
        let _ = target
            .send(method, std::slice::from_ref(&json_type), body())
            .await;
    }
    let _ = stranger
        .at("/v1/admin/status")
        .send("GET", &[], Vec::new())
        .await;
    let _ = target
        .at(&format!(
            "/mcp/{}?token={}",
            &spellings(value)[4],
            &spellings(value)[3]
        ))
        .send("POST", &[], body())
        .await;
    for header in [
        "origin",
        "mcp-session-id",
        "x-anything",
        "mcp-protocol-version",
        "cookie",
        "host",
        "last-event-id",
    ] {
        let _ = target
            .send(
                "POST",
                &[json_type.clone(), (header.to_owned(), value.clone())],
                body(),
            )
            .await;
    }
    let broken = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"{value}\",\"id\":\"{value}\",\"method\":\"{value}\" {value}"
    );
    let _ = target
        .send(
            "POST",
            std::slice::from_ref(&json_type),
            broken.into_bytes(),
        )
        .await;
}

/// A call whose text is written with an escape for every character.
async fn escaped(gate: &Gate, value: &str) {
    let text = &spellings(value)[5];
    let params = format!(
        "{{\"name\":\"up__say\",\"arguments\":{{\"text\":\"{text}\",\"{text}\":1}},\"_meta\":{{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientInfo\":{{\"name\":\"c\",\"version\":\"1\"}},\"io.modelcontextprotocol/clientCapabilities\":{{}}}}}}"
    );
    let body =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{params}}}");
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = [
        header("content-type", "application/json"),
        header("accept", "application/json, text/event-stream"),
        header("mcp-protocol-version", "2026-07-28"),
        header("mcp-method", "tools/call"),
        header("mcp-name", "up__say"),
    ];
    let reply = gate
        .target()
        .unwrap()
        .send("POST", &headers, body.into_bytes())
        .await
        .unwrap();
    let status = reply.status;
    let answer = reply.json().await.unwrap();
    assert!(status == 200 && answer.get("result").is_some(), "{answer}");
}

/// A canary at the line door, as a credential and as a line that makes no sense.
async fn line_door(gate: &Gate, value: &str) {
    let Ok(mut stream) = tokio::net::UnixStream::connect(gate.home().join("run/gate.sock")).await
    else {
        return;
    };
    let lines = format!(
        "{{\"token\":\"{value}\"}}\n{value}\n{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{value}\"}}\n"
    );
    let _ = stream.write_all(lines.as_bytes()).await;
    let mut heard = vec![0; 4 << 10];
    let _ = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut heard)).await;
}

/// A canary in what a person writes down, and in ids they ask for.
async fn say_to_operator(gate: &Gate, canary: &Canary) {
    let value = &canary.value;
    for (verb, params) in [
        ("servers/nobody/block", json!({ "reason": value })),
        ("approvals/none/approve", json!({ "reason": value })),
        ("sessions/nobody/reset", json!({ "reason": value })),
        (value.as_str(), json!({ "x": value })),
    ] {
        let _ = admin_target(gate, verb)
            .send("POST", &[], params.to_string().into_bytes())
            .await;
    }
}

/// Arguments that wait for a person are kept for them, and shown to them, without secrets.
async fn ask_a_person(world: &World) {
    let token = new_token(&world.gate, "influenced", &[]).await;
    let target = world.gate.target().unwrap().with_token(Some(&token));
    let agent = Client::plain(&target, Era::Modern).await.unwrap();
    assert!(
        !agent
            .call("news__say", json!({"text": "buy now"}))
            .await
            .unwrap()
            .is_error
    );
    let known = world
        .canaries
        .iter()
        .filter(|canary| canary.sort != Sort::Stranger && canary.value != world.canaries[11].value);
    let all: Vec<String> = known
        .flat_map(|canary| {
            if canary.sort == Sort::Held {
                secret_spellings(canary)
            } else {
                vec![canary.value.clone()]
            }
        })
        .collect();
    let waiting = agent.start(
        "tools/call",
        json!({"name": "up__pay", "arguments": {"text": all.join(" ")}}),
    );
    let id = eventually("an approval", SOON, || async {
        let said = world
            .gate
            .cli(&["--json", "approvals", "list"])
            .await
            .unwrap();
        let list: Value = serde_json::from_str(&said.stdout).map_err(|error| error.to_string())?;
        let list = list.get("approvals").cloned().unwrap_or(list);
        list.as_array()
            .and_then(|all| all.first()?.get("id")?.as_str().map(str::to_owned))
            .ok_or(said.stdout)
    })
    .await;
    let shown = done(&world.gate, &["approvals", "show", &id]).await.stdout;
    assert!(
        shown.contains("[redacted: held-value]") && !shown.contains(&world.canaries[0].value),
        "{shown}"
    );
    let reason = json!({ "reason": world.canaries[30].value });
    let (status, said) = post(&world.gate, &format!("approvals/{id}/approve"), &reason).await;
    assert!(status != 200, "a secret is no reason: {said}");
    let denied = world
        .gate
        .cli(&["approvals", "deny", &id, "--reason", "no"])
        .await
        .unwrap();
    assert_eq!(denied.code, Some(0), "{denied:?}");
    drop(waiting);
}

/// What a person fills into a server's form.
async fn answer_a_form(world: &World) {
    for n in [0, 3, 9, 24, 30] {
        let value = &world.canaries[n].value;
        let answer = json!({"action": "accept", "content": {"name": value, "username": value, "email": format!("{value}@x"), "yes": true}});
        let capabilities = json!({"elicitation": {"form": {}}});
        let target = world.gate.target().unwrap();
        for era in [Era::Legacy, Era::Modern] {
            let agent = Client::connect(
                &target,
                era,
                capabilities.clone(),
                &[("elicitation/create", answer.clone())],
            )
            .await
            .unwrap();
            let _ = agent
                .call(
                    "form__elicit_form",
                    json!({"message": format!("tell me {value}")}),
                )
                .await;
        }
    }
}

/// Everything that reads, so that what it writes is searched too.
async fn read_everything(gate: &Gate, outside: &Path) {
    let path = |name: &str| outside.join(name).to_str().unwrap().to_owned();
    for (format, name) in [
        ("html", "report.html"),
        ("csv", "report.csv"),
        ("json", "report.json"),
    ] {
        done(
            gate,
            &["audit", "report", "--format", format, "--out", &path(name)],
        )
        .await;
    }
    let said = [
        done(
            gate,
            &["--json", "audit", "query", "--limit", "100000", "--all"],
        )
        .await,
        done(gate, &["audit", "tail", "-n", "100000"]).await,
        done(gate, &["--json", "status"]).await,
        done(gate, &["status"]).await,
        done(gate, &["--json", "servers", "list"]).await,
        done(gate, &["--json", "approvals", "list", "--all"]).await,
        gate.cli(&["doctor"]).await.unwrap(),
    ];
    for (n, said) in said.into_iter().enumerate() {
        fs::write(
            outside.join(format!("said-{n}")),
            said.stdout + &said.stderr,
        )
        .unwrap();
    }
}

/// The two credentials in clear are for the person whose home it is; the configuration holds what its owner wrote.
fn is_where_it_belongs(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    matches!(name, "client.token" | "operator.token" | "portcullis.yaml")
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files_below(&entry.path()));
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found
}

/// All kept arguments, as `audit show` would print them.
fn unsealed(ledger: &Path) -> Vec<u8> {
    let bodies = audit::BodyReader::open(ledger).unwrap();
    let mut all = Vec::new();
    for record in audit::read(ledger, audit::Filter::default())
        .unwrap()
        .map(Result::unwrap)
    {
        if !record.body.is_empty() {
            all.extend(
                bodies
                    .get(&record.call)
                    .unwrap()
                    .bytes()
                    .unwrap_or_default(),
            );
            all.push(b'\n');
        }
    }
    assert!(all.len() > 10_000, "arguments are kept");
    all
}

fn memchr_find(bytes: &[u8], needle: &[u8]) -> bool {
    let Some(first) = needle.first() else {
        return false;
    };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        if rest[at..].starts_with(needle) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}
