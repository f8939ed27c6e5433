use vocab::ServerId;

use super::{Route, route};
use crate::admin::Verb;

#[test]
fn every_path_leads_somewhere_or_nowhere() {
    let demo = || ServerId::parse("demo").unwrap();
    assert_eq!(route("/mcp"), Route::Mcp(None));
    assert_eq!(route("/u/demo/mcp"), Route::Mcp(Some(demo())));
    assert_eq!(route("/healthz"), Route::Healthy);
    assert_eq!(route("/readyz"), Route::Ready);
    assert_eq!(
        route("/.well-known/oauth-protected-resource/mcp"),
        Route::WellKnown
    );
    assert_eq!(route("/v1/admin/status"), Route::Admin(Verb::Status));
    assert_eq!(route("/v1/admin/servers"), Route::Admin(Verb::Servers));
    assert_eq!(route("/v1/admin/tools"), Route::Admin(Verb::Tools));
    assert_eq!(route("/v1/admin/reload"), Route::Admin(Verb::Reload));
    assert_eq!(
        route("/v1/admin/servers/demo/retry"),
        Route::Admin(Verb::Retry(demo()))
    );
    assert_eq!(
        route("/v1/admin/servers/demo/definitions"),
        Route::Admin(Verb::Definitions(demo()))
    );
    assert_eq!(
        route("/v1/admin/sessions/my%20%C3%A4gent%2F1/reset"),
        Route::Admin(Verb::ResetSession("my ägent/1".into()))
    );
    assert_eq!(
        route("/v1/admin/approvals/a1/deny"),
        Route::Admin(Verb::Answer {
            approval: "a1".into(),
            approve: false
        })
    );
    for nowhere in [
        "/",
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
