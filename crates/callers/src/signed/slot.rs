//! The place of a call among those of its execution.

use std::sync::Arc;

use policy::Contexts;
use state::StateError;

use super::{Signed, SignedSession};
use crate::{Caller, meters::SoFar};

/// Given back unless the call is let in, so that no two calls at once take the last one.
#[derive(Debug)]
pub struct ExecutionSlot {
    session: Option<Arc<SignedSession>>,
    tool: String,
    so_far: SoFar,
}

impl ExecutionSlot {
    /// `tool` is the name under which the target is counted.
    #[must_use]
    pub fn take(caller: &Caller, tool: String) -> Self {
        let session = caller.signed().cloned();
        let so_far = session
            .as_ref()
            .map_or_else(SoFar::default, |session| session.meters.calls.begin(&tool));
        Self {
            session,
            tool,
            so_far,
        }
    }

    #[must_use]
    pub const fn so_far(&self) -> SoFar {
        self.so_far
    }

    /// The call was let in. Where there is a limit, that it is used up is on disk first.
    pub async fn keep(
        mut self,
        signed: &Signed,
        caller: &Caller,
        contexts: &Contexts,
    ) -> Result<(), StateError> {
        if let Some(session) = &self.session {
            signed.use_up(caller, session, &self.tool, contexts).await?;
        }
        self.session = None;
        Ok(())
    }
}

impl Drop for ExecutionSlot {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.meters.calls.give_back(&self.tool);
        }
    }
}
