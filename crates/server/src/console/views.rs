//! From an address to a page.

use api::{Kind, Problem, ask};
use console::{Calls, Notice, Overview, Page, Policy, Story};

use super::{Desk, page};
use crate::{query, reply::Reply};

const HOUR_LIMIT: u32 = 1_000;

pub(super) async fn answer(desk: &Desk<'_>) -> Result<Reply, Problem> {
    let path = desk.parts.uri.path();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let name = |text: &str| api::unescaped(text).ok_or_else(|| nothing(path));
    match parts.as_slice() {
        [] => overview(desk).await,
        ["calls"] => calls(desk).await,
        ["calls", id] => call(desk, &name(id)?).await,
        ["approvals"] => approvals(desk).await,
        ["approvals", id] => approval(desk, &name(id)?, None).await,
        ["servers"] => {
            let status = status(desk).await?;
            let viewer = desk.viewer(Some(&status)).await?;
            shown(desk, console::servers(&status, &viewer), Some(&status)).await
        }
        ["servers", id] => server(desk, &name(id)?, None).await,
        ["servers", id, "review"] => review(desk, &name(id)?, None).await,
        ["sessions"] => {
            let sessions = desk.ask(ask::Sessions, "", &api::Nothing {}).await?;
            shown(desk, console::sessions(&sessions), None).await
        }
        ["sessions", caller] => session(desk, &name(caller)?, None).await,
        ["policy"] => policy(desk, "").await,
        ["ledger"] => ledger(desk, false).await,
        ["visits"] => visits(desk, None).await,
        ["settings"] => settings(desk).await,
        ["help"] => shown(desk, console::help(), None).await,
        ["start"] => {
            let status = status(desk).await?;
            let made = status.calls.answered + status.calls.refused + status.calls.failed;
            shown(desk, console::start(&status, made), Some(&status)).await
        }
        _ => Err(nothing(path)),
    }
}

pub(super) fn nothing(path: &str) -> Problem {
    Problem::new(
        Kind::NotFound,
        "no_such_page",
        format!("there is no page `{path}`"),
    )
}

/// A page as it is sent.
async fn shown(
    desk: &Desk<'_>,
    made: Page,
    status: Option<&api::Status>,
) -> Result<Reply, Problem> {
    let viewer = desk.viewer(status).await?;
    Ok(page(desk.parts, made.render(&viewer)))
}

async fn status(desk: &Desk<'_>) -> Result<api::Status, Problem> {
    desk.ask(ask::Status, "", &api::Nothing {}).await
}

async fn records(
    desk: &Desk<'_>,
    fill: impl FnOnce(&mut api::RecordsQuery),
) -> Result<api::Records, Problem> {
    let mut query = api::RecordsQuery::default();
    fill(&mut query);
    desk.ask(ask::Records, "", &query).await
}

async fn overview(desk: &Desk<'_>) -> Result<Reply, Problem> {
    let status = status(desk).await?;
    let open = desk
        .ask(ask::Approvals, "", &api::AllOrOpen::default())
        .await?;
    let open: Vec<_> = open
        .into_iter()
        .filter(|approval| approval.state == "pending")
        .collect();
    let hour = records(desk, |query| {
        query.since = Some("1h".to_owned());
        query.limit = Some(HOUR_LIMIT);
    });
    let hour = hour.await.ok();
    let refused = records(desk, |query| {
        query.verdict = Some("refused".to_owned());
        query.limit = Some(10);
    });
    let refused = refused.await.ok();
    let changes = changes(desk, 10).await.ok();
    let made = console::overview(&Overview {
        status: &status,
        approvals: &open,
        hour: hour.as_ref(),
        refused: refused.as_ref(),
        changes: changes.as_ref(),
        now_ms: desk.door.gate.now_ms(),
    });
    shown(desk, made, Some(&status)).await
}

async fn changes(desk: &Desk<'_>, limit: u32) -> Result<api::Records, Problem> {
    let found = records(desk, |query| {
        query.kind = Some("change".to_owned());
        query.all = true;
        query.limit = Some(limit);
    });
    found.await
}

/// The words of a search: `key:value`, a blank between two, `"` around a value with blanks.
pub(super) fn words(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (key, after) = rest.split_once(':').unwrap_or((rest, ""));
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(char::is_whitespace).unwrap_or((after, "")),
        };
        found.push((key.trim().to_owned(), value.to_owned()));
        rest = left.trim_start();
    }
    found
}

async fn calls(desk: &Desk<'_>) -> Result<Reply, Problem> {
    let status = status(desk).await?;
    let given = query::pairs(desk.parts.uri.query().unwrap_or_default());
    let given = given.map_err(|key| {
        let text = format!("`{key}` is not escaped properly");
        Problem::new(Kind::Malformed, "invalid_query", text)
    })?;
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (key, value) in given {
        match key.as_str() {
            "q" => pairs.extend(words(&value)),
            _ => pairs.push((key, value)),
        }
    }
    let told = |pairs: &[(String, String)]| {
        let words = pairs.iter().map(|(key, value)| match value.contains(' ') {
            true => format!("{key}:\"{value}\""),
            false => format!("{key}:{value}"),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let written = told(&pairs);
    let asked = api::of_pairs(pairs.clone())
        .and_then(|text| api::read::<api::RecordsQuery>(&text))
        .map(|query| api::RecordsQuery {
            limit: Some(query.limit.unwrap_or(100).min(100)),
            ..query
        });
    let (asked, found) = match asked {
        Ok(asked) => {
            let found = desk.ask(ask::Records, "", &asked).await;
            (asked, found.map_err(|problem| problem.to_string()))
        }
        Err(problem) => (api::RecordsQuery::default(), Err(problem.to_string())),
    };
    let rest: Vec<String> = pairs
        .iter()
        .filter(|(key, _)| key != "until")
        .map(|(key, value)| format!("{}={}", escape(key), escape(value)))
        .collect();
    let address = match rest.is_empty() {
        true => "/calls".to_owned(),
        false => format!("/calls?{}", rest.join("&")),
    };
    let made = console::calls(&Calls {
        status: &status,
        query: &asked,
        found: found.as_ref().map_err(String::as_str),
        address: &address,
        words: &written,
    });
    shown(desk, made, Some(&status)).await
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

async fn call(desk: &Desk<'_>, id: &str) -> Result<Reply, Problem> {
    let status = status(desk).await?;
    let found = records(desk, |query| {
        query.call = Some(id.to_owned());
        query.all = true;
        query.limit = Some(100);
    });
    let found = found.await?;
    let question = api::Explain {
        call: Some(id.to_owned()),
        ..api::Explain::default()
    };
    let told = |problem: Problem| problem.to_string();
    let now = desk.ask(ask::Explain, "", &question).await.map_err(told);
    let lineage = desk
        .ask(ask::Lineage, id, &api::Direction::default())
        .await
        .map_err(told);
    let made = console::call(&Story {
        id,
        status: &status,
        records: &found.records,
        now: now.as_ref().map_err(String::as_str),
        lineage: lineage.as_ref().map_err(String::as_str),
    });
    let mut reply = shown(desk, made, Some(&status)).await?;
    if found.records.is_empty() {
        *reply.status_mut() = http::StatusCode::NOT_FOUND;
    }
    Ok(reply)
}

async fn approvals(desk: &Desk<'_>) -> Result<Reply, Problem> {
    let all = desk
        .ask(ask::Approvals, "", &api::AllOrOpen { all: true })
        .await?;
    let now_ms = desk.door.gate.now_ms();
    let (mut open, mut answered): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|approval| approval.state == "pending" && approval.expires_ms > now_ms);
    open.sort_by_key(|approval| approval.asked_ms);
    answered.sort_by_key(|approval| std::cmp::Reverse(approval.asked_ms));
    answered.truncate(100);
    shown(desk, console::approvals(&open, &answered, now_ms), None).await
}

pub(super) async fn approval(
    desk: &Desk<'_>,
    id: &str,
    notice: Option<Notice>,
) -> Result<Reply, Problem> {
    let approval = desk.ask(ask::ShowApproval, id, &api::Nothing {}).await?;
    let viewer = desk.viewer(None).await?;
    let made = console::approval(&approval, &viewer).with_notice(notice);
    shown(desk, made, None).await
}

pub(super) async fn server(
    desk: &Desk<'_>,
    id: &str,
    notice: Option<Notice>,
) -> Result<Reply, Problem> {
    let status = status(desk).await?;
    let found = status.servers.iter().find(|server| server.id == id);
    let found = found.ok_or_else(|| Problem::no_server(id))?;
    let tools = desk.ask(ask::Tools, "", &api::Nothing {}).await?;
    let tools: Vec<_> = tools.iter().filter(|tool| tool.server == id).collect();
    let last = records(desk, |query| {
        query.server = Some(id.to_owned());
        query.limit = Some(20);
    });
    let last = last.await.ok();
    let viewer = desk.viewer(Some(&status)).await?;
    let last = last.as_ref().map(|last| last.records.as_slice());
    let made = console::server(found, &tools, &status, last, &viewer).with_notice(notice);
    shown(desk, made, Some(&status)).await
}

pub(super) async fn review(
    desk: &Desk<'_>,
    id: &str,
    notice: Option<Notice>,
) -> Result<Reply, Problem> {
    let review = desk.ask(ask::Definitions, id, &api::Nothing {}).await?;
    let viewer = desk.viewer(None).await?;
    shown(
        desk,
        console::review(&review, &viewer).with_notice(notice),
        None,
    )
    .await
}

pub(super) async fn session(
    desk: &Desk<'_>,
    caller: &str,
    notice: Option<Notice>,
) -> Result<Reply, Problem> {
    let status = status(desk).await?;
    let sessions = desk.ask(ask::Sessions, "", &api::Nothing {}).await?;
    let found = sessions
        .iter()
        .find(|session| session.caller == caller || session.name == caller);
    let found = found.ok_or_else(|| {
        let text = format!("there is no session of `{caller}` since the gate started");
        Problem::new(Kind::NotFound, "no_such_caller", text)
    })?;
    let refused = records(desk, |query| {
        query.caller = Some(found.caller.clone());
        query.violation = Some("WouldViolateWriteDown".to_owned());
        query.limit = Some(20);
    });
    let refused = refused.await.ok();
    let viewer = desk.viewer(Some(&status)).await?;
    let refused = refused.as_ref().map(|refused| refused.records.as_slice());
    let made = console::session(found, &status, refused, &viewer).with_notice(notice);
    shown(desk, made, Some(&status)).await
}

pub(super) async fn policy(desk: &Desk<'_>, draft: &str) -> Result<Reply, Problem> {
    let told = |problem: Problem| problem.to_string();
    let current = desk
        .ask(ask::CheckPolicy, "", &api::BundleText::default())
        .await
        .map_err(told);
    let (mut checked, mut diff) = (None, None);
    if !draft.trim().is_empty() {
        let text = api::BundleText {
            policies: Some(draft.to_owned()),
        };
        let found = desk.ask(ask::CheckPolicy, "", &text).await.map_err(told);
        if found.as_ref().is_ok_and(|bundle| bundle.ok) {
            let question = api::PolicyDiffQuery {
                policies: draft.to_owned(),
                since: Some("7d".to_owned()),
                ..api::PolicyDiffQuery::default()
            };
            diff = Some(desk.ask(ask::DiffPolicy, "", &question).await.map_err(told));
        }
        checked = Some(found);
    }
    let viewer = desk.viewer(None).await?;
    let view = Policy {
        current: current.as_ref().map_err(String::as_str),
        draft,
        checked: checked
            .as_ref()
            .map(|found| found.as_ref().map_err(String::as_str)),
        diff: diff
            .as_ref()
            .map(|found| found.as_ref().map_err(String::as_str)),
    };
    shown(desk, console::policy(&view, &viewer), None).await
}

pub(super) async fn ledger(desk: &Desk<'_>, verify: bool) -> Result<Reply, Problem> {
    let status = status(desk).await?;
    let changes = changes(desk, 50).await.ok();
    let verified = match verify {
        true => {
            let period = api::Period {
                since: Some("1h".to_owned()),
                until: None,
            };
            let report = desk.ask(ask::Report, "", &period).await;
            Some(report.map_err(|problem| problem.to_string()))
        }
        false => None,
    };
    let viewer = desk.viewer(Some(&status)).await?;
    let verified = verified
        .as_ref()
        .map(|report| report.as_ref().map_err(String::as_str));
    let made = console::ledger(&status, changes.as_ref(), verified, &viewer);
    shown(desk, made, Some(&status)).await
}

pub(super) async fn visits(desk: &Desk<'_>, notice: Option<Notice>) -> Result<Reply, Problem> {
    let status = status(desk).await?;
    let visits = desk.ask(ask::Visits, "", &api::Nothing {}).await?;
    let viewer = desk.viewer(Some(&status)).await?;
    let made = console::visits(&visits, &desk.visitor.id, &status, &viewer).with_notice(notice);
    shown(desk, made, Some(&status)).await
}

async fn settings(desk: &Desk<'_>) -> Result<Reply, Problem> {
    let told = |problem: Problem| problem.to_string();
    let values = desk
        .ask(ask::ExplainConfig, "", &api::Nothing {})
        .await
        .map_err(told);
    let checked = desk
        .ask(ask::CheckConfig, "", &api::Nothing {})
        .await
        .map_err(told);
    let made = console::settings(
        values.as_deref().map_err(String::as_str),
        checked.as_ref().map_err(String::as_str),
    );
    shown(desk, made, None).await
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn a_search_is_words_with_values() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            words(r#" verdict:refused  caller:"ann b" since:2h "#),
            [
                pair("verdict", "refused"),
                pair("caller", "ann b"),
                pair("since", "2h")
            ]
        );
        assert_eq!(words(""), []);
        assert_eq!(words("loose"), [pair("loose", "")]);
    }
}
