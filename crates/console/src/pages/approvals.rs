//! `/approvals`: saying yes or no to exactly one call, knowing what it is.

use api::Approval;
use maud::{Markup, html};

use super::calls::escaped;
use crate::{
    marked::{lines, marked},
    page::{Page, Viewer, badge, proof, reason},
    time,
};

/// What an answer is bound to: everything that was shown. Another digest means that something else is asked now.
#[must_use]
pub fn digest_of(approval: &Approval) -> String {
    let mut hasher = blake3::Hasher::new();
    let parts = [
        &approval.id,
        &approval.caller,
        &approval.action,
        &approval.server,
        &approval.tool,
        &approval.arguments,
        &approval.label,
        &approval.bundle,
        &approval.definition,
    ];
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[must_use]
pub fn approvals(open: &[Approval], answered: &[Approval], now_ms: u64) -> Page {
    let body = html! {
        section aria-labelledby="open" {
            h2 id="open" { "Open" }
            @if open.is_empty() {
                p.muted { "Nobody waits for you. Calls wait here when a policy or a check asks a person." }
            } @else {
                (table(open, now_ms, true))
            }
        }
        section aria-labelledby="answered" {
            h2 id="answered" { "Answered or over" }
            @if answered.is_empty() { p.muted { "None is kept." } } @else { (table(answered, now_ms, false)) }
        }
    };
    Page::new("/approvals", "Approvals", body).command("portcullis approvals list")
}

fn table(approvals: &[Approval], now_ms: u64, open: bool) -> Markup {
    html! {
        div.wide { table {
            thead { tr { th { "Asked" } th { "Who" } th { "What" } th { "Why it is asked" } th { @if open { "Left" } @else { "Answer" } } } }
            tbody data-rows="" {
                @for approval in approvals {
                    tr {
                        td data-label="Asked" {
                            a href=(format!("/approvals/{}", escaped(&approval.id))) { (time::ago(now_ms, approval.asked_ms)) }
                        }
                        td data-label="Who" { (marked(&approval.name)) }
                        td data-label="What" { (marked(&approval.server)) "/" (marked(&approval.tool)) }
                        td data-label="Why it is asked" { @for why in approval.why.iter().take(2) { (marked(why)) " " } }
                        td data-label=[Some(if open { "Left" } else { "Answer" })] {
                            @if open {
                                span data-until=(approval.expires_ms) { (time::left(now_ms, approval.expires_ms)) }
                                @if !approval.awaited { " " span.muted { "the client gave up waiting" } }
                            } @else {
                                (answer(approval))
                            }
                        }
                    }
                }
            }
        } }
    }
}

fn answer(approval: &Approval) -> Markup {
    let kind = match approval.state.as_str() {
        "approved" | "used" => "good",
        "denied" => "bad",
        _ => "none",
    };
    html! {
        (badge(kind, &approval.state))
        @if let Some(who) = approval.answered_by.as_deref().filter(|who| !who.is_empty()) { " by " (marked(who)) }
        @if let Some(reason) = approval.reason.as_deref().filter(|reason| !reason.is_empty()) { ": " (marked(reason)) }
    }
}

/// One approval: in reading order, the answer below everything that it is about.
#[must_use]
pub fn approval(approval: &Approval, viewer: &Viewer) -> Page {
    let is_open = approval.state == "pending" && approval.expires_ms > viewer.now_ms;
    let pretty = pretty(&approval.arguments);
    let count = pretty.lines().count();
    let body = html! {
        p.lead {
            strong { (marked(&approval.name)) } " wants " strong { (marked(&approval.server)) "/" (marked(&approval.tool)) }
            @if approval.effect == "consequential" { ", which changes things" }
            @if approval.effect == "read" { ", which only reads" }
            ". Its session has seen " (marked(&approval.label)) " data."
        }
        p {
            @if is_open {
                (badge("warn", "waits for a person")) " "
                span data-until=(approval.expires_ms) data-speak="" { (time::left(viewer.now_ms, approval.expires_ms)) }
            } @else if approval.state == "pending" {
                (badge("none", "expired")) " at " (time::clock(approval.expires_ms)) " UTC; nothing was done."
            } @else {
                (answer(approval))
            }
        }
        section aria-labelledby="why" {
            h2 id="why" { "Why it is asked" }
            ul { @for why in &approval.why { li { (marked(why)) } } }
        }
        section aria-labelledby="read" {
            h2 id="read" { "What the session has read, newest first" }
            @if approval.lineage.is_empty() { p.muted { "Nothing." } }
            ol { @for call in &approval.lineage { li { a href=(format!("/calls/{}", escaped(call))) { (marked(call)) } } } }
        }
        section aria-labelledby="what" {
            h2 id="what" { "Exactly this would be sent (" (count) @if count == 1 { " line)" } @else { " lines)" } }
            (lines(&pretty))
            div data-end="" {}
            p.muted {
                "A yes holds for this call and no other: these arguments, definition " code { (marked(&approval.definition)) }
                ", policies " code { (marked(&approval.bundle)) } "."
            }
        }
        @if is_open { (answer_forms(approval, viewer, count)) }
    };
    let title = format!("{} wants {}", approval.name, approval.tool);
    Page::new("/approvals", title, body)
        .command(format!("portcullis approvals show {}", approval.id))
}

fn answer_forms(approval: &Approval, viewer: &Viewer, count: usize) -> Markup {
    if !viewer.role.may(api::Role::Approver) {
        return html! {
            p.muted { "Your role is " (viewer.role.as_str()) "; an approver or an operator can answer." }
        };
    }
    let id = escaped(&approval.id);
    let digest = digest_of(approval);
    html! {
        section.answer aria-labelledby="answer" {
            h2 id="answer" { "Your answer" }
            form method="post" action=(format!("/approvals/{id}/answer")) data-sign="" data-answer="" {
                input type="hidden" name="seen" value=(digest);
                (reason(false))
                (proof(viewer))
                p.read {
                    label {
                        input type="checkbox" name="read" value="yes" data-read="";
                        " I have read " @if count == 1 { "the line" } @else { "all " (count) " lines" } " above"
                    }
                }
                p.two {
                    button.deny type="submit" name="answer" value="deny" data-key="d" { "Deny" }
                    button.approve type="submit" name="answer" value="approve" data-key="a" { "Approve" }
                }
            }
        }
    }
}

/// The arguments with one value a line, as they are read best: blanks are put between their signs, and nothing else changes. Where they are
/// not JSON they stay as they are.
fn pretty(arguments: &str) -> String {
    if serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_err() {
        return arguments.to_owned();
    }
    let mut out = String::with_capacity(arguments.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    let mut signs = arguments.chars().peekable();
    while let Some(sign) = signs.next() {
        if in_text {
            out.push(sign);
            (in_text, escaped) = match sign {
                '"' if !escaped => (false, false),
                '\\' => (true, !escaped),
                _ => (true, false),
            };
            continue;
        }
        match sign {
            '{' | '[' => {
                out.push(sign);
                while signs.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = signs.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(sign);
            }
            ',' => {
                out.push(sign);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            sign if sign.is_ascii_whitespace() => {}
            sign => {
                in_text = sign == '"';
                out.push(sign);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_laid_out_and_nothing_of_them_changes() {
        assert_eq!(pretty(r#"{"a": 1}"#), "{\n  \"a\": 1\n}");
        for kept in ["no json", "{}", "[]", r#"" { ""#] {
            assert_eq!(pretty(kept), kept);
        }
        // Numbers, keys that are there twice, escapes and their order are what is sent.
        for (given, lines) in [
            (r#"{"b":" x \" y: {,","a":1.0000000000000000000001}"#, 4),
            (r#"{"a":1,"a":[2,{"c":{}}]}"#, 9),
            (r#"{"b":1,"a":"\u202e\\"}"#, 4),
        ] {
            let pretty = pretty(given);
            assert_eq!(pretty.lines().count(), lines, "{pretty}");
            let without: Vec<&str> = pretty.lines().map(str::trim_start).collect();
            assert_eq!(without.join("").replace("\": ", "\":"), given);
        }
    }

    #[test]
    fn an_answer_is_bound_to_everything_that_was_shown() {
        let shown = Approval {
            id: "1".into(),
            arguments: "{}".into(),
            ..Approval::default()
        };
        let others: [fn(&mut Approval); 5] = [
            |other| other.arguments = "{ }".into(),
            |other| other.definition = "d".into(),
            |other| other.bundle = "b".into(),
            |other| other.tool = "t".into(),
            |other| other.label = "l".into(),
        ];
        for change in others {
            let mut other = shown.clone();
            change(&mut other);
            assert_ne!(digest_of(&shown), digest_of(&other));
        }
    }
}
