//! A bundle: policies that were checked together, and the decisions they make.
//!
//! **Invariant: every doubt is a block.** A doubt is a policy that fails, an argument that cannot be read as the policy
//! reads it, or nothing that permits. Tests `a_policy_that_fails_blocks_even_where_another_permits`,
//! `more_than_a_policy_may_be_shown_is_a_block`, `nothing_that_permits_is_a_block_and_says_so`.

use std::{collections::HashMap, fmt};

use cedar_policy::{Decision as Answer, Entities, PolicySet, Request, Response};

use super::{
    decision::{Decision, Note},
    facts, load,
    problem::Problem,
    question::Question,
    rule::{Rule, Verdict},
    slice::{Shelf, Slice},
    words::Words,
};

/// The starters, by name.
const STARTERS: [(&str, &str); 3] = [
    ("observe", include_str!("../../bundles/observe.cedar")),
    ("balanced", include_str!("../../bundles/balanced.cedar")),
    ("strict", include_str!("../../bundles/strict.cedar")),
];

/// Policies checked against the schema. Immutable; share it in an `Arc` and swap the `Arc`.
pub struct Bundle {
    version: String,
    pub(super) words: &'static Words,
    pub(super) rules: Vec<Rule>,
    /// The place of each rule, by policy id.
    places: HashMap<String, usize>,
    pub(super) shelf: Shelf,
    reads_provenance: bool,
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle")
            .field("version", &self.version)
            .field("policies", &self.rules.len())
            .finish_non_exhaustive()
    }
}

impl Bundle {
    /// The names of the starters, for messages.
    pub const STARTERS: [&'static str; 3] = ["observe", "balanced", "strict"];

    /// Makes a bundle of policy files, given as name and text, or says everything that is wrong with them.
    pub fn load(name: &str, files: &[(String, String)]) -> Result<Self, Vec<Problem>> {
        let words = Words::get().map_err(|message| {
            let fix = "this build is broken; take a released one".to_owned();
            vec![Problem {
                file: "portcullis.cedarschema".to_owned(),
                line: 1,
                column: 1,
                message: message.to_owned(),
                fix,
            }]
        })?;
        let mut files = files.to_vec();
        files.sort();
        let rules = load::with_room(|| load::rules(words, &files))?;
        let places = rules
            .iter()
            .enumerate()
            .map(|(at, rule)| (rule.note.policy.clone(), at))
            .collect();
        Ok(Self {
            version: version(name, &files),
            words,
            reads_provenance: rules.iter().any(|rule| rule.needs.provenance),
            rules,
            places,
            shelf: Shelf::default(),
        })
    }

    /// One of the bundles that come with the program: `observe`, `balanced` or `strict`.
    #[must_use]
    pub fn starter(name: &str) -> Option<Self> {
        let text = Self::starter_text(name)?;
        Self::load(name, &[(format!("{name}.cedar"), text.to_owned())]).ok()
    }

    /// The text of a starter, to copy and edit.
    #[must_use]
    pub fn starter_text(name: &str) -> Option<&'static str> {
        STARTERS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, text)| *text)
    }

    /// The name it was given, and a digest of its texts: `balanced@0123456789ab`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether any policy asks where arguments came from; who decides need not find it out for one where none does.
    #[must_use]
    pub const fn reads_provenance(&self) -> bool {
        self.reads_provenance
    }

    /// How many policies it holds.
    #[must_use]
    pub fn policy_count(&self) -> usize {
        self.rules.len()
    }

    #[must_use]
    pub fn decide(&self, question: &Question<'_>) -> Decision {
        let slice = match self.shelf.find(question) {
            Some(slice) => Ok(slice),
            None => self.shelf.make(self.words, &self.rules, question, |slice| {
                self.judge(slice, question)
            }),
        };
        match slice {
            Ok(slice) => slice
                .constant
                .clone()
                .unwrap_or_else(|| self.judge(&slice, question)),
            Err(why) => Decision::Block(Note::nobody(Note::UNREADABLE, why)),
        }
    }

    /// Every policy looked at, none left out: the same decision, slowly. Tests hold [`Bundle::decide`] to it.
    #[cfg(test)]
    pub(super) fn decide_unsliced(&self, question: &Question<'_>) -> Result<Decision, String> {
        let mut needs = super::mentions::Needs::default();
        self.rules.iter().for_each(|rule| needs.add(&rule.needs));
        let names = facts::Names::of(self.words, question);
        let lasting = facts::lasting(self.words, &names, question)?;
        let (context, views) = facts::moment(self.words, &needs, question)?;
        let entities = lasting
            .add_entities(views, None)
            .map_err(|error| error.to_string())?;
        let policies = PolicySet::from_policies(self.rules.iter().map(|rule| rule.policy.clone()))
            .map_err(|error| error.to_string())?;
        Ok(self.answer(&names.request(context)?, &policies, &entities, question))
    }

    fn judge(&self, slice: &Slice, question: &Question<'_>) -> Decision {
        let decided =
            facts::moment(self.words, &slice.needs, question).and_then(|(context, views)| {
                let request = slice.names.request(context)?;
                if views.is_empty() {
                    return Ok(self.answer(&request, &slice.policies, &slice.entities, question));
                }
                let entities = slice
                    .entities
                    .clone()
                    .add_entities(views, None)
                    .map_err(|error| error.to_string())?;
                Ok(self.answer(&request, &slice.policies, &entities, question))
            });
        decided.unwrap_or_else(|why| Decision::Block(Note::nobody(Note::UNREADABLE, why)))
    }

    fn answer(
        &self,
        request: &Request,
        policies: &PolicySet,
        entities: &Entities,
        question: &Question<'_>,
    ) -> Decision {
        self.read(
            &self
                .words
                .authorizer
                .is_authorized(request, policies, entities),
            question,
        )
    }

    /// Cedar's answer in our words. An error of any policy, even one that would not have decided, is a block.
    pub(super) fn read(&self, response: &Response, question: &Question<'_>) -> Decision {
        let mut failed: Vec<(usize, String)> = response
            .diagnostics()
            .errors()
            .map(|error| {
                let cedar_policy::AuthorizationError::PolicyEvaluationError(inner) = error;
                (
                    self.place(inner.policy_id()),
                    format!("the policy could not be evaluated: {}", inner.inner()),
                )
            })
            .collect();
        failed.sort();
        if let Some((at, why)) = failed.into_iter().next() {
            return Decision::Block(match self.rules.get(at) {
                Some(rule) => rule.note.because(why),
                None => Note::nobody(Note::UNREADABLE, why),
            });
        }
        let mut reasons: Vec<usize> = response
            .diagnostics()
            .reason()
            .map(|id| self.place(id))
            .collect();
        reasons.sort_unstable();
        let matched: Vec<&Rule> = reasons
            .into_iter()
            .filter_map(|at| self.rules.get(at))
            .collect();
        match response.decision() {
            // An endorsement permits nothing by itself.
            Answer::Allow if matched.iter().all(|rule| rule.verdict == Verdict::Endorse) => {
                Decision::Block(no_permit(question))
            }
            Answer::Allow => strongest(&matched),
            Answer::Deny => Decision::Block(
                matched
                    .first()
                    .map_or_else(|| no_permit(question), |rule| rule.note.clone()),
            ),
        }
    }

    fn place(&self, id: &cedar_policy::PolicyId) -> usize {
        self.places
            .get(AsRef::<str>::as_ref(id))
            .copied()
            .unwrap_or(usize::MAX)
    }
}

/// What permits say together: asks and rewrites narrow what plain permits allow, and win over endorsements.
fn strongest(matched: &[&Rule]) -> Decision {
    let notes = |wanted: fn(&Verdict) -> bool| -> Vec<Note> {
        matched
            .iter()
            .filter(|rule| wanted(&rule.verdict))
            .map(|rule| rule.note.clone())
            .collect()
    };
    let operations: Vec<_> = matched
        .iter()
        .filter_map(|rule| match &rule.verdict {
            Verdict::Rewrite(operation) => Some(operation.clone()),
            _ => None,
        })
        .collect();
    let asks = notes(|verdict| *verdict == Verdict::Ask);
    if !asks.is_empty() {
        Decision::Ask(asks, operations)
    } else if !operations.is_empty() {
        Decision::Rewrite(
            notes(|verdict| matches!(verdict, Verdict::Rewrite(_))),
            operations,
        )
    } else {
        let endorsements = notes(|verdict| *verdict == Verdict::Endorse);
        if endorsements.is_empty() {
            Decision::Allow
        } else {
            Decision::Endorse(endorsements)
        }
    }
}

fn no_permit(question: &Question<'_>) -> Note {
    let why = format!(
        "no policy permits `{}` of {}/{} to this caller",
        question.act.action(),
        question.server,
        question.target
    );
    Note::nobody(Note::NO_PERMIT, why)
}

fn version(name: &str, files: &[(String, String)]) -> String {
    let mut hasher = blake3::Hasher::new();
    for (_, text) in files {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let digest: String = hasher.finalize().to_hex().chars().take(12).collect();
    format!("{name}@{digest}")
}
