//! The page of an explanation as it is written.

use audit::Record;
use callers::ForGate;
use upstreams::catalog::Target;
use vocab::{Mark, Stage, Violation};
use wire::Json;

use super::Imagined;
use crate::call::{Case, Gathered};

/// The page as it grows: one row per check, under its stage.
#[derive(Default)]
pub(super) struct Page {
    rows: Vec<(Stage, api::Check)>,
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
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let check = api::Check {
            name: name.to_owned(),
            verdict: verdict.to_owned(),
            detail: text(detail),
            fix: text(fix),
        };
        self.rows.push((stage, check));
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
        let bundle = &case.now.rules.bundle;
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
    pub(super) fn of_record(record: &Record) -> api::Explanation {
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
        let remark = format!(
            "it was stopped at {stage}, before there was a server, so there is nothing to judge again"
        );
        api::Explanation {
            verdict: "refused".to_owned(),
            caller: Some(record.caller.clone()),
            recorded: Some(of_then(record)),
            remark: Some(remark),
            stages: page.stages(),
            ..api::Explanation::default()
        }
    }

    pub(super) fn finish(
        self,
        imagined: &Imagined,
        target: Option<&Target>,
        label: Mark,
    ) -> api::Explanation {
        let request = &imagined.request;
        let params = Json::checked_before(&request.params);
        let asked = params.get("name").and_then(Json::as_str);
        let asked = asked.unwrap_or_default().into_owned();
        let tool = match target {
            Some(target) => format!("{}__{}", target.spec.id, target.name),
            None => asked.clone(),
        };
        let is_another = target.is_some() && request.mount.is_none() && asked != tool;
        let arguments = params.get("arguments").map_or("{}", Json::text);
        api::Explanation {
            verdict: self.verdict.unwrap_or("ok").to_owned(),
            call: None,
            tool: Some(tool),
            asked: Some(asked).filter(|asked| is_another && !asked.is_empty()),
            effect: target.map(|target| target.effect.as_str().to_owned()),
            caller: Some(request.caller.id().to_owned()),
            context: request.caller.context().map(str::to_owned),
            label: Some(label.to_string()),
            arguments: Some(audit::printable(arguments)),
            remark: imagined.remark.map(str::to_owned),
            recorded: imagined.recorded.as_ref().map(of_then),
            stages: self.stages(),
        }
    }

    fn stages(&self) -> Vec<api::CheckedStage> {
        let of = |stage: Stage| {
            let rows = self.rows.iter().filter(move |(of, _)| *of == stage);
            rows.map(|(_, check)| check.clone()).collect()
        };
        let all = Stage::ALL.into_iter().map(|stage| api::CheckedStage {
            stage: stage.as_str().to_owned(),
            checks: of(stage),
        });
        all.filter(|stage| !stage.checks.is_empty()).collect()
    }
}

fn of_then(record: &Record) -> api::RecordedVerdict {
    api::RecordedVerdict {
        call: record.call.clone(),
        time: record.time.clone(),
        verdict: record.verdict.clone(),
        stage: record.stage.clone(),
        violation: record.violation.clone(),
        detail: record.detail.clone(),
        label: record.label.clone(),
        bundle: record.bundle.clone(),
    }
}
