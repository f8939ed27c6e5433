use proptest::prelude::*;

use super::*;

/// Sends lines, returns the replies as JSON.
fn talk(demo: Demo, lines: &[Value]) -> Vec<Value> {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    replies(demo, input.as_bytes())
}

fn replies(demo: Demo, input: &[u8]) -> Vec<Value> {
    let mut output = Vec::new();
    serve(demo, input, &mut output).unwrap();
    let output = String::from_utf8(output).unwrap();
    assert!(output.is_empty() || output.ends_with('\n'));
    output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn ask(demo: Demo, method: &str, params: Value) -> Value {
    let reply = talk(
        demo,
        &[json!({ "jsonrpc": "2.0", "id": "q", "method": method, "params": params })],
    )
    .remove(0);
    assert_eq!(
        (reply["jsonrpc"].as_str(), reply["id"].as_str()),
        (Some("2.0"), Some("q"))
    );
    reply
}

fn ask_modern(demo: Demo, method: &str, mut params: Value) -> Value {
    params["_meta"] =
        json!({ VERSION_KEY: MODERN, "io.modelcontextprotocol/clientCapabilities": {} });
    ask(demo, method, params)
}

#[test]
fn the_legacy_handshake_agrees_on_a_version() {
    for (asked, agreed) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let reply = ask(
            Demo::Notes,
            "initialize",
            json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": {} }),
        );
        assert_eq!(reply["result"]["protocolVersion"], agreed);
        assert_eq!(
            reply["result"]["serverInfo"]["name"],
            "portcullis-demo-notes"
        );
        assert_eq!(
            reply["result"].get("resultType"),
            None,
            "legacy results stay plain"
        );
    }
    assert_eq!(ask(Demo::Web, "ping", json!({}))["result"], json!({}));
}

#[test]
fn the_stateless_revision_needs_no_handshake() {
    let reply = ask(Demo::Web, "server/discover", json!({}));
    assert_eq!(reply["result"]["supportedVersions"], json!([MODERN]));
    assert_eq!(
        reply["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "portcullis-demo-web"
    );
    let list = ask_modern(Demo::Web, "tools/list", json!({}));
    assert_eq!(list["result"]["resultType"], "complete");
    assert_eq!(
        (
            list["result"]["ttlMs"].as_u64(),
            list["result"]["cacheScope"].as_str()
        ),
        (Some(60_000), Some("public"))
    );
    let call = ask_modern(
        Demo::Notes,
        "tools/call",
        json!({ "name": "echo", "arguments": { "text": "hi" } }),
    );
    assert_eq!(call["result"]["resultType"], "complete");
    assert_eq!(call["result"].get("ttlMs"), None);
    for gone in ["initialize", "ping", "logging/setLevel"] {
        assert_eq!(
            ask_modern(Demo::Notes, gone, json!({}))["error"]["code"],
            METHOD_NOT_FOUND
        );
    }
    let reply = ask(
        Demo::Notes,
        "tools/list",
        json!({ "_meta": { VERSION_KEY: "2027-01-01" } }),
    );
    assert_eq!(reply["error"]["code"], UNSUPPORTED_VERSION);
    assert_eq!(reply["error"]["data"]["supported"], json!([MODERN]));
}

#[test]
fn tools_do_what_they_say() {
    let say = |demo, name: &str, arguments: Value| {
        let reply = ask(
            demo,
            "tools/call",
            json!({ "name": name, "arguments": arguments }),
        );
        let result = &reply["result"];
        (
            result["content"][0]["text"].as_str().unwrap().to_owned(),
            result["isError"].as_bool().unwrap_or(false),
        )
    };
    assert_eq!(
        say(
            Demo::Notes,
            "search_notes",
            json!({ "query": "launch heron" })
        ),
        ("launch-plan: Launch plan for Heron".to_owned(), false)
    );
    assert_eq!(
        say(Demo::Notes, "search_notes", json!({ "query": "" }))
            .0
            .lines()
            .count(),
        3
    );
    assert!(
        say(Demo::Notes, "read_note", json!({ "id": "launch-plan" }))
            .0
            .contains("3 March")
    );
    assert!(say(Demo::Notes, "read_note", json!({ "id": "nope" })).1);
    assert_eq!(
        say(Demo::Notes, "echo", json!({ "text": "é" })),
        ("é".to_owned(), false)
    );
    assert!(
        say(Demo::Notes, "echo", json!({}))
            .0
            .contains("`text` is missing")
    );
    assert!(
        say(
            Demo::Web,
            "fetch_page",
            json!({ "url": "https://example.com" })
        )
        .0
        .contains("demo page")
    );
    let (posted, failed) = say(
        Demo::Web,
        "post_message",
        json!({ "channel": "#general", "text": "hello" }),
    );
    assert_eq!(
        (posted.as_str(), failed),
        (
            "(demo: nothing was sent) 5 characters posted to #general",
            false
        )
    );
    assert_eq!(
        ask(Demo::Web, "tools/call", json!({ "name": "echo" }))["error"]["message"],
        "Unknown tool: echo"
    );
    assert_eq!(
        ask(
            Demo::Web,
            "tools/call",
            json!({ "name": "echo", "arguments": [] })
        )["error"]["code"],
        INVALID_PARAMS
    );
}

#[test]
fn structured_content_matches_its_schema() {
    let reply = ask(
        Demo::Notes,
        "tools/call",
        json!({ "name": "search_notes", "arguments": { "query": "supplier" } }),
    );
    assert_eq!(
        reply["result"]["structuredContent"],
        json!({ "notes": [{ "id": "supplier-call", "title": "Call with the battery supplier" }] })
    );
}

#[test]
fn every_listed_tool_can_be_called_with_what_its_schema_asks_for() {
    for demo in [Demo::Notes, Demo::Web] {
        let tools = demo.tools();
        for tool in tools.as_array().unwrap() {
            let fields = tool["inputSchema"]["required"].as_array().unwrap();
            let arguments: Map<String, Value> = fields
                .iter()
                .map(|field| (field.as_str().unwrap().to_owned(), json!("")))
                .collect();
            let reply = ask(
                demo,
                "tools/call",
                json!({ "name": tool["name"], "arguments": arguments }),
            );
            assert!(reply.get("error").is_none(), "{reply}");
            let text = reply["result"]["content"][0]["text"].as_str().unwrap();
            assert!(!text.contains("is missing"), "{}: {text}", tool["name"]);
        }
    }
}

#[test]
fn notes_are_resources_and_have_a_prompt() {
    let list = ask(Demo::Notes, "resources/list", json!({}));
    let uri = list["result"]["resources"][0]["uri"].clone();
    assert_eq!(uri, "notes://launch-plan");
    assert!(
        ask(Demo::Notes, "resources/read", json!({ "uri": uri }))["result"]["contents"][0]["text"]
            .as_str()
            .unwrap()
            .contains("Heron")
    );
    assert_eq!(
        ask(Demo::Notes, "resources/read", json!({ "uri": "notes://x" }))["error"]["code"],
        INVALID_PARAMS
    );
    assert_eq!(
        ask(Demo::Notes, "resources/templates/list", json!({}))["result"]["resourceTemplates"][0]["uriTemplate"],
        "notes://{id}"
    );
    assert_eq!(
        ask(Demo::Notes, "prompts/list", json!({}))["result"]["prompts"][0]["name"],
        "summarize_note"
    );
    let prompt = ask(
        Demo::Notes,
        "prompts/get",
        json!({ "name": "summarize_note", "arguments": { "id": "team-lunch" } }),
    );
    assert!(
        prompt["result"]["messages"][0]["content"]["text"]
            .as_str()
            .unwrap()
            .contains("river")
    );
    let complete = ask(
        Demo::Notes,
        "completion/complete",
        json!({ "argument": { "name": "id", "value": "la" } }),
    );
    assert_eq!(
        complete["result"]["completion"]["values"],
        json!(["launch-plan"])
    );
    assert_eq!(
        ask(Demo::Web, "resources/list", json!({}))["error"]["code"],
        METHOD_NOT_FOUND
    );
}

#[test]
fn only_requests_are_answered() {
    let quiet = [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        json!("text"),
        json!([]),
    ];
    assert_eq!(talk(Demo::Notes, &quiet), Vec::<Value>::new());
    assert_eq!(replies(Demo::Notes, b"\n  \r\n"), Vec::<Value>::new());
    assert_eq!(
        replies(Demo::Notes, b"{nonsense\n")[0]["error"]["code"],
        PARSE_ERROR
    );
    assert_eq!(
        talk(Demo::Notes, &[json!({ "id": 5 })])[0]["error"]["code"],
        INVALID_REQUEST
    );
    let batch =
        json!([{ "id": 1, "method": "ping" }, { "method": "x" }, { "id": 2, "method": "ping" }]);
    assert_eq!(talk(Demo::Notes, &[batch])[0].as_array().unwrap().len(), 2);
}

#[test]
fn a_line_without_an_end_and_a_line_without_measure() {
    let ping = br#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#;
    assert_eq!(
        replies(Demo::Web, ping)[0]["id"],
        9,
        "the last line may lack its newline"
    );
    let mut input = vec![b'x'; 3 << 20];
    input.push(b'\n');
    input.extend(ping);
    let replies = replies(Demo::Web, &input);
    assert_eq!(
        (
            replies[0]["error"]["code"].as_i64(),
            replies[1]["id"].as_i64()
        ),
        (Some(INVALID_REQUEST), Some(9))
    );
}

proptest! {
    #[test]
    fn nothing_panics_or_breaks_the_stream(
        method in "[a-z/]{0,20}|tools/call|resources/read|prompts/get|completion/complete|initialize",
        name in "search_notes|read_note|echo|fetch_page|\\PC{0,8}",
        junk in "\\PC{0,40}",
    ) {
        for demo in [Demo::Notes, Demo::Web] {
            for params in [json!(junk), json!({ "name": name, "arguments": { "text": junk, "id": 1, "query": [junk] }, "uri": junk, "_meta": junk }), json!([1])] {
                let lines = [json!({ "id": junk, "method": method, "params": params }), json!({ "id": 1, "method": "ping" })];
                let replies = talk(demo, &lines);
                prop_assert_eq!(replies.len(), 2);
                prop_assert_eq!(&replies[1]["result"], &json!({}));
            }
            let _ = respond(demo, junk.as_bytes());
        }
    }
}
