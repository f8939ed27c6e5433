use gateway::settings::{Text, Transport};

use super::*;

const FILE: &str = "\
# my servers
listen: 127.0.0.1:7000   # not the default

mcp_servers:
  # reads code
  github:
    command: npx   # from npm
    args:
      - \"-y\"
      # the package
      - server-github
    classification: CONFIDENTIAL

  # the weather
  weather: {command: weather, classification: PUBLIC}
  empty:

# the end
retry: {attempts: 3}
";

fn stdio(id: &str) -> NewServer {
    NewServer {
        id: id.to_owned(),
        transport: NewTransport::Stdio {
            command: "npx".to_owned(),
            args: vec!["-y".to_owned(), "say \"hi\" # now".to_owned()],
            env: vec![
                ("TOKEN".to_owned(), "keychain:pat".to_owned()),
                ("PORT".to_owned(), "80".to_owned()),
            ],
            cwd: None,
        },
        classification: Some(Level::Internal),
        accepts: None,
        open_world: None,
        more: Vec::new(),
    }
}

fn remote(id: &str) -> NewServer {
    let url = "https://mcp.example.com/mcp?a=b".to_owned();
    NewServer {
        id: id.to_owned(),
        transport: NewTransport::Http {
            url,
            bearer: Some("env:KEY".to_owned()),
            headers: vec![("X-Team".into(), "core team".into())],
        },
        classification: None,
        accepts: None,
        open_world: None,
        more: Vec::new(),
    }
}

/// Lines that only `after` has get `+`, lines that only `before` has get `-`; unchanged lines are left out.
fn diff(before: &str, after: &str) -> String {
    let (a, b): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let head = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let tail = a[head..]
        .iter()
        .rev()
        .zip(b[head..].iter().rev())
        .take_while(|(x, y)| x == y)
        .count();
    let minus = a[head..a.len() - tail]
        .iter()
        .map(|line| format!("-{line}\n"));
    let plus = b[head..b.len() - tail]
        .iter()
        .map(|line| format!("+{line}\n"));
    minus.chain(plus).collect()
}

#[test]
fn adding_touches_nothing_else() {
    let after = add_server(FILE, &stdio("notes")).unwrap();
    assert_eq!(
        diff(FILE, &after),
        "\
+  notes:
+    command: npx
+    args: [\"-y\", \"say \\\"hi\\\" # now\"]
+    env:
+      TOKEN: keychain:pat
+      PORT: \"80\"
+    classification: INTERNAL
"
    );
    assert!(after.contains("  empty:\n  notes:\n"), "{after}");
    let resolved = super::super::parse(std::path::Path::new("x"), &after).unwrap();
    let Transport::Stdio { args, .. } = &resolved.server("notes").unwrap().transport else {
        panic!()
    };
    assert_eq!(*args, ["-y", "say \"hi\" # now"]);
}

#[test]
fn adding_works_wherever_servers_are_or_are_not() {
    let cases = [
        ("", "mcp_servers:\n  r:\n    url: \"https"),
        (
            "retry: {attempts: 2}",
            "retry: {attempts: 2}\n\nmcp_servers:\n  r:\n",
        ),
        ("mcp_servers:\nretry: {}\n", "mcp_servers:\n  r:\n    url"),
        ("mcp_servers:\n  # none yet\n", "mcp_servers:\n  r:\n"),
        ("mcp_servers: {} # none\n", "mcp_servers:  # none\n  r:\n"),
        ("mcp_servers: ~\n", "mcp_servers: \n  r:\n"),
        ("mcp_servers: []", "mcp_servers: \n  r:\n"),
        (
            "mcp_servers:\n    a:\n      command: x",
            "mcp_servers:\n    a:\n      command: x\n    r:\n      url",
        ),
        (
            "mcp_servers:\n- name: a\n  command: x\n# end\n",
            "- name: a\n  command: x\n- name: r\n  url",
        ),
        (
            "mcp_servers:\n  - name: a\n    command: x\n",
            "    command: x\n  - name: r\n    url",
        ),
        (
            "\u{feff}mcp_servers:\r\n  a:\r\n    command: x\r\n",
            "\u{feff}mcp_servers:\r\n  a:\r\n    command: x\r\n  r:\r\n    url",
        ),
        (
            "mcp_servers:\n  a:\n    command: |\n      x\n\nretry: {}\n",
            "      x\n  r:\n",
        ),
    ];
    for (before, expected) in cases {
        let after =
            add_server(before, &remote("r")).unwrap_or_else(|error| panic!("{before:?}: {error}"));
        assert!(after.contains(expected), "{before:?} became {after:?}");
        let back = remove_server(&after, "r").unwrap();
        assert!(!back.contains("url"), "{back:?}");
    }
}

#[test]
fn what_was_added_can_be_removed_again() {
    let after = add_server(FILE, &stdio("notes")).unwrap();
    assert_eq!(remove_server(&after, "notes").unwrap(), FILE);
}

#[test]
fn removing_keeps_comments_and_neighbours() {
    assert_eq!(
        diff(FILE, &remove_server(FILE, "github").unwrap()),
        "\
-  github:
-    command: npx   # from npm
-    args:
-      - \"-y\"
-      # the package
-      - server-github
-    classification: CONFIDENTIAL
"
    );
    assert_eq!(
        diff(FILE, &remove_server(FILE, "weather").unwrap()),
        "-  weather: {command: weather, classification: PUBLIC}\n"
    );
    assert_eq!(
        diff(FILE, &remove_server(FILE, "empty").unwrap()),
        "-  empty:\n"
    );
    assert_eq!(
        remove_server("mcp_servers:\n- name: a\n  command: x\n- name: b\n", "a").unwrap(),
        "mcp_servers:\n- name: b\n"
    );
}

#[test]
fn switching_and_classifying() {
    let off = set_enabled(FILE, "github", false).unwrap();
    assert_eq!(diff(FILE, &off), "+    enabled: false\n");
    assert_eq!(
        diff(&off, &set_enabled(&off, "github", true).unwrap()),
        "-    enabled: false\n+    enabled: true\n"
    );
    let flow = set_enabled(FILE, "weather", false).unwrap();
    assert!(
        flow.contains("  weather: {enabled: false, command: weather, classification: PUBLIC}\n")
    );
    assert_eq!(
        diff(FILE, &set_enabled(FILE, "empty", false).unwrap()),
        "+    enabled: false\n"
    );
    let level = set_classification(FILE, "github", Level::Restricted).unwrap();
    assert_eq!(
        diff(FILE, &level),
        "-    classification: CONFIDENTIAL\n+    classification: RESTRICTED\n"
    );
    assert_eq!(
        set_classification(FILE, "github", Level::Confidential).unwrap(),
        FILE,
        "already so"
    );
}

#[test]
fn refusals_say_what_to_do() {
    let says = |result: Result<String, EditError>| result.unwrap_err().to_string();
    assert_eq!(
        says(remove_server(FILE, "gihtub")),
        "there is no server `gihtub`; did you mean `github`?"
    );
    assert_eq!(says(remove_server("", "x")), "there is no server `x`");
    assert_eq!(
        says(add_server(FILE, &stdio("github"))),
        "the server `github` already exists; change it with `portcullis servers edit github`, or choose another id"
    );
    let flow = "mcp_servers: {a: {command: x}, b: {command: y}}\n";
    assert_eq!(
        says(remove_server(flow, "b")),
        "line 1 is written in a way that cannot be edited safely; change it by hand"
    );
    assert!(says(add_server(FILE, &stdio("Bad Id"))).contains("call it `bad-id`"));
    assert!(says(add_server("listen: nowhere\n", &stdio("a"))).contains("not an address"));
    let mut leaky = stdio("a");
    leaky.transport = NewTransport::Http {
        url: "https://h/".into(),
        bearer: Some("hunter2".into()),
        headers: vec![],
    };
    let message = says(add_server(FILE, &leaky));
    assert!(
        message.contains("must name a secret") && !message.contains("hunter2"),
        "{message}"
    );
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    /// A file of a few servers in mixed layouts, with comments between them.
    fn file() -> impl Strategy<Value = (String, Vec<String>)> {
        let layout = 0..6usize;
        prop::collection::vec((layout, any::<bool>()), 1..6).prop_map(|servers| {
            let mut text = String::from("# head\nmcp_servers:\n");
            let mut ids = Vec::new();
            for (index, (layout, comment)) in servers.into_iter().enumerate() {
                let id = format!("s{index}");
                if comment {
                    text.push_str("  # about the next one\n\n");
                }
                text.push_str(&match layout {
                    0 => format!("  {id}:\n    command: x\n    # inside\n    args: [a, 'b c']\n"),
                    1 => format!("  {id}: {{command: x, enabled: true}} # end\n"),
                    2 => format!("  {id}:\n"),
                    3 => format!("  \"{id}\":\n      url: https://h/{id}\n      classification: PUBLIC\n\n"),
                    4 => format!(
                        "  {id}:\n    enabled: false\n    args:\n    - a\n    - |\n      two\n      lines\n    command: x\n"
                    ),
                    _ => format!("  {id}:\n    command: x\n    env:\n      A: é\n      B: >-\n        folded\n        text\n"),
                });
                ids.push(id);
            }
            text.push_str("# tail\nretry: {attempts: 2}\n");
            (text, ids)
        })
    }

    proptest! {
        #[test]
        fn edits_keep_every_comment_and_only_touch_their_entry((text, ids) in file(), pick in any::<prop::sample::Index>()) {
            let id = pick.get(&ids);
            let comments = |text: &str| text.lines().filter(|line| line.trim_start().starts_with('#')).count();
            let added = add_server(&text, &stdio("fresh")).unwrap();
            prop_assert_eq!(remove_server(&added, "fresh").unwrap(), text.clone());
            let inside = usize::from(text.contains(&format!("{id}:\n    command: x\n    # inside")));
            let removed = remove_server(&text, id).unwrap();
            prop_assert_eq!(comments(&removed) + inside, comments(&text));
            for enabled in [true, false] {
                let set = set_enabled(&text, id, enabled).unwrap();
                prop_assert_eq!(comments(&set), comments(&text));
                prop_assert!(set.lines().count() <= text.lines().count() + 1);
            }
            let classified = set_classification(&text, id, Level::Restricted).unwrap();
            let resolved = super::super::super::parse(std::path::Path::new("x"), &classified).unwrap();
            prop_assert_eq!(resolved.server(id).unwrap().classification, Some(Level::Restricted));
        }

        #[test]
        fn any_argument_survives_the_trip(args in prop::collection::vec("\\PC{0,12}", 0..4), value in "\\PC{0,12}") {
            prop_assume!(!args.iter().any(|a| a.contains("-----BEGIN ")));
            let server = NewServer {
                id: "a".into(),
                transport: NewTransport::Stdio { command: "x".into(), args: args.clone(), env: vec![("V".into(), format!("literal:{value}"))], cwd: None },
                classification: None,
                accepts: None,
                open_world: None,
                more: Vec::new(),
            };
            let text = add_server("", &server).unwrap();
            let resolved = super::super::super::parse(std::path::Path::new("x"), &text).unwrap();
            let Transport::Stdio { args: read, env, .. } = &resolved.server("a").unwrap().transport else { panic!() };
            prop_assert_eq!(read, &args);
            prop_assert_eq!(&env["V"], &Text::Literal(value));
        }
    }
}

#[test]
fn blocking_writes_the_reason_and_unblocking_leaves_no_trace() {
    for id in ["github", "weather", "empty"] {
        let blocked = set_blocked(FILE, id, Some("sends \"tokens\"\nto others: see #12")).unwrap();
        let resolved = super::super::parse(std::path::Path::new("x"), &blocked).unwrap();
        assert_eq!(
            resolved.server(id).unwrap().blocked.as_deref(),
            Some("sends \"tokens\"\nto others: see #12")
        );
        let again = set_blocked(&blocked, id, Some("other")).unwrap();
        let resolved = super::super::parse(std::path::Path::new("x"), &again).unwrap();
        assert_eq!(
            resolved.server(id).unwrap().blocked.as_deref(),
            Some("other")
        );
        assert_eq!(set_blocked(&again, id, None).unwrap(), FILE, "{again}");
    }
    assert_eq!(set_blocked(FILE, "github", None).unwrap(), FILE);
    assert_eq!(
        diff(FILE, &set_blocked(FILE, "github", Some("leaks")).unwrap()),
        "+    blocked: \"leaks\"\n"
    );
    assert!(matches!(
        set_blocked(FILE, "githbu", Some("x")),
        Err(EditError::Unknown { .. })
    ));
}

#[test]
fn unblocking_takes_its_own_lines_only() {
    let listed = "mcp_servers:\n- name: a\n  blocked: >\n    two\n    lines\n  # why\n  command: x\n- blocked: here\n  name: b\n";
    let after = set_blocked(listed, "a", None).unwrap();
    assert_eq!(
        after,
        "mcp_servers:\n- name: a\n  # why\n  command: x\n- blocked: here\n  name: b\n"
    );
    assert!(
        matches!(
            set_blocked(listed, "b", None),
            Err(EditError::Style { line: 8 })
        ),
        "it stands beside the dash"
    );
    let after = set_blocked(listed, "a", Some("x")).unwrap();
    assert_eq!(
        after,
        "mcp_servers:\n- name: a\n  # why\n  command: x\n  blocked: \"x\"\n- blocked: here\n  name: b\n"
    );
    let flow = "mcp_servers: \n  a: {command: x, blocked: y}\n  b: {blocked: y}\n  c: {blocked: y, url: \"http://localhost/\"}\n";
    assert!(
        set_blocked(flow, "a", None)
            .unwrap()
            .contains("a: {command: x}\n")
    );
    assert!(set_blocked(flow, "b", None).unwrap().contains("b: {}\n"));
    assert!(
        set_blocked(flow, "c", None)
            .unwrap()
            .contains("c: {url: \"http")
    );
}
