use bytes::Bytes;
use gateway::{Change, ListKind};
use tokio::sync::broadcast;
use vocab::ServerId;

use super::{News, PAUSE, Watch, updated};

fn server(id: &str) -> ServerId {
    ServerId::parse(id).unwrap()
}

fn list(list: ListKind, id: &str) -> Change {
    Change::List {
        list,
        server: server(id),
        is_approved: true,
    }
}

fn of_lists(news: &News, wanted: [bool; 3]) -> Vec<Bytes> {
    news.of_lists(wanted, None, |_, is_approved| is_approved)
}

fn changed(id: &str, uri: &str) -> Change {
    Change::Updated {
        server: server(id),
        uri: uri.into(),
        exposed: format!("portcullis://{id}/{uri}").into(),
    }
}

#[tokio::test]
async fn equal_news_is_told_once() {
    let (sender, receiver) = broadcast::channel(16);
    let mut watch = Watch::new(receiver, None, "c");
    for change in [
        list(ListKind::Tools, "a"),
        list(ListKind::Tools, "b"),
        changed("a", "x"),
        changed("a", "x"),
        changed("b", "x"),
    ] {
        sender.send(change).unwrap();
    }
    let news = watch.next().await.unwrap();
    assert!(!news.missed);
    let shown: Vec<_> = news
        .words
        .iter()
        .filter_map(|change| watch.shown(change, |_| true, |_, _| false))
        .collect();
    assert_eq!(shown, ["portcullis://a/x", "portcullis://b/x"]);
    assert_eq!(
        of_lists(&news, [true; 3]),
        [&br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#[..]]
    );
    assert!(of_lists(&news, [false, true, true]).is_empty());
}

#[tokio::test]
async fn a_mount_hears_only_of_its_server_under_its_own_names() {
    let (sender, receiver) = broadcast::channel(16);
    let mut watch = Watch::new(receiver, Some(server("a")), "c");
    for change in [
        list(ListKind::Prompts, "b"),
        changed("b", "x"),
        list(ListKind::Resources, "a"),
        changed("a", "x"),
    ] {
        sender.send(change).unwrap();
    }
    let news = watch.next().await.unwrap();
    assert_eq!(of_lists(&news, [true; 3]).len(), 1);
    assert_eq!(of_lists(&news, [true, true, false]).len(), 0);
    assert_eq!(
        news.words
            .iter()
            .filter_map(|change| watch.shown(change, |_| true, |_, _| false))
            .collect::<Vec<_>>(),
        ["x"]
    );
}

#[tokio::test]
async fn lost_news_is_told_as_everything_may_have_changed() {
    let (sender, receiver) = broadcast::channel(1);
    let mut watch = Watch::new(receiver, None, "c");
    for _ in 0..5 {
        sender.send(list(ListKind::Tools, "a")).unwrap();
    }
    let news = watch.next().await.unwrap();
    assert!(news.missed);
    assert_eq!(of_lists(&news, [true; 3]).len(), 3);
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
    let mut watch = Watch::new(receiver, None, "c");
    let flood = tokio::spawn(async move {
        for _ in 0..1000 {
            sender.send(list(ListKind::Tools, "a")).unwrap();
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
    let mut watch = Watch::new(receiver, None, "c");
    sender.send(list(ListKind::Tools, "a")).unwrap();
    watch.next().await.unwrap();
    sender.send(list(ListKind::Prompts, "a")).unwrap();
    assert!(
        tokio::time::timeout(PAUSE / 2, watch.next()).await.is_err(),
        "too soon to tell"
    );
    assert_eq!(
        of_lists(&watch.next().await.unwrap(), [false, true, false]).len(),
        1
    );
}

#[tokio::test]
async fn a_change_that_a_caller_would_not_see_is_not_told() {
    let (sender, receiver) = broadcast::channel(16);
    let mut watch = Watch::new(receiver, None, "c");
    let unseen = Change::List {
        list: ListKind::Tools,
        server: server("sec"),
        is_approved: false,
    };
    for change in [
        unseen,
        Change::Sight {
            caller: "d".into(),
            list: ListKind::Resources,
        },
        list(ListKind::Prompts, "a"),
    ] {
        sender.send(change).unwrap();
    }
    assert_eq!(
        of_lists(&watch.next().await.unwrap(), [true; 3]).len(),
        1,
        "the prompts of `a`"
    );
    sender
        .send(Change::Sight {
            caller: "c".into(),
            list: ListKind::Resources,
        })
        .unwrap();
    let resources = &br#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#[..];
    assert_eq!(
        of_lists(&watch.next().await.unwrap(), [true; 3]),
        [resources]
    );
}
