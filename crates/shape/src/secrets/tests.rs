use proptest::prelude::*;
use serde_json::{Value, json};
use wire::{Json, Limits};

use super::*;
use crate::pattern::Pattern;

mod before;
mod hostile;
mod patterns;

use patterns::bounded;

/// A token of a kind, made here so that no scanner takes this file for a leak: a beginning, and as much as it needs of its alphabet.
fn tokens() -> Vec<(&'static str, String)> {
    let (mixed, lower_hex, upper) = (
        "aZ3kQ9xW7bN2mR8vT5cY1dF6gH4jL0pS",
        "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    );
    let take = |alphabet: &str, n: usize| alphabet.chars().cycle().take(n).collect::<String>();
    let with = |start: &str, n: usize| format!("{start}{}", take(mixed, n));
    vec![
        ("portcullis-token", with("pct_", 24)),
        ("github-token", with("ghp_", 36)),
        ("github-token", with("ghs_", 40)),
        ("github-token", with("github_pat_", 82)),
        ("gitlab-token", with("glpat-", 20)),
        ("slack-token", with("xoxb-", 40)),
        ("slack-token", with("xapp-", 40)),
        ("aws-access-key", format!("AKIA{}", take(upper, 16))),
        ("aws-access-key", format!("ASIA{}", take(upper, 16))),
        ("google-api-key", with("AIza", 35)),
        ("google-oauth-token", with("ya29.", 60)),
        ("google-client-secret", with("GOCSPX-", 28)),
        ("anthropic-key", with("sk-ant-api03-", 90)),
        ("openai-key", with("sk-proj-", 60)),
        (
            "openai-key",
            format!("sk-{}T3BlbkFJ{}", take(mixed, 20), take(mixed, 20)),
        ),
        ("stripe-key", with("sk_live_", 24)),
        ("stripe-key", with("rk_test_", 24)),
        ("npm-token", with("npm_", 36)),
        ("pypi-token", with("pypi-AgEIcHlwaS5vcmc", 80)),
        ("docker-token", with("dckr_pat_", 27)),
        ("huggingface-token", with("hf_", 34)),
        (
            "digitalocean-token",
            format!("dop_v1_{}", take(lower_hex, 64)),
        ),
        (
            "sendgrid-key",
            format!("SG.{}.{}", take(mixed, 22), take(mixed, 43)),
        ),
        ("twilio-key", format!("SK{}", take(lower_hex, 32))),
        ("shopify-token", format!("shpat_{}", take(lower_hex, 32))),
        ("vault-token", with("hvs.", 24)),
        ("age-key", format!("AGE-SECRET-KEY-1{}", take(upper, 58))),
        ("linear-key", with("lin_api_", 40)),
        ("notion-token", with("ntn_", 46)),
        (
            "grafana-token",
            format!("glsa_{}_{}", take(mixed, 32), take(lower_hex, 8)),
        ),
        ("tailscale-key", with("tskey-auth-", 30)),
        ("telegram-token", format!("123456789:AA{}", take(mixed, 33))),
        ("azure-client-secret", format!("aB38Q~{}", take(mixed, 32))),
        (
            "jwt",
            format!(
                "eyJ{}.eyJ{}.{}",
                take(mixed, 20),
                take(mixed, 40),
                take(mixed, 43)
            ),
        ),
    ]
}

/// Secrets that stand in a longer text, only part of which is secret.
fn in_context() -> Vec<(&'static str, String, String)> {
    let key = "q".repeat(43) + "Z";
    let forty = "q".repeat(40);
    let pem = format!(
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        "MIIEow".repeat(20)
    );
    vec![
        ("private-key", pem.clone(), format!("before\n{pem}\nafter")),
        (
            "private-key",
            "MIIEow".repeat(9),
            format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n{}",
                "MIIEow".repeat(9)
            ),
        ),
        (
            "slack-webhook",
            format!("T0/B0/{key}"),
            format!("https://hooks.slack.com/services/T0/B0/{key}"),
        ),
        (
            "aws-secret-key",
            forty.clone(),
            format!("aws_secret_access_key = {forty}"),
        ),
        (
            "azure-key",
            format!("{key}=="),
            format!("DefaultEndpointsProtocol=https;AccountKey={key}==;Suffix=x"),
        ),
        (
            "azure-signature",
            key.clone(),
            format!("https://a.example/c?se=2030&sig={key}"),
        ),
        (
            "url-password",
            "s3cr3t-pass".to_owned(),
            "postgres://app:s3cr3t-pass@db.internal:5432/main".to_owned(),
        ),
        (
            "url-password",
            "p%40ss:w".to_owned(),
            "see redis://:p%40ss:w@cache/0, please".to_owned(),
        ),
    ]
}

fn parse(text: &[u8]) -> Value {
    Json::parse(text, Limits::default())
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)));
    serde_json::from_slice(text).unwrap()
}

fn held(values: &[&str]) -> Held {
    Held::new(values.iter().copied())
}

fn redacted(text: &str, values: &[&str]) -> String {
    redact(text.as_bytes(), &held(values)).map_or_else(
        || "none".to_owned(),
        |done| String::from_utf8(done.text).unwrap(),
    )
}

/// The text as a JSON string in which every character is escaped.
fn all_escaped(text: &str) -> String {
    let mut units = [0; 2];
    let escaped: String = text
        .chars()
        .flat_map(|c| c.encode_utf16(&mut units).to_vec())
        .map(|unit| format!("\\u{unit:04x}"))
        .collect();
    format!("\"{escaped}\"")
}

#[test]
fn shapes_compile_and_each_is_shown_a_token() {
    assert!(
        SHAPES
            .iter()
            .all(|shape| Pattern::new(bounded(shape.pattern)).get().is_some())
    );
    assert!(Pattern::new("(").get().is_none());
    let shown: Vec<&str> = tokens()
        .iter()
        .map(|(name, _)| *name)
        .chain(in_context().iter().map(|(name, ..)| *name))
        .collect();
    for shape in SHAPES {
        assert!(!shape.literals.is_empty(), "{}", shape.name);
        assert!(
            shown.contains(&shape.name),
            "no token of the kind {}",
            shape.name
        );
    }
}

#[test]
fn every_kind_is_found_wherever_it_stands() {
    let all = tokens()
        .into_iter()
        .map(|(name, token)| (name, token.clone(), token))
        .chain(in_context());
    for (name, secret, text) in all {
        let quoted = json!(text).to_string();
        let escaped = all_escaped(&text);
        for document in [
            quoted.clone(),
            escaped.clone(),
            json!({"content": [{"type": "text", "text": format!("it is {text} , and so on")}]})
                .to_string(),
            format!(r#"{{"a":{{"b":[[{escaped}]]}},"c":1}}"#),
            format!(r#"{{{quoted}:true,"x":2}}"#),
            format!(r#"{{{escaped}:{quoted}}}"#),
            format!("[{quoted},\n {escaped} ,\"{}\"]", "x".repeat(70)),
            quoted.replace('/', "\\/"),
        ] {
            let done = redact(document.as_bytes(), &Held::default())
                .unwrap_or_else(|| panic!("{name} is not found in {document}"));
            assert_eq!(done.found, [name], "{document}");
            let after = parse(&done.text).to_string();
            assert!(
                !after.contains(&secret)
                    && !after.contains(secret.get(..secret.len() - 4).unwrap()),
                "{name}: {after}"
            );
            assert!(after.contains(&format!("[redacted: {name}")), "{after}");
            assert!(
                redact(&done.text, &Held::default()).is_none(),
                "a redacted text holds nothing more: {after}"
            );
        }
    }
}

#[test]
fn what_surrounds_a_secret_is_kept() {
    let token = &tokens()[1].1;
    for (before, after) in [
        (
            format!(r#"{{"a":"x {token} y","b":[1.50, null]}}"#),
            r#"{"a":"x [redacted: github-token] y","b":[1.50, null]}"#,
        ),
        (
            format!(r#"["{token}","é\n\"","{token}"]"#),
            r#"["[redacted: github-token]","é\n\"","[redacted: github-token]"]"#,
        ),
        (
            format!(r#"{{"{token}":1,"{token}x":2}}"#),
            r#"{"[redacted: github-token #1]":1,"[redacted: github-token #2]":2}"#,
        ),
        (
            format!(r#"{{"[redacted: github-token #1]":0,"{token}":1}}"#),
            r#"{"[redacted: github-token #1]":0,"[redacted: github-token #2]":1}"#,
        ),
        (
            r#"["mysql://root:hunter2@db/x"]"#.to_owned(),
            r#"["mysql://root:[redacted: url-password]@db/x"]"#,
        ),
    ] {
        assert_eq!(redacted(&before, &[]), after);
        parse(after.as_bytes());
    }
}

#[test]
fn values_we_hold_are_found_in_every_spelling() {
    let value = "Tr0ub4dor&3/\"ü\" and more";
    let encoded = |before: &str, after: &str| {
        use base64::{Engine, engine::general_purpose};
        [
            general_purpose::STANDARD.encode(format!("{before}{value}{after}")),
            general_purpose::URL_SAFE.encode(format!("{before}{value}{after}")),
        ]
    };
    let mut texts = vec![
        value.to_owned(),
        format!("x{value}y"),
        "Tr0ub4dor%263%2F%22%C3%BC%22%20and%20more".to_owned(),
    ];
    texts.extend(
        ["", "u", "us", "usr:"]
            .iter()
            .flat_map(|before| encoded(before, "!")),
    );
    for text in texts {
        for document in [
            json!({"a": [text]}).to_string(),
            format!("[{}]", all_escaped(&text)),
            json!({ text.clone(): 1 }).to_string(),
        ] {
            let done = redact(document.as_bytes(), &held(&[value]))
                .unwrap_or_else(|| panic!("not found in {document}"));
            assert_eq!(done.found, [HELD]);
            let after = parse(&done.text).to_string();
            assert!(!after.contains("Tr0ub4dor"), "{after}");
        }
    }
    // In a text that is JSON itself.
    let inner = json!({"password": value}).to_string();
    for inner in [inner.replace('/', "\\/"), inner] {
        assert_eq!(
            redacted(&json!([inner]).to_string(), &[value]),
            r#"["{\"password\":\"[redacted: held-value]\"}"]"#
        );
    }
}

#[test]
fn numbers_and_short_values() {
    assert_eq!(
        redacted(r#"{"a":1234567890123,"b":12}"#, &["1234567890"]),
        r#"{"a":"[redacted: held-value]","b":12}"#
    );
    assert_eq!(
        redacted("[ -1234567890 ]", &["1234567890"]),
        r#"[ "[redacted: held-value]" ]"#
    );
    assert_eq!(
        redacted(r#"{"a":"x hunter2"}"#, &["hunter2", "", "a"]),
        "none"
    );
    assert_eq!(
        redacted("12345678", &["12345678"]),
        r#""[redacted: held-value]""#
    );
    assert!(!format!("{:?}", held(&["hunter2hunter2"])).contains("hunter2"));
}

/// Texts that hold something like a secret and are none.
#[test]
fn ordinary_texts_are_left_alone() {
    for text in [
        "https://example.com/a:b@c?x=1#y",
        "http://user@host/path and ssh://git@github.com:22/x.git",
        "mail bob@example.com: see https://example.com/",
        "sk-fading-circle-wrapper-for-the-whole-page-container",
        "task_live_stream, risk-based testing, DISK0 and TASKS, SKU12345678",
        "ghp_short and glpat-short and xoxb-",
        "the literal AKIA is the prefix of a key; AKIAIOSFODNN7 is too short",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "eyJhbGciOiJIUzI1NiJ9 is a header without the rest",
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        "5f4dcc3b5aa765d61d8327deb882cf99 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "550e8400-e29b-41d4-a716-446655440000",
        "npm_config_registry hf_hub_download lin_api_version shpat_ secret_key_base",
        "Version SG.1 of hvs.go; ya29.txt",
        "fn main() { let x = a::<AAA>(); } // 12:AA",
        "fixed-width: key=value; sig=short&x=1",
        "\\u0041\\/ \u{1f600} Übergrößenträger",
    ] {
        for document in [
            json!({"text": text}).to_string(),
            format!("[{}]", all_escaped(text)),
            json!({ text: 1 }).to_string(),
        ] {
            assert_eq!(redacted(&document, &["hunter2hunter2"]), "none", "{text}");
        }
    }
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_secret_leaves_and_the_rest_does(tree in tree(), which in 0usize..33, before in "[^A-Za-z0-9_]{0,6}", after in "[^A-Za-z0-9_+/=.~-]{0,6}", escaped: bool) {
        let (name, token) = tokens().swap_remove(which);
        let text = format!("{before}{token}{after}");
        let spelled = if escaped { all_escaped(&text) } else { json!(text).to_string() };
        let document = format!(r#"{{"tree":{tree},"secret":[{spelled}],"again":{tree}}}"#);
        let done = redact(document.as_bytes(), &Held::default()).unwrap();
        let value = parse(&done.text);
        prop_assert_eq!(&done.found, &[name]);
        prop_assert_eq!(&value["tree"], &tree);
        prop_assert_eq!(&value["again"], &tree);
        prop_assert_eq!(value["secret"][0].as_str().unwrap(), format!("{before}[redacted: {name}]{after}"));
    }

    #[test]
    fn a_held_value_never_leaves(tree in tree(), value in "[!-~]{8,24}", key: bool, before in ".{0,5}") {
        let text = format!("{before}{value}");
        let document = if key { json!({ "t": tree, text: 1 }) } else { json!({ "t": [tree], "v": text }) }.to_string();
        let done = redact(document.as_bytes(), &held(&[&value])).unwrap();
        prop_assert!(!parse(&done.text).to_string().contains(json!(value).to_string().trim_matches('"')) || "[redacted: held-value".contains(&value));
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<Vec<u8>>(), value in ".{0,20}") {
        let _done = redact(&text, &held(&[&value]));
    }

    #[test]
    fn what_holds_nothing_is_not_touched(tree in tree()) {
        prop_assert!(redact(tree.to_string().as_bytes(), &Held::default()).is_none());
    }
}
