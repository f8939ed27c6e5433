use gateway::Change;
use tokio::sync::broadcast;
use vocab::ServerId;

use super::{PAUSE, Watch, updated};

fn server(id: &str) -> ServerId {
    ServerId::parse(id).unwrap()
}

fn changed(id: &str, uri: &str) -> Change {
    Change::Updated { server: server(id), uri: uri.into(), exposed: format!("portcullis://{id}/{uri}").into() }
}

#[tokio::test]
async fn equal_news_is_told_once() {
    let (sender, receiver) = broadcast::channel(16);
    let mut watch = Watch::new(receiver, None);
    for change in
        [Change::Tools(server("a")), Change::Tools(server("b")), changed("a", "x"), changed("a", "x"), changed("b", "x")]
    {
        sender.send(change).unwrap();
    }
    let news = watch.next().await.unwrap();
    assert!(news.tools && !news.prompts && !news.resources && !news.missed);
    let shown: Vec<_> = news.words.iter().filter_map(|change| watch.shown(change)).collect();
    assert_eq!(shown, ["portcullis://a/x", "portcullis://b/x"]);
    assert_eq!(news.of_lists([true; 3], None), [&br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#[..]]);
    assert!(news.of_lists([false, true, true], None).is_empty());
}

#[tokio::test]
async fn a_mount_hears_only_of_its_server_under_its_own_names() {
    let (sender, receiver) = broadcast::channel(16);
    let mut watch = Watch::new(receiver, Some(server("a")));
    for change in [Change::Prompts(server("b")), changed("b", "x"), Change::Resources(server("a")), changed("a", "x")] {
        sender.send(change).unwrap();
    }
    let news = watch.next().await.unwrap();
    assert!(news.resources && !news.prompts);
    assert_eq!(news.words.iter().filter_map(|change| watch.shown(change)).collect::<Vec<_>>(), ["x"]);
}

#[tokio::test]
async fn lost_news_is_told_as_everything_may_have_changed() {
    let (sender, receiver) = broadcast::channel(1);
    let mut watch = Watch::new(receiver, None);
    for _ in 0..5 {
        sender.send(Change::Tools(server("a"))).unwrap();
    }
    let news = watch.next().await.unwrap();
    assert!(news.missed);
    assert_eq!(news.of_lists([true; 3], None).len(), 3);
    drop(sender);
    assert!(watch.next().await.is_none());
}

#[test]
fn notifications_carry_their_subscription() {
    let message = updated("a\"b", Some(br#"{"s":1}"#));
    assert_eq!(
        message,
        &br#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"s":1},"uri":"a\"b"}}"#[..]
    );
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_changes_is_a_trickle_of_news() {
    let (sender, receiver) = broadcast::channel(64);
    let mut watch = Watch::new(receiver, None);
    let flood = tokio::spawn(async move {
        for _ in 0..1000 {
            sender.send(Change::Tools(server("a"))).unwrap();
            tokio::time::sleep(PAUSE / 100).await;
        }
    });
    let started = tokio::time::Instant::now();
    let mut told = 0;
    while watch.next().await.is_some() {
        if told == 0 {
            assert!(started.elapsed() < PAUSE, "the first is told at once");
        }
        told += 1;
    }
    flood.await.unwrap();
    assert!((9..=12).contains(&told), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_loses_no_news() {
    let (sender, receiver) = broadcast::channel(16);
    let mut watch = Watch::new(receiver, None);
    sender.send(Change::Tools(server("a"))).unwrap();
    watch.next().await.unwrap();
    sender.send(Change::Prompts(server("a"))).unwrap();
    assert!(tokio::time::timeout(PAUSE / 2, watch.next()).await.is_err(), "too soon to tell");
    assert!(watch.next().await.unwrap().prompts);
}
