//! The page of an explanation as it is written.

use audit::Record;
use vocab::{Mark, Stage, Violation};
use wire::{Json, write::Object};

use super::Imagined;
use crate::{
    call::{Case, Gathered},
    catalog::Target,
};

/// The page as it grows: one row per check, under its stage.
#[derive(Default)]
pub(super) struct Page {
    rows: Vec<(Stage, Vec<u8>)>,
    /// The first word that is not yes: `refused` or `ask`.
    verdict: Option<&'static str>,
}

impl Page {
    pub(super) fn add(
        &mut self,
        stage: Stage,
        name: &str,
        verdict: &'static str,
        detail: &str,
        fix: &str,
    ) {
        match (verdict, self.verdict) {
            ("refused", None | Some("ask")) => self.verdict = Some("refused"),
            ("ask", None) => self.verdict = Some("ask"),
            _ => {}
        }
        let mut out = Object::new();
        out.str("name", name).str("verdict", verdict);
        if !detail.is_empty() {
            out.str("detail", detail);
        }
        if !fix.is_empty() {
            out.str("fix", fix);
        }
        self.rows.push((stage, out.finish()));
    }

    /// The detail of a violation ends in what would have allowed the call, after the semicolon.
    pub(super) fn refused(&mut self, stage: Stage, name: &str, violation: &Violation) {
        let (detail, fix) = violation
            .detail
            .rsplit_once("; ")
            .unwrap_or((&violation.detail, ""));
        self.add(stage, name, "refused", detail, fix);
    }

    pub(super) fn checks(&mut self, gathered: &Gathered<'_>, label: Mark, imagined: &Imagined) {
        let Gathered {
            facts, unbounded, ..
        } = gathered;
        let session = imagined.request.caller.session();
        let checks: Vec<_> = policy::findings(facts, label).collect();
        // A person is asked instead of the check saying no, so there is nothing that it found to be in order.
        let mut asks = false;
        let decides = |stage: &Stage| (Stage::Admit..=Stage::Shape).contains(stage);
        for stage in Stage::ALL.into_iter().filter(decides) {
            if stage == Stage::Weigh {
                match policy::weigh(facts, |ceiling| session.weigh(ceiling)) {
                    Err(violation) => self.refused(stage, "no_write_down", &violation),
                    Ok(weighed) if weighed.asks() => {
                        asks = true;
                        self.add(stage, "no_write_down", "ok", "", "");
                        let fix = "`effect: read` for the tool, or `untrusted_influence: off`, would not ask";
                        self.add(
                            stage,
                            "untrusted_influence",
                            "ask",
                            "the session has read untrusted data",
                            fix,
                        );
                    }
                    Ok(_) => self.add(
                        stage,
                        "no_write_down",
                        "ok",
                        &format!("the session's label is {label}"),
                        "",
                    ),
                }
            }
            for (check, found) in checks.iter().filter(|(check, _)| check.stage == stage) {
                if asks && check.name == "influence_allowed" {
                    continue;
                }
                match (found, unbounded) {
                    _ if matches!(stage, Stage::Bound | Stage::Shape)
                        && !imagined.has_arguments =>
                    {
                        self.add(
                            stage,
                            check.name,
                            "skipped",
                            imagined.remark.unwrap_or_default(),
                            "",
                        );
                    }
                    (Ok(()), Some(violation)) if check.name == "tool_listed" => {
                        self.refused(stage, check.name, violation)
                    }
                    (Ok(()), _) => self.add(stage, check.name, "ok", check.says, ""),
                    (Err(violation), _) => self.refused(stage, check.name, violation),
                }
            }
        }
    }

    pub(super) fn bundle(
        &mut self,
        case: &Case<'_>,
        mut question: policy::Question<'_>,
        label: Mark,
    ) {
        question.label = label;
        let bundle = &case.rules.bundle;
        let decision = bundle.decide(&question);
        let notes: Vec<String> = decision
            .notes()
            .iter()
            .map(|note| match &note.operator {
                Some(text) => format!("policy `{}`: {text}", note.policy),
                None => format!("policy `{}`", note.policy),
            })
            .collect();
        let word = match decision.as_str() {
            "block" => "refused",
            "ask" => "ask",
            _ => "ok",
        };
        let detail = match notes.is_empty() {
            true => format!("bundle {} allows it", bundle.version()),
            false => format!(
                "bundle {}: {} ({})",
                bundle.version(),
                decision.as_str(),
                notes.join("; ")
            ),
        };
        let fix = match word {
            "ok" => String::new(),
            _ => bundle.explain(&question).would_allow.join("; "),
        };
        self.add(Stage::Judge, "bundle", word, &detail, &fix);
    }

    /// What the record says of a call that nothing more can be said of.
    pub(super) fn of_record(record: &Record) -> Vec<u8> {
        let mut page = Self::default();
        let stage = Stage::ALL
            .into_iter()
            .find(|stage| stage.as_str() == record.stage)
            .unwrap_or(Stage::Receive);
        let name = if record.violation.is_empty() {
            &record.verdict
        } else {
            &record.violation
        };
        let (detail, fix) = record
            .detail
            .rsplit_once("; ")
            .unwrap_or((&record.detail, ""));
        page.add(stage, name, "refused", detail, fix);
        let mut out = Object::new();
        out.str("verdict", "refused").str("caller", &record.caller);
        of_then(&mut out, record);
        let remark = format!(
            "it was stopped at {stage}, before there was a server, so there is nothing to judge again"
        );
        out.str("remark", &remark).raw("stages", &page.stages());
        out.finish()
    }

    pub(super) fn finish(
        self,
        imagined: &Imagined,
        target: Option<&Target>,
        label: Mark,
    ) -> Vec<u8> {
        let request = &imagined.request;
        let mut out = Object::new();
        out.str("verdict", self.verdict.unwrap_or("ok"));
        let asked = Json::checked_before(&request.params)
            .get("name")
            .and_then(Json::as_str)
            .unwrap_or_default();
        match target {
            Some(target) => {
                let tool = format!("{}__{}", target.spec.id, target.name);
                if request.mount.is_none() && !asked.is_empty() && *asked != *tool {
                    out.str("asked", &asked);
                }
                out.str("tool", &tool).str("effect", target.effect.as_str());
            }
            None => _ = out.str("tool", &asked),
        }
        out.str("caller", request.caller.id())
            .str("label", &label.to_string());
        if let Some(context) = request.caller.context() {
            out.str("context", context);
        }
        let arguments = Json::checked_before(&request.params)
            .get("arguments")
            .map_or("{}", Json::text);
        out.str("arguments", &audit::printable(arguments));
        if let Some(record) = &imagined.recorded {
            of_then(&mut out, record);
        }
        if let Some(remark) = imagined.remark {
            out.str("remark", remark);
        }
        out.raw("stages", &self.stages());
        out.finish()
    }

    fn stages(&self) -> Vec<u8> {
        let mut stages: Vec<Vec<u8>> = Vec::new();
        for stage in Stage::ALL {
            let rows: Vec<Vec<u8>> = self
                .rows
                .iter()
                .filter(|(of, _)| *of == stage)
                .map(|(_, row)| row.clone())
                .collect();
            if !rows.is_empty() {
                let mut out = Object::new();
                out.str("stage", stage.as_str()).raw(
                    "checks",
                    &[b"[", rows.join(&b","[..]).as_slice(), b"]"].concat(),
                );
                stages.push(out.finish());
            }
        }
        [b"[", stages.join(&b","[..]).as_slice(), b"]"].concat()
    }
}

fn of_then(out: &mut Object, record: &Record) {
    out.object("recorded", |out| {
        out.str("call", &record.call)
            .str("time", &record.time)
            .str("verdict", &record.verdict);
        out.str("stage", &record.stage)
            .str("violation", &record.violation)
            .str("detail", &record.detail);
        out.str("label", &record.label)
            .str("bundle", &record.bundle);
    });
}
