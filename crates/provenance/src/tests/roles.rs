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

#[test]
fn the_most_careful_word_of_a_name_counts() {
    let roles = Roles::default();
    for (name, role) in [
        ("recipient_id", Role::Target),
        ("chat_id", Role::Target),
        ("channelId", Role::Target),
        ("account_id", Role::Target),
        ("user_id", Role::Target),
        ("account_number", Role::Target),
        ("recipient_name", Role::Target),
        ("channel_name", Role::Target),
        ("url_text", Role::Target),
        ("webhook_state", Role::Target),
        ("reply_to", Role::Target),
        ("total_amount_recipient", Role::Target),
        ("file_name", Role::Object),
        ("filename", Role::Object),
        ("repo_name", Role::Object),
        ("email_id", Role::Object),
        ("message_id", Role::Object),
        ("amount_label", Role::Amount),
        ("label_text", Role::Name),
        ("location", Role::Name),
        ("file_content", Role::Content),
        ("event_date", Role::Value),
        ("from_date", Role::Value),
        ("permission", Role::Value),
        ("attachments[].type", Role::Value),
        ("currency", Role::Name),
        ("script.content", Role::Target),
        ("command.text", Role::Target),
        ("destination.name", Role::Target),
        ("recipients[].options.label", Role::Target),
        ("recipients[].amount", Role::Amount),
        ("event.title", Role::Name),
        ("email.body", Role::Content),
        ("zork.content", Role::Content),
    ] {
        assert_eq!(roles.of(name).role, role, "{name}");
    }
}

#[test]
fn operator_and_schema_say_otherwise_inside_of_a_target() {
    let schema = r#"{"properties":{"script":{"properties":{"lang":{"enum":["de","en"]},"text":{"type":"string"}}}}}"#;
    let schema = Json::parse(schema.as_bytes(), Limits::default()).unwrap();
    let said = BTreeMap::from([("script.note".to_owned(), Role::Content)]);
    let roles = Roles::new(said, Some(schema));
    assert_eq!(roles.of("script.lang").role, Role::Value);
    assert_eq!(roles.of("script.note").role, Role::Content);
    assert_eq!(roles.of("script.text").role, Role::Target);
}

#[test]
fn a_type_that_a_schema_refers_to_counts() {
    let schema = r##"{"properties":{
        "zork":{"$ref":"#/$defs/Access"},
        "quux":{"anyOf":[{"$ref":"#/$defs/Access"},{"type":"null"}]},
        "either":{"anyOf":[{"$ref":"#/$defs/Access"},{"type":"string"}]},
        "round":{"$ref":"#/$defs/Round"},
        "people":{"type":"array","items":{"$ref":"#/$defs/Person"}}
    },"$defs":{"Access":{"enum":["r","rw"]},"Round":{"$ref":"#/$defs/Round"},
        "Person":{"properties":{"where":{"type":"string","format":"email"}}}}}"##;
    let schema = Json::parse(schema.as_bytes(), Limits::default()).unwrap();
    let roles = Roles::new(BTreeMap::new(), Some(schema));
    for (path, role) in [
        ("zork", Role::Value),
        ("quux", Role::Value),
        ("either", Role::Target),
        ("round", Role::Target),
        ("people[].where", Role::Target),
    ] {
        assert_eq!(roles.of(path).role, role, "{path}");
    }
    let listed = roles.list(schema);
    assert!(listed.iter().any(|(path, _)| path == "people[].where"));
}
