use std::collections::BTreeMap;

use wire::{Json, Limits};

use crate::{Decided, Role, Roles};

#[test]
fn names_and_types_say_what_an_argument_is_for_and_unknown_means_target() {
    let schema = r#"{"type":"object","properties":{
        "to":{"type":"array","items":{"type":"string"}},
        "emailId":{"type":"string"},
        "issue_number":{"type":"integer"},
        "amount":{"type":"number"},
        "start_time":{"type":"string"},
        "subject":{"type":"string"},
        "body":{"type":"string"},
        "urgent":{"type":"boolean"},
        "mode":{"enum":["fast","slow"]},
        "where":{"type":"string","format":"email"},
        "command":{"type":"string"},
        "query":{"type":"string"},
        "people":{"type":"array","items":{"type":"object","properties":{"mail":{"type":"string"},"note":{"type":"string"}}}}
    }}"#;
    let schema = Json::parse(schema.as_bytes(), Limits::default()).unwrap();
    let roles = Roles::new(BTreeMap::new(), Some(schema));
    let listed: BTreeMap<String, Role> = roles
        .list(schema)
        .into_iter()
        .map(|(path, of)| (path, of.role))
        .collect();
    let expected = [
        ("to[]", Role::Target),
        ("emailId", Role::Object),
        ("issue_number", Role::Object),
        ("amount", Role::Amount),
        ("start_time", Role::Value),
        ("subject", Role::Name),
        ("body", Role::Content),
        ("urgent", Role::Value),
        ("mode", Role::Value),
        ("where", Role::Target),
        ("command", Role::Target),
        ("query", Role::Target),
        ("people[].mail", Role::Target),
        ("people[].note", Role::Content),
    ];
    assert_eq!(
        listed,
        expected.map(|(path, role)| (path.to_owned(), role)).into()
    );
    assert_eq!(
        roles.of("query").decided,
        Decided::Guessed("nobody knows what it is for")
    );
}
