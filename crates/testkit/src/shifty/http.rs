//! The sockets: requests are read by hand, so that every byte is counted.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::answer::{Answer, answer};
use super::{Books, Heard, lock};

const MOST_HEAD_BYTES: usize = 64 * 1024;

pub(super) async fn serve(listener: TcpListener, books: Arc<Books>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _peer)) = listener.accept().await {
        let books = books.clone();
        connections.spawn(async move { serve_connection(stream, &books).await });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(mut stream: TcpStream, books: &Books) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = Vec::new();
    loop {
        let Some(request) = read_request(&mut stream, &mut unread).await? else {
            return Ok(());
        };
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        lock(&books.heard).push(heard(&request, &message));
        let mut open = books.open.subscribe();
        if open.wait_for(|open| *open).await.is_err() {
            return Ok(());
        }
        match request.method.as_str() {
            "GET" => return stream_announcements(stream, books).await,
            "POST" => match answer(books, &message) {
                Answer::Message(message) => {
                    respond(&mut stream, "200 OK", &message.to_string()).await?
                }
                Answer::Unknown(message) => {
                    respond(&mut stream, "400 Bad Request", &message.to_string()).await?
                }
                Answer::Accepted => respond(&mut stream, "202 Accepted", "").await?,
            },
            _ => respond(&mut stream, "200 OK", "").await?,
        }
    }
}

async fn respond(stream: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nmcp-session-id: shifty\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(&[head.as_bytes(), body.as_bytes()].concat())
        .await
}

/// One chunk per announcement, until somebody hangs up.
async fn stream_announcements(mut stream: TcpStream, books: &Books) -> io::Result<()> {
    let mut announced = books.announcements.subscribe();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nmcp-session-id: shifty\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    while let Ok(message) = announced.recv().await {
        let event = format!("data: {message}\n\n");
        stream
            .write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())
            .await?;
    }
    Ok(())
}

fn heard(request: &Request, message: &Value) -> Heard {
    let text = |pointer: &str| {
        message
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    Heard {
        method: text("/method").unwrap_or_default(),
        name: text("/params/name"),
        params: message.get("params").cloned().unwrap_or_default(),
        authorization: request.authorization.clone(),
        bytes: request.head.len() + request.body.len(),
        text: format!("{}{}", request.head, String::from_utf8_lossy(&request.body)),
    }
}

struct Request {
    method: String,
    authorization: Option<String>,
    head: String,
    body: Vec<u8>,
}

/// Reads one request with a length; the gate sends no other kind.
async fn read_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<Option<Request>> {
    let end = loop {
        if let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if unread.len() > MOST_HEAD_BYTES || stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    };
    let rest = unread.split_off(end);
    let head = String::from_utf8_lossy(&std::mem::replace(unread, rest)).into_owned();
    let header = |name: &str| {
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    let length = header("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    while unread.len() < length {
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
    let rest = unread.split_off(length);
    let body = std::mem::replace(unread, rest);
    let method = head.split(' ').next().unwrap_or_default().to_owned();
    Ok(Some(Request {
        method,
        authorization: header("authorization"),
        head,
        body,
    }))
}
