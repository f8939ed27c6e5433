//! Evidence. Each type here has a private constructor and no `Clone`; holding one proves that its stage said yes.

use std::time::Duration;

use flow::WriteDown;
use provenance::Ruling;
use vocab::{Effect, Integrity, Level, Mark, Rule, Stage, Violation};
use wire::Json;

use crate::{
    Bundle, Facts, Influence, Question, ServerState,
    cedar::{self, Decision, Note},
    checks,
};

/// Admit said yes.
#[derive(Debug)]
pub struct Admitted(());

/// The ceilings of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub time: Duration,
    pub result_bytes: usize,
}

/// Bound said yes, within this budget.
#[derive(Debug)]
pub struct Bounded(Budget);

/// Weigh said yes; a person may have to say it too.
#[derive(Debug)]
pub struct Weighed {
    inner: flow::Weighed,
    is_influenced: bool,
}

impl Weighed {
    /// Whether a person is asked because the session has read untrusted data.
    #[must_use]
    pub const fn asks(&self) -> bool {
        self.is_influenced
    }
}

/// Shape said yes.
#[derive(Debug)]
pub struct Shaped(());

/// The spendable yes. It owns its load, which is what was judged: where it goes and the very bytes. What is in no permit cannot be
/// dispatched, and what is in one cannot be exchanged.
#[derive(Debug)]
pub struct Permit<T> {
    load: T,
    budget: Budget,
    label: Mark,
    policies: Vec<String>,
}

impl<T> Permit<T> {
    /// Uses it up: what may be dispatched, and what that may cost.
    pub fn spend(self) -> (T, Budget) {
        (self.load, self.budget)
    }

    #[must_use]
    pub const fn load(&self) -> &T {
        &self.load
    }

    #[must_use]
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    /// The session's label when the call was weighed.
    #[must_use]
    pub const fn label(&self) -> Mark {
        self.label
    }

    /// The policies that had a say, beyond letting it pass.
    #[must_use]
    pub fn policies(&self) -> &[String] {
        &self.policies
    }
}

/// A yes that needs a person's yes.
#[derive(Debug)]
pub struct Asked<T> {
    permit: Permit<T>,
    binding: [u8; 32],
    /// Why a person is asked, for the operator.
    pub why: Vec<String>,
    /// Everything that is sent, in its canonical form: what the person approves.
    pub sent: Vec<u8>,
    /// Whether nothing asks but that untrusted data was read. What a policy asks about is asked each time.
    pub is_doubt_alone: bool,
}

impl<T> Asked<T> {
    /// Names exactly what a person is asked to approve.
    #[must_use]
    pub const fn binding(&self) -> &[u8; 32] {
        &self.binding
    }

    #[must_use]
    pub const fn label(&self) -> Mark {
        self.permit.label
    }

    /// The permit, if what was approved is what was asked.
    pub fn approved(self, binding: &[u8; 32]) -> Result<Permit<T>, Violation> {
        if *binding == self.binding {
            return Ok(self.permit);
        }
        Err(Violation::new(
            Rule::ApprovalDenied,
            "what was approved is not what is asked now",
        ))
    }
}

/// New arguments, which must be judged like the old ones were.
#[derive(Debug)]
pub struct Rewritten {
    pub arguments: Vec<u8>,
    pub policies: Vec<String>,
}

/// What Judge says, when it does not refuse.
#[derive(Debug)]
pub enum Judged<T> {
    Permitted(Permit<T>),
    Asked(Asked<T>),
    Rewritten(Rewritten),
}

/// What an approval is bound to besides the call itself: change any of it and the approval is void.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    pub caller: &'a str,
    pub action: &'a str,
    /// The digest of the approved definition; empty where there is none.
    pub definition: &'a str,
}

impl Binding<'_> {
    fn digest(&self, facts: &Facts<'_>, sent: &[u8], label: Mark, bundle: &str) -> [u8; 32] {
        let label = label.to_string();
        // An argument that is called like what goes beside the arguments is another call than one that sends it there.
        let arguments = wire::canonical(facts.arguments.unwrap_or(Json::EMPTY_OBJECT));
        let mut hasher = blake3::Hasher::new_derive_key("portcullis approval 2");
        let fields: [&[u8]; 9] = [
            self.caller.as_bytes(),
            self.action.as_bytes(),
            facts.server.as_str().as_bytes(),
            facts.target.as_bytes(),
            self.definition.as_bytes(),
            &arguments,
            sent,
            label.as_bytes(),
            bundle.as_bytes(),
        ];
        for field in fields {
            hasher
                .update(&(field.len() as u64).to_le_bytes())
                .update(field);
        }
        *hasher.finalize().as_bytes()
    }
}

pub fn admit(facts: &Facts<'_>) -> Result<Admitted, Violation> {
    checks::run(Stage::Admit, facts).map(|()| Admitted(()))
}

/// Fixes what the call may cost: what the server's entry asks for, never more than the node or the caller's context allows.
pub fn bound(facts: &Facts<'_>, wanted: Budget, ceiling: Budget) -> Result<Bounded, Violation> {
    checks::run(Stage::Bound, facts)?;
    let budget = Budget {
        time: wanted.time.min(ceiling.time),
        result_bytes: wanted.result_bytes.min(ceiling.result_bytes),
    };
    Ok(Bounded(
        facts
            .boundary
            .map_or(budget, |boundary| boundary.narrow(budget)),
    ))
}

/// No write-down: what the caller has seen must not flow to a server below its level. Then, what untrusted data may lead to.
///
/// `against` weighs the session against the ceiling it is given.
pub fn weigh(
    facts: &Facts<'_>,
    against: impl FnOnce(Level) -> Result<flow::Weighed, WriteDown>,
) -> Result<Weighed, Violation> {
    let server = facts.server;
    let ceiling = match facts.state {
        ServerState::Classified(level) => facts.accepts.unwrap_or(level),
        ServerState::Untrusted | ServerState::Blocked(_) | ServerState::Disabled => Level::Public,
    };
    let inner = against(ceiling).map_err(|refused| {
        let session = refused.session;
        Violation::new(
            Rule::WouldViolateWriteDown,
            format!("the session's label is {session} and server `{server}` takes at most {ceiling}; a server of level {} or higher, or a session that has not seen such data (`portcullis session reset` begins one), would be allowed", session.secrecy),
        )
        .with_hint(format!("this session has seen {} data and `{server}` {} {ceiling}, so nothing may be sent there", session.secrecy, if facts.accepts.is_some() { "accepts at most" } else { "is" }))
    })?;
    let is_untrusted = inner.before().integrity == Integrity::Untrusted;
    if is_untrusted {
        checks::run(Stage::Weigh, facts)?;
    }
    let is_influenced =
        is_untrusted && facts.influence == Influence::Ask && facts.effect == Effect::Consequential;
    // The person's own words stand for the call: what a stranger wrote has not chosen whom or what it is for.
    let is_influenced = is_influenced && !matches!(facts.ruling, Some(Ruling::Vouched(_)));
    Ok(Weighed {
        inner,
        is_influenced,
    })
}

pub fn shape(facts: &Facts<'_>) -> Result<Shaped, Violation> {
    checks::run(Stage::Shape, facts).map(|()| Shaped(()))
}

/// The evidence of every stage before Judge.
#[derive(Debug)]
pub struct Evidence {
    pub admitted: Admitted,
    pub bounded: Bounded,
    pub weighed: Weighed,
    pub shaped: Shaped,
}

/// Turns the evidence of every earlier stage into a permit for exactly this load, unless the bundle says otherwise. The question is
/// asked with the label that was weighed.
pub fn judge<T>(
    facts: &Facts<'_>,
    evidence: Evidence,
    bundle: &Bundle,
    mut question: Question<'_>,
    binding: Binding<'_>,
    load: T,
) -> Result<Judged<T>, Violation> {
    let Evidence {
        admitted: Admitted(()),
        bounded: Bounded(budget),
        weighed,
        shaped: Shaped(()),
    } = evidence;
    let label = weighed.inner.before();
    question.label = label;
    let decision = bundle.decide(&question);
    if !decision.rewrites().is_empty() {
        let before = facts.arguments.unwrap_or(Json::EMPTY_OBJECT).as_bytes();
        let arguments = cedar::rewrite(before, decision.rewrites()).map_err(|problem| {
            Violation::new(Rule::PolicyDenied, format!("a rewrite failed: {problem}"))
        })?;
        if arguments != before {
            let policies = decision
                .rewrites()
                .iter()
                .map(|change| change.policy().to_owned())
                .collect();
            return Ok(Judged::Rewritten(Rewritten {
                arguments,
                policies,
            }));
        }
    }
    let mut why: Vec<String> = match &decision {
        Decision::Block(note) => return Err(denied(note, bundle)),
        Decision::Ask(notes, _) => notes.iter().map(reason).collect(),
        Decision::Allow | Decision::Endorse(_) | Decision::Rewrite(..) => Vec::new(),
    };
    let is_doubt_alone = why.is_empty();
    if weighed.is_influenced && !matches!(decision, Decision::Endorse(_)) {
        why.extend(doubts(facts));
    }
    let permit = Permit {
        load,
        budget,
        label,
        policies: ids(decision.notes()),
    };
    if why.is_empty() {
        return Ok(Judged::Permitted(permit));
    }
    let sent = wire::canonical(facts.sent.unwrap_or(Json::EMPTY_OBJECT));
    let binding = binding.digest(facts, &sent, label, bundle.version());
    Ok(Judged::Asked(Asked {
        permit,
        binding,
        why,
        sent,
        is_doubt_alone,
    }))
}

/// Why untrusted data may have led to this call, in words.
fn doubts(facts: &Facts<'_>) -> Vec<String> {
    let mut why = vec![format!(
        "this session has read untrusted data and `{}` is consequential",
        facts.target
    )];
    match facts.ruling {
        Some(Ruling::Strange(findings)) => why.extend(findings.iter().map(ToString::to_string)),
        Some(Ruling::NothingSaid) => why.push(
            "nobody said what this conversation is for; where a person's words begin it (`portcullis task begin`), what they name is not asked about"
                .to_owned(),
        ),
        Some(Ruling::Vouched(_)) | None => {}
    }
    why
}

fn ids(notes: &[Note]) -> Vec<String> {
    notes.iter().map(|note| note.policy.clone()).collect()
}

fn reason(note: &Note) -> String {
    match &note.operator {
        Some(text) => format!("policy `{}`: {text}", note.policy),
        None => format!("policy `{}` asks", note.policy),
    }
}

fn denied(note: &Note, bundle: &Bundle) -> Violation {
    let said = note.operator.as_deref().unwrap_or("no reason given");
    let violation = Violation::new(
        Rule::PolicyDenied,
        format!(
            "policy `{}` of bundle {}: {said}",
            note.policy,
            bundle.version()
        ),
    );
    match &note.agent {
        Some(text) => violation.with_hint(text.clone()),
        None => violation,
    }
}
