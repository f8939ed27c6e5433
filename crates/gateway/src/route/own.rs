//! The route to the gate's own tools. They are answered out of what the gate knows, and nothing is sent anywhere.
//!
//! Invariant: they tell a caller about itself and about what its operator lets it use, and nothing that a server or another caller could
//! change. Whether a server is connected is that server's to choose, so it is not told.

use callers::ForGate;
use upstreams::words::is_for;
pub(crate) mod open;
pub(crate) mod plan;

use vocab::{Fault, FaultKind, Label, Mark, Stop};
use wire::{
    builtin,
    write::{self, Object},
};

use super::{Carried, Raw};
use crate::call::{Case, Order};

pub(super) fn carry(order: &Order, case: Case<'_>) -> Result<Carried, Stop> {
    let name = order.target().name.as_str();
    let tool = builtin::find(name);
    let (Some(tool), (content, read)) = (
        tool,
        match tool.map(|tool| tool.name) {
            Some("portcullis.status") => (status(case), Label::default()),
            Some(plan::TOOL) => (plan::set(order, case)?, Label::default()),
            Some(open::TOOL) => open::open(order, case)?,
            _ => {
                let detail = format!("the gate has no tool `{name}` of its own");
                return Err(Fault::new(FaultKind::Gate, detail).into());
            }
        },
    ) else {
        return Err(Fault::new(FaultKind::Gate, "no such tool").into());
    };
    let result = case.request.caller.counted(result(&content));
    // No server had a part in it, so it has no origin; but for texts that were sealed, which are their server's.
    let label = Label {
        mark: Mark::trusted(tool.level),
        ..Label::default()
    }
    .join(&read);
    Ok(Carried {
        raw: Raw::Result(result.into()),
        label,
    })
}

/// The result of a tool that says this, for clients that read structured content and for those that read text.
fn result(content: &[u8]) -> Vec<u8> {
    let mut text = Object::new();
    text.str("type", "text")
        .str("text", &String::from_utf8_lossy(content));
    let mut out = Object::new();
    out.raw("content", &[b"[", text.finish().as_slice(), b"]"].concat())
        .raw("structuredContent", content);
    out.finish()
}

fn status(case: Case<'_>) -> Vec<u8> {
    let (now, caller) = (case.now, &case.request.caller);
    let (catalog, contexts) = (now.catalog(), &now.rules.contexts);
    let mut servers: Vec<String> = catalog
        .servers()
        .filter(|spec| is_for(caller, spec) && spec.approved().is_some())
        .filter(|spec| catalog.lists_any_of(contexts, caller, spec))
        .map(|spec| spec.id.to_string())
        .collect();
    servers.sort_unstable();
    let quoted: Vec<Vec<u8>> = servers.iter().map(|id| write::quoted(id)).collect();
    let session = caller.session();
    let mut out = Object::new();
    out.str("version", case.now.terms.door.version)
        .str("caller", caller.id())
        .str("label", &session.mark().to_string())
        .u64("calls", session.calls())
        .raw(
            "servers",
            &[b"[", quoted.join(&b","[..]).as_slice(), b"]"].concat(),
        );
    out.finish()
}
