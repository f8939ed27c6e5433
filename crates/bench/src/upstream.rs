//! An MCP server over HTTP or pipes. Its tool `echo` says again what it is told, `fill` answers with as much of a text as it is asked for.
//! Legacy and stateless: it remembers nobody.

use std::{cell::RefCell, collections::HashMap, convert::Infallible, net::SocketAddr, rc::Rc};

use anyhow::Result;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use wire::{
    Json, Limits,
    rpc::{self, Id, Message},
};

use super::texts::Text;

const LIMITS: Limits = Limits::new(16 << 20, 64);
/// The longest text that `fill` makes.
const LONGEST: u64 = 64 << 20;
/// On one line, as messages between pipes must be.
const TOOLS: &str = concat!(
    r#"{"tools":[{"name":"echo","description":"Says it again.","inputSchema":{"type":"object","#,
    r#""properties":{"text":{"type":"string"}},"required":["text"]},"annotations":{"readOnlyHint":true}},"#,
    r#"{"name":"fill","description":"Answers with a long text.","inputSchema":{"type":"object","#,
    r#""properties":{"text":{"type":"string"},"bytes":{"type":"integer"},"of":{"type":"string"}},"#,
    r#""required":["text","bytes","of"]},"annotations":{"readOnlyHint":true}}]}"#,
);
const SERVER: &[u8] =
    br#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench-upstream","version":"1"}}"#;

/// Serves until the process ends.
pub async fn http(listener: TcpListener) -> Result<()> {
    loop {
        let (stream, _peer): (_, SocketAddr) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(async move {
            // A client that hangs up in the middle is the client's business.
            let _ended = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(serve))
                .await;
        });
    }
}

async fn serve(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::POST {
        return Ok(empty(StatusCode::METHOD_NOT_ALLOWED));
    }
    let Ok(body) = request.into_body().collect().await else {
        return Ok(empty(StatusCode::BAD_REQUEST));
    };
    let Some(answer) = answer(&body.to_bytes()) else {
        return Ok(empty(StatusCode::ACCEPTED));
    };
    let mut response = Response::new(Full::from(answer));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// Serves one client on standard input and output until it closes its end.
pub async fn stdio() -> Result<()> {
    let (mut input, mut output) = (tokio::io::stdin(), tokio::io::stdout());
    let mut buffer = BytesMut::with_capacity(1 << 20);
    let mut searched = 0;
    loop {
        let mut answers = Vec::new();
        while let Some(at) = memchr::memchr(b'\n', buffer.get(searched..).unwrap_or_default()) {
            let line = buffer.split_to(searched + at + 1);
            searched = 0;
            if let Some(answer) = answer(&line) {
                answers.extend_from_slice(&answer);
                answers.push(b'\n');
            }
        }
        searched = buffer.len();
        if !answers.is_empty() {
            output.write_all(&answers).await?;
            output.flush().await?;
        }
        if input.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// The answer to a message; `None` for what needs none.
pub fn answer(message: &[u8]) -> Option<Vec<u8>> {
    let Ok(json) = Json::parse(message, LIMITS) else {
        return Some(failure(None, -32700, "not JSON"));
    };
    match rpc::read(json) {
        Ok(Message::Request { id, method, params }) => Some(match &*method {
            "tools/call" => call(&id, params),
            "tools/list" => rpc::result(&id, TOOLS.as_bytes()),
            "initialize" => rpc::result(&id, SERVER),
            "ping" => rpc::result(&id, b"{}"),
            _ => failure(Some(&id), -32601, "no such method"),
        }),
        Ok(_) => None,
        Err(error) => Some(failure(error.id.as_ref(), -32600, error.problem)),
    }
}

fn failure(id: Option<&Id>, code: i64, message: &str) -> Vec<u8> {
    rpc::error(id, &rpc::error_object(code, message, None))
}

/// The text of the arguments, exactly as it was written, and behind it what `fill` was asked for.
fn call(id: &Id, params: Option<Json<'_>>) -> Vec<u8> {
    let argument = |name| params.and_then(|params| params.path(&["arguments", name]));
    let text = argument("text")
        .map(Json::as_bytes)
        .and_then(|text| text.strip_prefix(b"\"")?.strip_suffix(b"\""));
    let Some(text) = text else {
        return failure(Some(id), -32602, "`text` is missing");
    };
    let filling = match argument("bytes") {
        None => Rc::default(),
        Some(bytes) => match filling(bytes, argument("of")) {
            Some(filling) => filling,
            None => {
                return failure(
                    Some(id),
                    -32602,
                    "`bytes` or `of` is nothing this server has",
                );
            }
        },
    };
    let mut result = Vec::with_capacity(text.len() + filling.len() + 64);
    result.extend_from_slice(br#"{"content":[{"type":"text","text":""#);
    result.extend_from_slice(text);
    result.extend_from_slice(filling.as_bytes());
    result.extend_from_slice(br#""}],"isError":false}"#);
    rpc::result(id, &result)
}

thread_local! {
    /// Long texts are made once.
    static MADE: RefCell<HashMap<(&'static str, usize), Rc<str>>> = RefCell::default();
}

fn filling(bytes: Json<'_>, of: Option<Json<'_>>) -> Option<Rc<str>> {
    let bytes = bytes.as_u64().filter(|bytes| *bytes <= LONGEST)? as usize;
    let text = Text::named(&of?.as_str()?).ok()?;
    Some(MADE.with_borrow_mut(|made| {
        Rc::clone(
            made.entry((text.name(), bytes))
                .or_insert_with(|| text.escaped(bytes).into()),
        )
    }))
}
