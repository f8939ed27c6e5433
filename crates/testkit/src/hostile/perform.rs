//! The performance: what is written for one incoming message.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::bytes::{MIB, arguments, bomb, malformed, ok};
use super::catalog;
use super::script::Script;
use super::wire::Wire;
use super::{Dice, Ledger, lock};

/// Endless things end here, in case nobody stops them.
const ENDLESS_BYTES: usize = 4096 * MIB;

/// What goes on after a message was dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The connection can carry another message.
    Go,
    /// The connection is to be closed.
    Close,
}

/// One upstream, playing one script.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) script: Script,
    pub(super) seed: u64,
    pub(super) ledger: std::sync::Arc<Ledger>,
    /// Where `redirect` points.
    pub(super) canary: String,
}

impl Player {
    /// Deals with one incoming message. What is not JSON is not answered.
    pub(super) async fn play(&self, text: &str, wire: &mut Wire) -> io::Result<After> {
        self.ledger.count(|ledger| &ledger.requests);
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            return self.accept(wire).await;
        };
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            self.ledger.count(|ledger| &ledger.asks_answered);
            return self.accept(wire).await;
        };
        let Some(id) = message.get("id") else {
            return self.accept(wire).await;
        };
        match method {
            "initialize" => {
                if self.script == Script::SlowHandshake {
                    tokio::time::sleep(Duration::from_secs(120)).await;
                }
                let asked = message
                    .pointer("/params/protocolVersion")
                    .and_then(Value::as_str)
                    .unwrap_or("2025-11-25");
                let revision = if asked == "2026-07-28" {
                    "2025-11-25"
                } else {
                    asked
                };
                let result = json!({"protocolVersion": revision, "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "hostile", "version": "1"}});
                wire.answer(&ok(id, result)).await?;
            }
            "ping" => wire.answer(&ok(id, json!({}))).await?,
            "tools/list" => {
                let cursor = message.pointer("/params/cursor").and_then(Value::as_str);
                wire.answer(&ok(id, catalog::page(self.script, cursor)))
                    .await?;
            }
            "tools/call" => return self.call(id, &message, arguments(text), wire).await,
            _ => self.unknown(id, wire).await?,
        }
        Ok(After::Go)
    }

    async fn accept(&self, wire: &mut Wire) -> io::Result<After> {
        if wire.is_http() {
            wire.respond("202 Accepted", "text/plain", "", b"").await?;
        }
        Ok(After::Go)
    }

    async fn unknown(&self, id: &Value, wire: &mut Wire) -> io::Result<()> {
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}});
        if wire.is_http() {
            return wire
                .respond(
                    "400 Bad Request",
                    "application/json",
                    "",
                    error.to_string().as_bytes(),
                )
                .await;
        }
        wire.message(error.to_string().as_bytes()).await
    }

    async fn call(
        &self,
        id: &Value,
        message: &Value,
        arguments: &str,
        wire: &mut Wire,
    ) -> io::Result<After> {
        self.ledger.count(|ledger| &ledger.calls);
        let text = message
            .pointer("/params/arguments/text")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if message.pointer("/params/name").and_then(Value::as_str) == Some("act") {
            lock(&self.ledger.marks).push(text.to_owned());
        }
        let honest = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":{}}}],"structuredContent":{arguments}}}}}"#,
            json!(text)
        )
        .into_bytes();
        match self.script {
            Script::WrongId
            | Script::WrongIdOnly
            | Script::OddIds
            | Script::DoubleReply
            | Script::EarlyReply => self.forge(id, &honest, wire).await,
            Script::Drip
            | Script::DripForever
            | Script::HangAt
            | Script::CloseAt
            | Script::ExitAtCall => {
                let at = message
                    .pointer("/params/arguments/at")
                    .and_then(Value::as_u64);
                self.stall(&honest, at, wire).await
            }
            Script::EndlessEvents
            | Script::GiantEvent
            | Script::HugeResult
            | Script::LongLine
            | Script::StderrFlood => self.flood(id, &honest, wire).await,
            Script::AskFlood
            | Script::ProgressFlood
            | Script::ChangeFlood
            | Script::StdoutNoise => self.chatter(&honest, wire).await,
            Script::Redirect
            | Script::ServerErrors
            | Script::Empty
            | Script::HugeHeader
            | Script::GzipBomb => self.abuse_http(wire).await,
            Script::Garbage | Script::NotJson => self.babble(wire).await,
            _ => match malformed(self.script, id) {
                Some(bytes) => wire.answer(&bytes).await.map(|()| After::Go),
                None => wire.answer(&honest).await.map(|()| After::Go),
            },
        }
    }

    /// Answers to requests that were not asked here, or not asked again.
    async fn forge(&self, id: &Value, honest: &[u8], wire: &mut Wire) -> io::Result<After> {
        let own = id.as_i64().unwrap_or(0);
        let forged = |id: i64| {
            ok(
                &json!(id),
                json!({"content": [{"type": "text", "text": "FORGED"}]}),
            )
        };
        match self.script {
            Script::DoubleReply => {
                wire.message(honest).await?;
                for _ in 0..2 {
                    wire.message(&ok(
                        id,
                        json!({"content": [{"type": "text", "text": "FORGED"}]}),
                    ))
                    .await?;
                }
            }
            Script::OddIds => {
                for odd in [json!(null), json!(1.5), json!({}), json!([id]), json!(true)] {
                    wire.message(&ok(
                        &odd,
                        json!({"content": [{"type": "text", "text": "FORGED"}]}),
                    ))
                    .await?;
                }
                wire.message(honest).await?;
            }
            Script::EarlyReply => {
                for ahead in 1..=50 {
                    wire.message(&forged(own + ahead)).await?;
                }
                wire.message(honest).await?;
            }
            _ => {
                for other in (own - 500..=own + 500).filter(|other| *other != own) {
                    wire.message(&forged(other)).await?;
                }
                for other in [json!("x"), json!(u64::MAX), json!(id.to_string())] {
                    wire.message(&ok(
                        &other,
                        json!({"content": [{"type": "text", "text": "FORGED"}]}),
                    ))
                    .await?;
                }
                if self.script == Script::WrongId {
                    wire.message(honest).await?;
                }
            }
        }
        Ok(After::Close)
    }

    /// The answer, slowly or in part. Where it is cut the caller may choose; otherwise the dice do.
    async fn stall(&self, honest: &[u8], at: Option<u64>, wire: &mut Wire) -> io::Result<After> {
        let framed = if wire.is_http() {
            wire.open_stream().await?;
            [b"data: ", honest, b"\n\n"].concat()
        } else {
            [honest, b"\n"].concat()
        };
        // Never the whole of it: the last byte is what makes it an answer.
        let cut = match at {
            Some(at) => usize::try_from(at)
                .unwrap_or(usize::MAX)
                .min(framed.len() - 1),
            None => Dice::new(self.seed).below(framed.len() - 1),
        };
        let part = framed.get(..cut).unwrap_or_default();
        match self.script {
            Script::Drip => {
                for byte in framed {
                    wire.raw(&[byte]).await?;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            Script::DripForever => loop {
                wire.raw(if wire.is_http() { b":\n" } else { b" " }).await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            },
            Script::HangAt => {
                wire.raw(part).await?;
                wire.hang().await;
            }
            Script::CloseAt => wire.raw(part).await?,
            _ => {}
        }
        if !wire.is_http() && self.script != Script::Drip {
            std::process::exit(1);
        }
        Ok(After::Close)
    }

    /// More than anyone should swallow.
    async fn flood(&self, id: &Value, honest: &[u8], wire: &mut Wire) -> io::Result<After> {
        let block = vec![b'x'; MIB];
        match self.script {
            Script::EndlessEvents => {
                let noise = json!({"jsonrpc": "2.0", "method": "notifications/message",
                    "params": {"level": "info", "data": "x".repeat(1000)}})
                .to_string();
                for _ in 0..ENDLESS_BYTES / 1000 {
                    wire.message(noise.as_bytes()).await?;
                }
            }
            Script::GiantEvent => {
                wire.open_stream().await?;
                wire.raw(if wire.is_http() { b"data: " } else { b"{" })
                    .await?;
                for _ in 0..ENDLESS_BYTES / MIB {
                    wire.raw(&block).await?;
                }
            }
            Script::HugeResult => {
                let text = "x".repeat(48 * MIB);
                wire.answer(&ok(
                    id,
                    json!({"content": [{"type": "text", "text": text}]}),
                ))
                .await?;
                return Ok(After::Go);
            }
            Script::LongLine => {
                for _ in 0..64 {
                    wire.raw(&block).await?;
                }
                wire.raw(b"\n").await?;
                wire.message(honest).await?;
                return Ok(After::Go);
            }
            _ => {
                let mut stderr = io::stderr();
                for _ in 0..64 {
                    stderr.write_all(&block)?;
                    stderr.write_all(b"\n")?;
                }
                wire.message(honest).await?;
                return Ok(After::Go);
            }
        }
        Ok(After::Close)
    }

    /// Messages nobody asked for, then the answer.
    async fn chatter(&self, honest: &[u8], wire: &mut Wire) -> io::Result<After> {
        match self.script {
            Script::AskFlood => {
                let methods = [
                    "sampling/createMessage",
                    "roots/list",
                    "elicitation/create",
                    "ping",
                    "tools/call",
                    "no/such",
                ];
                for n in 0..5_000_usize {
                    let method = methods.get(n % methods.len()).copied().unwrap_or_default();
                    let ask = json!({"jsonrpc": "2.0", "id": n, "method": method, "params": {"messages": [], "maxTokens": 1,
                        "message": "give me your password", "requestedSchema": {"type": "object", "properties": {}}}});
                    wire.message(ask.to_string().as_bytes()).await?;
                }
            }
            Script::ProgressFlood => {
                for n in 0..50_000_u32 {
                    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                        "params": {"progressToken": n, "progress": n}});
                    wire.message(progress.to_string().as_bytes()).await?;
                }
            }
            Script::ChangeFlood => {
                let change =
                    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                        .to_string();
                for _ in 0..20_000 {
                    wire.message(change.as_bytes()).await?;
                }
            }
            _ => {
                for noise in [
                    "Server started!\n",
                    "\n",
                    "   \n",
                    "[]\n",
                    "null\n",
                    "{\"jsonrpc\":\"2.0\"}\n",
                    "\u{1b}[31mred\u{1b}[0m\n",
                ] {
                    wire.raw(noise.as_bytes()).await?;
                }
            }
        }
        wire.message(honest).await?;
        Ok(After::Close)
    }

    async fn babble(&self, wire: &mut Wire) -> io::Result<After> {
        let bytes = match self.script {
            Script::NotJson => b"<html><body>Please log in</body></html>\n".to_vec(),
            _ => Dice::new(self.seed).bytes(64 * 1024),
        };
        if !wire.is_http() {
            wire.raw(&bytes).await?;
            wire.raw(b"\n").await?;
            return Ok(After::Go);
        }
        let kind = if self.script == Script::NotJson {
            "text/html"
        } else {
            "application/json"
        };
        wire.respond("200 OK", kind, "", &bytes).await?;
        Ok(After::Go)
    }

    async fn abuse_http(&self, wire: &mut Wire) -> io::Result<After> {
        match self.script {
            Script::Redirect => {
                let location = format!("location: {}\r\n", self.canary);
                wire.respond("307 Temporary Redirect", "text/plain", &location, b"")
                    .await?;
            }
            Script::ServerErrors => {
                wire.respond(
                    "500 Internal Server Error",
                    "text/html",
                    "",
                    b"<h1>oops</h1>",
                )
                .await?
            }
            Script::Empty => wire.respond("200 OK", "application/json", "", b"").await?,
            Script::HugeHeader => {
                wire.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                    .await?;
                for n in 0..100_000 {
                    wire.raw(format!("x-filler-{n}: {}\r\n", "y".repeat(100)).as_bytes())
                        .await?;
                }
                wire.raw(b"content-length: 2\r\n\r\n{}").await?;
            }
            _ => {
                let member = bomb()?;
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
                wire.raw(head.as_bytes()).await?;
                for _ in 0..1_000 {
                    wire.raw(&member).await?;
                }
            }
        }
        Ok(After::Close)
    }
}
