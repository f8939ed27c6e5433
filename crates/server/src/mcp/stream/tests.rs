use std::sync::Arc;

use gateway::{Pass, Source};
use tokio::sync::mpsc::Receiver;
use wire::sse;

use super::{Kind, MAX_STANDALONE, QUEUE, Streams, Unopened};
use crate::{mcp::replay::EventId, parcel::Parcel};

/// Reads what is there, as (id, data).
fn drain(receiver: &mut Receiver<Parcel>) -> Vec<(String, String)> {
    let mut decoder = sse::Decoder::new(1 << 24);
    let mut events = Vec::new();
    while let Ok(frame) = receiver.try_recv() {
        decoder.feed(&frame.to_vec(), &mut events);
    }
    events
        .into_iter()
        .map(|event| {
            (
                event.id.unwrap_or_default(),
                String::from_utf8(event.data).unwrap(),
            )
        })
        .collect()
}

/// Nothing here holds words of a server.
fn no_pass(_: &Source) -> Option<Pass> {
    None
}

fn id(text: &str) -> EventId {
    EventId::parse(text).unwrap()
}

#[tokio::test]
async fn a_primed_stream_begins_with_an_id_and_no_data() {
    let streams = Arc::new(Streams::default());
    let (writer, mut reader) = streams.open(Kind::Call, true).unwrap();
    writer.send(Parcel::from("{}")).await;
    writer.end();
    let first = reader.recv().await.unwrap();
    assert_eq!(first.to_vec(), &b"id: 1-1\nretry: 1000\ndata: \n\n"[..]);
    assert_eq!(drain(&mut reader), [("1-2".to_owned(), "{}".to_owned())]);
    assert!(
        reader.recv().await.is_none(),
        "an ended stream closes its connection"
    );
}

#[tokio::test]
async fn a_reader_that_left_comes_back_for_the_rest() {
    let streams = Arc::new(Streams::default());
    let (writer, mut reader) = streams.open(Kind::Call, false).unwrap();
    writer.send(Parcel::from("1")).await;
    assert_eq!(drain(&mut reader).len(), 1);
    drop(reader);
    writer.send(Parcel::from("2")).await;
    writer.send(Parcel::from("3")).await;
    let mut again = streams.resume(id("1-1"), no_pass).unwrap();
    writer.send(Parcel::from("4")).await;
    writer.end();
    let data: Vec<String> = drain(&mut again)
        .into_iter()
        .map(|(_, data)| data)
        .collect();
    assert_eq!(data, ["2", "3", "4"]);
    assert!(again.recv().await.is_none());
    let mut after_the_end = streams.resume(id("1-3"), no_pass).unwrap();
    assert_eq!(
        drain(&mut after_the_end),
        [("1-4".to_owned(), "4".to_owned())]
    );
}

#[tokio::test]
async fn a_second_reader_takes_the_stream_over() {
    let streams = Arc::new(Streams::default());
    let (writer, mut first) = streams.open(Kind::Call, false).unwrap();
    writer.send(Parcel::from("1")).await;
    let mut second = streams.resume(id("1-0"), no_pass).unwrap();
    writer.send(Parcel::from("2")).await;
    assert_eq!(drain(&mut first).len(), 1);
    assert!(first.recv().await.is_none(), "the earlier connection ends");
    assert_eq!(drain(&mut second).len(), 2);
}

#[tokio::test]
async fn only_ids_that_were_given_out_and_are_still_whole_resume() {
    let streams = Arc::new(Streams::default());
    let (writer, _reader) = streams.open(Kind::Call, false).unwrap();
    writer.send(Parcel::from("1")).await;
    for wrong in ["2-1", "1-9", "0-0"] {
        assert_eq!(
            streams.resume(id(wrong), no_pass).unwrap_err(),
            Unopened::Unknown,
            "{wrong}"
        );
    }
    drop(_reader);
    for _ in 0..600 {
        writer.send(Parcel::from("x")).await;
    }
    assert_eq!(
        streams.resume(id("1-1"), no_pass).unwrap_err(),
        Unopened::Unknown,
        "the events after it were forgotten"
    );
    assert!(streams.resume(id("1-500"), no_pass).is_ok());
}

#[tokio::test]
async fn streams_do_not_mix() {
    let streams = Arc::new(Streams::default());
    let (one, mut reads_one) = streams.open(Kind::Call, false).unwrap();
    let (two, mut reads_two) = streams.open(Kind::Call, false).unwrap();
    one.send(Parcel::from("1")).await;
    two.send(Parcel::from("2")).await;
    assert_eq!(drain(&mut reads_one), [("1-1".to_owned(), "1".to_owned())]);
    assert_eq!(drain(&mut reads_two), [("2-1".to_owned(), "2".to_owned())]);
    assert_eq!(
        drain(&mut streams.resume(id("2-0"), no_pass).unwrap()),
        [("2-1".to_owned(), "2".to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_loses_its_connection_and_nothing_else() {
    let streams = Arc::new(Streams::default());
    let (writer, mut slow) = streams.open(Kind::Call, false).unwrap();
    for _ in 0..QUEUE + 2 {
        writer.send(Parcel::from("x")).await;
    }
    assert!(!writer.is_read());
    assert_eq!(drain(&mut slow).len(), QUEUE);
    assert!(slow.recv().await.is_none());
    let missed = drain(
        &mut streams
            .resume(
                EventId {
                    stream: 1,
                    place: QUEUE as u64,
                },
                no_pass,
            )
            .unwrap(),
    );
    assert_eq!(missed.len(), 2);
}

#[tokio::test]
async fn a_message_too_large_to_keep_is_replaced_by_an_error_for_its_id() {
    let streams = Arc::new(Streams::default());
    let (writer, mut reader) = streams.open(Kind::Call, false).unwrap();
    let huge = format!(
        r#"{{"jsonrpc":"2.0","id":5,"result":{{"t":"{}"}}}}"#,
        "x".repeat(3 << 20)
    );
    writer.send(huge.clone().into()).await;
    assert_eq!(
        drain(&mut reader)[0].1.len(),
        huge.len(),
        "who reads now gets it whole"
    );
    let replayed = &drain(&mut streams.resume(id("1-0"), no_pass).unwrap())[0].1;
    assert!(replayed.contains(r#""id":5,"error""#), "{replayed}");
}

#[tokio::test]
async fn news_goes_to_the_newest_get_stream() {
    let streams = Arc::new(Streams::default());
    assert!(streams.standalone().is_none());
    let (_, _old) = streams.open(Kind::Standalone, false).unwrap();
    let (_, mut new) = streams.open(Kind::Standalone, false).unwrap();
    streams.standalone().unwrap().send(Parcel::from("n")).await;
    assert_eq!(drain(&mut new).len(), 1);
}

#[tokio::test]
async fn the_number_of_get_streams_is_bounded() {
    let streams = Arc::new(Streams::default());
    let mut open: Vec<_> = (0..MAX_STANDALONE)
        .map(|_| streams.open(Kind::Standalone, false).unwrap())
        .collect();
    assert_eq!(
        streams.open(Kind::Standalone, false).err(),
        Some(Unopened::TooMany)
    );
    open.pop();
    assert!(
        streams.open(Kind::Standalone, false).is_ok(),
        "one that is not read any more makes room"
    );
    for _ in 0..1000 {
        assert!(streams.open(Kind::Standalone, false).is_ok() || open.pop().is_some());
    }
}

#[tokio::test]
async fn ended_calls_make_room_for_new_ones() {
    let streams = Arc::new(Streams::default());
    for _ in 0..5000 {
        let (writer, _reader) = streams.open(Kind::Call, true).unwrap();
        writer.send(Parcel::from("{}")).await;
        writer.end();
    }
    assert!(super::lock(&streams.state).streams.len() <= super::MAX_STREAMS + 1);
}

#[tokio::test]
async fn a_closed_session_has_no_open_streams() {
    let streams = Arc::new(Streams::default());
    let (writer, mut reader) = streams.open(Kind::Call, false).unwrap();
    streams.close();
    writer.send(Parcel::from("1")).await;
    assert!(reader.recv().await.is_none());
    assert!(!streams.is_read());
    let (_, mut late) = streams.open(Kind::Call, false).unwrap();
    assert!(late.recv().await.is_none());
}
