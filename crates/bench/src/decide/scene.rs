//! One ordinary call, and bundles of any size to judge it by.
//!
//! An agent files an issue: about twenty arguments, a kilobyte, a schema that constrains each of them. Bundles have five policies for
//! everyone and four for this tool and its server; what is left of their size is spread over other tools, servers and actions.

use std::{fmt::Write as _, hint::black_box, time::Duration};

use anyhow::{Context, Result, anyhow, bail};
use flow::{Session, Step};
use policy::{
    Account, Act, Binding, Budget, Bundle, Evidence, Facts, Influence, Judged, Permission,
    Principal, Question, ServerState, Standing, Unmetered,
};
use shape::Schema;
use vocab::{Effect, Label, Level, Mark, ServerId};
use wire::{
    Json, Limits,
    json::{RawField, find},
    write,
};

const TOOL: &str = "create_issue";
const SERVER: &str = "tracker";
const SEEN: Mark = Mark::trusted(Level::Internal);
const BUDGET: Budget = Budget {
    time: Duration::from_secs(60),
    result_bytes: 8 << 20,
};
/// A Sunday at two in the afternoon.
const NOW_MS: u64 = 1_794_751_200_000;

/// For everyone.
const GENERAL: [&str; 5] = [
    r#"permit (principal, action, resource);"#,
    r#"@effect("ask") permit (principal, action == Action::"call", resource)
       when { resource.level_name == Level::"RESTRICTED" && resource.effect == Effect::"consequential" };"#,
    r#"@effect("ask") permit (principal, action == Action::"call", resource)
       when { resource.effect == Effect::"consequential" && context.label.secrecy > resource.level };"#,
    r#"forbid (principal, action == Action::"call", resource) when { context.label.is_untrusted && resource.level > 2 };"#,
    r#"forbid (principal, action, resource) when { context.session_calls > 100000 } unless { principal.is_operator };"#,
];

/// For the tool that is called, and its server.
const OWN: [&str; 4] = [
    r#"forbid (principal, action == Action::"call", resource == Tool::"tracker/create_issue")
       when { context.arguments.hasTag("project") && context.arguments.getTag("project") like "legal-*" };"#,
    r#"@effect("ask") permit (principal, action == Action::"call", resource == Tool::"tracker/create_issue")
       when { context.numbers.hasTag("estimate_minutes") && context.numbers.getTag("estimate_minutes") > 4800 };"#,
    r#"forbid (principal, action == Action::"call", resource == Tool::"tracker/create_issue")
       when { context.lists.hasTag("labels[]") && context.lists.getTag("labels[]").contains("embargo") };"#,
    r#"forbid (principal, action == Action::"call", resource in Server::"tracker")
       when { context.time.hour >= 22 } unless { principal in Department::"operations" };"#,
];

/// For another tool, or another action on another server.
fn elsewhere(number: usize) -> String {
    let server = number / 10;
    match number % 5 {
        0 => format!(
            r#"forbid (principal, action == Action::"call", resource == Tool::"s{server}/t{number}")
               when {{ context.arguments.hasTag("path") && context.arguments.getTag("path") like "/etc/*" }};"#
        ),
        1 => format!(
            r#"@effect("ask") permit (principal, action == Action::"call", resource == Tool::"s{server}/t{number}")
               when {{ context.numbers.hasTag("amount") && context.numbers.getTag("amount") > {number} }};"#
        ),
        2 => format!(
            r#"forbid (principal, action == Action::"read", resource in Server::"s{server}") when {{ context.label.is_untrusted }};"#
        ),
        3 => format!(
            r#"forbid (principal in Department::"d{number}", action == Action::"call", resource)
               when {{ resource.effect == Effect::"consequential" && context.time.weekday > 5 }};"#
        ),
        _ => format!(
            r#"forbid (principal, action in [Action::"get", Action::"complete"], resource in Server::"s{server}");"#
        ),
    }
}

fn bundle(policies: usize) -> Result<Bundle> {
    let (near, far) = (
        GENERAL.into_iter().chain(OWN).map(str::to_owned),
        (0..).map(elsewhere),
    );
    let text: Vec<String> = near.chain(far).take(policies).collect();
    Bundle::load("bench", &[("bench.cedar".to_owned(), text.join("\n"))])
        .map_err(|problems| anyhow!("{problems:?}"))
}

/// A gate's knowledge of one call, as far as deciding goes.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) policies: usize,
    bundle: Bundle,
    server: ServerId,
    schema: Schema,
    params: Vec<u8>,
    departments: [String; 2],
}

impl Scene {
    pub(super) fn new(policies: usize) -> Result<Self> {
        Ok(Self {
            policies,
            bundle: bundle(policies)?,
            server: ServerId::parse(SERVER)?,
            schema: Schema::compile(SCHEMA.as_bytes())?,
            params: format!(
                r#"{{"name":"{SERVER}__{TOOL}","arguments":{}}}"#,
                arguments()
            )
            .into_bytes(),
            departments: ["engineering".to_owned(), "d1".to_owned()],
        })
    }

    /// The session of a caller that has seen something.
    pub(super) fn session(&self) -> Session {
        Session::restore(Label::of(SEEN, self.server.clone()), 0, "")
    }

    /// The parameters as Receive leaves them.
    pub(super) fn call(&self) -> Result<Call<'_>> {
        let params = Json::parse(&self.params, Limits::new(1 << 20, 64))?;
        let fields = params.raw_fields();
        let arguments = find(&fields, "arguments").context("no arguments")?;
        Ok(Call {
            scene: self,
            fields,
            arguments,
        })
    }

    fn principal<'a>(&'a self, caller: &'a str) -> Principal<'a> {
        Principal {
            caller,
            user: Some("alice"),
            agent: Some("assistant"),
            departments: &self.departments,
            context: None,
            is_operator: false,
        }
    }
}

/// One call, received.
#[derive(Debug)]
pub(super) struct Call<'a> {
    scene: &'a Scene,
    fields: Vec<RawField<'a>>,
    pub(super) arguments: Json<'a>,
}

impl<'a> Call<'a> {
    /// What the bundle is asked about this call of `caller`.
    #[must_use]
    pub(super) fn question<'b>(&'b self, caller: &'b str) -> Question<'b> {
        Question {
            principal: self.scene.principal(caller),
            act: Act::Call,
            server: self.scene.server.as_str(),
            target: TOOL,
            level: Level::Confidential,
            effect: Effect::Consequential,
            is_open_world: false,
            arguments: self.arguments.as_bytes(),
            label: SEEN,
            session_calls: 12,
            target_calls: 3,
            now_ms: NOW_MS,
            door: "mcp-http",
            provenance: None,
        }
    }

    /// Asks the bundle alone.
    pub(super) fn decide(&self, caller: &str) -> Result<()> {
        let question = self.question(caller);
        let decision = black_box(self.scene.bundle.decide(black_box(&question)));
        match decision {
            policy::cedar::Decision::Allow => Ok(()),
            other => bail!("the bundle says {other:?}"),
        }
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            server: &self.scene.server,
            state: ServerState::Classified(Level::Confidential),
            target: TOOL,
            permission: Permission::Restricted,
            standing: Standing::Approved,
            may_use_server: true,
            is_named: true,
            account: Account::Connected("alice"),
            meter: &Unmetered,
            accepts: None,
            effect: Effect::Consequential,
            influence: Influence::Ask,
            ruling: None,
            arguments: Some(self.arguments),
            sent: Some(self.arguments),
            input_schema: Some(&self.scene.schema),
            scans_injection: true,
            built_in: None,
            boundary: None,
            on_volumes: &[],
        }
    }

    /// Every check from Admit to Judge, in order, as the gate makes them: what the upstream will get is written and digested too.
    pub(super) fn check(&self, session: &Session) -> Result<()> {
        let step = Step::new("01KA2B3C4D5E6F7G8H9J0K1M2N", session);
        let facts = black_box(self.facts());
        let judged = self
            .decided(&facts, session, &step)
            .map_err(|violation| anyhow!("refused: {}", violation.detail))?;
        match black_box(judged) {
            Judged::Permitted(_) => Ok(()),
            other => bail!("not permitted: {other:?}"),
        }
    }

    fn decided(
        &self,
        facts: &Facts<'_>,
        session: &Session,
        step: &Step,
    ) -> Result<Judged<[u8; 32]>, vocab::Violation> {
        let admitted = policy::admit(facts)?;
        let bounded = policy::bound(facts, BUDGET, BUDGET)?;
        let weighed = policy::weigh(facts, |ceiling| session.weigh_step(ceiling, step))?;
        let shaped = policy::shape(facts)?;
        let mut text =
            write::splice_fields(&self.fields, &["name", "_meta", "requestState"], |out| {
                out.str("name", TOOL);
            });
        write::flatten(&mut text);
        let digest = *blake3::hash(&text).as_bytes();
        let evidence = Evidence {
            admitted,
            bounded,
            weighed,
            shaped,
        };
        let binding = Binding {
            caller: "cred-0",
            action: "tools/call",
            definition: "b3a9c1",
        };
        policy::judge(
            facts,
            evidence,
            &self.scene.bundle,
            self.question("cred-0"),
            binding,
            digest,
        )
    }
}

/// The input schema of an issue tracker's tool.
const SCHEMA: &str = r##"{
  "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
  "required": ["project", "title", "kind"],
  "properties": {
    "project": {"type": "string", "pattern": "^[a-z][a-z0-9-]{1,39}$", "description": "The project's key."},
    "title": {"type": "string", "minLength": 1, "maxLength": 200, "description": "One line."},
    "body": {"type": "string", "maxLength": 65536, "description": "Markdown."},
    "kind": {"enum": ["bug", "task", "question", "incident"]},
    "priority": {"type": "integer", "minimum": 0, "maximum": 4, "default": 2},
    "severity": {"type": ["string", "null"], "enum": ["low", "medium", "high", null]},
    "labels": {"type": "array", "items": {"type": "string", "maxLength": 50}, "maxItems": 20, "uniqueItems": true},
    "assignees": {"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9._-]+$"}, "maxItems": 10},
    "reporter": {"type": "string", "format": "email"},
    "milestone": {"type": ["integer", "null"], "minimum": 1},
    "due": {"type": "string", "format": "date"},
    "estimate_minutes": {"type": "integer", "minimum": 0},
    "parent": {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[A-Z]+-[0-9]+$"}, {"type": "null"}]},
    "blocked_by": {"type": "array", "items": {"$ref": "#/$defs/key"}, "maxItems": 50},
    "confidential": {"type": "boolean", "default": false},
    "notify": {"type": "boolean"},
    "environment": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 20},
    "component": {"type": "string", "maxLength": 80},
    "version": {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+){1,3}$"},
    "links": {"type": "array", "maxItems": 20, "items": {"type": "object", "required": ["url"],
      "properties": {"url": {"type": "string", "format": "uri", "maxLength": 2000}, "text": {"type": "string", "maxLength": 200}}}}
  },
  "$defs": {"key": {"type": "string", "pattern": "^[A-Z]+-[0-9]+$"}}
}"##;

/// A kilobyte of arguments for it.
fn arguments() -> String {
    r#"{"project":"payments","title":"Refunds of split orders are booked twice","kind":"bug","priority":1,"severity":"high",
"labels":["backend","refunds","regression"],"assignees":["m.okafor","j.lindqvist"],"reporter":"support@example.org","milestone":12,
"due":"2026-11-30","estimate_minutes":240,"parent":"PAY-1180","blocked_by":["PAY-1174","OPS-88"],"confidential":false,"notify":true,
"component":"ledger-writer","version":"4.18.2","environment":{"region":"eu-west-1","build":"20261113.4","browser":"any"},
"links":[{"url":"https://wiki.example.org/payments/split-orders?view=full#refunds","text":"How split orders are refunded"}],
"body":"Since 4.18.0 a refund of a split order is booked once for each parcel.\n\n1. Place an order that ships in two parcels.\n2. Refund \"the whole order\" in the back office.\n3. Look at the ledger: two entries of the full amount.\n\nExpected: one entry, or two that add up to it. The nightly report noticed the difference on 14 orders; the list is attached to PAY-1180."}"#
        .replace('\n', "")
}

/// Values the gate holds: a few keys of upstreams.
pub(super) const HELD: [&str; 5] = [
    "kq81-vTz0Wm4Lr9Ys2Xb7Nc5Hd",
    "upstream-password-9f3b2c71",
    "0b7de1c29a634f58",
    "tracker.J2m8Qw4Zk6Rt1Vy3Ux9Pb5",
    "r2d2c3po-bb8-k2so-ig11",
];

/// A result of `size` bytes: rows of a search, as text in JSON in JSON, with links, digests and dates, and no secret in it.
pub(super) fn result(size: usize) -> Vec<u8> {
    let mut rows = String::new();
    for number in 0_u32.. {
        let row = format!(
            r#"{{\"id\":{number},\"title\":\"Order {number} was not delivered\",\"author\":\"m.okafor\",\"commit\":\"{:040x}\",\"url\":\"https://git.example.org/pay/ledger/issues/{number}\",\"at\":\"2026-11-{:02}T09:30:00Z\"}},\n"#,
            u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
            number % 28 + 1
        );
        if rows.len() + row.len() + 80 > size {
            break;
        }
        rows.push_str(&row);
    }
    let filler = ".".repeat(size.saturating_sub(rows.len() + 80));
    format!(r#"{{"content":[{{"type":"text","text":"[{rows}{filler}]"}}],"isError":false}}"#)
        .into_bytes()
}

/// The same with a held value and a well-known kind of token in it.
pub(super) fn leaking(size: usize) -> Vec<u8> {
    let text = String::from_utf8_lossy(&result(size)).into_owned();
    let mut leak = String::from("the key is kq81-vTz0Wm4Lr9Ys2Xb7Nc5Hd and the token ghp_");
    for number in 0..36_u32 {
        // Nobody's token: digits, over and over.
        let _always_fits = write!(leak, "{}", number % 10);
    }
    text.replacen("Order 20 was not delivered", &leak, 1)
        .into_bytes()
}
