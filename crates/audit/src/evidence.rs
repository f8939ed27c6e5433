//! A call's life in the ledger, as types: [`Opened`] → [`Intent`] → [`Concluded`].
//!
//! The constructors are private and nothing here is `Clone`, so holding an `Intent` *is* the proof that the intent is on
//! disk, and holding a `Concluded` that the outcome is. An `Opened` must be concluded; dropping it writes an `abandoned`
//! outcome, because a call that vanishes from the ledger is a bug worth a record.
//!
//! **Invariant: what clients were told, what we recorded and what servers did agree.** Tests
//! `three_ledgers_agree_over_random_kills`, `a_full_disk_stops_effects_and_nothing_else`.

use crate::error::LedgerUnavailable;
use crate::ledger::{Ledger, Position};
use crate::record::{Draft, Kind, Verdict, lent_value};
use std::borrow::Cow;
use vocab::{Effect, Stage};

type Text = Cow<'static, str>;

/// How a value of a column is kept while a call is under way.
macro_rules! kept_value {
    (text) => { Text };
    (long) => { Text };
    (number) => { Option<u64> };
    (effect) => { Option<Effect> };
}

/// How it is lent to a record.
macro_rules! lend {
    (text $value:expr) => {
        &$value
    };
    (long $value:expr) => {
        &$value
    };
    ($other:ident $value:expr) => {
        $value
    };
}

macro_rules! draw_facts {
    ([] $({ $name:ident $kind:ident $title:tt $what:literal })*) => {
        /// What is known about a call so far. Stages fill it in as they learn; each record holds what was known by then.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Facts {
            $(#[doc = $what] pub $name: kept_value!($kind),)*
        }

        impl Facts {
            fn draft(&self) -> Draft<'_> {
                Draft { $($name: lend!($kind self.$name),)* ..Draft::default() }
            }
        }
    };
}
vocab::record_columns!(facts => draw_facts []);

macro_rules! draw_outcome {
    ([] $({ $name:ident $kind:ident $title:tt $what:literal })*) => {
        /// How a call ended.
        #[derive(Clone, Copy, Debug)]
        pub struct Outcome<'a> {
            pub verdict: Verdict,
            /// The stage that decided.
            pub stage: Stage,
            $(#[doc = $what] pub $name: lent_value!('a $kind),)*
        }

        impl<'a> Outcome<'a> {
            /// An outcome with only a verdict and a stage; fill in the rest with struct update.
            pub fn new(verdict: Verdict, stage: Stage) -> Outcome<'a> {
                Outcome { verdict, stage, $($name: Default::default(),)* }
            }

            /// The draft of `facts`, ended so.
            fn end<'b>(&self, facts: Draft<'b>) -> Draft<'b>
            where
                'a: 'b,
            {
                Draft {
                    verdict: Some(self.verdict),
                    stage: Some(self.stage),
                    $($name: self.$name,)*
                    ..facts
                }
            }
        }
    };
}
vocab::record_columns!(outcome => draw_outcome []);

/// A call that the ledger knows in memory only. It must be concluded.
#[derive(Debug)]
#[must_use = "an opened call must be concluded; dropping it records a bug"]
pub struct Opened {
    pub facts: Facts,
    ledger: Ledger,
    opened_us: u64,
    intent: Option<u64>,
    concluded: bool,
}

impl Opened {
    /// Whether the effect may have begun.
    pub fn has_intent(&self) -> bool {
        self.intent.is_some()
    }

    /// Keeps the call's redacted arguments, sealed and apart from the chain; the records from here on name their digest.
    pub fn keep_body(&mut self, redacted: &[u8]) -> Result<(), LedgerUnavailable> {
        self.facts.body = self
            .ledger
            .keep_body(&self.facts.call, redacted)?
            .to_string()
            .into();
        Ok(())
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Ends the call without a record of its own; it is counted instead.
    pub(crate) fn forgo(&mut self) {
        self.concluded = true;
    }

    /// Microseconds since the call was opened.
    pub fn elapsed_us(&self) -> u64 {
        self.ledger.now().mono_us.saturating_sub(self.opened_us)
    }

    fn write_outcome(&mut self, outcome: &Outcome<'_>) -> Result<Position, LedgerUnavailable> {
        // Even a failed attempt is the last one: the ledger says `indeterminate` for this call when it recovers.
        self.concluded = true;
        let refused_before_effect = outcome.verdict == Verdict::Refused && self.intent.is_none();
        let now = self.ledger.now();
        let draft = Draft {
            kind: if refused_before_effect {
                Kind::Refusal
            } else {
                Kind::Outcome
            },
            intent: self.intent,
            us: Some(now.mono_us.saturating_sub(self.opened_us)),
            ..outcome.end(self.facts.draft())
        };
        self.ledger.record_at(now, &draft)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.concluded {
            return;
        }
        let mut abandoned = Outcome::new(Verdict::Abandoned, Stage::Conclude);
        abandoned.detail = "the gate dropped this call without concluding it: a bug in the gate";
        // Nobody is left to tell; a broken ledger says so on its own.
        let _ = self.write_outcome(&abandoned);
    }
}

/// Evidence that a call's intent is written. Needed, by value, to have an effect.
#[derive(Debug)]
#[must_use = "an intent is spent by the effect it allows"]
pub struct Intent {
    position: Position,
}

impl Intent {
    pub fn position(&self) -> Position {
        self.position
    }
}

/// Evidence that a call's outcome is written. Needed to reply.
#[derive(Debug)]
#[must_use = "a sealed outcome is what allows the reply"]
pub struct Concluded {
    position: Position,
}

impl Concluded {
    pub fn position(&self) -> Position {
        self.position
    }
}

impl Ledger {
    /// Begins a call. Nothing is written yet.
    pub fn open(&self, facts: Facts) -> Opened {
        Opened {
            facts,
            opened_us: self.now().mono_us,
            ledger: self.clone(),
            intent: None,
            concluded: false,
        }
    }

    /// Writes that the call is about to have its effect. No record, no action. A call intends once: its second intent
    /// would leave the first without an outcome, so it is refused.
    pub fn intend(&self, opened: &mut Opened) -> Result<Intent, LedgerUnavailable> {
        if opened.intent.is_some() {
            return Err(LedgerUnavailable {
                reason: "this call already has an intent".into(),
            });
        }
        let draft = Draft {
            kind: Kind::Intent,
            stage: Some(Stage::Intend),
            verdict: Some(Verdict::Permitted),
            ..opened.facts.draft()
        };
        let position = self.record(&draft)?;
        opened.intent = Some(position.seq);
        Ok(Intent { position })
    }

    /// [`Ledger::intend`], ready only when the intent survives a power cut: for effects that cannot be taken back. When the
    /// disk fails the call keeps its intent, has no effect, and must still be concluded.
    pub async fn intend_durable(&self, opened: &mut Opened) -> Result<Intent, LedgerUnavailable> {
        let intent = self.intend(opened)?;
        self.synced(intent.position.seq).await?;
        Ok(intent)
    }

    /// Writes how the call ended. Only then may it be answered.
    pub fn conclude(
        &self,
        mut opened: Opened,
        outcome: &Outcome<'_>,
    ) -> Result<Concluded, LedgerUnavailable> {
        let position = opened.write_outcome(outcome)?;
        Ok(Concluded { position })
    }
}
