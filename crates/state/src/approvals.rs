//! Asking people. **Invariants: for one digest there is at most one open approval; an approval is answered once and spent once.**
//! The driver does each step at once, so it holds under any concurrency; here it is decided what a step that found nothing means.

use crate::{
    AnswerError, Approval, ApprovalState, Asked, NewApproval, PersonsAnswer, Placed, Question,
    SpendError, State, StateError,
};

/// The longest arguments that can be put before a person.
pub const ARGUMENTS_LIMIT: usize = 1 << 20;
/// How many questions of one caller may wait for an answer, so that none can fill the disk or tire people.
pub const PENDING_LIMIT_PER_CALLER: u32 = 64;
/// How many may wait in all.
pub const PENDING_LIMIT: u32 = 1024;
/// How long what is closed is kept here. The ledger keeps it for good.
pub const KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

impl State {
    /// The open approval for this digest; makes it if there is none.
    pub async fn ask(&self, new: NewApproval) -> Result<Asked, StateError> {
        let bytes = new.arguments.len();
        if bytes > ARGUMENTS_LIMIT {
            return Err(StateError::TooLarge {
                what: "the text of the arguments",
                bytes,
                limit: ARGUMENTS_LIMIT,
            });
        }
        let question = Question {
            ids: new.entropy.chunks_exact(8).map(short_id).collect(),
            approval: Approval::asked(new, String::new()),
            limit_per_caller: PENDING_LIMIT_PER_CALLER,
            limit: PENDING_LIMIT,
        };
        let outcome = self.0.store.ask(&question).await?;
        self.tell(&outcome.expired);
        match outcome.asked {
            Placed::Added(approval) => Ok(Asked {
                approval,
                is_new: true,
            }),
            Placed::AlreadyOpen(approval) => Ok(Asked {
                approval,
                is_new: false,
            }),
            Placed::TooManyOfCaller => Err(StateError::TooMany {
                whose: format!("caller `{}`", question.approval.caller_name),
                limit: PENDING_LIMIT_PER_CALLER,
            }),
            Placed::TooMany => Err(StateError::TooMany {
                whose: "all callers".to_owned(),
                limit: PENDING_LIMIT,
            }),
            Placed::NoFreeId => Err(StateError::Contradiction {
                detail: "no free id for an approval: the source of randomness repeats itself",
            }),
        }
    }

    /// Records a person's answer; durable when this returns. Only the first one counts.
    pub async fn answer(
        &self,
        id: &str,
        approve: bool,
        who: &str,
        reason: &str,
        now_ms: u64,
    ) -> Result<Approval, AnswerError> {
        let answer = PersonsAnswer {
            id,
            approve,
            who,
            reason,
            now_ms,
        };
        if let Some(approval) = self.0.store.answer(answer).await? {
            self.tell(std::slice::from_ref(&approval));
            return Ok(approval);
        }
        let approval = self.get(id).await?.ok_or(AnswerError::Unknown)?;
        Err(match approval.at(now_ms) {
            approval if approval.state == ApprovalState::Expired => {
                AnswerError::Expired(Box::new(approval))
            }
            approval => AnswerError::AlreadyAnswered(Box::new(approval)),
        })
    }

    /// Uses up the approval for this digest. Of any number who try, exactly one gets it, once.
    pub async fn spend(&self, digest: &[u8; 32], now_ms: u64) -> Result<Approval, SpendError> {
        if let Some(approval) = self.0.store.spend(digest, now_ms).await? {
            self.tell(std::slice::from_ref(&approval));
            return Ok(approval);
        }
        let last = self.0.store.last_approval(digest).await?;
        let approval = Box::new(last.ok_or(SpendError::NotAsked)?.at(now_ms));
        Err(match approval.state {
            ApprovalState::Pending | ApprovalState::Approved => SpendError::NotApproved(approval),
            ApprovalState::Denied => SpendError::Denied(approval),
            ApprovalState::Expired => SpendError::Expired(approval),
            ApprovalState::Used => SpendError::AlreadyUsed(approval),
        })
    }

    /// Closes what is over time, tells those who wait, and gives back what it closed. Also forgets what was closed long ago.
    pub async fn expire(&self, now_ms: u64) -> Result<Vec<Approval>, StateError> {
        let expired = self.0.store.expire(now_ms).await?;
        self.tell(&expired);
        let before = now_ms.saturating_sub(KEPT_MS);
        self.0.store.forget_closed(before).await?;
        Ok(expired)
    }

    /// The open approvals, or all that are still kept, in the order they were asked.
    pub async fn approvals(&self, all: bool, now_ms: u64) -> Result<Vec<Approval>, StateError> {
        let kept = self.0.store.approvals().await?.into_iter();
        Ok(kept
            .map(|approval| approval.at(now_ms))
            .filter(|approval| all || approval.state.is_open())
            .collect())
    }

    /// The approval with this id, as it was written down last.
    pub async fn get(&self, id: &str) -> Result<Option<Approval>, StateError> {
        self.0.store.approval(id).await
    }

    fn tell(&self, changed: &[Approval]) {
        changed
            .iter()
            .for_each(|approval| self.0.watchers.tell(approval));
    }
}

/// Ten characters of five bits each, none of which looks like another.
fn short_id(bytes: &[u8]) -> String {
    const ALPHABET: [char; 32] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h',
        'j', 'k', 'm', 'n', 'p', 'q', 'r', 's', 't', 'v', 'w', 'x', 'y', 'z',
    ];
    let mut bits = bytes
        .iter()
        .fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
    let mut id = String::with_capacity(10);
    for _ in 0..10 {
        id.extend(ALPHABET.get((bits & 31) as usize));
        bits >>= 5;
    }
    id
}
