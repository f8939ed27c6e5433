use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use vocab::ErrorCode;
use wire::Enclosed;

use super::{Body, KEEP_ALIVE, Parcel, events, refusal, unauthenticated};

#[tokio::test]
async fn pieces_come_in_order_and_at_once_and_their_length_is_known() {
    let mut body = Body::Whole(Parcel::holding(
        Enclosed::new(b"a".to_vec(), Bytes::from_static(b"b"), b"c"),
        Vec::new(),
    ));
    assert_eq!(http_body::Body::size_hint(&body).exact(), Some(3));
    assert_eq!(piece(&mut body).await, "abc");
    assert!(body.frame().await.is_none());
    assert!(http_body::Body::is_end_stream(&Body::empty()));
}

/// The next frame of a stream.
async fn piece(body: &mut Body) -> Bytes {
    let mut data = body.frame().await.unwrap().unwrap().into_data().unwrap();
    data.copy_to_bytes(data.remaining())
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_says_that_it_is_alive() {
    let (sender, frames) = mpsc::channel(4);
    let mut body = events(frames).into_body();
    for _ in 0..3 {
        let before = tokio::time::Instant::now();
        let comment = piece(&mut body).await;
        assert!(
            comment.starts_with(b":") && comment.ends_with(b"\n\n"),
            "a comment that no client takes for an event"
        );
        assert_eq!(before.elapsed(), KEEP_ALIVE);
    }
    tokio::time::sleep(KEEP_ALIVE - Duration::from_secs(1)).await;
    sender.send(Parcel::from("data: 1\n\n")).await.unwrap();
    assert_eq!(piece(&mut body).await, "data: 1\n\n");
    let before = tokio::time::Instant::now();
    assert!(piece(&mut body).await.starts_with(b":"));
    assert_eq!(
        before.elapsed(),
        KEEP_ALIVE,
        "silence counts from the last event"
    );
    drop(sender);
    assert!(
        body.frame().await.is_none(),
        "a stream ends with its writer"
    );
}

#[tokio::test]
async fn refusals_are_one_envelope() {
    let reply = refusal(
        http::StatusCode::NOT_FOUND,
        ErrorCode::NotFound,
        "no \"such\" thing",
    );
    assert_eq!(
        reply.headers().get("content-type").unwrap(),
        "application/json"
    );
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(
        body,
        r#"{"status":"error","error_code":"not_found","error":"no \"such\" thing"}"#
    );
    assert_eq!(
        unauthenticated("who?")
            .headers()
            .get("www-authenticate")
            .unwrap(),
        "Bearer"
    );
}
