//! Settings as people write them: what is theirs stays to the byte, and what is ours comes and goes whole.

use proptest::prelude::*;

use imports::jsonc::Document;

use super::{edit::Edit, *};

fn claude(command: &str) -> Edit {
    let form = Form {
        file: PathBuf::new(),
        events: &["SessionStart", "UserPromptSubmit"],
        is_grouped: true,
        units: 1,
    };
    Edit::Hooks {
        client: "claude-code".to_owned(),
        entries: form.entries(command),
        version: None,
    }
}

const HOOK: &str = "/opt/a  b/portcullis task hook claude-code --caller me";

fn value(text: &str) -> Value {
    Document::read(text).unwrap().value().clone()
}

#[test]
fn comments_and_everything_else_stay() {
    let text = "// mine\r\n{\r\n\t\"model\": \"opus\", // the \"best\" {\r\n\t/* \"hooks\": [] */\r\n\t\"hooks\": {\r\n\t\t\"UserPromptSubmit\": [\r\n\t\t\t{ \"hooks\": [{ \"type\": \"command\", \"command\": \"date, // no comment\" }] }, // own\r\n\t\t],\r\n\t},\r\n}\r\n";
    let edit = claude(HOOK);
    let installed = edit.install(text).unwrap();
    let hooks = value(&installed)["hooks"].clone();
    assert_eq!(hooks["SessionStart"][0]["hooks"][0]["command"], HOOK);
    assert_eq!(
        hooks["UserPromptSubmit"][0]["hooks"][0]["command"],
        "date, // no comment"
    );
    assert_eq!(hooks["UserPromptSubmit"][1]["hooks"][0]["command"], HOOK);
    assert!(
        !installed.replace("\r\n", "").contains('\n'),
        "{installed:?}"
    );
    for line in text.lines() {
        assert!(
            installed.contains(line.trim_end_matches(',')),
            "{line}\n{installed}"
        );
    }
    assert_eq!(
        edit.install(&installed).unwrap(),
        installed,
        "twice is once"
    );
    assert_eq!(value(&edit.uninstall(&installed).unwrap()), value(text));
    let other = claude("portcullis task hook claude-code --caller other")
        .install(&installed)
        .unwrap();
    assert!(!other.contains(HOOK), "{other}");
    assert_eq!(other.matches("--caller other").count(), 2);
}

#[test]
fn what_cannot_be_understood_is_not_changed() {
    let edit = claude(HOOK);
    for text in [
        "{",
        "[]",
        "null",
        "{\"hooks\": []}",
        "{\"hooks\": 3}",
        "{\"hooks\": {\"SessionStart\": {}}}",
        "{\"hooks\": {}, \"hooks\": {}}",
        "{'hooks': 1}",
        "/* {}",
        "{} {}",
        "{\"a\": \"\\q\"}",
    ] {
        assert!(edit.install(text).is_err(), "{text}");
    }
    let deep = format!("{{\"a\": {}{}}}", "[".repeat(110), "]".repeat(110));
    assert!(edit.install(&deep).is_err());
    let empty = edit.install("").unwrap();
    assert_eq!(
        value(&empty)["hooks"]["SessionStart"][0]["hooks"][0]["command"],
        HOOK
    );
}

#[test]
fn what_a_person_put_beside_the_hook_stays_when_it_goes() {
    let edit = claude(HOOK);
    let installed = edit.install("{}").unwrap();
    let ours = format!(
        "{}",
        json!({"type": "command", "command": HOOK, "timeout": PATIENCE_S})
    );
    let mixed = format!(
        "{{\"hooks\": {{\"SessionStart\": [{{\"hooks\": [{{\"command\": \"date\"}}, {ours}]}}], \"Stop\": []}}}}"
    );
    let left = value(&edit.uninstall(&mixed).unwrap());
    assert_eq!(
        left,
        json!({"hooks": {"SessionStart": [{"hooks": [{"command": "date"}]}], "Stop": []}})
    );
    assert_eq!(value(&edit.uninstall(&installed).unwrap()), json!({}));
    let foreign = "{\"command\": \"portcullis task hook claude-code --caller me\"}";
    assert_eq!(
        edit.uninstall(foreign).unwrap(),
        foreign,
        "only hooks are ours"
    );
}

#[test]
fn a_server_that_is_there_already_is_left_alone() {
    let edit = Edit::Server {
        section: "mcpServers",
        entry: json!({"command": "portcullis", "args": ["connect", "--as", "me"]}),
    };
    let own = "{\"mcpServers\": {\"portcullis\": {\"url\": \"http://127.0.0.1:7878/mcp\"}}}";
    assert_eq!(edit.install(own).unwrap(), own);
    assert_eq!(edit.uninstall(own).unwrap(), own);
    let added = edit.install("{\"mcpServers\": {\"x\": {}}}").unwrap();
    assert_eq!(
        value(&added)["mcpServers"]["portcullis"]["args"][0],
        "connect"
    );
    assert_eq!(
        value(&edit.uninstall(&added).unwrap()),
        json!({"mcpServers": {"x": {}}})
    );
}

#[test]
fn somebody_elses_plugin_is_not_overwritten() {
    let edit = Edit::Whole {
        mark: OPENCODE_MARK,
        text: OPENCODE_PLUGIN.to_owned(),
    };
    assert!(OPENCODE_PLUGIN.starts_with(OPENCODE_MARK));
    assert!(OPENCODE_PLUGIN.contains("[/* command */]"));
    assert!(edit.install("export const x = 1").is_err());
    assert_eq!(edit.install(OPENCODE_PLUGIN).unwrap(), OPENCODE_PLUGIN);
    assert_eq!(
        edit.uninstall("export const x = 1").unwrap(),
        "export const x = 1"
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~\\n\\t\"\\\\/*,{}éµ]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let key = prop_oneof![
            Just("hooks".to_owned()),
            Just("Stop".to_owned()),
            "[a-z\"/*]{0,4}"
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever a person has in their settings: all of it is there after, the hook is there once, and taking it back takes nothing else.
    #[test]
    fn nothing_of_a_persons_settings_is_lost(settings in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&settings) } else { serde_json::to_string(&settings) };
        let text = text.unwrap();
        let edit = claude(HOOK);
        let Ok(installed) = edit.install(&text) else { return Ok(()) };
        let mut after = value(&installed);
        for event in ["SessionStart", "UserPromptSubmit"] {
            let list = after["hooks"][event].as_array().unwrap();
            prop_assert_eq!(list.last().unwrap()["hooks"][0]["command"].as_str(), Some(HOOK));
        }
        prop_assert_eq!(edit.install(&installed).unwrap(), installed.clone());
        let before = settings.as_object().unwrap();
        for (key, value) in before {
            if key != "hooks" {
                prop_assert_eq!(&after[key], value);
            }
        }
        let left = value(&edit.uninstall(&installed).unwrap());
        after = settings.clone();
        // An empty section may go with the hook.
        if after["hooks"] == json!({}) || after["hooks"].is_null() {
            after.as_object_mut().unwrap().remove("hooks");
            let is_gone = left.get("hooks").is_none_or(|hooks| hooks == &json!({}));
            prop_assert!(is_gone);
        } else {
            prop_assert_eq!(left, after);
        }
    }
}
