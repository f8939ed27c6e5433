//! What a gate does by itself while it is open: ends what is over, renews keys, and brings the ledger to the disk. Each chore ends with
//! the gate, which it does not hold.

use std::{sync::Weak, time::Duration};

use super::{APPROVAL_PERIOD, Inner, SYNC_PERIOD};

/// Closes approvals that nobody answered in time, and says so on record.
pub(super) async fn close_approvals(gate: Weak<Inner>) {
    loop {
        tokio::time::sleep(APPROVAL_PERIOD).await;
        let Some(gate) = gate.upgrade() else { return };
        let closed = match gate.state.expire(gate.now_ms()).await {
            Ok(closed) => closed,
            Err(error) => {
                tracing::error!(%error, "approvals are not available");
                continue;
            }
        };
        for approval in closed {
            let change = audit::Change {
                action: "approval.expired",
                caller: &approval.caller,
                server: &approval.server,
                tool: &approval.target,
                approval: &approval.id,
                ..audit::Change::default()
            };
            if let Err(error) = gate.ledger.change(&change) {
                tracing::error!(%error, approval = approval.id, "an expired approval could not be recorded");
            }
        }
    }
}

/// Cancels parked calls that no client came back for, so that they are concluded.
pub(super) async fn end_parked(gate: Weak<Inner>) {
    const PERIOD: Duration = Duration::from_secs(1);
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(gate) = gate.upgrade() else { return };
        gate.parking.expire(gate.now().terms.door.question_timeout);
    }
}

/// Ends sessions of signed calls whose time is over, and says so on record.
pub(super) async fn end_sessions(gate: Weak<Inner>) {
    loop {
        tokio::time::sleep(APPROVAL_PERIOD).await;
        let Some(gate) = gate.upgrade() else { return };
        gate.signed.tidy(gate.now_ms()).await;
        gate.providers.tidy(gate.now_ms());
    }
}

/// Has providers' keys at hand before the first token comes, and renews them.
pub(super) async fn tend_providers(gate: Weak<Inner>) {
    const PERIOD: Duration = Duration::from_secs(1);
    loop {
        let Some(gate) = gate.upgrade() else { return };
        gate.now()
            .providers
            .tend(&**gate.hub.workers(), (gate.clock)().mono_us / 1000)
            .await;
        drop(gate);
        tokio::time::sleep(PERIOD).await;
    }
}

/// Brings the ledger to the disk every so often, and back to life when the disk is back.
pub(super) async fn keep_ledger(gate: Weak<Inner>) {
    loop {
        tokio::time::sleep(SYNC_PERIOD).await;
        let Some(gate) = gate.upgrade() else { return };
        let kept = tokio::task::spawn_blocking(move || {
            gate.ledger.tend()?;
            gate.wake_listeners();
            gate.strangers.flush(&gate.ledger)?;
            gate.refusals.flush(&gate.ledger)
        });
        if let Ok(Err(error)) = kept.await {
            tracing::error!(%error, "the ledger is not available; no call has effects until it is");
        }
    }
}
