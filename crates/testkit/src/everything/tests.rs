//! The fixture seen by the reference client, in both eras.

use std::collections::BTreeSet;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ClientRequest, Reference, RequestMetaObject, ServerNotification,
    SubscribeRequestParams, SubscriptionFilter,
};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};

use super::{Effects, Era, HttpFixture, tools};
use crate::reference_client::{Connection, MODEL_ANSWER, Opening, ROOT, connect};

const SOON: Duration = Duration::from_secs(5);
const BOTH: [Opening; 2] = [Opening::Legacy, Opening::Modern];

fn request(name: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone())
}

async fn said(connection: &Connection, name: &'static str, arguments: Value) -> String {
    let result = tokio::time::timeout(SOON, connection.call_tool(request(name, arguments)))
        .await
        .unwrap()
        .unwrap();
    assert_ne!(result.is_error, Some(true), "{name}: {result:?}");
    result
        .content
        .iter()
        .filter_map(|block| block.as_text())
        .map(|text| text.text.as_str())
        .collect()
}

async fn open(fixture: &HttpFixture, opening: Opening) -> Connection {
    connect(&fixture.url(), opening, None).await.unwrap()
}

#[test]
fn the_catalog_is_ordered_unique_and_begins_harmlessly() {
    let catalog = tools::catalog();
    let names: Vec<&str> = catalog.iter().map(|tool| tool.name.as_ref()).collect();
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    assert!(
        names.iter().eq(unique.iter()),
        "not in name order or not unique: {names:?}"
    );
    assert!(catalog.iter().all(|tool| {
        tool.description
            .as_ref()
            .is_some_and(|about| !about.is_empty())
    }));
    assert_eq!(
        catalog[0].input_schema["required"],
        json!([]),
        "{} must be callable with nothing",
        names[0]
    );
}

#[tokio::test]
async fn both_eras_reach_the_same_tools() {
    let fixture = HttpFixture::start(Era::Both).await.unwrap();
    for opening in BOTH {
        let client = open(&fixture, opening).await;
        assert_eq!(
            said(&client, "echo", json!({"text": "ä\n\"x\""})).await,
            "ä\n\"x\""
        );
        assert_eq!(
            said(&client, "big", json!({"bytes": 100_000})).await.len(),
            100_000
        );
        let environment: Value =
            serde_json::from_str(&said(&client, "env", json!({})).await).unwrap();
        assert_eq!(environment["PATH"], json!(std::env::var("PATH").unwrap()));
    }
}

#[tokio::test]
async fn a_forced_era_refuses_the_other() {
    let legacy = HttpFixture::start(Era::Legacy).await.unwrap();
    assert!(connect(&legacy.url(), Opening::Modern, None).await.is_err());
    let client = open(&legacy, Opening::Legacy).await;
    assert!(
        client
            .peer_info()
            .unwrap()
            .capabilities
            .extensions
            .is_none(),
        "the older era has no extensions"
    );

    let modern = HttpFixture::start(Era::Modern).await.unwrap();
    assert!(connect(&modern.url(), Opening::Legacy, None).await.is_err());
    open(&modern, Opening::Modern).await;
}

#[tokio::test]
async fn every_question_is_answered_in_both_eras() {
    let fixture = HttpFixture::start(Era::Both).await.unwrap();
    for opening in BOTH {
        let client = open(&fixture, opening).await;
        let form = said(&client, "elicit_form", json!({})).await;
        let content = form.strip_prefix("Form: action=accept, content=").unwrap();
        assert_eq!(
            content.parse::<serde_json::Value>().unwrap(),
            json!({"confirm": true, "name": "reference"})
        );
        assert!(
            said(&client, "elicit_url", json!({}))
                .await
                .contains("action=accept")
        );
        assert_eq!(
            said(&client, "sample", json!({"prompt": "hi"})).await,
            format!("Sample: {MODEL_ANSWER}")
        );
        assert!(said(&client, "list_roots", json!({})).await.contains(ROOT));
        let rounds = said(&client, "test_input_required_result_multi_round", json!({})).await;
        assert_eq!(rounds, "reference likes reference", "{opening:?}");
        assert!(
            said(&client, "test_elicitation_sep1034_defaults", json!({}))
                .await
                .contains("John Doe")
        );
    }
}

#[tokio::test]
async fn progress_comes_in_order_in_both_eras() {
    let fixture = HttpFixture::start(Era::Both).await.unwrap();
    for opening in BOTH {
        let client = open(&fixture, opening).await;
        said(&client, "progress", json!({"steps": 4})).await;
        assert!(
            client
                .service()
                .heard()
                .wait("notifications/progress", 5, SOON)
                .await,
            "{opening:?}"
        );
        let progress: Vec<f64> = client
            .service()
            .heard()
            .all("notifications/progress")
            .iter()
            .map(|p| p["progress"].as_f64().unwrap())
            .collect();
        assert_eq!(progress, [0.0, 25.0, 50.0, 75.0, 100.0]);
    }
}

#[tokio::test]
#[expect(
    deprecated,
    reason = "logging is deprecated, and gates must still carry it"
)]
async fn logs_come_only_when_asked_for_and_only_as_loud() {
    use rmcp::model::{LoggingLevel, SetLevelRequestParams};
    let fixture = HttpFixture::start(Era::Both).await.unwrap();

    let legacy = open(&fixture, Opening::Legacy).await;
    said(&legacy, "log", json!({"level": "error"})).await;
    legacy
        .set_level(SetLevelRequestParams::new(LoggingLevel::Warning))
        .await
        .unwrap();
    said(&legacy, "log", json!({"level": "info"})).await;
    said(&legacy, "log", json!({"level": "error", "steps": 2})).await;
    assert!(
        legacy
            .service()
            .heard()
            .wait("notifications/message", 2, SOON)
            .await
    );
    assert_eq!(
        legacy.service().heard().all("notifications/message").len(),
        2
    );

    let modern = open(&fixture, Opening::Modern).await;
    said(&modern, "log", json!({"level": "error"})).await;
    let mut loud = request("log", json!({"level": "error"}));
    let mut meta = RequestMetaObject::new();
    meta.set_log_level(LoggingLevel::Info);
    loud.meta = Some(meta);
    modern.call_tool(loud).await.unwrap();
    assert!(
        modern
            .service()
            .heard()
            .wait("notifications/message", 1, SOON)
            .await
    );
    assert_eq!(
        modern.service().heard().all("notifications/message").len(),
        1
    );
}

#[tokio::test]
async fn list_changes_are_announced_after_they_happened() {
    let fixture = HttpFixture::start(Era::Both).await.unwrap();
    let legacy = open(&fixture, Opening::Legacy).await;
    let modern = open(&fixture, Opening::Modern).await;
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let mut subscription = modern.listen(filter).await.unwrap();
    let before = legacy.list_all_tools().await.unwrap().len();

    said(&modern, "test_trigger_prompt_change", json!({})).await;
    said(&modern, "emit_list_changed", json!({"name": "newcomer"})).await;

    let heard = tokio::time::timeout(SOON, subscription.next())
        .await
        .unwrap()
        .unwrap();
    assert!(
        matches!(
            heard,
            Some(ServerNotification::ToolListChangedNotification(_))
        ),
        "{heard:?}"
    );
    assert!(
        legacy
            .service()
            .heard()
            .wait("notifications/tools/list_changed", 1, SOON)
            .await
    );
    assert!(
        legacy
            .service()
            .heard()
            .wait("notifications/prompts/list_changed", 1, SOON)
            .await
    );
    assert_eq!(legacy.list_all_tools().await.unwrap().len(), before + 1);
    assert_eq!(said(&legacy, "newcomer", json!({})).await, "newcomer");
}

#[tokio::test]
#[expect(
    deprecated,
    reason = "resources/subscribe is deprecated, and gates must still carry it"
)]
async fn only_watched_resources_are_announced() {
    let fixture = HttpFixture::start(Era::Both).await.unwrap();
    let client = open(&fixture, Opening::Legacy).await;
    said(&client, "touch_resource", json!({})).await;
    client
        .subscribe(SubscribeRequestParams::new("test://watched-resource"))
        .await
        .unwrap();
    said(
        &client,
        "touch_resource",
        json!({"which": "test://static-text"}),
    )
    .await;
    said(&client, "touch_resource", json!({})).await;
    assert!(
        client
            .service()
            .heard()
            .wait("notifications/resources/updated", 1, SOON)
            .await
    );
    let updated = client
        .service()
        .heard()
        .all("notifications/resources/updated");
    assert_eq!(updated.len(), 1);
    assert_eq!(updated[0]["uri"], "test://watched-resource");
}

#[tokio::test]
async fn cancellation_is_counted_in_both_eras() {
    for opening in BOTH {
        let fixture = HttpFixture::start(Era::Both).await.unwrap();
        let client = open(&fixture, opening).await;
        let call = ClientRequest::CallToolRequest(rmcp::model::CallToolRequest::new(request(
            "slow",
            json!({"ms": 60_000}),
        )));
        let running = client
            .send_cancellable_request(call, PeerRequestOptions::no_options())
            .await
            .unwrap();
        until(&fixture, |effects| effects.started == 1).await;
        running
            .cancel(Some("changed my mind".to_owned()))
            .await
            .unwrap();
        until(&fixture, |effects| effects.cancelled == 1).await;
        said(&client, "slow", json!({"ms": 1})).await;
        let expected = Effects {
            effects: 0,
            started: 2,
            finished: 1,
            cancelled: 1,
        };
        assert_eq!(fixture.effects(), expected, "{opening:?}");
    }
}

async fn until(fixture: &HttpFixture, holds: impl Fn(Effects) -> bool) {
    let wait = async {
        while !holds(fixture.effects()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, wait)
        .await
        .unwrap_or_else(|_| panic!("it never came: {:?}", fixture.effects()));
}

#[tokio::test]
async fn a_cut_stream_is_resumed() {
    let fixture = HttpFixture::start(Era::Legacy).await.unwrap();
    let client = open(&fixture, Opening::Legacy).await;
    assert_eq!(
        said(&client, "test_reconnection", json!({})).await,
        "Finished after the stream was cut."
    );
}

#[tokio::test]
async fn prompts_resources_and_completion_answer() {
    let fixture = HttpFixture::start(Era::Both).await.unwrap();
    for opening in BOTH {
        let client = open(&fixture, opening).await;
        let arguments = json!({"arg1": "one", "arg2": "two"});
        let prompt = rmcp::model::GetPromptRequestParams::new("test_prompt_with_arguments")
            .with_arguments(arguments.as_object().unwrap().clone());
        let shown = format!("{:?}", client.get_prompt(prompt).await.unwrap());
        assert!(shown.contains("arg1='one', arg2='two'"), "{shown}");
        let read = rmcp::model::ReadResourceRequestParams::new("test://template/42/data");
        assert!(
            format!("{:?}", client.read_resource(read).await.unwrap()).contains("Data for ID: 42")
        );
        let reference = Reference::for_prompt("test_prompt_with_arguments");
        let argument = rmcp::model::ArgumentInfo::new("arg1", "par");
        let completed = client
            .complete(rmcp::model::CompleteRequestParams::new(reference, argument))
            .await
            .unwrap();
        assert_eq!(completed.completion.values, ["paris", "park", "party"]);
    }
}
