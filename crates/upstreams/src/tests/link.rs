use std::{
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use callers::room::{Account, Rooms};
use sandbox::shared::{Arena, View};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::unix::pipe,
};
use wire::{
    worker::Shared,
    write::{Object, Pieces},
};

use crate::link::{ErrorKind, Link, Word};

/// An account with room for a few long results.
fn account() -> Arc<Account> {
    let rooms = Arc::<Rooms>::default();
    rooms.set_largest(16 << 20);
    Account::under(&rooms)
}

/// A link whose worker is played by the test.
struct Played {
    link: Arc<Link>,
    handover: sandbox::handover::Receiver,
    requests: tokio::io::Lines<BufReader<pipe::Receiver>>,
    answers: pipe::Sender,
}

fn pipe() -> (pipe::Sender, pipe::Receiver) {
    let (reader, writer) = std::io::pipe().unwrap();
    (
        pipe::Sender::from_owned_fd(OwnedFd::from(writer)).unwrap(),
        pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).unwrap(),
    )
}

fn play() -> Played {
    let (handover, other) = sandbox::handover::pair().unwrap();
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
    Played {
        link,
        handover: other,
        requests: BufReader::new(requests).lines(),
        answers,
    }
}

async fn next_id(played: &mut Played) -> u64 {
    let line = played.requests.next_line().await.unwrap().unwrap();
    wire::Json::checked_before(line.as_bytes())
        .get("id")
        .unwrap()
        .as_u64()
        .unwrap()
}

#[tokio::test]
async fn answers_reach_their_own_request_in_any_order() {
    let mut played = play();
    let (a, b) = (Arc::clone(&played.link), Arc::clone(&played.link));
    let first = tokio::spawn(async move { a.ask("one", b"{}").await });
    let one = next_id(&mut played).await;
    let second = tokio::spawn(async move { b.ask("two", b"{}").await });
    let two = next_id(&mut played).await;
    let lines = format!(
        "{{\"id\":{two},\"result\":2}}\nnot json\n{{\"id\":999999999,\"result\":0}}\n{{\"id\":{one},\"result\":1}}\n"
    );
    played.answers.write_all(lines.as_bytes()).await.unwrap();
    assert!(matches!(first.await.unwrap(), Word::Result(text) if text == "1"));
    assert!(matches!(second.await.unwrap(), Word::Result(text) if text == "2"));
}

#[tokio::test]
async fn a_second_answer_to_one_request_is_dropped() {
    let mut played = play();
    let link = Arc::clone(&played.link);
    let asked =
        tokio::spawn(async move { (link.ask("x", b"{}").await, link.ask("y", b"{}").await) });
    let x = next_id(&mut played).await;
    played
        .answers
        .write_all(
            format!("{{\"id\":{x},\"result\":1}}\n{{\"id\":{x},\"result\":666}}\n").as_bytes(),
        )
        .await
        .unwrap();
    let y = next_id(&mut played).await;
    assert_ne!(x, y);
    played
        .answers
        .write_all(format!("{{\"id\":{y},\"error\":\"no\",\"kind\":\"timeout\"}}\n").as_bytes())
        .await
        .unwrap();
    let (first, second) = asked.await.unwrap();
    assert!(matches!(first, Word::Result(text) if text == "1"));
    assert!(matches!(
        second,
        Word::Error {
            kind: ErrorKind::Timeout,
            ..
        }
    ));
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
    assert!(
        matches!(played.link.ask("late", b"{}").await, Word::Lost),
        "and every later one"
    );
}

#[tokio::test]
async fn a_flood_of_events_cannot_displace_the_last_word() {
    let mut played = play();
    let (id, mut words) = played.link.stream("forward", b"{}");
    next_id(&mut played).await;
    let flood = format!("{{\"id\":{id},\"event\":\"progress\",\"params\":{{}}}}\n").repeat(10_000);
    played.answers.write_all(flood.as_bytes()).await.unwrap();
    played
        .answers
        .write_all(format!("{{\"id\":{id},\"result\":{{}}}}\n").as_bytes())
        .await
        .unwrap();
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
    assert!(matches!(
        long.await.unwrap(),
        Word::Error {
            kind: ErrorKind::Invalid,
            ..
        }
    ));
    let mut played = answers.await.unwrap();
    let next = tokio::spawn(async move { b.ask("next", b"{}").await });
    let id = next_id(&mut played).await;
    played
        .answers
        .write_all(format!("{{\"id\":{id},\"ok\":true}}\n").as_bytes())
        .await
        .unwrap();
    assert!(matches!(next.await.unwrap(), Word::Done));
}

#[tokio::test]
async fn an_answer_given_at_once_counts_as_a_sign_of_life() {
    let mut played = play();
    for _ in 0..50 {
        let asked = std::time::Instant::now();
        played.link.tell("ping", b"{}");
        let id = next_id(&mut played).await;
        played
            .answers
            .write_all(format!("{{\"id\":{id},\"ok\":true}}\n").as_bytes())
            .await
            .unwrap();
        while played.link.silence() >= asked.elapsed() {
            assert!(
                asked.elapsed() < std::time::Duration::from_secs(5),
                "the answer was not noticed"
            );
            tokio::task::yield_now().await;
        }
    }
}

/// The worker's side of the memory, and the link once it knows that the worker sees it.
async fn share(played: &mut Played) -> (Arc<View>, Arc<Arena>) {
    let packet = played.handover.receive().unwrap().unwrap();
    assert_eq!(
        (packet.tag, packet.fds.len()),
        (wire::worker::MEMORY_TAG, 2)
    );
    let (parameters, results) = (
        View::trusting(&packet.fds[0]).unwrap(),
        Arena::over(&packet.fds[1]).unwrap(),
    );
    assert!(
        Arena::over(&packet.fds[0]).is_err(),
        "the worker must not be able to write where the gate writes"
    );
    // Answers come in order, so the second tells that the first was heard.
    let link = Arc::clone(&played.link);
    let asked = tokio::spawn(async move { link.ask("any", b"{}").await });
    let id = next_id(played).await;
    played
        .answers
        .write_all(format!("{{\"id\":0,\"ok\":true}}\n{{\"id\":{id},\"ok\":true}}\n").as_bytes())
        .await
        .unwrap();
    asked.await.unwrap();
    (parameters, results)
}

fn long(name: &str) -> Pieces {
    format!(
        "{{\"name\":\"{name}\",\"text\":\"{}\"}}",
        "x".repeat(100_000)
    )
    .into_bytes()
    .into()
}

async fn attached(played: &mut Played) -> (usize, usize, u64) {
    let line = played.requests.next_line().await.unwrap().unwrap();
    let Some(Shared::Attached(attached)) = Shared::read(&line.into()) else {
        panic!("not in shared memory")
    };
    let message = wire::Json::parse(&attached.message, wire::Limits::default()).unwrap();
    assert!(message.path(&["params", "params"]).unwrap().is_null());
    (
        attached.offset,
        attached.length,
        message.get("id").unwrap().as_u64().unwrap(),
    )
}

/// What a call does with a result in shared memory.
fn fetched(word: Option<Word>) -> Option<wire::Text> {
    let Some(Word::Waits(result)) = word else {
        return None;
    };
    let room = account().take_anyway(result.bytes());
    result.fetch(room)
}

#[tokio::test]
async fn long_parameters_and_results_travel_in_shared_memory() {
    let mut played = play();
    let (parameters, results) = share(&mut played).await;
    let (_, mut words) = played.link.forward(Object::new(), &long("one"), &account());
    let (offset, length, id) = attached(&mut played).await;
    assert_eq!(
        parameters.slice(offset, length).unwrap().as_ref(),
        long("one").all()[0]
    );
    let text = format!(
        "{{\"content\":[\"{}\"],\"isError\":true}}",
        "y".repeat(70_000)
    );
    let mut block = results.block(text.len()).unwrap();
    assert!(block.push(text.as_bytes()));
    let line = format!(
        "-{offset}\n@{} {} {{\"id\":{id},\"result\":null}}\n",
        block.offset(),
        text.len()
    );
    played.answers.write_all(line.as_bytes()).await.unwrap();
    let result = fetched(words.recv().await).expect("no result");
    assert_eq!(result, text.as_bytes());
    assert_eq!(
        result.digest(),
        Some(*blake3::hash(text.as_bytes()).as_bytes())
    );
    assert_eq!(result.fields().len(), 2);
    // What the worker does to its memory afterwards changes nothing.
    let place = block.offset();
    drop(block);
    let mut again = results.block(text.len()).unwrap();
    assert_eq!(again.offset(), place);
    again.spare().fill(b'!');
    assert_eq!(result, text.as_bytes());
    // Both have been given back: the next call is put where the first was, and is told of the result.
    let (_, _words) = played.link.forward(Object::new(), &long("two"), &account());
    assert_eq!(
        played.requests.next_line().await.unwrap().unwrap(),
        format!("-{place}")
    );
    assert_eq!(attached(&mut played).await.0, offset);
}

#[tokio::test]
async fn a_worker_that_lies_about_its_memory_fails_its_own_answers_only() {
    let mut played = play();
    let (_, results) = share(&mut played).await;
    let mut block = results.block(100).unwrap();
    assert!(block.push(b"{\"a\":1}\n{\"a\":\xFF} {\"a\":1}, {} {\"a\":1,\"a\":2}"));
    let end = wire::worker::SHARED_BYTES;
    let whole = block.as_ref().len();
    for (offset, length) in [
        (0, whole),
        (0, 9),
        (9, 7),
        (18, 10),
        (whole - 13, 13),
        (0, 0),
        (end - 4, 8),
        (end, 1),
        (usize::MAX, 2),
        (0, usize::MAX),
    ] {
        let link = Arc::clone(&played.link);
        let asked = tokio::spawn(async move { link.ask("any", b"{}").await });
        let id = loop {
            let line = played.requests.next_line().await.unwrap().unwrap();
            if !line.starts_with('-') {
                break wire::Json::checked_before(line.as_bytes())
                    .get("id")
                    .unwrap()
                    .as_u64()
                    .unwrap();
            }
        };
        let line = format!(
            "@{offset} {length} {{\"id\":{id},\"result\":null}}\n-{offset}\n-77\n@1 2 nonsense\n@\n-\n"
        );
        played.answers.write_all(line.as_bytes()).await.unwrap();
        let word = asked.await.unwrap();
        assert!(
            matches!(
                word,
                Word::Error {
                    kind: ErrorKind::Invalid,
                    ..
                }
            ),
            "{offset} {length}: {word:?}"
        );
    }
    let (_, mut words) = played
        .link
        .forward(Object::new(), &long("next"), &account());
    let mut line = played.requests.next_line().await.unwrap().unwrap();
    while line.starts_with('-') {
        line = played.requests.next_line().await.unwrap().unwrap();
    }
    let Some(Shared::Attached(attached)) = Shared::read(&line.into()) else {
        panic!("not in shared memory")
    };
    let id = wire::Json::checked_before(&attached.message)
        .get("id")
        .unwrap()
        .as_u64()
        .unwrap();
    played
        .answers
        .write_all(format!("@0 7 {{\"id\":{id},\"result\":null}}\n").as_bytes())
        .await
        .unwrap();
    assert!(fetched(words.recv().await).is_some_and(|text| text == "{\"a\":1}"));
}

#[tokio::test]
async fn without_shared_memory_long_parameters_go_through_the_pipe() {
    let mut played = play();
    // The worker has not said that it sees the memory.
    let (_, _words) = played.link.forward(Object::new(), &long("one"), &account());
    let line = played.requests.next_line().await.unwrap().unwrap();
    let message = wire::Json::parse(line.as_bytes(), wire::Limits::default()).unwrap();
    assert_eq!(
        message.path(&["params", "params", "name"]).unwrap().text(),
        "\"one\""
    );
}

#[tokio::test]
async fn a_worker_whose_words_wait_to_be_heard_is_not_silent() {
    let mut played = play();
    let link = Arc::clone(&played.link);
    let asked = tokio::spawn(async move { link.ask("last", b"{}").await });
    let last = next_id(&mut played).await;
    // Long results, each of which lets others have a turn; those take their time.
    let lines = "@0 5 {\"id\":999999999,\"result\":null}\n".repeat(15)
        + &format!("{{\"id\":{last},\"result\":1}}\n");
    played.answers.write_all(lines.as_bytes()).await.unwrap();
    let (mut longest_turn, mut longest_silence) = (Duration::ZERO, Duration::ZERO);
    while !asked.is_finished() {
        let before = Instant::now();
        tokio::task::yield_now().await;
        std::thread::sleep(Duration::from_millis(20));
        longest_turn = longest_turn.max(before.elapsed());
        longest_silence = longest_silence.max(played.link.silence());
    }
    assert!(
        longest_silence < 5 * longest_turn,
        "{longest_silence:?} with turns of {longest_turn:?}"
    );
}
