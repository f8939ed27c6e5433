use api::{Found, Operation};
use vocab::ServerId;

use super::{Route, route};

#[test]
fn every_path_leads_somewhere_or_nowhere() {
    let demo = || ServerId::parse("demo").unwrap();
    assert_eq!(route("/mcp"), Route::Mcp(None));
    assert_eq!(route("/u/demo/mcp"), Route::Mcp(Some(demo())));
    assert_eq!(route("/"), Route::Welcome);
    assert_eq!(route("/healthz"), Route::Healthy);
    assert_eq!(route("/readyz"), Route::Ready);
    assert_eq!(
        route("/.well-known/oauth-protected-resource/mcp"),
        Route::WellKnown
    );
    assert_eq!(route("/v1/openapi.json"), Route::OpenApi);
    let admin = |operation, name: &str| {
        Route::Admin(Found {
            operation,
            name: name.to_owned(),
        })
    };
    for (path, operation, name) in [
        ("status", Operation::Status, ""),
        ("servers", Operation::Servers, ""),
        ("tools", Operation::Tools, ""),
        ("reload", Operation::Reload, ""),
        ("servers/demo/retry", Operation::RetryServer, "demo"),
        ("servers/demo/definitions", Operation::Definitions, "demo"),
        (
            "sessions/my%20%C3%A4gent%2F1/reset",
            Operation::ResetSession,
            "my ägent/1",
        ),
        ("approvals/a1/deny", Operation::Deny, "a1"),
    ] {
        let path = format!("/v1/admin/{path}");
        assert_eq!(route(&path), admin(operation, name), "{path}");
    }
    for nowhere in [
        "",
        "/mcp/",
        "//mcp",
        "/MCP",
        "/u//mcp",
        "/u/De/mcp",
        "/u/a/b/mcp",
        "/u/demo",
        "/u/../mcp",
        "/u/%64emo/mcp",
        "/v1/admin/",
        "/v1/admin/servers/demo",
        "/v1/admin/servers//retry",
        "/v1/admin/status/",
        "/v1/admin/servers/%64emo/retry",
        "/v1/admin/sessions/a%FF/reset",
        "/v1/admin/sessions/a%2/reset",
        "/v1/admin/approvals/a%2Fb/deny",
    ] {
        assert_eq!(route(nowhere), Route::Nothing, "{nowhere}");
    }
}
