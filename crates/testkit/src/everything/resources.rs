//! The resources: two fixed ones, one watched, one template.

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

/// The smallest valid red pixel.
pub(super) const PIXEL_PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// A WAV header announcing zero samples.
pub(super) const SILENT_WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

pub(super) const WATCHED: &str = "test://watched-resource";

pub(super) fn list() -> Vec<Resource> {
    let resource = |uri: &str, name: &str, about: &str, kind: &str| {
        Resource::new(uri, name)
            .with_description(about)
            .with_mime_type(kind)
    };
    vec![
        resource(
            "test://static-text",
            "static-text",
            "A fixed text",
            "text/plain",
        ),
        resource(
            "test://static-binary",
            "static-binary",
            "A one-pixel image",
            "image/png",
        ),
        resource(
            WATCHED,
            "watched-resource",
            "Changes when touch_resource is called",
            "text/plain",
        ),
    ]
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("test://template/{id}/data", "template-data")
            .with_description("Describes whichever id is asked for")
            .with_mime_type("application/json"),
    ]
}

pub(super) fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let contents = match uri {
        "test://static-text" => {
            ResourceContents::text("This is the content of the static text resource.", uri)
                .with_mime_type("text/plain")
        }
        "test://static-binary" => {
            ResourceContents::blob(PIXEL_PNG, uri).with_mime_type("image/png")
        }
        WATCHED => ResourceContents::text("Somebody is watching this resource.", uri)
            .with_mime_type("text/plain"),
        _ => templated(uri).ok_or_else(|| {
            ErrorData::resource_not_found("Resource not found", Some(json!({"uri": uri})))
        })?,
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

fn templated(uri: &str) -> Option<ResourceContents> {
    let id = uri
        .strip_prefix("test://template/")?
        .strip_suffix("/data")?;
    if id.is_empty() || id.contains('/') {
        return None;
    }
    let text =
        json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string();
    Some(ResourceContents::text(text, uri).with_mime_type("application/json"))
}
