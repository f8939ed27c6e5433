use std::time::Duration;

use serde_json::json;

use super::*;
use crate::client::{Client, Era, Target};

#[tokio::test]
async fn what_is_shown_changes_on_command_and_everything_is_written_down() {
    let shifty = Shifty::start(Shown::usual()).await.unwrap();
    let client = Client::plain(
        &Target::new(&shifty.url(), Some("who")).unwrap(),
        Era::Legacy,
    )
    .await
    .unwrap();
    client.listen(&[]).await.unwrap();
    assert_eq!(client.tool_names().await.unwrap(), ["say", "give"]);
    assert_eq!(shifty.bytes_of_callers(), 0);
    assert_eq!(
        client
            .call("say", json!({"text": "hi"}))
            .await
            .unwrap()
            .text,
        "hi"
    );
    let calls = shifty.calls_of("say");
    assert_eq!(
        (calls.len(), calls[0].authorization.as_deref()),
        (1, Some("Bearer who"))
    );
    assert!(shifty.bytes_of_callers() > 50 && shifty.ever_heard("\"hi\""));
    shifty.change(|shown| shown.tools.push(tool("more", "One more")));
    assert_eq!(client.tool_names().await.unwrap(), ["say", "give", "more"]);
    shifty.announce("tools");
    client
        .wait_for("notifications/tools/list_changed", Duration::from_secs(5))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_silent_one_answers_when_it_is_told_to() {
    let shifty = Shifty::start_silent(Shown::usual()).await.unwrap();
    let target = Target::new(&shifty.url(), None).unwrap();
    let connecting = tokio::spawn(async move { Client::plain(&target, Era::Legacy).await.is_ok() });
    tokio::task::yield_now().await;
    assert!(!connecting.is_finished());
    shifty.speak();
    assert!(connecting.await.unwrap());
}
