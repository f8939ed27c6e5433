use std::sync::Arc;

use wire::{Json, Limits};

use super::{Filter, Listeners, MAX_PER_CALLER};

fn filter(notifications: &str) -> Result<Filter, i64> {
    let params = format!(r#"{{"notifications":{notifications}}}"#);
    Filter::read(Some(
        Json::parse(params.as_bytes(), Limits::default()).unwrap(),
    ))
    .map_err(|problem| problem.code)
}

fn json(filter: &Filter) -> String {
    String::from_utf8(filter.json()).unwrap()
}

#[test]
fn a_filter_holds_what_was_asked_for() {
    let asked = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a","b\"c"]}"#;
    assert_eq!(json(&filter(asked).unwrap()), asked);
    assert_eq!(
        json(&filter(r#"{"toolsListChanged":false,"unknown":1}"#).unwrap()),
        "{}"
    );
    for wrong in [
        "[]",
        "1",
        r#"{"toolsListChanged":"yes"}"#,
        r#"{"resourceSubscriptions":"a"}"#,
        r#"{"resourceSubscriptions":[1]}"#,
    ] {
        assert_eq!(filter(wrong).unwrap_err(), -32602, "{wrong}");
    }
    assert_eq!(Filter::read(None).unwrap_err().code, -32602);
    let many: Vec<String> = (0..300).map(|number| format!("\"{number}\"")).collect();
    assert!(
        filter(&format!(
            r#"{{"resourceSubscriptions":[{}]}}"#,
            many.join(",")
        ))
        .is_err()
    );
}

#[test]
fn a_filter_keeps_only_what_the_door_offers() {
    let mut asked = filter(
        r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a"]}"#,
    )
    .unwrap();
    let mut same = asked.clone();
    asked.narrow(br#"{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":false}}"#);
    assert_eq!(json(&asked), r#"{"toolsListChanged":true}"#);
    same.narrow(br#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true}}"#);
    assert_eq!(
        json(&same),
        r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a"]}"#
    );
}

#[test]
fn seats_are_bounded_per_caller_and_given_back() {
    let listeners = Arc::new(Listeners::default());
    let mut seats: Vec<_> = (0..MAX_PER_CALLER)
        .map(|_| {
            listeners
                .enter("alice")
                .unwrap_or_else(|_| panic!("there is room"))
        })
        .collect();
    assert!(listeners.enter("alice").is_err());
    assert!(listeners.enter("bob").is_ok());
    seats.pop();
    assert!(listeners.enter("alice").is_ok());
    seats.clear();
    assert!(super::lock(&listeners.0).is_empty());
}
