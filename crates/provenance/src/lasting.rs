//! Answers that last: a person said yes to a tool with these targets, for the rest of a conversation.
//!
//! **Invariant: an answer is never wider than what was shown.** It covers calls of the same tool, by the same definition, that say the very
//! same whom, what and how much, none more and none less. Other names must be the person's own, and no text may hold a stranger's link, as
//! ever. Tests `an_answer_covers_what_was_shown_and_nothing_else`, `no_answer_covers_a_target_that_nobody_was_shown`.

use crate::{
    flaw::{Flaw, has},
    index::Index,
    role::Role,
    rule::{self, Call, Ruling, Vouched},
};

/// Answers that one conversation keeps. A person who said yes so often would rather have a policy.
pub(crate) const MAX_LASTING: usize = 16;
/// What the aims of one answer may take: a person must have read them.
const MAX_AIMS: usize = 2 << 10;

/// Whom, what and how much a call is for: the paths and values of the arguments that say so, and of its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aims {
    fixed: Vec<(String, String)>,
    names: Vec<(String, String)>,
}

impl Aims {
    /// `None`: nothing says whom or what, or more does than a person reads.
    #[must_use]
    pub fn of(call: Call<'_>) -> Option<Self> {
        let mut leaves = Vec::new();
        if !rule::collect(call.sent, &mut leaves) {
            return None;
        }
        let mut aims = Self {
            fixed: Vec::new(),
            names: Vec::new(),
        };
        for (path, value) in leaves {
            let Some(text) = rule::text_of(value).filter(|text| !text.trim().is_empty()) else {
                continue;
            };
            match rule::role_at(call.roles, &path) {
                Role::Target | Role::Object | Role::Amount => {
                    aims.fixed.push((path, text.into_owned()));
                }
                Role::Name => aims.names.push((path, text.into_owned())),
                Role::Value | Role::Content => {}
            }
        }
        aims.fixed.sort_unstable();
        aims.names.sort_unstable();
        (!aims.fixed.is_empty() && aims.bytes() <= MAX_AIMS).then_some(aims)
    }

    /// What an answer would cover, each in words.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        let word = |(path, value): &(String, String)| format!("`{path}` = `{value}`");
        self.fixed.iter().map(word).collect()
    }

    fn bytes(&self) -> usize {
        let all = self.fixed.iter().chain(&self.names);
        all.map(|(path, value)| path.len() + value.len() + 2 * size_of::<String>())
            .sum()
    }
}

/// A yes that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lasting {
    /// The approval that it was the answer to.
    pub approval: String,
    pub server: String,
    pub tool: String,
    /// The digest of the tool's definition that was approved.
    pub definition: String,
    pub aims: Aims,
    /// Who said it, and when.
    pub by: String,
    pub said_ms: u64,
}

impl Lasting {
    pub(crate) fn covers(
        &self,
        index: &Index,
        call: Call<'_>,
        definition: &str,
        aims: &Aims,
    ) -> Option<Vouched> {
        let is_same = self.server == call.server
            && self.tool == call.tool
            && self.definition == definition
            && (self.aims.fixed == aims.fixed || has(Flaw::AnswersCoverAnyTarget));
        if !is_same {
            return None;
        }
        let has_same_names = self.aims.names == aims.names;
        let rest = rule::weigh_some(index, call, |path| match rule::role_at(call.roles, path) {
            Role::Target | Role::Object | Role::Amount => false,
            Role::Name => !has_same_names,
            Role::Value | Role::Content => true,
        });
        matches!(rest, Ruling::Vouched(_)).then(|| {
            Vouched::new(format!(
                "a person said yes to it for this conversation (approval {})",
                self.approval
            ))
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        let texts = [
            &self.approval,
            &self.server,
            &self.tool,
            &self.definition,
            &self.by,
        ];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        size_of::<Self>() + texts + self.aims.bytes()
    }
}
