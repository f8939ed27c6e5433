//! The seed's lists: everything found on connected servers, under namespaced names.

use std::rc::Rc;

use bytes::Bytes;
use wire::{Json, write::Object};

use super::{Aggregator, incoming::known, seed::Entry};

/// Answers once the first servers have settled, with one row per thing found on connected servers.
fn listing(
    aggregator: &Rc<Aggregator>,
    id: u64,
    key: &'static str,
    rows: fn(&Entry, &mut Vec<Vec<u8>>, bool),
) {
    let aggregator = Rc::clone(aggregator);
    aggregator.queue.began(id);
    tokio::task::spawn_local(async move {
        aggregator.seed.settle().await;
        let mut found = Vec::new();
        for entry in aggregator.seed.entries.borrow().iter() {
            let connected = aggregator.servers.get(&entry.name).is_some();
            rows(entry, &mut found, connected);
        }
        let mut list = vec![b'['];
        list.extend_from_slice(&found.join(&b','));
        list.push(b']');
        aggregator.hub.out.field(id, key, &list);
        aggregator.finished(id);
    });
}

pub(crate) fn list_servers(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    listing(aggregator, id, "servers", |entry, rows, connected| {
        rows.push(entry.describe(connected))
    });
}

pub(crate) fn list_tools(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    listing(aggregator, id, "tools", |entry, rows, connected| {
        let catalog = entry.catalog.as_ref().filter(|_| connected);
        for tool in catalog.into_iter().flat_map(|catalog| &catalog.tools) {
            let tool = known(tool);
            let Some(mut row) = named_row(entry, tool) else {
                continue;
            };
            row.json("description", tool.get("description").unwrap_or(Json::NULL));
            row.json(
                "input_schema",
                tool.get("inputSchema").unwrap_or(Json::EMPTY_OBJECT),
            );
            row.str("server_name", &entry.name);
            if let Some(annotations) = tool.get("annotations") {
                row.json("annotations", annotations);
            }
            rows.push(row.finish());
        }
    });
}

pub(crate) fn list_prompts(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    listing(aggregator, id, "prompts", |entry, rows, connected| {
        let catalog = entry.catalog.as_ref().filter(|_| connected);
        for prompt in catalog.into_iter().flat_map(|catalog| &catalog.prompts) {
            let prompt = known(prompt);
            let Some(mut row) = named_row(entry, prompt) else {
                continue;
            };
            row.json(
                "description",
                prompt.get("description").unwrap_or(Json::NULL),
            );
            row.raw(
                "arguments",
                prompt.get("arguments").map_or(b"[]", Json::as_bytes),
            );
            row.str("server_name", &entry.name);
            rows.push(row.finish());
        }
    });
}

/// The beginning of a row: both names. Things without a name are left out.
fn named_row(entry: &Entry, json: Json<'_>) -> Option<Object> {
    let name = json
        .get("name")
        .and_then(Json::as_str)
        .filter(|name| !name.is_empty())?;
    let mut row = Object::new();
    row.str("namespaced_name", &format!("{}__{name}", entry.name))
        .str("original_name", &name);
    Some(row)
}

pub(crate) fn list_resources(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    listing(aggregator, id, "resources", |entry, rows, connected| {
        let catalog = entry.catalog.as_ref().filter(|_| connected);
        for resource in catalog.into_iter().flat_map(|catalog| &catalog.resources) {
            let resource = known(resource);
            let Some(uri) = resource
                .get("uri")
                .and_then(Json::as_str)
                .filter(|uri| !uri.is_empty())
            else {
                continue;
            };
            let mut row = Object::new();
            row.str(
                "namespaced_uri",
                &format!("portcullis://{}/{uri}", entry.name),
            )
            .str("original_uri", &uri);
            row.json("name", resource.get("name").unwrap_or(Json::NULL));
            row.json(
                "description",
                resource.get("description").unwrap_or(Json::NULL),
            );
            row.json("mime_type", resource.get("mimeType").unwrap_or(Json::NULL));
            row.str("server_name", &entry.name);
            rows.push(row.finish());
        }
    });
}
