//! Words for what went wrong. They say what the schema expects and never repeat what the instance holds.

use jsonschema::{
    JsonType, ValidationError,
    error::{TypeKind, ValidationErrorKind as Error},
};
use serde_json::Value;

use super::{Mismatch, SchemaProblem};

/// Characters of a text that came from a schema or is a key of an instance.
const LONGEST: usize = 120;

/// A text from outside, printable and cut to a bearable length.
pub(super) fn short(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(LONGEST)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

fn at_root(message: impl Into<String>) -> Mismatch {
    Mismatch {
        path: String::new(),
        message: message.into(),
    }
}

pub(super) fn missing(names: &[&str]) -> Mismatch {
    let list: Vec<String> = names
        .iter()
        .take(8)
        .map(|name| format!("`{}`", short(name)))
        .collect();
    let more = if names.len() > list.len() {
        format!(" and {} more", names.len() - list.len())
    } else {
        String::new()
    };
    at_root(format!(
        "required and missing or null: {}{more}",
        list.join(", ")
    ))
}

pub(super) fn not_an_object() -> Mismatch {
    at_root("must be an object")
}

pub(super) fn not_json() -> Mismatch {
    at_root("is not valid JSON")
}

pub(super) fn too_costly() -> Mismatch {
    at_root("is too large or too deeply nested to be checked against its schema")
}

pub(super) fn no_words() -> Mismatch {
    at_root("does not match its schema")
}

/// Why a schema could not be compiled.
pub(super) fn problem(error: &ValidationError<'_>) -> SchemaProblem {
    match error.kind() {
        Error::Referencing(error) => SchemaProblem::reference(error),
        Error::Format { format } if format == "regex" => SchemaProblem::Pattern(format!(
            "not a regular expression without look-around and back-references, at {}",
            pointer(error)
        )),
        _ => {
            let mismatch = mismatch(error);
            SchemaProblem::Invalid(short(&mismatch.to_string()))
        }
    }
}

fn pointer(error: &ValidationError<'_>) -> String {
    short(error.instance_path().as_str())
}

/// Where and what an instance should have been.
pub(super) fn mismatch(error: &ValidationError<'_>) -> Mismatch {
    Mismatch {
        path: pointer(error),
        message: message(error.kind()),
    }
}

fn message(kind: &Error) -> String {
    match kind {
        Error::Type {
            kind: TypeKind::Single(wanted),
        } => format!("must be {}", article(*wanted)),
        Error::Type {
            kind: TypeKind::Multiple(wanted),
        } => {
            let names: Vec<String> = wanted.iter().map(|one| article(one).to_owned()).collect();
            format!("must be {}", names.join(" or "))
        }
        Error::Required { property } => format!("must have the property `{}`", text(property)),
        Error::AdditionalProperties { unexpected }
        | Error::UnevaluatedProperties { unexpected } => {
            let names: Vec<String> = unexpected
                .iter()
                .take(4)
                .map(|name| format!("`{}`", short(name)))
                .collect();
            let more = if unexpected.len() > names.len() {
                " and more"
            } else {
                ""
            };
            format!("must not have the properties {}{more}", names.join(", "))
        }
        Error::AdditionalItems { limit } => format!("must have at most {limit} items"),
        Error::UnevaluatedItems { .. } => "has items that are not allowed".to_owned(),
        Error::Enum { options } => format!("must be one of {}", short(&options.to_string())),
        Error::Constant { expected_value } => {
            format!("must be {}", short(&expected_value.to_string()))
        }
        Error::AnyOf { context } | Error::OneOfNotValid { context } => {
            format!(
                "matches none of the {} allowed forms{}",
                context.len(),
                closest(context)
            )
        }
        Error::OneOfMultipleValid { .. } => {
            "matches more than one form where exactly one is allowed".to_owned()
        }
        Error::Not { .. } => "has a form that is not allowed".to_owned(),
        Error::FalseSchema => "must not be there".to_owned(),
        Error::Contains => "must contain an item of the expected form".to_owned(),
        Error::Pattern { pattern } => format!("must match the pattern `{}`", short(pattern)),
        Error::PropertyNames { .. } => "has a property whose name is not allowed".to_owned(),
        Error::MaxItems { limit } => format!("must have at most {limit} items"),
        Error::MinItems { limit } => format!("must have at least {limit} items"),
        Error::MaxLength { limit } => format!("must have at most {limit} characters"),
        Error::MinLength { limit } => format!("must have at least {limit} characters"),
        Error::MaxProperties { limit } => format!("must have at most {limit} properties"),
        Error::MinProperties { limit } => format!("must have at least {limit} properties"),
        Error::Maximum { limit } => format!("must be at most {}", text(limit)),
        Error::Minimum { limit } => format!("must be at least {}", text(limit)),
        Error::ExclusiveMaximum { limit } => format!("must be less than {}", text(limit)),
        Error::ExclusiveMinimum { limit } => format!("must be more than {}", text(limit)),
        Error::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Error::UniqueItems => "must not have the same item twice".to_owned(),
        Error::ContentEncoding { content_encoding } => {
            format!("must be encoded as {}", short(content_encoding))
        }
        Error::ContentMediaType { content_media_type } => {
            format!("must hold {}", short(content_media_type))
        }
        Error::Format { format } => format!("must be of the format {}", short(format)),
        _ => "does not match its schema".to_owned(),
    }
}

/// The complaint of the alternative that got furthest, if one clearly did.
fn closest(context: &[Vec<ValidationError<'_>>]) -> String {
    let depth = |error: &ValidationError<'_>| error.instance_path().as_str().matches('/').count();
    let firsts: Vec<_> = context.iter().filter_map(|errors| errors.first()).collect();
    let shallowest = firsts
        .iter()
        .map(|error| depth(error))
        .min()
        .unwrap_or_default();
    match firsts.iter().max_by_key(|error| depth(error)) {
        Some(error) if context.len() == 1 || depth(error) > shallowest => {
            format!(
                "; the closest: {}: {}",
                pointer(error),
                simple(error.kind())
            )
        }
        _ => String::new(),
    }
}

/// Like [`message`], without going into alternatives of alternatives.
fn simple(kind: &Error) -> String {
    match kind {
        Error::AnyOf { .. } | Error::OneOfNotValid { .. } => {
            "matches none of the allowed forms".to_owned()
        }
        other => message(other),
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| short(&value.to_string()), short)
}

fn article(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Array => "an array",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => "a string",
    }
}
