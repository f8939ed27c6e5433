//! JSON Schema as servers declare it: 2020-12 (also when nothing is said), 2019-09 and draft-07.
//!
//! A schema comes from a server, an instance from a caller, and neither is trusted with our time. [`Schema::compile`] refuses what
//! cannot be bounded, [`Schema::check`] works within a budget, and neither ever fetches anything. `format` is a note to people, as the
//! standard has it, and asserts nothing.

mod cost;
mod explain;
mod node;
mod patterns;
mod tape;
#[cfg(test)]
pub(crate) mod tests;

use jsonschema::{PatternOptions, Validator};
use referencing::{Draft, Registry, Retrieve};
use serde_json::Value;
use wire::{Json, JsonError, Kind, Limits};

use node::{Place, Taped};
use patterns::Prices;
use tape::Tape;

/// What a schema may be before it is looked at.
const LIMITS: Limits = Limits::new(512 << 10, 64);
/// What one check may cost: a few steps for every value it meets. A step takes some tens of nanoseconds.
const BUDGET: u64 = 3_000_000;
/// What finding the words for a mismatch may cost: about as much as finding it did, but no more than this.
const WORDS_BUDGET: u64 = 200_000;

/// Checks that may wait for each other, over all levels of an instance. Each takes about a kilobyte of stack.
const DEEPEST: u32 = 1_024;

/// Keywords that say nothing about an instance.
const NOTES: [&str; 12] = [
    "$schema",
    "$id",
    "$comment",
    "$anchor",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
];

/// Why a schema is not used. Whoever calls the tool cannot mend it; its server can.
#[derive(Debug, thiserror::Error)]
pub enum SchemaProblem {
    #[error("the schema is not usable JSON: {0}")]
    Json(JsonError),
    #[error("a schema is an object or a boolean")]
    NotASchema,
    #[error("`$schema` names `{0}`; 2020-12, 2019-09 and draft-07 are understood")]
    Dialect(String),
    #[error("a reference leads nowhere: {0}; references to other documents are never fetched")]
    Reference(String),
    #[error("the schema has more than {limit} subschemas")]
    TooMany { limit: usize },
    #[error("the schema refers to itself without end")]
    Endless,
    #[error("checking one value against the schema could take more than {limit} steps")]
    Explodes { limit: u64 },
    #[error("the schema's embedded documents refer to each other in more than {limit} ways")]
    Entangled { limit: usize },
    #[error("a pattern of the schema cannot be used: {0}")]
    Pattern(String),
    #[error("the schema is not valid: {0}")]
    Invalid(String),
}

impl SchemaProblem {
    fn reference(error: &referencing::Error) -> Self {
        Self::Reference(explain::short(&error.to_string()))
    }
}

/// Where an instance differs from its schema, in words that never repeat the instance's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// A JSON pointer; empty for the whole instance.
    pub path: String,
    /// What was expected there.
    pub message: String,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for Mismatch {}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    checker: Checker,
    /// Properties an instance must have, sorted, and whether their own schema forbids `null` in so many words.
    required: Vec<(Box<str>, bool)>,
    prices: Prices,
    /// How many checks of one value can wait for each other.
    depth: u32,
}

#[derive(Debug)]
enum Checker {
    /// Accepts everything, or every object.
    Trivial {
        object: bool,
    },
    Full(Box<Validator<Taped>>),
}

impl Schema {
    pub fn compile(text: &[u8]) -> Result<Self, SchemaProblem> {
        Self::compile_among(text, Nowhere, Draft::Draft202012)
    }

    /// Compiles a schema that may refer to documents which are at hand, in this dialect if it names none. A server's schema has no
    /// such documents; the official suite needs them.
    fn compile_among(
        text: &[u8],
        documents: impl Retrieve + 'static,
        default: Draft,
    ) -> Result<Self, SchemaProblem> {
        let json = Json::parse(text, LIMITS).map_err(SchemaProblem::Json)?;
        let schema: Value = serde_json::from_slice(json.as_bytes())
            .map_err(|error| SchemaProblem::Invalid(error.to_string()))?;
        let required = required(&schema);
        if let Some(object) = trivial(&schema) {
            return Ok(Self {
                checker: Checker::Trivial { object },
                required,
                prices: Prices::default(),
                depth: 0,
            });
        }
        let draft = dialect(&schema, default, &documents)?;
        let prices = patterns::weigh(&schema)?;
        let registry = Registry::new()
            .draft(draft)
            .retriever(documents)
            .add(cost::base(&schema, draft), &schema)
            .and_then(referencing::RegistryBuilder::prepare)
            .map_err(|error| SchemaProblem::reference(&error))?;
        let depth = cost::weigh(&schema, draft, &registry)?;
        let checker = jsonschema::options_for::<Taped>()
            .with_draft(draft)
            .with_registry(&registry)
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(
                PatternOptions::regex()
                    .size_limit(patterns::LARGEST)
                    .dfa_size_limit(patterns::LARGEST),
            )
            .build(&schema)
            .map_err(|error| explain::problem(&error))?;
        Ok(Self {
            checker: Checker::Full(Box::new(checker)),
            required,
            prices,
            depth,
        })
    }

    /// Whether an instance, a JSON text validated before, is as the schema wants it.
    pub fn check(&self, instance: &[u8]) -> Result<(), Mismatch> {
        if let Some(names) = self.missing(instance) {
            return Err(explain::missing(&names));
        }
        let checker = match &self.checker {
            Checker::Trivial { object: true } if !is_object(instance) => {
                return Err(explain::not_an_object());
            }
            Checker::Trivial { .. } => return Ok(()),
            Checker::Full(checker) => checker,
        };
        let tape = Tape::lay(instance, BUDGET, self.prices).ok_or_else(explain::not_json)?;
        let root = Place::root(&tape).ok_or_else(explain::not_json)?;
        if tape.depth.saturating_mul(self.depth) > DEEPEST {
            return Err(explain::too_costly());
        }
        let valid = checker.is_valid(root);
        match (valid, tape.left()) {
            (_, 0) => Err(explain::too_costly()),
            (true, _) => Ok(()),
            (false, left) => {
                tape.refill((2 * (BUDGET - left) + 1_000).min(WORDS_BUDGET));
                let error = checker.validate(root).err();
                Err(error
                    .filter(|_| tape.left() > 0)
                    .map_or_else(explain::no_words, |error| explain::mismatch(&error)))
            }
        }
    }

    /// Required properties that are absent, or `null` where that is not allowed; `None` if there are none.
    #[must_use]
    pub fn missing(&self, instance: &[u8]) -> Option<Vec<&str>> {
        if self.required.is_empty() || !is_object(instance) {
            return None;
        }
        let mut present = vec![false; self.required.len()];
        let mut left = present.len();
        for (name, kind) in Json::checked_before(instance.trim_ascii()).heads() {
            let Ok(at) = self
                .required
                .binary_search_by(|(required, _)| (**required).cmp(&name))
            else {
                continue;
            };
            let (Some((_, no_null)), Some(present)) = (self.required.get(at), present.get_mut(at))
            else {
                continue;
            };
            let is_there = !*no_null || kind != Kind::Null;
            // No name comes twice in a validated text.
            if is_there && !std::mem::replace(present, true) {
                left -= 1;
            }
            if left == 0 {
                return None;
            }
        }
        let absent = self
            .required
            .iter()
            .zip(present)
            .filter(|(_, present)| !present);
        let names: Vec<&str> = absent.map(|((name, _), _)| &**name).collect();
        (!names.is_empty()).then_some(names)
    }
}

/// There is nowhere else to look for a document.
struct Nowhere;

impl Retrieve for Nowhere {
    fn retrieve(
        &self,
        _: &referencing::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("it is in another document".into())
    }
}

fn is_object(instance: &[u8]) -> bool {
    instance.trim_ascii_start().first() == Some(&b'{')
}

/// `Some` if the schema accepts everything (false) or every object (true), so that nothing needs to be compiled.
fn trivial(schema: &Value) -> Option<bool> {
    let schema = match schema {
        Value::Bool(true) => return Some(false),
        Value::Object(schema) => schema,
        _ => return None,
    };
    let mut object = false;
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("type", Value::String(wanted)) if wanted == "object" => object = true,
            ("properties", Value::Object(none)) if none.is_empty() => {}
            ("required", Value::Array(none)) if none.is_empty() => {}
            ("additionalProperties", Value::Bool(true)) => {}
            // A dialect we do not know is refused even if nothing is said in it.
            ("$schema", Value::String(uri)) if Draft::from_schema_uri(uri) == Draft::Unknown => {
                return None;
            }
            (note, _) if NOTES.contains(&note) => {}
            _ => return None,
        }
    }
    Some(object)
}

/// The dialect of a schema: one it names, or one that a document it names is written in.
fn dialect(
    schema: &Value,
    default: Draft,
    documents: &dyn Retrieve,
) -> Result<Draft, SchemaProblem> {
    let named = match schema {
        Value::Object(schema) => schema.get("$schema"),
        Value::Bool(_) => None,
        _ => return Err(SchemaProblem::NotASchema),
    };
    let Some(named) = named else {
        return Ok(default);
    };
    let unknown = || {
        SchemaProblem::Dialect(explain::short(
            named.as_str().unwrap_or("something that is not a text"),
        ))
    };
    let uri = named.as_str().ok_or_else(unknown)?;
    match Draft::from_schema_uri(uri) {
        draft @ (Draft::Draft202012 | Draft::Draft201909 | Draft::Draft7) => Ok(draft),
        Draft::Unknown => {
            let uri = referencing::uri::from_str(uri).map_err(|_| unknown())?;
            let own = documents.retrieve(&uri).map_err(|_| unknown())?;
            dialect(&own, default, &Nowhere)
        }
        _ => Err(unknown()),
    }
}

fn required(schema: &Value) -> Vec<(Box<str>, bool)> {
    let names = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    // In draft-07 a reference hides what stands beside it, and a type that does not cover objects makes the list moot.
    let listed = schema.get("$ref").is_none();
    let mut required: Vec<(Box<str>, bool)> = names
        .filter(|_| listed)
        .map(|name| {
            let property = schema
                .get("properties")
                .and_then(|properties| properties.get(name));
            let no_null = match property
                .filter(|property| property.get("$ref").is_none())
                .and_then(|property| property.get("type"))
            {
                Some(Value::String(only)) => only != "null",
                Some(Value::Array(several)) => !several.iter().any(|one| one == "null"),
                _ => false,
            };
            (name.into(), no_null)
        })
        .collect();
    required.sort_unstable();
    required.dedup();
    required
}
