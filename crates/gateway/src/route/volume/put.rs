//! Bytes that another route leaves on a volume, by the road that `fs.write` takes. That the caller may write there was judged.

use std::sync::Arc;

use bytes::Bytes;
use callers::ForGate;
use storage::{Access, ErrorKind, FileError, VolumePath, WriteOptions};
use vocab::{Label, Mark, ServerId, Stop};
use wire::builtin;

use super::{Lists, broken, ended, strayed};
use crate::{
    call::{Case, Order},
    route::Raw,
};

/// The tool whose rules hold for it.
pub(in crate::route) const WRITE: &str = "fs.write";

/// Why it was not kept.
#[derive(Debug)]
pub(in crate::route) enum NotKept {
    Stop(Stop),
    Said(&'static str, String),
}

/// Writes the whole file and says how long it is. The file carries what the session has seen, and `mark`.
pub(in crate::route) async fn put(
    order: &Order,
    case: Case<'_>,
    path: &str,
    content: Bytes,
    mark: Mark,
) -> Result<u64, NotKept> {
    let gate = Arc::clone(case.gate);
    let set = Arc::clone(&case.now.volumes);
    let caller = case.request.caller.clone();
    let turn = gate.volumes.lines.turn(caller.key(), false).await;
    let mut origins = caller.session().label().origins;
    origins.remove(&ServerId::built_in());
    let label = Label {
        mark: order.label().join(mark),
        origins,
    };
    let contexts = Arc::clone(&case.now.rules.contexts);
    let lists = builtin::find(WRITE).and_then(|tool| Lists::of(&caller, contexts, tool));
    let path = path.to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let located = set.locate(&caller, &path);
        let located = located.map_err(|astray| strayed(&path, astray))?;
        let may = |place: &VolumePath| {
            let shown = located.held.shown(place);
            lists.as_ref().is_none_or(|lists| lists.let_through(&shown))
        };
        let access = Access {
            label: &label,
            may: &may,
        };
        let written = gate.volumes.with(&set, &located.held, |volume| {
            volume.write(access, &located.path, &content, WriteOptions::default())
        });
        let broken = |why| FileError::new(ErrorKind::Broken, why);
        written.map_err(broken)?.result
    });
    let done = done.await;
    let done = done.map_err(|error| NotKept::Stop(broken(error.to_string())))?;
    done.map(|written| written.bytes_written).map_err(|error| {
        let (code, says) = (error.kind.code(), error.says.clone());
        match ended(error, case) {
            Err(stop) | Ok(Raw::Stopped(stop)) => NotKept::Stop(stop),
            Ok(_) => NotKept::Said(code, says),
        }
    })
}
