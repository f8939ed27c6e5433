//! Addresses of resources in a result, as the view of the whole gate shows them: a client reads what it is given by the same address.
//!
//! Only the addresses change. Everything around them, structured content included, stays byte for byte.

use std::ops::Range;

use calls::receive::{Address, Received};
use memchr::memmem;
use upstreams::catalog::Target;
use vocab::ServerId;
use wire::{Json, write};

use super::{Case, adapt::Anew};
use crate::{Action, Catalog};

/// How addresses of one server are shown to one caller.
struct Names<'a> {
    server: &'a ServerId,
    /// What was read, by the server's address and by the caller's.
    read: Option<(&'a str, &'a str)>,
    catalog: &'a Catalog,
}

impl Names<'_> {
    /// What an address becomes; `None` where it stays. What a client can fetch from the web itself is left to it, unless the server
    /// offers it as a resource.
    fn show(&self, uri: &str) -> Option<String> {
        if let Some((_, asked)) = self.read.filter(|(original, _)| *original == uri) {
            return Some(asked.to_owned());
        }
        let is_web = uri.starts_with("https://") || uri.starts_with("http://");
        (!is_web || self.catalog.lists_resource(self.server, uri))
            .then(|| Catalog::exposed_uri(self.server, uri))
    }
}

/// Renames what the fields of a result say.
pub(super) fn rename(
    case: Case<'_>,
    received: &Received<'_>,
    target: &Target,
    fields: &[(&[u8], Json<'_>)],
    anew: &mut Anew,
) {
    let request = case.request;
    if request.mount.is_some() || request.origin.is_signed() {
        return;
    }
    let (field, walk): (&'static str, Walk) = match request.action {
        Action::CallTool | Action::TaskResult => ("content", blocks),
        Action::GetPrompt => ("messages", messages),
        Action::ReadResource => ("contents", contents),
        Action::TaskGet => ("result", finished),
        _ => return,
    };
    let Some(value) = wire::json::find(fields, field) else {
        return;
    };
    // Nearly no result has a link, so the cheap test comes first.
    if request.action != Action::ReadResource
        && memmem::find(value.as_bytes(), b"\"resource").is_none()
    {
        return;
    }
    let catalog = case.now.catalog();
    let read = match (&received.address, request.action) {
        (Address::Resource(asked), Action::ReadResource) => Some((target.name.as_str(), &**asked)),
        _ => None,
    };
    let names = Names {
        server: &target.spec.id,
        read,
        catalog,
    };
    let mut splices = Splices {
        names: &names,
        text: value.as_bytes(),
        places: Vec::new(),
    };
    walk(value, &mut splices);
    if let Some(text) = splices.apply() {
        anew.set(field, text);
    }
}

type Walk = fn(Json<'_>, &mut Splices<'_>);

/// Content blocks: links, and resources that are in the result themselves.
fn blocks(content: Json<'_>, splices: &mut Splices<'_>) {
    content.items().for_each(|block| one_block(block, splices));
}

fn one_block(block: Json<'_>, splices: &mut Splices<'_>) {
    match block.get("type").and_then(Json::as_str).as_deref() {
        Some("resource_link") => splices.note(block.get("uri")),
        Some("resource") => splices.note(block.path(&["resource", "uri"])),
        _ => {}
    }
}

/// The messages of a prompt: one block each, or several.
fn messages(messages: Json<'_>, splices: &mut Splices<'_>) {
    for content in messages
        .items()
        .filter_map(|message| message.get("content"))
    {
        if content.is_array() {
            blocks(content, splices)
        } else {
            one_block(content, splices)
        }
    }
}

fn contents(contents: Json<'_>, splices: &mut Splices<'_>) {
    contents
        .items()
        .for_each(|content| splices.note(content.get("uri")));
}

/// The result of a task that is done.
fn finished(result: Json<'_>, splices: &mut Splices<'_>) {
    if let Some(content) = result.get("content") {
        blocks(content, splices);
    }
}

/// Where a text changes, in order.
struct Splices<'a> {
    names: &'a Names<'a>,
    text: &'a [u8],
    places: Vec<(Range<usize>, String)>,
}

impl Splices<'_> {
    fn note(&mut self, uri: Option<Json<'_>>) {
        let Some(uri) = uri else { return };
        let Some(shown) = uri.as_str().and_then(|uri| self.names.show(&uri)) else {
            return;
        };
        let start = (uri.as_bytes().as_ptr() as usize).checked_sub(self.text.as_ptr() as usize);
        let end = start
            .map(|start| start + uri.as_bytes().len())
            .filter(|end| *end <= self.text.len());
        if let (Some(start), Some(end)) = (start, end) {
            self.places.push((start..end, shown));
        }
    }

    fn apply(self) -> Option<Vec<u8>> {
        if self.places.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(self.text.len() + self.places.len() * 64);
        let mut done = 0;
        for (place, shown) in self.places {
            out.extend_from_slice(self.text.get(done..place.start).unwrap_or_default());
            write::quote(&mut out, &shown);
            done = place.end;
        }
        out.extend_from_slice(self.text.get(done..).unwrap_or_default());
        Some(out)
    }
}
