use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpListener;

use super::*;

const SOON: Duration = Duration::from_secs(20);

/// A store that answers each command with how many came before it.
async fn counting(listener: TcpListener, accepted: Arc<AtomicUsize>, silent_first: bool) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let nth = accepted.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let mut read = Vec::new();
            for count in 0_i64.. {
                if answer(&mut stream, &mut read).await.is_err() {
                    return;
                }
                if silent_first && nth == 0 {
                    continue;
                }
                let reply = format!(":{count}\r\n");
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        });
    }
}

async fn store(silent_first: bool) -> (Client, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let accepted = Arc::new(AtomicUsize::new(0));
    tokio::spawn(counting(listener, Arc::clone(&accepted), silent_first));
    let client = Client::new(Target {
        address,
        database: 0,
        user: None,
        password: None,
    });
    (client, accepted)
}

#[tokio::test]
async fn many_share_one_connection_and_each_gets_its_own_answer() {
    let (client, accepted) = store(false).await;
    let mut asked = Vec::new();
    for _ in 0..200 {
        let client = client.clone();
        asked.push(tokio::spawn(async move {
            client
                .ask(&[b"PING"], SOON)
                .await
                .unwrap()
                .integer()
                .unwrap()
        }));
    }
    let mut answers = Vec::new();
    for one in asked {
        answers.push(one.await.unwrap());
    }
    answers.sort_unstable();
    assert_eq!(answers, (0..200).collect::<Vec<_>>());
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_store_that_hangs_is_given_up_and_found_again() {
    let (client, accepted) = store(true).await;
    let late = client.ask(&[b"PING"], Duration::from_millis(25)).await;
    assert!(matches!(late, Err(Error::Late)), "{late:?}");
    let answered = tokio::time::timeout(SOON, async {
        loop {
            if let Ok(answer) = client.ask(&[b"PING"], Duration::from_millis(100)).await {
                return answer;
            }
        }
    });
    assert_eq!(answered.await.unwrap(), Value::Integer(0));
    assert_eq!(accepted.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_store_that_is_gone_answers_nobody_and_keeps_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let client = Client::new(Target {
        address,
        database: 0,
        user: None,
        password: None,
    });
    for _ in 0..50 {
        let answer = client.ask(&[b"PING"], SOON).await;
        assert!(matches!(answer, Err(Error::Unreachable(_))), "{answer:?}");
    }
}
