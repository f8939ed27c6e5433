//! Deliveries to a file, without a gate: what the cursor promises.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use audit::{Change, Filter, Ledger};
use tokio::sync::watch;

use crate::{Address, Facility, Kind, Outside, Sinks, Source, Spec, Start, Status};

struct Yard {
    dir: tempfile::TempDir,
    ledger: Ledger,
    durable: watch::Sender<u64>,
}

impl Yard {
    fn new() -> Yard {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(dir.path().join("ledger")).unwrap();
        Yard {
            dir,
            ledger,
            durable: watch::Sender::new(0),
        }
    }

    fn write(&self, records: usize) {
        let change = Change {
            action: "server.state",
            server: "github",
            ..Change::default()
        };
        self.ledger.append(&vec![change; records]).unwrap();
        self.durable.send_replace(self.ledger.sync().unwrap());
    }

    fn spec(&self, start: Start) -> Spec {
        Spec {
            name: "log".into(),
            filter: Filter::default(),
            start,
            batch: 10,
            timeout: Duration::from_secs(5),
            kind: Kind::File {
                path: self.file(),
                rotate_bytes: 1 << 20,
            },
        }
    }

    fn start(&self, specs: Vec<Spec>) -> Sinks {
        let source = Source {
            ledger: self.ledger.dir().to_owned(),
            durable: self.durable.subscribe(),
            cursors: self.dir.path().join("sinks"),
        };
        let outside = Outside {
            secrets: Arc::new(NoSecrets),
            courier: None,
            clock: audit::system_clock(),
            dice: Arc::new(|| 0),
            version: "test",
        };
        Sinks::start(source, outside, specs)
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("events.jsonl")
    }

    fn cursor(&self) -> PathBuf {
        self.dir.path().join("sinks/log.cursor")
    }

    fn lines(&self) -> usize {
        lines(&self.file())
    }
}

fn lines(file: &Path) -> usize {
    std::fs::read_to_string(file)
        .unwrap_or_default()
        .lines()
        .count()
}

async fn until(sinks: &Sinks, what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let status = sinks.status().remove(0);
        if is_so(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "waited for {what}: {status:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_is_durable_is_delivered_and_the_rest_when_it_is() {
    let yard = Yard::new();
    yard.write(25);
    let sinks = yard.start(vec![yard.spec(Start::Beginning)]);
    until(&sinks, "25 lines", |status| {
        status.lag == 0 && status.state == "idle"
    })
    .await;
    assert_eq!(yard.lines(), 25);
    yard.write(5);
    sinks.close(Duration::from_secs(10)).await;
    assert_eq!(yard.lines(), 30, "closing delivers what is there");
    let sinks = yard.start(vec![yard.spec(Start::Beginning)]);
    until(&sinks, "nothing to do", |status| status.state == "idle").await;
    assert_eq!(yard.lines(), 30, "and it is not delivered again");
    assert_eq!(
        crate::lowest_cursor(&yard.dir.path().join("sinks"), ["log"].into_iter()),
        Ok(Some(30))
    );
}

#[tokio::test]
async fn a_new_sink_may_begin_now() {
    let yard = Yard::new();
    yard.write(25);
    let sinks = yard.start(vec![yard.spec(Start::Now)]);
    until(&sinks, "the sink to begin", |status| {
        status.state == "idle" && status.position == "25.0"
    })
    .await;
    yard.write(2);
    until(&sinks, "two events", |status| status.delivered == 2).await;
    assert_eq!(yard.lines(), 2);
}

#[tokio::test]
async fn a_cursor_that_cannot_be_right_stops_its_sink_with_words() {
    for (text, word) in [("ninety", "delete it"), ("99.0", "not the ledger")] {
        let yard = Yard::new();
        yard.write(3);
        std::fs::create_dir_all(yard.cursor().parent().unwrap()).unwrap();
        std::fs::write(yard.cursor(), text).unwrap();
        let sinks = yard.start(vec![yard.spec(Start::Beginning)]);
        let status = until(&sinks, "a failure", |status| status.state == "failing").await;
        assert!(status.error.contains(word), "{status:?}");
        assert_eq!(yard.lines(), 0);
        std::fs::write(yard.cursor(), "1.0").unwrap();
        until(&sinks, "the repair to be noticed", |status| {
            status.delivered == 2
        })
        .await;
    }
}

#[tokio::test]
async fn what_is_left_out_is_passed_over_and_noted() {
    let yard = Yard::new();
    yard.write(3_000);
    let filter = Filter {
        server: "other".into(),
        ..Filter::default()
    };
    let sinks = yard.start(vec![Spec {
        filter,
        ..yard.spec(Start::Beginning)
    }]);
    until(&sinks, "the end", |status| {
        status.lag == 0 && status.state == "idle"
    })
    .await;
    assert_eq!(yard.lines(), 0);
    sinks.close(Duration::from_secs(10)).await;
    assert_eq!(std::fs::read_to_string(yard.cursor()).unwrap(), "3000.0\n");
}

#[tokio::test]
async fn records_that_are_gone_are_counted_as_lost() {
    let yard = Yard::new();
    yard.write(10);
    let segment = yard.ledger.dir().join("00000000000000000000.log");
    let text = std::fs::read_to_string(&segment).unwrap();
    let kept: Vec<&str> = text.lines().skip(4).collect();
    std::fs::write(&segment, kept.join("\n") + "\n").unwrap();
    let sinks = yard.start(vec![yard.spec(Start::Beginning)]);
    let status = until(&sinks, "the rest", |status| {
        status.lag == 0 && status.state == "idle"
    })
    .await;
    assert_eq!((status.lost, status.delivered, yard.lines()), (4, 6, 6));
}

/// The positions in what a daemon was sent.
fn heard(messages: &[String]) -> Vec<String> {
    let event = |message: &String| {
        let (_, event) = message
            .split_once(" - {")
            .expect("a message holds an event");
        let event: serde_json::Value =
            serde_json::from_str(&format!("{{{event}")).expect("an event");
        event["position"].as_str().expect("a position").to_owned()
    };
    messages.iter().map(event).collect()
}

fn syslog(yard: &Yard, address: Address) -> Spec {
    let kind = Kind::Syslog {
        address,
        facility: Facility::parse("local0").unwrap(),
    };
    Spec {
        kind,
        ..yard.spec(Start::Beginning)
    }
}

async fn take(socket: &tokio::net::UnixDatagram, count: usize) -> Vec<String> {
    let mut messages = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while messages.len() < count {
        let length = tokio::time::timeout(Duration::from_secs(20), socket.recv(&mut buffer))
            .await
            .expect("in time")
            .unwrap();
        messages.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    messages
}

#[tokio::test]
async fn a_daemon_on_a_unix_socket_that_goes_away_is_sent_again_what_did_not_settle() {
    let yard = Yard::new();
    yard.write(3);
    let path = yard.dir.path().join("log");
    let sinks = yard.start(vec![syslog(&yard, Address::Unix(path.clone()))]);
    until(&sinks, "a failure", |status| status.state == "failing").await;
    let socket = tokio::net::UnixDatagram::bind(&path).unwrap();
    assert_eq!(heard(&take(&socket, 3).await), ["0.0", "1.0", "2.0"]);
    until(&sinks, "it to settle", |status| {
        status.position == "3.0" && status.state == "idle"
    })
    .await;
    yard.write(1);
    assert_eq!(heard(&take(&socket, 1).await), ["3.0"]);
    drop(socket);
    std::fs::remove_file(&path).unwrap();
    yard.write(1);
    until(&sinks, "a failure", |status| status.state == "failing").await;
    let socket = tokio::net::UnixDatagram::bind(&path).unwrap();
    let again = heard(&take(&socket, 1).await);
    assert!(again == ["3.0"] || again == ["4.0"], "{again:?}");
    until(&sinks, "everything to settle", |status| {
        status.lag == 0 && status.state == "idle"
    })
    .await;
}

#[tokio::test]
async fn datagrams_to_nobody_are_noticed_and_sent_again() {
    let yard = Yard::new();
    yard.write(4);
    let port = tokio::net::UdpSocket::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let sinks = yard.start(vec![syslog(
        &yard,
        Address::Udp(format!("127.0.0.1:{port}")),
    )]);
    let failing = until(&sinks, "a failure", |status| status.state == "failing").await;
    assert_eq!(failing.position, "0.0", "nothing counts that nobody heard");
    let socket = tokio::net::UdpSocket::bind(("127.0.0.1", port))
        .await
        .unwrap();
    let (mut messages, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    while messages.len() < 4 {
        let length = tokio::time::timeout(Duration::from_secs(20), socket.recv(&mut buffer))
            .await
            .expect("in time")
            .unwrap();
        messages.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    assert_eq!(heard(&messages), ["0.0", "1.0", "2.0", "3.0"]);
    until(&sinks, "everything to settle", |status| {
        status.lag == 0 && status.state == "idle"
    })
    .await;
}

#[tokio::test]
async fn http_without_a_courier_waits_and_says_so() {
    let yard = Yard::new();
    yard.write(1);
    let kind = Kind::Otlp {
        url: "http://127.0.0.1:1/v1/logs".into(),
        headers: Vec::new(),
    };
    let sinks = yard.start(vec![Spec {
        kind,
        ..yard.spec(Start::Beginning)
    }]);
    let status = until(&sinks, "a failure", |status| status.state == "failing").await;
    assert!(
        status.error.contains("worker") && status.lag == 1,
        "{status:?}"
    );
}

/// A store without secrets.
#[derive(Debug)]
struct NoSecrets;

impl secrets::Store for NoSecrets {
    fn lease<'a>(&'a self, reference: &'a secrets::SecretRef) -> secrets::Leasing<'a> {
        let reference = reference.to_string();
        Box::pin(async { Err(secrets::SecretError::EngineNotConfigured { reference }) })
    }
}
