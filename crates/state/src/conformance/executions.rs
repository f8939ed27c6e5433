//! Rules about executions.

use vocab::Level;

use super::{Subject, Wrong, same};
use crate::SavedExecution;

fn execution(id: &str, created_ms: u64) -> SavedExecution {
    SavedExecution {
        id: id.to_owned(),
        caller: "caller-1".to_owned(),
        is_signed: true,
        digest: [9; 32],
        accepts: Level::Confidential,
        is_closed: true,
        made_by: "operator".to_owned(),
        created_ms,
        expires_ms: created_ms + 1000,
        ended_ms: 0,
    }
}

pub(super) async fn an_execution_ends_once_and_its_id_is_not_given_again(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    let (first, second) = (execution("e1", 10), execution("e2", 20));
    same("begun", store.begin_execution(&first, 0).await?, true)?;
    same("begun", store.begin_execution(&second, 0).await?, true)?;
    same("ended", store.end_execution("e1", 30).await?, true)?;
    same("ended again", store.end_execution("e1", 40).await?, false)?;
    same("nobody's", store.end_execution("e3", 40).await?, false)?;
    let again = store.begin_execution(&execution("e1", 50), 0).await?;
    same("the id again", again, false)?;
    drop(store);
    let ended = SavedExecution {
        ended_ms: 30,
        ..first
    };
    let store = subject.open().await;
    let kept = store.executions().await?;
    same("what is kept", kept, vec![ended, second])?;
    // What ended, or was over, before this is forgotten, and nothing else.
    store.begin_execution(&execution("e4", 2000), 31).await?;
    let kept = store.executions().await?;
    let ids: Vec<&str> = kept.iter().map(|kept| kept.id.as_str()).collect();
    same("what is left", ids, vec!["e2", "e4"])?;
    store.begin_execution(&execution("e5", 3000), 1021).await?;
    let kept = store.executions().await?.len();
    same("how many are left", kept, 2)
}
