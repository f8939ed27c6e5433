//! Arguments that a stateless client must repeat as `Mcp-Param-*` headers, by annotations in a tool's input schema.

use wire::Json;

/// How deep annotated properties may lie.
const MAX_DEPTH: usize = 16;

/// One annotated argument: the header's name after `Mcp-Param-`, and where the argument lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderParam {
    pub header: String,
    pub path: Vec<String>,
}

pub(super) fn of_tool(tool: Json<'_>) -> Vec<HeaderParam> {
    let mut found = Vec::new();
    if let Some(schema) = tool.get("inputSchema") {
        walk(schema, &mut Vec::new(), &mut found);
    }
    found
}

fn walk(schema: Json<'_>, path: &mut Vec<String>, found: &mut Vec<HeaderParam>) {
    if path.len() >= MAX_DEPTH {
        return;
    }
    for (name, property) in schema.get("properties").into_iter().flat_map(Json::fields) {
        path.push(name.into_owned());
        if let Some(header) = property.get("x-mcp-header").and_then(Json::as_str) {
            found.push(HeaderParam {
                header: header.into_owned(),
                path: path.clone(),
            });
        }
        walk(property, path, found);
        path.pop();
    }
}
