//! The OpenAPI 3.1 document, drawn from the table of operations and from the types.
//!
//! What takes a GET has its input in the query, what takes a POST in the body. Every problem is one response.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{Kind, Method, Needs, Operation, PREFIX, ProblemDocument};

/// Where the types stand in the document.
const SCHEMAS: &str = "/components/schemas";

/// The document as text, the same for the same program.
#[must_use]
pub fn document() -> String {
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = SCHEMAS.into();
            settings.meta_schema = None;
        })
    };
    let mut takes = SchemaGenerator::new(settings().for_deserialize());
    let mut gives = SchemaGenerator::new(settings().for_serialize());
    let problem = gives.subschema_for::<ProblemDocument>().to_value();
    let mut paths = Map::new();
    for operation in Operation::ALL {
        let row = operation.row();
        let described = described(*operation, &mut takes, &mut gives);
        paths.insert(
            format!("{PREFIX}{}", row.path),
            json!({ row.method.as_str().to_lowercase(): described }),
        );
    }
    let mut schemas = Map::new();
    for (name, schema) in taken_in_bodies(&mut takes)
        .into_iter()
        .chain(gives.take_definitions(true))
    {
        schemas.insert(name, plain(schema));
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Portcullis operator interface",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "What an operator can see and do while the gate runs",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:7878" }],
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "A credential: `portcullis token new NAME --role viewer`" },
            },
            "responses": {
                "Problem": {
                    "description": "Why it was not done",
                    "content": { "application/problem+json": { "schema": problem } },
                },
            },
            "schemas": schemas,
        },
    });
    let text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text + "\n"
}

fn described(
    operation: Operation,
    takes: &mut SchemaGenerator,
    gives: &mut SchemaGenerator,
) -> Value {
    let row = operation.row();
    let (input, output) = operation.schemas(takes, gives);
    let (input, output) = (input.to_value(), output.to_value());
    let kind = if operation == Operation::Events {
        "text/event-stream"
    } else {
        "application/json"
    };
    let mut responses = Map::new();
    let answer =
        json!({ "description": "The answer", "content": { kind: { "schema": plain(output) } } });
    responses.insert("200".to_owned(), answer);
    for kind in kinds(row.method, row.path) {
        let problem = json!({ "$ref": "#/components/responses/Problem" });
        responses.insert(kind.status().to_string(), problem);
    }
    let mut described = json!({
        "operationId": row.name.replace('.', "_"),
        "summary": row.says,
        "tags": [row.name.split('.').next().unwrap_or_default()],
        "x-portcullis-role": row.role.as_str(),
        "x-portcullis-needs": match row.needs { Needs::Gate => "gate", Needs::Files => "files" },
        "responses": responses,
    });
    let definition = definition(takes, &input);
    let mut parameters: Vec<Value> = path_parameter(row.path).into_iter().collect();
    if let Some(described) = described.as_object_mut() {
        match row.method {
            Method::Get => parameters.extend(query_parameters(&definition)),
            Method::Post if has_properties(&definition) => {
                let body = json!({
                    "required": definition.get("required").is_some(),
                    "content": { "application/json": { "schema": input } },
                });
                described.insert("requestBody".to_owned(), body);
            }
            Method::Post => {}
        }
        if !parameters.is_empty() {
            described.insert("parameters".to_owned(), Value::Array(parameters));
        }
    }
    described
}

/// The kinds of problems that an operation can have.
fn kinds(method: Method, path: &str) -> impl Iterator<Item = Kind> {
    let named = path.contains('{');
    Kind::ALL.into_iter().filter(move |kind| match kind {
        Kind::WrongMethod => false,
        Kind::NotFound => named,
        Kind::Malformed | Kind::TooLarge | Kind::Conflict | Kind::StorageFull => {
            method == Method::Post
        }
        _ => true,
    })
}

/// The definition that a reference leads to.
fn definition(takes: &SchemaGenerator, input: &Value) -> Value {
    let name = input
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|path| path.rsplit('/').next());
    name.and_then(|name| takes.definitions().get(name))
        .unwrap_or(input)
        .clone()
}

fn has_properties(definition: &Value) -> bool {
    definition
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|properties| !properties.is_empty())
}

fn path_parameter(path: &str) -> Option<Value> {
    let (_, rest) = path.split_once('{')?;
    let (name, _) = rest.split_once('}')?;
    Some(json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
}

fn query_parameters(definition: &Value) -> Vec<Value> {
    let Some(properties) = definition.get("properties").and_then(Value::as_object) else {
        return Vec::new();
    };
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = plain(schema.clone());
        let mut parameter = json!({ "name": name, "in": "query", "required": false });
        if let Some(fields) = schema.as_object_mut() {
            // A parameter that is not given is absent; a query has no null.
            if let Some(kind) = fields
                .get("type")
                .and_then(Value::as_array)
                .and_then(|kinds| kinds.first())
                .cloned()
            {
                fields.insert("type".to_owned(), kind);
            }
            if let (Some(text), Some(parameter)) =
                (fields.remove("description"), parameter.as_object_mut())
            {
                parameter.insert("description".to_owned(), text);
            }
        }
        if let Some(parameter) = parameter.as_object_mut() {
            parameter.insert("schema".to_owned(), schema);
        }
        parameter
    };
    properties.iter().map(parameter).collect()
}

/// The types that bodies are made of; those of queries are parameters already.
fn taken_in_bodies(takes: &mut SchemaGenerator) -> Map<String, Value> {
    let mut bodies = SchemaGenerator::new(takes.settings().clone());
    let mut unused = SchemaGenerator::new(SchemaSettings::draft2020_12());
    for operation in Operation::ALL
        .iter()
        .filter(|one| one.row().method == Method::Post)
    {
        operation.schemas(&mut bodies, &mut unused);
    }
    let mut definitions = bodies.take_definitions(true);
    definitions.retain(|_, definition| {
        has_properties(definition) || definition.get("type") == Some(&json!("string"))
    });
    definitions
}

/// As generators of clients like it: no defaults, which say what an older gate's silence means and not what to send, and every choice
/// between words as one list.
fn plain(schema: Value) -> Value {
    match schema {
        Value::Object(mut fields) => {
            if let Some(words) = words(&fields) {
                fields.remove("oneOf");
                fields.insert("type".to_owned(), json!("string"));
                fields.insert("enum".to_owned(), Value::Array(words));
            }
            let kept = fields
                .into_iter()
                .filter(|(key, value)| key != "default" || value.get("type").is_some());
            Value::Object(kept.map(|(key, value)| (key, plain(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(plain).collect()),
        other => other,
    }
}

/// The words of an enumeration whose variants are described one by one.
fn words(fields: &Map<String, Value>) -> Option<Vec<Value>> {
    let choices = fields.get("oneOf")?.as_array()?;
    let words = choices.iter().map(|choice| {
        let listed = choice.get("enum").and_then(Value::as_array).cloned();
        listed.or_else(|| choice.get("const").map(|word| vec![word.clone()]))
    });
    Some(words.collect::<Option<Vec<_>>>()?.concat())
}
