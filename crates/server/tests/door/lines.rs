//! The same, in lines.

use std::time::Duration;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, ReadHalf, WriteHalf},
    net::UnixStream,
};

use crate::yard::{ALICE, MAX_BODY, OPERATOR, Yard, cannot_reload};

struct Line {
    read: Lines<BufReader<ReadHalf<UnixStream>>>,
    write: WriteHalf<UnixStream>,
}

impl Line {
    async fn open(yard: &Yard) -> Self {
        let (read, write) = tokio::io::split(yard.line_stream().await);
        Self {
            read: BufReader::new(read).lines(),
            write,
        }
    }

    async fn greeted(yard: &Yard, token: &str) -> Self {
        let mut line = Self::open(yard).await;
        let answer = line
            .ask(&format!(r#"{{"portcullis":"hello","token":"{token}"}}"#))
            .await;
        assert_eq!(answer, r#"{"ok":true}"#);
        line
    }

    async fn next(&mut self) -> Option<String> {
        tokio::time::timeout(Duration::from_secs(5), self.read.next_line())
            .await
            .expect("an answer in time")
            .unwrap()
    }

    async fn ask(&mut self, text: &str) -> String {
        self.write.write_all(text.as_bytes()).await.unwrap();
        self.write.write_all(b"\n").await.unwrap();
        self.next().await.unwrap()
    }
}

#[tokio::test]
async fn who_does_not_greet_gets_one_line_and_the_door() {
    let yard = Yard::open().await;
    for hello in [
        "hello".to_owned(),
        "{}".to_owned(),
        r#"{"portcullis":"hello"}"#.to_owned(),
        r#"{"portcullis":"hello","token":"pct_wrong"}"#.to_owned(),
        format!(r#"{{"portcullis":"hello","token":"{ALICE}","mount":"unknown"}}"#),
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned(),
    ] {
        let mut line = Line::open(&yard).await;
        let answer = line.ask(&hello).await;
        assert!(
            answer.starts_with(r#"{"error":"#) && !answer.contains("pct_"),
            "{answer}"
        );
        assert_eq!(line.next().await, None, "{hello}");
    }
}

#[tokio::test]
async fn both_eras_share_a_line() {
    let yard = Yard::open().await;
    let mut line = Line::greeted(&yard, ALICE).await;
    let early = line
        .ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .await;
    assert!(early.contains("-32600"), "{early}");
    let modern = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    assert!(
        line.ask(modern)
            .await
            .contains(r#""resultType":"complete""#)
    );
    let hello = r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{}}}"#;
    assert!(
        line.ask(hello)
            .await
            .contains(r#""protocolVersion":"2024-11-05""#)
    );
    assert_eq!(
        line.ask(r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#)
            .await,
        r#"{"jsonrpc":"2.0","id":4,"result":{"tools":[]}}"#
    );
}

#[tokio::test]
async fn a_broken_line_costs_that_line_only() {
    let yard = Yard::open().await;
    let mut line = Line::greeted(&yard, ALICE).await;
    let broken = line.ask(r#"{"jsonrpc":"2.0","id":5,"method":"#).await;
    assert!(
        broken.contains(r#""id":5,"error":{"code":-32700"#),
        "{broken}"
    );
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":"long","method":"ping","params":{{"a":"{}"}}}}"#,
        "x".repeat(MAX_BODY)
    );
    let answer = line.ask(&long).await;
    assert!(
        answer.contains(r#""id":"long","error":{"code":-32600"#),
        "{answer}"
    );
    assert!(
        line.ask(r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#)
            .await
            .contains(r#""id":6,"result":{}"#)
    );
}

#[tokio::test]
async fn an_operator_asks_more() {
    let yard = Yard::open().await;
    let status = r#"{"jsonrpc":"2.0","id":1,"method":"portcullis/status"}"#;
    assert!(
        Line::greeted(&yard, ALICE)
            .await
            .ask(status)
            .await
            .contains("-32601")
    );
    let mut operator = Line::greeted(&yard, OPERATOR).await;
    yard.shelf.put(cannot_reload);
    assert!(
        operator
            .ask(status)
            .await
            .starts_with(r#"{"jsonrpc":"2.0","id":1,"result":{"#)
    );
    assert!(
        operator
            .ask(r#"{"jsonrpc":"2.0","id":2,"method":"portcullis/retry"}"#)
            .await
            .contains("-32602")
    );
    assert!(
        operator
            .ask(r#"{"jsonrpc":"2.0","id":3,"method":"portcullis/reload"}"#)
            .await
            .contains(r#""id":3,"error""#)
    );
}

#[tokio::test]
async fn closing_ones_side_ends_the_conversation() {
    let yard = Yard::open().await;
    let mut line = Line::greeted(&yard, ALICE).await;
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}}"#;
    line.ask(hello).await;
    let ready = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
    let last =
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"a__b\"}}\n";
    line.write
        .write_all(format!("{ready}{last}").as_bytes())
        .await
        .unwrap();
    line.write.shutdown().await.unwrap();
    assert!(
        line.next()
            .await
            .is_some_and(|answer| answer.contains("Unknown tool: a__b")),
        "the last question is answered"
    );
    assert_eq!(line.next().await, None, "and then the door closes");
}

#[tokio::test]
async fn shutting_down_ends_every_line() {
    let yard = Yard::open().await;
    let mut line = Line::greeted(&yard, ALICE).await;
    yard.close().await;
    assert_eq!(line.next().await, None);
}
