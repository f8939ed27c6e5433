//! Bodies read through a real connection: every byte where it belongs, and none of the next request.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{Diversion, Inlet};
use crate::body;

const LIMIT: usize = 8 << 20;

/// Serves one connection: each body comes back as it was read.
async fn echo(listener: TcpListener) {
    let (stream, _) = listener.accept().await.unwrap();
    let (inlet, diversion) = Inlet::new(
        doors::Stream::Plain(stream),
        std::time::Duration::from_secs(30),
    );
    let service = service_fn(move |mut request: Request<Incoming>| {
        body::may_divert(&mut request, &diversion);
        async move {
            let (parts, incoming) = request.into_parts();
            let read = body::read(incoming, LIMIT, parts.extensions.get::<Diversion>(), None).await;
            let text = read.unwrap_or_else(|_| Bytes::from_static(b"refused"));
            Ok::<_, Infallible>(Response::new(Full::new(text)))
        }
    });
    let _ended = http1::Builder::new()
        .max_buf_size(72 << 10)
        .serve_connection(TokioIo::new(inlet), service)
        .await;
}

async fn connected() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(echo(listener));
    TcpStream::connect(address).await.unwrap()
}

fn request(body: &[u8]) -> Vec<u8> {
    [
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .as_bytes(),
        body,
    ]
    .concat()
}

/// Bytes that are nowhere the same as at another place nearby.
fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length)
        .map(|at| ((at * 31 + at / 251 + seed * 7) % 253) as u8)
        .collect()
}

/// The body of the next response.
async fn response(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    body
}

#[tokio::test]
async fn bodies_of_pipelined_requests_stay_apart() {
    let lengths = [
        0,
        10,
        63 << 10,
        64 << 10,
        100_000,
        1 << 20,
        17,
        3_000_001,
        70_000,
    ];
    let bodies: Vec<_> = lengths
        .iter()
        .enumerate()
        .map(|(seed, length)| pattern(*length, seed))
        .collect();
    for piece in [1_000, 65_536, usize::MAX] {
        let mut stream = connected().await;
        let all = bodies
            .iter()
            .map(|body| request(body))
            .collect::<Vec<_>>()
            .concat();
        let (mut reading, mut writing) = stream.split();
        let send = async {
            for part in all.chunks(piece.min(all.len())) {
                writing.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let receive = async {
            for body in &bodies {
                assert!(
                    response(&mut reading).await == *body,
                    "{} bytes in pieces of {piece}",
                    body.len()
                );
            }
        };
        tokio::time::timeout(Duration::from_secs(60), async {
            tokio::join!(send, receive)
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn a_connection_goes_on_after_a_long_body() {
    let mut stream = connected().await;
    for seed in 0..6 {
        let body = pattern(200_000 + seed * 77_777, seed);
        stream.write_all(&request(&body)).await.unwrap();
        assert!(response(&mut stream).await == body, "{seed}");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_refused() {
    let mut stream = connected().await;
    let whole = request(&pattern(500_000, 1));
    stream.write_all(&whole[..300_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    let _closed = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest))
        .await
        .unwrap();
    assert!(memchr::memmem::find(&rest, &pattern(1_000, 1)).is_none());
}
