use std::{os::fd::OwnedFd, sync::Arc};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::unix::pipe,
};

use crate::link::{ErrorKind, Link, Word};

/// A link whose worker is played by the test.
struct Played {
    link: Arc<Link>,
    requests: tokio::io::Lines<BufReader<pipe::Receiver>>,
    answers: pipe::Sender,
}

fn pipe() -> (pipe::Sender, pipe::Receiver) {
    let (reader, writer) = std::io::pipe().unwrap();
    (pipe::Sender::from_owned_fd(OwnedFd::from(writer)).unwrap(), pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).unwrap())
}

fn play() -> Played {
    let (handover, _other) = sandbox::handover::pair().unwrap();
    let link = Arc::new(Link::new(handover, 1));
    let (stdin, requests) = pipe();
    let (answers, stdout) = pipe();
    tokio::spawn({
        let link = Arc::clone(&link);
        async move { link.write_all(stdin).await }
    });
    tokio::spawn({
        let link = Arc::clone(&link);
        async move { link.read_all(stdout, 64 << 20).await }
    });
    Played { link, requests: BufReader::new(requests).lines(), answers }
}

async fn next_id(played: &mut Played) -> u64 {
    let line = played.requests.next_line().await.unwrap().unwrap();
    wire::Json::checked_before(line.as_bytes()).get("id").unwrap().as_u64().unwrap()
}

#[tokio::test]
async fn answers_reach_their_own_request_in_any_order() {
    let mut played = play();
    let (a, b) = (Arc::clone(&played.link), Arc::clone(&played.link));
    let first = tokio::spawn(async move { a.ask("one", b"{}").await });
    let one = next_id(&mut played).await;
    let second = tokio::spawn(async move { b.ask("two", b"{}").await });
    let two = next_id(&mut played).await;
    let lines =
        format!("{{\"id\":{two},\"result\":2}}\nnot json\n{{\"id\":999999999,\"result\":0}}\n{{\"id\":{one},\"result\":1}}\n");
    played.answers.write_all(lines.as_bytes()).await.unwrap();
    assert!(matches!(first.await.unwrap(), Word::Result(text) if text == "1"));
    assert!(matches!(second.await.unwrap(), Word::Result(text) if text == "2"));
}

#[tokio::test]
async fn a_second_answer_to_one_request_is_dropped() {
    let mut played = play();
    let link = Arc::clone(&played.link);
    let asked = tokio::spawn(async move { (link.ask("x", b"{}").await, link.ask("y", b"{}").await) });
    let x = next_id(&mut played).await;
    played.answers.write_all(format!("{{\"id\":{x},\"result\":1}}\n{{\"id\":{x},\"result\":666}}\n").as_bytes()).await.unwrap();
    let y = next_id(&mut played).await;
    assert_ne!(x, y);
    played.answers.write_all(format!("{{\"id\":{y},\"error\":\"no\",\"kind\":\"timeout\"}}\n").as_bytes()).await.unwrap();
    let (first, second) = asked.await.unwrap();
    assert!(matches!(first, Word::Result(text) if text == "1"));
    assert!(matches!(second, Word::Error { kind: ErrorKind::Timeout, .. }));
}

#[tokio::test]
async fn a_dead_worker_ends_every_waiting_request_at_once() {
    let mut played = play();
    let (_, mut stream) = played.link.stream("forward", b"{}");
    let link = Arc::clone(&played.link);
    let asked = tokio::spawn(async move { link.ask("x", b"{}").await });
    next_id(&mut played).await;
    next_id(&mut played).await;
    drop(played.answers);
    assert!(matches!(asked.await.unwrap(), Word::Lost));
    assert!(matches!(stream.recv().await, Some(Word::Lost)));
    assert!(matches!(played.link.ask("late", b"{}").await, Word::Lost), "and every later one");
}

#[tokio::test]
async fn a_flood_of_events_cannot_displace_the_last_word() {
    let mut played = play();
    let (id, mut words) = played.link.stream("forward", b"{}");
    next_id(&mut played).await;
    let flood = format!("{{\"id\":{id},\"event\":\"progress\",\"params\":{{}}}}\n").repeat(10_000);
    played.answers.write_all(flood.as_bytes()).await.unwrap();
    played.answers.write_all(format!("{{\"id\":{id},\"result\":{{}}}}\n").as_bytes()).await.unwrap();
    let mut events = 0;
    let last = loop {
        match words.recv().await.unwrap() {
            Word::Event { .. } => events += 1,
            last => break last,
        }
    };
    assert!(matches!(last, Word::Result(_)));
    assert!(events > 0 && events < 10_000, "{events}");
}

#[tokio::test]
async fn an_over_long_line_fails_its_own_request_only() {
    let mut played = play();
    let (a, b) = (Arc::clone(&played.link), Arc::clone(&played.link));
    let long = tokio::spawn(async move { a.ask("long", b"{}").await });
    let id = next_id(&mut played).await;
    let mut line = format!("{{\"id\":{id},\"result\":\"").into_bytes();
    line.resize(2 << 20, b'x');
    line.extend_from_slice(b"\"}\n");
    let answers = tokio::spawn(async move {
        played.answers.write_all(&line).await.unwrap();
        played
    });
    assert!(matches!(long.await.unwrap(), Word::Error { kind: ErrorKind::Invalid, .. }));
    let mut played = answers.await.unwrap();
    let next = tokio::spawn(async move { b.ask("next", b"{}").await });
    let id = next_id(&mut played).await;
    played.answers.write_all(format!("{{\"id\":{id},\"ok\":true}}\n").as_bytes()).await.unwrap();
    assert!(matches!(next.await.unwrap(), Word::Done));
}

#[tokio::test]
async fn an_answer_given_at_once_counts_as_a_sign_of_life() {
    let mut played = play();
    for _ in 0..50 {
        let asked = std::time::Instant::now();
        played.link.tell("ping", b"{}");
        let id = next_id(&mut played).await;
        played.answers.write_all(format!("{{\"id\":{id},\"ok\":true}}\n").as_bytes()).await.unwrap();
        while played.link.silence() >= asked.elapsed() {
            assert!(asked.elapsed() < std::time::Duration::from_secs(5), "the answer was not noticed");
            tokio::task::yield_now().await;
        }
    }
}
