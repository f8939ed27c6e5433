//! The one door for words of servers.
//!
//! Whatever a server said reaches a caller only with a [`Pass`], and nothing but this module makes one: a result, an error, a question
//! in the middle of a call, a log message, a notification. Making one asks whether the caller may use the server and raises the label
//! of its session, durably, before the words are handed over.
//!
//! **Invariant: nothing above a session's durable label is shown, and nothing of a server the caller may not use.** Test
//! `nothing_above_a_label_or_outside_access_is_shown_in_ten_thousand_scenes`. Only a caller's own
//! calls and subscriptions raise its label: words that a server sends by itself are withheld where they would raise it, so no server
//! can lock others out by talking.

mod sight;

pub use sight::{ListKind, Sight, SightKey};

use std::{ops::Deref, sync::Arc};

use bytes::Bytes;
use callers::{Caller, ForGate};
use flow::{Absorbed, Showable, Step};
use policy::Contexts;
use state::State;
use vocab::{Fault, FaultKind, Integrity, Label, Mark, ServerId, Stop};
use wire::Text;

use crate::{Hub, settings::TargetSpec};

/// Whose words they are, and what they carry. Whatever is kept to be shown later is kept with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    server: ServerId,
    label: Label,
}

impl Source {
    #[must_use]
    pub const fn server(&self) -> &ServerId {
        &self.server
    }
}

/// Evidence that words may be shown to one caller: its durable label includes them. Hold it, or a clone of it, until they have left;
/// a reset in between does not wash them off then. The gate's own words have a pass that says nothing.
#[derive(Debug, Clone, Default)]
#[must_use = "it must be held until the words have left"]
pub struct Pass(Option<Arc<Raised>>);

#[derive(Debug)]
struct Raised {
    showable: Showable,
    source: Source,
}

impl Pass {
    /// For words that no server had a part in.
    pub(crate) const fn own() -> Self {
        Self(None)
    }

    fn raised(showable: Showable, source: Source) -> Self {
        Self(Some(Arc::new(Raised { showable, source })))
    }

    /// Whose words it lets pass; `None` for the gate's own.
    #[must_use]
    pub fn source(&self) -> Option<&Source> {
        self.0.as_deref().map(|raised| &raised.source)
    }

    /// The session's label with these words in it.
    pub fn after(&self) -> Option<Mark> {
        self.0.as_deref().map(|raised| raised.showable.after())
    }
}

/// The pass of the gate's own words. `gateway` does not pass this on: a door has no words of its own.
pub const fn own_pass() -> Pass {
    Pass::own()
}

/// Words of the gate itself, that travel the same way.
pub fn own_words(text: impl Into<Bytes>) -> Words {
    Words {
        text: text.into(),
        pass: Pass::own(),
    }
}

/// Words of a server, redacted, with the evidence that they may be shown.
#[derive(Debug, Clone)]
#[must_use = "words that nobody is shown were raised for nothing"]
pub struct Words {
    text: Bytes,
    pass: Pass,
}

impl Words {
    /// The words, and the evidence to hold until they have left.
    pub fn into_parts(self) -> (Bytes, Pass) {
        (self.text, self.pass)
    }
}

impl Deref for Words {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.text
    }
}

/// Why a caller would be shown something.
#[derive(Debug, Clone, Copy)]
pub enum Occasion<'a> {
    /// It called; this is the answer or a part of it.
    Call(&'a Step),
    /// It asked for exactly this and was told to wait for it: a subscription, the end of a question it was asked.
    Awaited,
    /// The server speaks by itself.
    Unasked,
}

/// Why something was not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withheld {
    /// The server does not exist for the caller, or is not for it.
    NotEntitled,
    /// Nobody asked for it, and it would raise the caller's label or bring in a server that the session has not used.
    WouldRaise,
    /// The label could not be saved.
    Unsaved(String),
}

impl From<Withheld> for Stop {
    fn from(withheld: Withheld) -> Self {
        let detail = match withheld {
            Withheld::NotEntitled => "the caller may not be shown what this server says".to_owned(),
            Withheld::WouldRaise => {
                "nobody asked for it, and it would raise the session's label".to_owned()
            }
            Withheld::Unsaved(error) => {
                format!("the session's label could not be saved, so nothing is shown: {error}")
            }
        };
        Fault::new(FaultKind::Gate, detail).into()
    }
}

/// What everything a server says carries.
pub fn mark_of(spec: &TargetSpec, is_open_world: bool) -> Mark {
    let integrity = if is_open_world {
        Integrity::Untrusted
    } else {
        Integrity::Trusted
    };
    Mark {
        secrecy: spec.classification.unwrap_or_default(),
        integrity,
    }
}

/// The same with where it comes from.
pub fn label_of(spec: &TargetSpec, is_open_world: bool) -> Label {
    Label::of(mark_of(spec, is_open_world), spec.id.clone())
}

/// Whether a label that stands at `label` includes words of this mark already.
pub fn covers(label: Mark, mark: Mark) -> bool {
    label.join(mark) == label
}

impl Hub {
    /// The door. Asks access, raises the label durably, and gives the evidence that words of this server may be shown.
    pub async fn pass(
        &self,
        (state, contexts): (&State, &Contexts),
        caller: &Caller,
        spec: &TargetSpec,
        label: Label,
        occasion: Occasion<'_>,
    ) -> Result<Pass, Withheld> {
        let session = caller.session();
        let before = session.mark();
        let may_call = || self.catalog().lists_any_of(contexts, caller, spec);
        let absorbed = absorb(caller, spec, &label, occasion, may_call)?;
        let kept = state.keep(caller.id(), absorbed).await;
        let showable = kept.map_err(|error| Withheld::Unsaved(error.to_string()))?;
        if showable.after() != before && !matches!(occasion, Occasion::Call(_)) {
            // A call is on record with its label; a rise outside of any has a record of its own.
            let after = showable.after().to_string();
            let (caller, server) = (caller.id(), spec.id.as_str());
            let raised = audit::Change {
                action: "session.raised",
                caller,
                server,
                label: &after,
                ..audit::Change::default()
            };
            self.ledger()
                .change(&raised)
                .map_err(|error| Withheld::Unsaved(error.to_string()))?;
        }
        if showable.after() != before && self.catalog().has_resources(&spec.id) {
            // Its resources are listed from now on.
            self.tell_sight(caller.id(), ListKind::Resources);
        }
        Ok(Pass::raised(
            showable,
            Source {
                server: spec.id.clone(),
                label,
            },
        ))
    }

    /// Text of a server for a caller, redacted, under a pass that was given for this server.
    pub fn words(&self, caller: &Caller, spec: &TargetSpec, text: Bytes, pass: Pass) -> Words {
        let (text, remark) = self.redacted(spec, text.into());
        // What takes the place of a text takes its room too.
        let text = if remark.is_some() {
            caller.counted(text.into_bytes())
        } else {
            text.into_bytes()
        };
        Words { text, pass }
    }

    /// Text of a server without secrets in it, and a remark for the operator if there were any.
    pub fn redacted(&self, spec: &TargetSpec, text: Text) -> (Text, Option<String>) {
        if !spec.redact_results {
            return (text, None);
        }
        match shape::secrets::redact(&text, &self.held()) {
            None => (text, None),
            Some(redacted) => {
                let remark = format!("redacted: {}", redacted.found.join(", "));
                tracing::warn!(server = %spec.id, remark, "a result carried secrets");
                (redacted.text.into(), Some(remark))
            }
        }
    }

    /// For words that were shown once and kept: asks everything anew, against the label as it is now. `None`: they must not be shown
    /// again. So it is since a reset, which threw them away: the label no longer includes them.
    #[must_use]
    pub fn pass_kept(&self, contexts: &Contexts, caller: &Caller, source: &Source) -> Option<Pass> {
        let absorbed = match self.upstream(&source.server) {
            Some(upstream) => {
                let spec = upstream.spec();
                let may_call = || self.catalog().lists_any_of(contexts, caller, &spec);
                absorb(caller, &spec, &source.label, Occasion::Unasked, may_call).ok()?
            }
            // The gate's own words are for everybody whose label includes what they carry.
            None if source.server == ServerId::built_in() && caller.is_active() => {
                caller.session().absorb_known(&source.label)?
            }
            None => return None,
        };
        absorbed
            .durable()
            .ok()
            .map(|showable| Pass::raised(showable, source.clone()))
    }
}

/// Raises a caller's label to include words of a server, or says why they must not be shown. `may_call` says whether its security context
/// lets the caller call anything of the server.
pub fn absorb(
    caller: &Caller,
    spec: &TargetSpec,
    label: &Label,
    occasion: Occasion<'_>,
    may_call: impl FnOnce() -> bool,
) -> Result<Absorbed, Withheld> {
    let session = caller.session();
    if !is_for(caller, spec) {
        return Err(Withheld::NotEntitled);
    }
    if let Occasion::Call(step) = occasion {
        // Admit asked the rest, with the rules of what is called.
        return Ok(session.absorb_step(label, step));
    }
    if !caller.is_active() || spec.approved().is_none() || !may_call() {
        return Err(Withheld::NotEntitled);
    }
    match occasion {
        Occasion::Unasked => session.absorb_known(label).ok_or(Withheld::WouldRaise),
        Occasion::Call(_) | Occasion::Awaited => Ok(session.absorb(label)),
    }
}

/// Whether a server exists for a caller and is kept for others.
pub fn is_for(caller: &Caller, spec: &TargetSpec) -> bool {
    caller.sees(spec.tenant.as_deref()) && (spec.access.is_open() || caller.is_listed(&spec.access))
}
