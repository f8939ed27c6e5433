//! A plan: what a conversation is going to do, said while nobody outside could have shaped it.
//!
//! A step names a tool and, for each argument, where its value will come from: the person's words, a form, or the fields of what
//! another tool reads. What is not named must be the person's own. After a conversation has read a stranger's words its plan can only
//! be narrowed; what a wider one would add is told in words.
//!
//! **Invariant: after taint a plan only narrows.** Test `after_taint_a_plan_only_narrows`.
//!
//! **Invariant: without a person's words a plan does nothing.** Test `a_plan_without_a_persons_words_lets_nothing_pass`.

mod compare;
mod parse;

use crate::{
    flaw::{Flaw, has},
    form::{self, Class, Form, Reading},
    index::{Index, Origin, Use},
    role::Role,
    rule::{self, Call, Finding, Ruling, Vouched},
    taking,
};

pub use parse::PlanError;

/// The longest text of a plan.
pub const MAX_TEXT: usize = 16 << 10;
const MAX_STEPS: usize = 32;
const MAX_ARGUMENTS: usize = 32;
const MAX_TIMES: u32 = 100;
const MAX_FORM: usize = 256;

/// A tool as the catalog knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolName {
    pub server: String,
    pub tool: String,
}

/// Where the value of one argument will come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// From the person: as the rule without a plan has it.
    Said,
    /// It fills this form, in which `*` stands for any words without a link or an address.
    Form(String),
    /// From a field of what this tool reads; also from inside a text where the plan says so, though never an address or a link.
    Read { tool: ToolName, may_be_text: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub tool: ToolName,
    /// How often it may be done.
    pub times: u32,
    pub arguments: Vec<(String, From)>,
}

/// See the [module](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<Step>,
    /// How often each step was done.
    done: Vec<u32>,
    /// Which plan of its conversation it is.
    number: u64,
}

/// Which step of which plan a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepOf {
    plan: u64,
    step: usize,
}

impl Plan {
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn left(&self, number: usize, step: &Step) -> u32 {
        if has(Flaw::StepsRepeat) {
            return step.times;
        }
        step.times
            .saturating_sub(self.done.get(number).copied().unwrap_or(0))
    }

    /// Whether a call is one of the steps, with every argument from where the plan says. Where nobody said anything none is: a plan
    /// carries out a person's words and does not take their place.
    pub fn check(&self, index: &Index, call: Call<'_>) -> Result<(Vouched, StepOf), Vec<Finding>> {
        if !index.has_words() {
            return Err(Vec::new());
        }
        let mut nearest: Option<Vec<Finding>> = None;
        for (number, step) in self.steps.iter().enumerate() {
            let is_it = step.tool.server == call.server && step.tool.tool == call.tool;
            if !is_it || self.left(number, step) == 0 {
                continue;
            }
            match fits(step, index, call) {
                Ok(()) => {
                    let why = format!(
                        "it is step {} of the plan that was made before anything untrusted was read",
                        number + 1
                    );
                    let step = StepOf {
                        plan: self.number,
                        step: number,
                    };
                    return Ok((Vouched::new(why), step));
                }
                Err(findings) => {
                    if nearest
                        .as_ref()
                        .is_none_or(|nearest| findings.len() < nearest.len())
                    {
                        nearest = Some(findings);
                    }
                }
            }
        }
        Err(nearest.unwrap_or_default())
    }

    /// Uses a step up; false if another call did so meanwhile, or another plan is in its place.
    #[must_use]
    pub fn spend(&mut self, StepOf { plan, step: number }: StepOf) -> bool {
        let Some(step) = self.steps.get(number).filter(|_| plan == self.number) else {
            return false;
        };
        let is_left = self.left(number, step) > 0;
        if let Some(done) = self.done.get_mut(number).filter(|_| is_left) {
            *done = done.saturating_add(1);
        }
        is_left
    }

    /// Gives a step back whose call was not made after all.
    pub fn give_back(&mut self, StepOf { plan, step }: StepOf) {
        if plan == self.number
            && let Some(done) = self.done.get_mut(step)
        {
            *done = done.saturating_sub(1);
        }
    }

    /// Puts another plan in place of this one. While the conversation is clean it may be any; afterwards only a narrower one, and the
    /// differences of a wider one come back in words.
    pub fn replace(
        current: &mut Option<Self>,
        new: Self,
        is_clean: bool,
    ) -> Result<(), Vec<String>> {
        if !is_clean && !has(Flaw::PlansWiden) {
            let wider = match current {
                Some(plan) => compare::wider(plan, &new),
                None => new.in_words(),
            };
            if !wider.is_empty() {
                return Err(wider);
            }
        }
        let number = current.as_ref().map_or(0, |plan| plan.number + 1);
        *current = Some(Self { number, ..new });
        Ok(())
    }

    /// What the rule says of a call that declares a plan after taint: a narrower one is nobody else's choice.
    #[must_use]
    pub fn ruling(current: Option<&Self>, new: &Self) -> Ruling {
        let wider = match current {
            Some(plan) => compare::wider(plan, new),
            None => new.in_words(),
        };
        if wider.is_empty() {
            let why = "it narrows the plan that was made before anything untrusted was read";
            return Ruling::Vouched(Vouched::new(why.to_owned()));
        }
        let finding =
            |words: &String| Finding::of_all(&format!("the plan would allow more: {words}"));
        Ruling::Strange(wider.iter().map(finding).collect())
    }

    /// Every step, in words.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        self.steps.iter().map(compare::step_in_words).collect()
    }

    pub(crate) fn bytes(&self) -> usize {
        let of_tool = |tool: &ToolName| tool.server.capacity() + tool.tool.capacity();
        let of_from = |from: &From| match from {
            From::Said => 0,
            From::Form(form) => form.capacity(),
            From::Read { tool, .. } => of_tool(tool),
        };
        let of_step = |step: &Step| {
            let arguments: usize = step
                .arguments
                .iter()
                .map(|(path, from)| path.capacity() + of_from(from))
                .sum();
            of_tool(&step.tool)
                + arguments
                + step.arguments.capacity() * size_of::<(String, From)>()
        };
        self.steps.iter().map(of_step).sum::<usize>()
            + self.steps.capacity() * size_of::<Step>()
            + self.done.capacity() * size_of::<u32>()
    }
}

fn fits(step: &Step, index: &Index, call: Call<'_>) -> Result<(), Vec<Finding>> {
    let mut strange = Vec::new();
    let planned = |path: &str| {
        let bare = path.trim_end_matches("[]");
        step.arguments
            .iter()
            .find(|(name, _)| name == path || name == bare)
            .map(|(_, from)| from)
    };
    // What the plan does not name, or names as said, is held to the rule.
    let by_rule = |path: &str| matches!(planned(path), None | Some(From::Said));
    match rule::weigh_some(index, call, by_rule) {
        Ruling::Vouched(_) => {}
        Ruling::NothingSaid => {}
        Ruling::Strange(findings) => strange.extend(findings),
    }
    let mut leaves = Vec::new();
    _ = rule::collect(call.sent, &mut leaves);
    // What is deleted and who is paid is the person's to say, whatever a server lists.
    let is_grave = taking::takes_away(call.tool)
        || leaves
            .iter()
            .any(|(path, _)| rule::role_at(call.roles, path) == Role::Amount);
    for (path, value) in leaves {
        let text = rule::text_of(value);
        let role = rule::role_at(call.roles, &path);
        let must_be_own = is_grave && !matches!(role, Role::Content | Role::Value | Role::Amount);
        let is_own = |text: &str| rule::may_aim(index, call, &path, role, text);
        let are_own = |pieces: &[&str]| {
            pieces
                .iter()
                .all(|piece| piece.trim().is_empty() || is_own(piece))
        };
        let is_right = match (planned(&path), text) {
            (None | Some(From::Said), _) | (_, None) => true,
            (Some(From::Form(form)), Some(text)) => match (filled(form, &text), role) {
                (None, _) => false,
                // What a plan leaves open must not say whom or what: that is the person's to say.
                (Some(pieces), Role::Target | Role::Object) => are_own(&pieces),
                (Some(pieces), Role::Amount) => pieces.is_empty(),
                (Some(pieces), Role::Value | Role::Name | Role::Content) => {
                    leads_nowhere(index, call, &path, form, &pieces, &text)
                        && (!must_be_own || are_own(&pieces))
                }
            },
            (Some(From::Read { tool, may_be_text }), Some(text)) => {
                comes_from(index, call, &path, role, (tool, *may_be_text), &text)
                    && (!must_be_own || is_own(&text))
            }
        };
        if !is_right {
            let from = planned(&path)
                .map(compare::from_in_words)
                .unwrap_or_default();
            let text = rule::text_of(value).unwrap_or_default();
            strange.push(Finding {
                path: rule::shown(&path),
                value: rule::shown(&text),
                role: Some(role),
                why: if must_be_own {
                    "is not yours, and no plan leaves open what is deleted or who is paid"
                        .to_owned()
                } else {
                    format!("is not {from}, as the plan says")
                },
                source: rule::Source::Unknown,
                server: None,
            });
        }
    }
    if strange.is_empty() {
        Ok(())
    } else {
        Err(strange)
    }
}

/// Whether all of a text came from a read of this tool.
fn comes_from(
    index: &Index,
    call: Call<'_>,
    path: &str,
    role: Role,
    (tool, may_be_text): (&ToolName, bool),
    text: &str,
) -> bool {
    let Reading::Values(forms) = form::read(text) else {
        return false;
    };
    // Where each sign counts it is the very text; a name is its words.
    let is_exact = matches!(role, Role::Target | Role::Object | Role::Amount);
    let words = form::name(text);
    let is_from =
        |form: &Form, must_be_field| index.is_from(form, &tool.server, &tool.tool, must_be_field);
    let comes = |must_be_field: bool| {
        !is_exact && is_from(&words, must_be_field)
            || forms.iter().all(|form| {
                let is_apart = form.class.is_address() || form.class == Class::Number;
                is_from(form, must_be_field || is_apart || role == Role::Amount)
            })
    };
    // Who is sent to, who is paid and where a link leads is never taken out of what a stranger may have written between other words.
    let leads_elsewhere = |text: &str| {
        leading(text).is_none_or(|found| {
            found.iter().any(|form| {
                form.class.is_address() && !is_from(form, true) && !is_said(index, call, path, form)
            })
        })
    };
    comes(true) || may_be_text && !leads_elsewhere(text) && comes(false)
}

/// What a text fills a form with; nothing if it is of another form.
fn filled<'t>(form: &str, text: &'t str) -> Option<Vec<&'t str>> {
    let pieces: Vec<&str> = form.split('*').collect();
    let (first, last) = (pieces.first()?, pieces.last()?);
    if pieces.len() == 1 {
        return (text == form).then(Vec::new);
    }
    let mut rest = text.strip_prefix(first)?.strip_suffix(last)?;
    let mut filled = Vec::new();
    for piece in pieces.iter().skip(1).take(pieces.len().saturating_sub(2)) {
        let (before, after) = rest.split_once(piece)?;
        filled.push(before);
        rest = after;
    }
    filled.push(rest);
    Some(filled)
}

/// Beside what was filled in, the whole must lead nowhere that neither the form nor the person says: a form must not be completed to
/// another link.
fn leads_nowhere(
    index: &Index,
    call: Call<'_>,
    path: &str,
    form: &str,
    filled: &[&str],
    text: &str,
) -> bool {
    if filled.is_empty() {
        return true;
    }
    let (Some(of_form), Some(of_text)) = (leading(form), leading(text)) else {
        return false;
    };
    let leads = |piece: &&str| leading(piece).is_none_or(|found| !found.is_empty());
    !filled.iter().any(leads)
        && of_text
            .iter()
            .all(|found| of_form.contains(found) || is_said(index, call, path, found))
}

/// Everything in a text that leads somewhere; nothing where there is more than is looked at.
fn leading(text: &str) -> Option<Vec<Form>> {
    let mut forms = Vec::new();
    crate::scan::values(text, |found| {
        if found.form.class.is_address() || found.form.class == Class::Path {
            forms.push(found.form);
        }
    });
    let links = crate::links::links(text);
    if links.is_cut {
        return None;
    }
    forms.extend(links.into_forms());
    Some(forms)
}

fn is_said(index: &Index, call: Call<'_>, argument: &str, form: &Form) -> bool {
    let server = call.server;
    index.origin(form, Use { server, argument }) == Origin::Said
}
