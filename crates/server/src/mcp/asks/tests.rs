use bytes::Bytes;
use gateway::Pass;
use wire::{Json, Limits};

use super::{Question, input_required};

fn question(method: &str, params: &'static str) -> Question {
    let params = Bytes::from_static(params.as_bytes());
    Question {
        key: "k\"1".to_owned(),
        method: method.to_owned(),
        params,
        pass: Pass::default(),
    }
}

#[test]
fn a_client_is_asked_only_what_it_said_it_can_answer() {
    let form = r#"{"message":"?"}"#;
    let url = r#"{"mode":"url","url":"https://a"}"#;
    let rows = [
        ("sampling/createMessage", "{}", r#"{"sampling":{}}"#, true),
        (
            "sampling/createMessage",
            "{}",
            r#"{"elicitation":{}}"#,
            false,
        ),
        (
            "roots/list",
            "{}",
            r#"{"roots":{"listChanged":true}}"#,
            true,
        ),
        ("roots/list", "{}", "{}", false),
        ("elicitation/create", form, r#"{"elicitation":{}}"#, true),
        (
            "elicitation/create",
            form,
            r#"{"elicitation":{"form":{}}}"#,
            true,
        ),
        (
            "elicitation/create",
            form,
            r#"{"elicitation":{"url":{}}}"#,
            false,
        ),
        (
            "elicitation/create",
            form,
            r#"{"elicitation":{"form":{},"url":{}}}"#,
            true,
        ),
        ("elicitation/create", url, r#"{"elicitation":{}}"#, false),
        (
            "elicitation/create",
            url,
            r#"{"elicitation":{"url":{}}}"#,
            true,
        ),
        ("tools/call", "{}", r#"{"tools":{}}"#, false),
    ];
    for (method, params, capabilities, suits) in rows {
        assert_eq!(
            question(method, params).suits(capabilities.as_bytes()),
            suits,
            "{method} {params} {capabilities}"
        );
    }
}

#[test]
fn questions_travel_verbatim_under_their_keys() {
    let asked = [
        question(
            "elicitation/create",
            r#"{"requestedSchema":{ "default":1.10 }}"#,
        ),
        Question {
            key: "b".into(),
            ..question("roots/list", "{}")
        },
    ];
    let result = input_required(&asked, "st\"ate");
    let json = Json::parse(&result, Limits::default()).unwrap();
    assert_eq!(
        json.get("resultType").unwrap().as_str().unwrap(),
        "input_required"
    );
    assert_eq!(
        json.get("requestState").unwrap().as_str().unwrap(),
        "st\"ate"
    );
    let requests = json.get("inputRequests").unwrap();
    assert_eq!(
        requests.path(&["k\"1", "params"]).unwrap().text(),
        r#"{"requestedSchema":{ "default":1.10 }}"#
    );
    assert_eq!(
        requests.path(&["b", "method"]).unwrap().as_str().unwrap(),
        "roots/list"
    );
}

#[test]
fn a_servers_progress_token_stays_behind() {
    let new = |params: &'static str| {
        let words = (Bytes::from_static(params.as_bytes()), Pass::default());
        Question::new("k".into(), "elicitation/create".into(), words).params
    };
    assert_eq!(
        new(r#"{"_meta":{"progressToken":0},"message":"?"}"#),
        &br#"{"message":"?"}"#[..]
    );
    assert_eq!(
        new(r#"{"message":"?","_meta":{"a":1.0,"progressToken":"x"}}"#),
        &br#"{"message":"?","_meta":{"a":1.0}}"#[..]
    );
    for untouched in [r#"{ "message":"?" }"#, r#"{"_meta":{"a":1}}"#, "{}"] {
        assert_eq!(new(untouched), untouched.as_bytes());
    }
}
