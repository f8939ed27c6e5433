//! The server half: three tools of the older protocols, for whoever shows a good token.

use std::sync::{Mutex, mpsc::channel};

use serde_json::{Value, json};

use super::{
    Books,
    bound::Proof,
    http::{Asked, Given},
    lock,
};

pub(super) fn answer(books: &Mutex<Books>, asked: &Asked, origin: &str, issuer: &str) -> Given {
    let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
    match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/.well-known/oauth-protected-resource/mcp") => Given::json(
            200,
            &json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [issuer], "scopes_supported": ["use"] }),
        ),
        ("POST", "/mcp") => {
            let mut books = lock(books);
            let message: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
            let at = |place: &str| message.pointer(place).and_then(Value::as_str);
            let method = at("/method").unwrap_or_default();
            let is_greeting = method == "initialize" || method.starts_with("notifications/");
            let is_free = books.greets && is_greeting;
            if !is_free && !books.takes(asked.header("authorization")) {
                books.refused += 1;
                let scheme = if books.binds { "DPoP" } else { "Bearer" };
                let challenge = format!("{scheme} resource_metadata=\"{metadata}\", scope=\"use\"");
                return Given::json(401, &json!({})).with("www-authenticate", &challenge);
            }
            if books.binds && !is_free {
                if let Some(wrong) = books.wrong_proof(asked, origin) {
                    books.unproved.push(wrong);
                    return Given::json(401, &json!({}));
                }
                let shown = Proof::read(asked).and_then(|proof| proof.nonce().map(str::to_owned));
                if let Some(nonce) = books
                    .nonce
                    .clone()
                    .filter(|nonce| shown.as_ref() != Some(nonce))
                {
                    let challenge = "DPoP error=\"use_dpop_nonce\"";
                    let wanted = Given::json(401, &json!({})).with("www-authenticate", challenge);
                    return wanted.with("dpop-nonce", &nonce);
                }
            }
            if at("/params/name") == Some("write") && !books.scopes.contains("write") {
                let challenge = "Bearer error=\"insufficient_scope\", scope=\"write\"";
                return Given::json(403, &json!({})).with("www-authenticate", challenge);
            }
            let given = serve(&mut books, asked, &message);
            match &books.stream {
                _ if !books.is_legacy => given,
                Some(stream) if asked.query.contains_key("line") => {
                    let _ = stream.send(format!("data: {}\n\n", given.text()));
                    Given::empty(202)
                }
                _ => Given::json(405, &json!({})),
            }
        }
        ("GET", "/mcp") if lock(books).is_legacy => {
            let mut books = lock(books);
            if !books.takes(asked.header("authorization")) {
                return Given::json(401, &json!({}));
            }
            let (stream, more) = channel();
            books.stream = Some(stream);
            Given::stream("event: endpoint\ndata: /mcp?line=1\n\n".to_owned(), more)
        }
        ("GET" | "DELETE", "/mcp") => Given::json(405, &json!({})),
        _ => Given::json(404, &json!({})),
    }
}

fn serve(books: &mut Books, asked: &Asked, message: &Value) -> Given {
    let Some(id) = message.get("id").filter(|id| !id.is_null()) else {
        return Given::empty(202);
    };
    let text = |place: &str| {
        message
            .pointer(place)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let result = match text("/method") {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "guarded", "version": "1" },
        }),
        "ping" => json!({}),
        "tools/list" => json!({ "tools": [tool("echo"), tool("reflect"), tool("write")] }),
        "tools/call" => {
            books.calls += 1;
            let shown = asked.header("authorization").unwrap_or_default();
            books.shown.push(shown.to_owned());
            let said = match text("/params/name") {
                // A server that gives away what it was sent.
                "reflect" => asked.header("authorization").unwrap_or_default().to_owned(),
                _ => text("/params/arguments/text").to_owned(),
            };
            json!({ "content": [{ "type": "text", "text": said }] })
        }
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return Given::json(200, &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    Given::json(
        200,
        &json!({ "jsonrpc": "2.0", "id": id, "result": result }),
    )
}

fn tool(name: &str) -> Value {
    json!({
        "name": name, "description": "Says something.", "annotations": { "readOnlyHint": true, "openWorldHint": false },
        "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
    })
}
