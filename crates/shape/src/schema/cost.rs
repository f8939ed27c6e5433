//! What a schema can cost, found before it is compiled.
//!
//! Checking one value against a schema means checking it against every subschema that applies *in place* (`allOf`, `anyOf`, `$ref` and
//! the like), and those can double at every step: thirty lines of schema can mean a billion checks of a single `1`. So the
//! subschemas are laid out as a graph, and a schema is refused when the paths through it that do not go down into the value are endless
//! or too many. Paths that do go down are bounded by the value and by the budget of its [`Tape`](super::tape::Tape).
//!
//! The graph may hold more than the checker walks, never less: a dynamic reference leads to every anchor of its name.

mod copies;

use std::collections::HashMap;

use referencing::{Draft, Registry, Resolver};
use serde_json::{Map, Value};

use super::SchemaProblem;

/// Checks of one value against one schema, however it branches.
const MOST_CHECKS: u64 = 20_000;
/// Subschemas of one schema, those of the standard it refers to included.
const MOST_SUBSCHEMAS: usize = 4_096;

/// Keywords whose subschema, list of subschemas or map of subschemas applies to the same value.
const IN_PLACE: [&str; 9] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
];
/// Keywords whose subschemas apply to the parts of the value.
const DOWN: [&str; 10] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "unevaluatedItems",
];
/// Keywords among those whose value maps names to subschemas.
const MAPS: [&str; 4] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
];

/// Where the root schema is, for references; it may say so itself.
pub(super) fn base(schema: &Value, draft: Draft) -> String {
    draft
        .create_resource_ref(schema)
        .id()
        .unwrap_or("json-schema:///")
        .to_owned()
}

/// A subschema and where it leads.
#[derive(Debug, Default)]
struct Step {
    /// The document it belongs to, for references.
    document: usize,
    /// Targets of references; they apply to the same value.
    references: Vec<usize>,
    /// Other subschemas that apply to the same value.
    in_place: Vec<usize>,
    /// Subschemas that apply to its parts.
    down: Vec<usize>,
    /// Collects what other subschemas have seen, so it walks them again.
    rewalks: bool,
    /// The name of a dynamic anchor it may lead to, besides `references`.
    dynamic: Option<String>,
}

/// Refuses a schema whose checks could not be bounded.
///
/// Answers how many checks of one value can be under way at the same time, each waiting for the next.
pub(super) fn weigh(
    schema: &Value,
    draft: Draft,
    registry: &Registry<'_>,
) -> Result<u32, SchemaProblem> {
    let base = base(schema, draft);
    let base = referencing::uri::from_str(base.trim_end_matches('#'))
        .map_err(|error| SchemaProblem::reference(&error))?;
    let mut graph = Graph::default();
    graph.add(schema, registry.resolver(base), draft);
    graph.expand()?;
    graph.link_dynamic();
    let depth = graph.judge()?;
    copies::limit(&graph.steps)?;
    Ok(depth)
}

#[derive(Debug, Default)]
struct Graph<'r> {
    steps: Vec<Step>,
    known: HashMap<*const Value, usize>,
    todo: Vec<(usize, &'r Value, Resolver<'r>, Draft)>,
    /// Dynamic anchors by name; recursive anchors are those of the empty name.
    anchors: HashMap<String, Vec<usize>>,
    /// Documents by their address.
    documents: HashMap<String, usize>,
}

impl<'r> Graph<'r> {
    fn add(&mut self, schema: &'r Value, resolver: Resolver<'r>, draft: Draft) -> usize {
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        let at = self.steps.len();
        self.steps.push(Step::default());
        self.known.insert(schema, at);
        self.todo.push((at, schema, resolver, draft));
        at
    }

    fn expand(&mut self) -> Result<(), SchemaProblem> {
        while let Some((at, schema, resolver, draft)) = self.todo.pop() {
            if self.steps.len() > MOST_SUBSCHEMAS {
                return Err(SchemaProblem::TooMany {
                    limit: MOST_SUBSCHEMAS,
                });
            }
            let Value::Object(schema) = schema else {
                continue;
            };
            let step = self.step(at, schema, &resolver, draft)?;
            if let Some(place) = self.steps.get_mut(at) {
                *place = step;
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        at: usize,
        schema: &'r Map<String, Value>,
        from: &Resolver<'r>,
        draft: Draft,
    ) -> Result<Step, SchemaProblem> {
        let documents = self.documents.len();
        let document = *self
            .documents
            .entry(from.base_uri().as_str().to_owned())
            .or_insert(documents);
        let mut step = Step {
            document,
            ..Step::default()
        };
        if let Some(Value::String(reference)) = schema.get("$ref") {
            step.references.push(self.follow(from, reference)?);
            if matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7) {
                return Ok(step);
            }
        }
        if let Some(Value::String(reference)) = schema.get("$dynamicRef") {
            step.references.push(self.follow(from, reference)?);
            step.dynamic = reference.rsplit_once('#').map(|(_, name)| name.to_owned());
        }
        if schema.get("$recursiveRef").is_some_and(Value::is_string) {
            step.references.push(self.follow(from, "#")?);
            step.dynamic = Some(String::new());
        }
        if let Some(Value::String(name)) = schema.get("$dynamicAnchor") {
            self.anchors.entry(name.clone()).or_default().push(at);
        }
        if schema.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
            self.anchors.entry(String::new()).or_default().push(at);
        }
        step.rewalks =
            schema.contains_key("unevaluatedProperties") || schema.contains_key("unevaluatedItems");
        for (keyword, value) in schema {
            let in_place = IN_PLACE.contains(&keyword.as_str());
            if !in_place && !DOWN.contains(&keyword.as_str()) {
                continue;
            }
            for child in children(keyword, value) {
                let child = self.enter(child, from, draft)?;
                if in_place {
                    step.in_place.push(child)
                } else {
                    step.down.push(child)
                }
            }
        }
        Ok(step)
    }

    fn enter(
        &mut self,
        child: &'r Value,
        from: &Resolver<'r>,
        draft: Draft,
    ) -> Result<usize, SchemaProblem> {
        let draft = draft.detect(child);
        let inside = from
            .in_subresource(draft.create_resource_ref(child))
            .map_err(|error| SchemaProblem::reference(&error))?;
        Ok(self.add(child, inside, draft))
    }

    fn follow(&mut self, from: &Resolver<'r>, reference: &str) -> Result<usize, SchemaProblem> {
        let (target, resolver, draft) = from
            .lookup(reference)
            .map_err(|error| SchemaProblem::reference(&error))?
            .into_inner();
        Ok(self.add(target, resolver, draft))
    }

    fn link_dynamic(&mut self) {
        for step in &mut self.steps {
            if let Some(anchors) = step
                .dynamic
                .as_ref()
                .and_then(|name| self.anchors.get(name))
            {
                step.references.extend(anchors);
                step.references.sort_unstable();
                step.references.dedup();
            }
        }
    }

    /// Adds up the checks of one value, from the subschemas that lead nowhere to those that lead to them.
    fn judge(&self) -> Result<u32, SchemaProblem> {
        let mut deepest = 0;
        let mut seen = vec![Seen::Never; self.steps.len()];
        // The path that is being walked, with the number of branches taken at each step of it.
        let mut path: Vec<(usize, usize)> = Vec::new();
        for root in 0..self.steps.len() {
            path.push((root, 0));
            while let Some((at, branch)) = path.last_mut() {
                let (Some(step), Some(place)) = (self.steps.get(*at), seen.get_mut(*at)) else {
                    break;
                };
                if let Seen::Whole(_) = place {
                    path.pop();
                } else if let Some(next) = step.same_value().nth(*branch) {
                    *place = Seen::Walking;
                    *branch += 1;
                    match seen.get(next) {
                        Some(Seen::Walking) => return Err(SchemaProblem::Endless),
                        Some(Seen::Never) => path.push((next, 0)),
                        _ => {}
                    }
                } else {
                    let (at, sum) = (*at, step.sum(&seen));
                    if sum.checks > MOST_CHECKS || sum.rewalked > MOST_CHECKS {
                        return Err(SchemaProblem::Explodes { limit: MOST_CHECKS });
                    }
                    deepest = sum.depth.max(deepest);
                    if let Some(place) = seen.get_mut(at) {
                        *place = Seen::Whole(sum);
                    }
                    path.pop();
                }
            }
        }
        Ok(deepest)
    }
}

#[derive(Debug, Clone, Copy)]
enum Seen {
    Never,
    Walking,
    Whole(Sum),
}

/// Checks of one value that one subschema causes.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    checks: u64,
    /// When someone above collects what was seen here, or wants to know why it failed.
    rewalked: u64,
    depth: u32,
}

impl Step {
    /// Everything it leads to that applies to the same value.
    fn same_value(&self) -> impl Iterator<Item = usize> {
        self.references.iter().chain(&self.in_place).copied()
    }

    fn sum(&self, seen: &[Seen]) -> Sum {
        let mut sum = Sum {
            checks: 1,
            rewalked: 0,
            depth: 1,
        };
        for at in self.same_value() {
            let Some(Seen::Whole(below)) = seen.get(at) else {
                continue;
            };
            sum.depth = sum.depth.max(below.depth + 1);
            sum.checks = sum.checks.saturating_add(below.checks);
            sum.rewalked = sum
                .rewalked
                .saturating_add(below.checks)
                .saturating_add(below.rewalked);
        }
        if self.rewalks {
            sum.checks = sum.checks.saturating_add(sum.rewalked);
        }
        sum
    }
}

/// The subschemas in the value of a keyword.
fn children<'a>(keyword: &str, value: &'a Value) -> Vec<&'a Value> {
    let is_schema = |value: &&Value| value.is_object() || value.is_boolean();
    match value {
        Value::Object(map) if MAPS.contains(&keyword) => map.values().filter(is_schema).collect(),
        Value::Array(list) => list.iter().filter(is_schema).collect(),
        other => Some(other).into_iter().filter(is_schema).collect(),
    }
}
