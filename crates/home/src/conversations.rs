//! Which conversations of agents are open, and what each was left with: what decides whether one begins clean.
//!
//! All conversations of a credential share one session at the gate, so one of them must not wash off what another has read.
//!
//! **Invariant: a conversation begins clean only if it is new and no other of its credential that has spoken is open.** One that comes back has at
//! least the label that it was left with, and one of which nobody knows anything counts as untrusted. Tests
//! `a_second_window_washes_nothing_off`, `who_comes_back_has_the_label_it_was_left_with`, `what_is_not_known_is_untrusted`.
//!
//! The file says that a conversation is open before the gate hears of it. A crash in between leaves it open, or its label unknown: both are
//! the careful side.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Home, private_file, process::Process};

/// Conversations that are remembered of one credential. Of one that is forgotten nothing is known, and it is untrusted when it comes back.
const MOST_KNOWN: usize = 256;
/// Credentials with conversations.
const MOST_CALLERS: usize = 64;
/// As much as the file can grow to, and some more.
const MOST_BYTES: u64 = 16 << 20;
/// A hook holds the file while it asks the gate, and a client waits for the hook.
const PATIENCE: Duration = Duration::from_secs(4);

#[derive(Debug, thiserror::Error)]
pub enum ConversationsError {
    #[error("cannot use {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is damaged ({why}); close the agents' windows, then delete it", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("another hook has {} and does not let go", .0.display())]
    Busy(PathBuf),
    #[error("{MOST_KNOWN} conversations of this credential are open")]
    TooMany,
}

/// What to ask of the gate for a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// There is nothing to tell.
    Nothing,
    /// A conversation begins, with at least this label.
    Begin { at_least: Option<String> },
    /// The conversation under way goes on, with at least this label.
    Continue { at_least: Option<String> },
}

/// What the gate answered.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    pub epoch: u64,
    /// The label before a conversation began.
    pub was: &'a str,
}

/// How an agent came into a conversation, as its client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It knows nothing yet.
    New,
    /// It knows what it knew before, or the client does not say.
    Known,
}

/// One conversation of a client.
#[derive(Debug, Clone, Copy)]
pub struct Name<'a> {
    /// The credential's id.
    pub caller: &'a str,
    pub client: &'a str,
    pub id: &'a str,
}

/// The file, held by this process.
#[derive(Debug)]
pub struct Conversations {
    path: PathBuf,
    kept: Kept,
    _lock: File,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    callers: BTreeMap<String, Caller>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Caller {
    /// The epoch that the gate named last.
    epoch: Option<u64>,
    /// The one that spoke last is the last.
    known: Vec<Known>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Known {
    /// A digest of client and id: as long as any other, whatever a client calls its conversations.
    name: String,
    open: Open,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Open {
    No,
    /// For as long as this process runs.
    While(Process),
    /// Until its end is told.
    UntilTold,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    /// It has begun, and has not spoken.
    New,
    /// It takes part in what the gate calls this epoch.
    In {
        epoch: u64,
        /// Nobody reset the session in the middle of it.
        is_whole: bool,
        /// It was left since it spoke last: a reset meanwhile was not meant for it.
        is_left: bool,
    },
    /// It was left with this label.
    Left(String),
    Unknown,
}

impl State {
    fn within(epoch: u64, is_whole: bool) -> Self {
        Self::In {
            epoch,
            is_whole,
            is_left: false,
        }
    }

    fn leave(&mut self) {
        if let Self::In { is_left, .. } = self {
            *is_left = true;
        }
    }
}

impl Open {
    fn here() -> Self {
        Process::client().map_or(Self::UntilTold, Self::While)
    }

    fn is_open(&self) -> bool {
        match self {
            Self::No => false,
            Self::While(process) => process.is_running(),
            Self::UntilTold => true,
        }
    }
}

fn missed_file(path: &Path) -> PathBuf {
    path.with_extension("missed")
}

impl Conversations {
    /// Takes the file of a home, for as long as this value lives.
    pub fn take(home: &Home) -> Result<Self, ConversationsError> {
        let path = home.conversations_file();
        let failed = |source| ConversationsError::File {
            path: path.clone(),
            source,
        };
        let lock = private_file::lock_within(&path.with_extension("lock"), PATIENCE)
            .map_err(failed)?
            .ok_or_else(|| ConversationsError::Busy(path.clone()))?;
        let damaged = |why: String| ConversationsError::Damaged {
            path: path.clone(),
            why,
        };
        let kept = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(failed(error)),
            Ok(metadata) if metadata.len() > MOST_BYTES => {
                return Err(damaged(format!("it has {} bytes", metadata.len())));
            }
            Ok(_) => {
                let bytes = fs::read(&path).map_err(failed)?;
                serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?
            }
        };
        let mut taken = Self {
            path,
            kept,
            _lock: lock,
        };
        taken.notice_missed()?;
        Ok(taken)
    }

    /// A prompt came, and it cannot be written down whose. Needs no lock, and only makes others more careful.
    pub fn miss(home: &Home) -> io::Result<()> {
        fs::write(missed_file(&home.conversations_file()), [])
    }

    /// After a prompt of nobody knows whom, no conversation can be trusted to be silent.
    fn notice_missed(&mut self) -> Result<(), ConversationsError> {
        let missed = missed_file(&self.path);
        if !missed.exists() {
            return Ok(());
        }
        let known = self.kept.callers.values_mut();
        for known in known.flat_map(|caller| &mut caller.known) {
            if known.state == State::New {
                known.state = State::Unknown;
            }
        }
        self.save()?;
        fs::remove_file(&missed).map_err(|source| ConversationsError::File {
            path: missed.clone(),
            source,
        })
    }

    /// A client says that a conversation is open. What is known of it stays known.
    pub fn opened(&mut self, name: Name<'_>, start: Start) -> Result<(), ConversationsError> {
        let state = match start {
            Start::New => State::New,
            Start::Known => State::Unknown,
        };
        let known = self.known(name, state)?;
        known.open = Open::here();
        known.state.leave();
        self.save()
    }

    /// A client says that a conversation has ended. What it has seen stays known.
    pub fn ended(&mut self, name: Name<'_>) -> Result<(), ConversationsError> {
        let digest = name.digest();
        if let Some(caller) = self.kept.callers.get_mut(name.caller) {
            let known = caller.known.iter_mut();
            known
                .filter(|known| known.name == digest)
                .for_each(|known| {
                    known.open = Open::No;
                    known.state.leave();
                });
            caller
                .known
                .retain(|known| known.name != digest || known.state != State::New);
        }
        self.save()
    }

    /// Somebody spoke in a conversation, a person or not; what the gate must be asked. `is_clean` unless the client shows that the conversation is not
    /// new after all. On disk when this returns, so that the conversation counts as open whatever happens next.
    pub fn spoke(
        &mut self,
        name: Name<'_>,
        is_said: bool,
        is_clean: bool,
    ) -> Result<Step, ConversationsError> {
        let known = self.known(name, State::Unknown)?;
        let here = Open::here();
        if known.open != here {
            known.state.leave();
        }
        known.open = here;
        if known.state == State::New && !(is_said && is_clean) {
            known.state = State::Unknown;
        }
        let known = known.clone();
        let caller = self.kept.callers.entry(name.caller.to_owned()).or_default();
        let is_alone = !caller.known.iter().any(|other| {
            other.name != known.name && other.state != State::New && other.open.is_open()
        });
        let at_least = match &known.state {
            State::In { epoch, is_left, .. } if caller.epoch == Some(*epoch) => {
                // Who was away asks in any case whether the session is the one it left.
                let asks = is_said || *is_left;
                self.save()?;
                return Ok(match asks {
                    true => Step::Continue { at_least: None },
                    false => Step::Nothing,
                });
            }
            State::New => None,
            State::Left(label) => Some(label.clone()),
            State::In { .. } | State::Unknown => Some(api::UNKNOWN_LABEL.to_owned()),
        };
        // Until the gate has answered nobody knows what it will have seen.
        self.known(name, State::Unknown)?.state = State::Unknown;
        self.save()?;
        Ok(if is_alone {
            Step::Begin { at_least }
        } else {
            Step::Continue { at_least }
        })
    }

    /// The gate did as it was asked. What it must be asked then, before the prompt goes on: a session that was reset while a conversation was away
    /// is not the one it left.
    pub fn answered(
        &mut self,
        name: Name<'_>,
        step: &Step,
        answer: Answer<'_>,
    ) -> Result<Step, ConversationsError> {
        let digest = name.digest();
        let caller = self.kept.callers.entry(name.caller.to_owned()).or_default();
        let expected = match step {
            Step::Nothing => return Ok(Step::Nothing),
            Step::Begin { .. } => caller.epoch.map(|epoch| epoch + 1),
            Step::Continue { .. } => caller.epoch,
        };
        let was_expected = expected.is_none_or(|epoch| epoch == answer.epoch);
        let before = caller.epoch.replace(answer.epoch);
        let mut next = Step::Nothing;
        for known in &mut caller.known {
            if known.name == digest {
                known.state = match known.state {
                    State::In { epoch, is_left, .. } if epoch != answer.epoch && is_left => {
                        let at_least = Some(api::UNKNOWN_LABEL.to_owned());
                        next = Step::Continue { at_least };
                        State::Unknown
                    }
                    State::In {
                        epoch, is_whole, ..
                    } => State::within(answer.epoch, is_whole && epoch == answer.epoch),
                    State::New | State::Left(_) | State::Unknown => {
                        State::within(answer.epoch, true)
                    }
                };
            } else if let State::In {
                epoch, is_whole, ..
            } = known.state
                && epoch != answer.epoch
            {
                known.state = match was_expected && is_whole && Some(epoch) == before {
                    true => State::Left(answer.was.to_owned()),
                    false => State::Unknown,
                };
            }
        }
        self.save()?;
        Ok(next)
    }

    /// What is known of a conversation, as the last of its caller's; entered with this state where nothing is.
    fn known(&mut self, name: Name<'_>, state: State) -> Result<&mut Known, ConversationsError> {
        let is_new = !self.kept.callers.contains_key(name.caller);
        if is_new && self.kept.callers.len() >= MOST_CALLERS {
            let is_over = |caller: &Caller| !caller.known.iter().any(|known| known.open.is_open());
            let over = self.kept.callers.iter().find(|(_, caller)| is_over(caller));
            let over = over.map(|(id, _)| id.clone());
            let over = over.ok_or(ConversationsError::TooMany)?;
            self.kept.callers.remove(&over);
        }
        let caller = self.kept.callers.entry(name.caller.to_owned()).or_default();
        let digest = name.digest();
        let known = match caller.known.iter().position(|known| known.name == digest) {
            Some(place) => caller.known.remove(place),
            None => Known {
                name: digest,
                open: Open::No,
                state,
            },
        };
        if caller.known.len() >= MOST_KNOWN {
            let over = caller.known.iter().position(|known| !known.open.is_open());
            caller
                .known
                .remove(over.ok_or(ConversationsError::TooMany)?);
        }
        Ok(caller.known.push_mut(known))
    }

    fn save(&self) -> Result<(), ConversationsError> {
        let failed = |source| ConversationsError::File {
            path: self.path.clone(),
            source,
        };
        let bytes = serde_json::to_vec(&self.kept).map_err(|error| failed(error.into()))?;
        private_file::replace(&self.path, &bytes).map_err(failed)
    }
}

impl Name<'_> {
    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.client.as_bytes());
        hash.update([0]);
        hash.update(self.id.as_bytes());
        let digest = hash.finalize();
        digest
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

#[cfg(test)]
mod tests;
