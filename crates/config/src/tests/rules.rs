//! Who may, how often, what changes: the keys that decide.

use gateway::settings::{Access, ApprovalSettings, Arrivals, Rate, ToolRule};
use policy::{Influence, Permission};
use vocab::Effect;

use super::*;

const RULES: &str = r#"
policy: { bundle: rules/mine }
untrusted_influence: block
approvals: { expiry: 2h, in_client: true }
limits: { max_concurrent_calls_per_caller: 3 }
mcp_servers:
  github:
    url: https://mcp.example.com/mcp
    classification: CONFIDENTIAL
    blocked: "leaks tokens"
    access: { users: [alice], departments: [eng, ops], agents: [claude] }
    rate_limit: 60/min
    open_world: true
    injection_scan: false
    redact_results: false
    definitions: { new: accept, narrowed: accept, recheck: 0s }
    tools:
      create_issue: { users: [], departments: [eng], rate_limit: 5/s, effect: consequential }
      list_issues: { permission: permitted, users: [], effect: read, requires_user_auth: false, roles: { note: content, "rows[].id": object } }
      delete_repo: blocked
      "*": { permission: restricted, agents: [claude], rate_limit: 1000/h, requires_user_auth: true }
"#;

#[test]
fn every_rule_arrives() {
    let config = good(RULES);
    assert_eq!(config.bundle, BundleSource::At("/etc/p/rules/mine".into()));
    assert_eq!(config.untrusted_influence, Influence::Block);
    assert_eq!(
        config.approvals,
        ApprovalSettings {
            expiry: Duration::from_secs(7200),
            in_client: true
        }
    );
    assert_eq!(config.terms.max_calls_per_caller, 3);
    let warnings: Vec<_> = config
        .warnings
        .iter()
        .map(|finding| (finding.place.line, &*finding.what))
        .collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].1.contains("agent's own credential")
            && warnings[1].1.contains("not looked at for injections")
    );

    let github = config.server("github").unwrap();
    assert_eq!(github.blocked.as_deref(), Some("leaks tokens"));
    assert_eq!(github.access.departments, ["eng", "ops"]);
    assert_eq!(
        github.rate,
        Some(Rate {
            calls: 60,
            per: Duration::from_secs(60)
        })
    );
    assert_eq!(
        (
            github.open_world,
            github.injection_scan,
            github.redact_results
        ),
        (Some(true), false, false)
    );
    assert_eq!(
        (
            github.new_definitions,
            github.narrowed_definitions,
            github.recheck
        ),
        (Arrivals::Accept, Arrivals::Accept, Duration::ZERO)
    );
}

#[test]
fn what_a_tools_rule_leaves_out_the_star_says() {
    let config = good(RULES);
    let tools = config.server("github").unwrap();
    let star = tools.rule("anything");
    assert_eq!(star.permission, Permission::Restricted);
    assert_eq!(star.access.agents, ["claude"]);
    assert_eq!(
        star.rate,
        Some(Rate {
            calls: 1000,
            per: Duration::from_secs(3600)
        })
    );
    assert!(star.requires_user_auth && star.effect.is_none());

    let create = tools.rule("create_issue");
    assert_eq!(create.permission, Permission::Restricted);
    assert_eq!(
        create.access,
        Access {
            departments: vec!["eng".into()],
            ..Access::default()
        },
        "its own lists, all of them"
    );
    assert_eq!(
        create.rate,
        Some(Rate {
            calls: 5,
            per: Duration::from_secs(1)
        })
    );
    assert_eq!(create.effect, Some(Effect::Consequential));
    assert!(
        create.requires_user_auth,
        "the account of the user is not given up by leaving it out"
    );

    let list = tools.rule("list_issues");
    assert_eq!(
        (list.permission, list.effect, list.requires_user_auth),
        (Permission::Permitted, Some(Effect::Read), false)
    );
    assert!(list.access.is_open(), "a written empty list is a list");
    let roles = [("note", "content"), ("rows[].id", "object")];
    let read = list
        .roles
        .iter()
        .map(|(path, role)| (path.as_str(), role.as_str()));
    assert!(read.eq(roles), "{:?}", list.roles);
    assert_eq!(tools.rule("delete_repo").permission, Permission::Blocked);
}

/// A rule that lists anyone is for those it lists, also where it only takes the lists over from the star.
#[test]
fn who_is_listed_restricts_what_is_permitted() {
    let config = good(
        "mcp_servers: { a: { command: x, classification: PUBLIC, tools: { '*': { users: [bob] }, b: permitted, c: { users: [] }, d: { effect: read } } } }",
    );
    let server = config.server("a").unwrap();
    let permission = |tool: &str| server.rule(tool).permission;
    assert_eq!(
        ["z", "b", "c", "d"].map(permission),
        [
            Permission::Restricted,
            Permission::Restricted,
            Permission::Permitted,
            Permission::Restricted
        ]
    );
}

#[test]
fn without_rules_the_defaults_are_the_careful_ones() {
    let config = good("mcp_servers: { a: { command: x, classification: PUBLIC } }");
    assert_eq!(config.bundle, BundleSource::Shipped("balanced"));
    assert_eq!(config.untrusted_influence, Influence::Ask);
    assert_eq!(
        config.approvals,
        ApprovalSettings {
            expiry: Duration::from_secs(900),
            in_client: false
        }
    );
    let server = config.server("a").unwrap();
    assert_eq!(server.default_rule, ToolRule::default());
    assert!(server.rules.is_empty());
    assert!(
        server.blocked.is_none()
            && server.access.is_open()
            && server.rate.is_none()
            && server.open_world.is_none()
    );
    assert!(server.injection_scan && server.redact_results);
    assert_eq!(
        (
            server.new_definitions,
            server.narrowed_definitions,
            server.recheck
        ),
        (
            Arrivals::Quarantine,
            Arrivals::Quarantine,
            Duration::from_secs(1)
        )
    );
}

#[test]
fn mistakes_in_rules_have_a_place_and_a_repair() {
    let text = r#"
policy: { bundle: balenced }
untrusted_influence: warn
mcp_servers:
  a:
    command: x
    blocked: false
    access: { users: [] }
    rate_limit: 60/minute
    definitions: { new: allow }
    tools:
      one: { permission: blocked, users: [bob] }
      two: { requires_user_auth: true }
      three: { user: [bob] }
      four: { agents: ["*"], effect: writes, rate_limit: 0/s }
      five: permited
      six: [permitted]
      seven: { roles: { to: whom } }
"#;
    assert_eq!(
        findings(text),
        [
            "2:19 there is no bundle `balenced` | write `balanced`",
            "3:22 `untrusted_influence` cannot be `warn` | use one of off, ask, block",
            "7:14 `mcp_servers.a.blocked` is the reason, in words | write why, as in `blocked: \"leaks tokens\"`; to unblock, remove the key",
            "8:13 `mcp_servers.a.access` lists nobody | list users, departments or agents; remove `access` to let everyone in, or write `blocked` to let nobody in",
            "9:17 `mcp_servers.a.rate_limit` is calls per time, not `60/minute` | write it as in `5/s`, `60/min`, `1000/h`; from 1 to 1000000 calls",
            "10:25 `mcp_servers.a.definitions.new` cannot be `allow` | use one of quarantine, accept",
            "12:7 `mcp_servers.a.tools.one` is blocked, and lists who may call it | remove the lists, or write `permission: restricted`",
            "13:34 `mcp_servers.a.tools.two.requires_user_auth` needs a server with a `url`: a program has no account to sign in to | remove it, or connect to the server by `url`",
            "14:16 unknown key `user` in `mcp_servers.a.tools.three` | did you mean `users`?",
            "15:24 `*` cannot be the name of a user, department or agent | use 1 to 64 printable characters; there are no patterns, and no list at all means everyone",
            "15:38 `mcp_servers.a.tools.four.effect` cannot be `writes` | use one of read, consequential",
            "15:58 `mcp_servers.a.tools.four.rate_limit` is calls per time, not `0/s` | write it as in `5/s`, `60/min`, `1000/h`; from 1 to 1000000 calls",
            "16:13 `mcp_servers.a.tools.five` cannot be `permited` | write `permitted`",
            "17:12 `mcp_servers.a.tools.six` is text, not a list | use one of permitted, restricted, blocked",
            "18:29 `mcp_servers.a.tools.seven.roles.to` is no role of an argument | write one of target, object, amount, value, name, content",
        ]
    );
}

#[test]
fn rates_are_read_as_people_write_them() {
    use units::rate;
    assert_eq!(rate("5/s"), Some((5, Duration::from_secs(1))));
    assert_eq!(rate("60 / min"), Some((60, Duration::from_secs(60))));
    assert_eq!(
        rate("1000000/h"),
        Some((1_000_000, Duration::from_secs(3600)))
    );
    for bad in [
        "",
        "5",
        "5/",
        "/s",
        "0/s",
        "+5/s",
        "-1/s",
        "1.5/s",
        "1000001/h",
        "5/m",
        "5/d",
        "5/s/s",
        "99999999999/s",
    ] {
        assert_eq!(rate(bad), None, "{bad}");
    }
}

#[test]
fn a_bundle_is_a_name_or_a_path() {
    let at = |text: &str| good(&format!("policy: {{ bundle: {text} }}")).bundle;
    assert_eq!(at("observe"), BundleSource::Shipped("observe"));
    assert_eq!(at("strict"), BundleSource::Shipped("strict"));
    assert_eq!(at("./strict"), BundleSource::At("/etc/p/strict".into()));
    assert_eq!(
        at("mine.cedar"),
        BundleSource::At("/etc/p/mine.cedar".into())
    );
    assert_eq!(
        at("/abs/policies"),
        BundleSource::At("/abs/policies".into())
    );
    assert!(bad("policy: { bundle: ~/rules }").contains("`~` is not expanded"));
}
