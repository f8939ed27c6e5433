//! Why a bundle decides as it does, and what would have to change for it to decide otherwise.
//!
//! Slow and thorough: every policy is looked at alone, part by part. Used by people, never on the path of a call.

use cedar_policy::{Context, Entities, PolicySet, Request};

use super::{
    bundle::Bundle,
    decision::{Decision, Note},
    facts::{self, Names},
    load::with_room,
    mentions,
    question::Question,
    rule::{Rule, Verdict},
    suggest::{quoted, resource_scope},
};

/// A decision and its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub decision: Decision,
    /// Every policy of the bundle, in its order.
    pub policies: Vec<Looked>,
    /// What would have allowed the call, one sentence each; empty where it is allowed.
    pub would_allow: Vec<String>,
}

/// One policy, and how it met the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    pub note: Note,
    /// `allow`, `ask`, `block` or `rewrite`.
    pub effect: &'static str,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Matched,
    /// This part of the scope is about others: `resource == Tool::"github/close_issue"`.
    OutOfScope(String),
    /// This condition does not hold.
    NotWhen(String),
    /// It could not be evaluated, for this reason; that is a block.
    Failed(String),
}

impl Outcome {
    /// In a few words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Matched => "matches".to_owned(),
            Self::OutOfScope(part) => format!("is about others: {part}"),
            Self::NotWhen(condition) => {
                format!("does not apply, since this does not hold: {condition}")
            }
            Self::Failed(why) => format!("could not be evaluated: {why}"),
        }
    }
}

impl Bundle {
    /// The decision, how every policy met the question, and what would have allowed it.
    #[must_use]
    pub fn explain(&self, question: &Question<'_>) -> Explanation {
        let decision = self.decide(question);
        let names = Names::of(self.words, question);
        let look = |rule: &Rule| {
            let outcome = self
                .look(rule, &names, question)
                .unwrap_or_else(Outcome::Failed);
            Looked {
                note: rule.note.clone(),
                effect: rule.verdict.as_str(),
                outcome,
            }
        };
        let policies: Vec<Looked> = with_room(|| self.rules.iter().map(look).collect());
        let would_allow = changes(&decision, &policies, question);
        Explanation {
            decision,
            policies,
            would_allow,
        }
    }

    fn look(&self, rule: &Rule, names: &Names, question: &Question<'_>) -> Result<Outcome, String> {
        let lasting = facts::lasting(self.words, names, question)?;
        let before = names.request(Context::empty())?;
        for (part, policies) in rule.scope_parts()? {
            if self.holds(&before, &policies, &lasting)? == Holds::No {
                return Ok(Outcome::OutOfScope(part));
            }
        }
        let settled = mentions::settled(&rule.conjuncts);
        if let Some(outcome) = self.first_false(rule, &settled, &before, &lasting)? {
            return Ok(outcome);
        }
        let (context, views) = facts::moment(self.words, &rule.needs, question)?;
        let entities = lasting
            .add_entities(views, None)
            .map_err(|error| error.to_string())?;
        let outcome =
            self.first_false(rule, &rule.conjuncts, &names.request(context)?, &entities)?;
        Ok(outcome.unwrap_or(Outcome::Matched))
    }

    /// The first condition that does not hold, each tried behind the ones before it.
    fn first_false(
        &self,
        rule: &Rule,
        conditions: &[std::sync::Arc<cedar_policy::pst::Expr>],
        request: &Request,
        entities: &Entities,
    ) -> Result<Option<Outcome>, String> {
        for (at, condition) in conditions.iter().enumerate() {
            let upto = conditions.get(..=at).unwrap_or(conditions);
            if self.holds(request, &rule.with_conditions(upto)?, entities)? == Holds::No {
                return Ok(Some(Outcome::NotWhen(condition.to_string())));
            }
        }
        Ok(None)
    }

    fn holds(
        &self,
        request: &Request,
        policies: &PolicySet,
        entities: &Entities,
    ) -> Result<Holds, String> {
        let answer = self
            .words
            .authorizer
            .is_authorized(request, policies, entities);
        let mut errors = answer.diagnostics().errors();
        if let Some(cedar_policy::AuthorizationError::PolicyEvaluationError(error)) = errors.next()
        {
            return Err(error.inner().to_string());
        }
        Ok(if answer.diagnostics().reason().next().is_some() {
            Holds::Yes
        } else {
            Holds::No
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Yes,
    No,
}

fn changes(decision: &Decision, policies: &[Looked], question: &Question<'_>) -> Vec<String> {
    let called = |looked: &Looked| {
        format!(
            "`{}` ({}:{})",
            looked.note.policy, looked.note.file, looked.note.line
        )
    };
    let matched = |effect: &'static str| {
        policies
            .iter()
            .filter(move |it| it.effect == effect && it.outcome == Outcome::Matched)
    };
    match decision {
        Decision::Allow | Decision::Endorse(_) | Decision::Rewrite(..) => Vec::new(),
        Decision::Ask(..) => {
            let each = matched(Verdict::Ask.as_str());
            each.map(|it| {
                format!("{} asks: a person approves this call, or the policy is narrowed so that it does not match", called(it))
            })
            .collect()
        }
        Decision::Block(_) => {
            let failed = policies.iter().filter_map(|it| match &it.outcome {
                Outcome::Failed(why) => {
                    Some(format!("{} must be made to evaluate: {why}", called(it)))
                }
                _ => None,
            });
            let blocks = matched(Verdict::Block.as_str());
            let blocks = blocks.map(|it| {
                format!(
                    "{} blocks: narrow it with `unless {{ … }}`, or remove it",
                    called(it)
                )
            });
            let mut all: Vec<String> = failed.chain(blocks).collect();
            let is_permitted = policies.iter().any(|it| {
                !["block", "endorse"].contains(&it.effect) && it.outcome == Outcome::Matched
            });
            if !is_permitted {
                all.extend(permits(policies, called));
                all.push(format!("a new policy permits it: {}", permit_for(question)));
            }
            all
        }
    }
}

/// Permits that a condition keeps from matching.
fn permits<'a>(
    policies: &'a [Looked],
    called: impl Fn(&Looked) -> String + 'a,
) -> impl Iterator<Item = String> + 'a {
    policies
        .iter()
        .filter(|it| it.effect != "block")
        .filter_map(move |it| match &it.outcome {
            Outcome::NotWhen(condition) => Some(format!(
                "{} would permit it if this held: {condition}",
                called(it)
            )),
            _ => None,
        })
}

/// The narrowest scope that admits the question.
fn permit_for(question: &Question<'_>) -> String {
    let (resource, conditions) = resource_scope(question.act, question.server, question.target);
    let when: String = conditions
        .iter()
        .map(|condition| format!(" when {{ {condition} }}"))
        .collect();
    let (caller, action) = (
        quoted(question.principal.caller),
        quoted(question.act.action()),
    );
    format!("permit (principal == Caller::{caller}, action == Action::{action}, {resource}){when};")
}
