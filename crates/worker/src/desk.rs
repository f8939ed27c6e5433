//! What the small roles share: lines in, one request at a time, and the answers that all of them give.

use std::io;

use wire::{
    Json,
    line::Line,
    worker::{self, Assembler, PartError, method},
};

use crate::{
    input::Input,
    net::Net,
    output::{Out, Sink},
};

/// What the process was started with.
pub(crate) struct Start {
    pub(crate) net: Net,
    pub(crate) total_bytes: usize,
    /// The answer to `confinement`, as JSON text.
    pub(crate) confinement: Vec<u8>,
    pub(crate) input: Input,
    pub(crate) sink: Sink,
}

/// Reads requests until the gate says `shutdown` or closes its end. `take` says whether it knew the method.
pub(crate) async fn read(
    mut input: Input,
    total_bytes: usize,
    out: &Out,
    confinement: &[u8],
    mut take: impl FnMut(u64, &str, Json<'_>) -> bool,
) -> io::Result<()> {
    let mut assembler = Assembler::new(total_bytes);
    while let Some(line) = input.next().await? {
        let text = match line {
            Line::Whole(line) => match assembler.take(line) {
                Ok(Some(text)) => text,
                Ok(None) => continue,
                Err(error) => {
                    complain(out, part_of(&error), "the request cannot be put together");
                    continue;
                }
            },
            Line::TooLong { prefix, .. } => {
                complain(out, worker::salvage_id(&prefix), "the line is too long");
                continue;
            }
        };
        let Ok(request) = Json::parse(&text, assembler.limits()) else {
            let id = worker::salvage_id(text.get(..text.len().min(256)).unwrap_or_default());
            complain(out, id, "the line is not valid JSON");
            continue;
        };
        // What is no request, such as the gate's greeting, needs no answer.
        let Some(id) = request.get("id").and_then(Json::as_u64) else {
            continue;
        };
        let params = request.get("params").unwrap_or(Json::EMPTY_OBJECT);
        let method = request.get("method").and_then(Json::as_str);
        match method.as_deref().unwrap_or_default() {
            method::PING => out.ok(id),
            method::CONFINEMENT => out.field(id, "result", confinement),
            method::SHUTDOWN => {
                out.ok(id);
                return Ok(());
            }
            method if take(id, method, params) => {}
            _ => out.error(id, "this role does not do this"),
        }
    }
    Ok(())
}

/// A line that cannot be served costs that line; whoever waits for it is told.
fn complain(out: &Out, id: Option<u64>, problem: &str) {
    tracing::warn!(id, "skipped a line: {problem}");
    if let Some(id) = id {
        out.error(id, problem);
    }
}

/// Whose request could not be put together.
fn part_of(error: &PartError) -> Option<u64> {
    match error {
        PartError::TooLarge { id } | PartError::TooMany { id } => Some(*id),
        PartError::Malformed => None,
    }
}
