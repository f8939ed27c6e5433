//! The adapter: a question as Cedar's entities, request and context. Built from typed values, never through JSON.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use cedar_policy::{Context, Entities, Entity, EntityUid, Request, RestrictedExpression as Value};
use provenance::{Role, Source};
use vocab::{Integrity, Level};
use wire::{Json, Kind};

use super::{
    mentions::Needs,
    path::{self, Path, Step, kind_name, text_of},
    question::{Principal, Provenance, Question},
    words::{View, Words},
};

/// How many values of the arguments a policy may be shown.
pub(super) const MAX_LEAVES: usize = 512;
/// How long a text of the arguments a policy may be shown. Matching a pattern costs more than linear time.
pub(super) const MAX_TEXT: usize = 256 << 10;

/// Who and what, as Cedar names them.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) principal: EntityUid,
    pub(super) action: EntityUid,
    pub(super) resource: EntityUid,
    pub(super) server: EntityUid,
}

impl Names {
    pub(super) fn of(words: &Words, question: &Question<'_>) -> Self {
        Self {
            principal: words.caller(question.principal.caller),
            action: words.action(question.act).clone(),
            resource: words.target(question.act.kind(), question.server, question.target),
            server: words.server(question.server),
        }
    }

    pub(super) fn request(&self, context: Context) -> Result<Request, String> {
        Request::new(
            self.principal.clone(),
            self.action.clone(),
            self.resource.clone(),
            context,
            None,
        )
        .map_err(|error| error.to_string())
    }
}

/// The entities that do not change from call to call: the caller, the target and its server.
pub(super) fn lasting(
    words: &Words,
    names: &Names,
    question: &Question<'_>,
) -> Result<Entities, String> {
    let [level, level_name] = level(words, question.level);
    let server = HashMap::from([
        ("level".to_owned(), level.clone()),
        ("level_name".to_owned(), level_name.clone()),
        (
            "is_open_world".to_owned(),
            Value::new_bool(question.is_open_world),
        ),
    ]);
    let target = HashMap::from([
        (
            "server".to_owned(),
            Value::new_entity_uid(names.server.clone()),
        ),
        (
            "name".to_owned(),
            Value::new_string(question.target.to_owned()),
        ),
        ("level".to_owned(), level),
        ("level_name".to_owned(), level_name),
        (
            "effect".to_owned(),
            Value::new_entity_uid(words.effect(question.effect).clone()),
        ),
        (
            "is_open_world".to_owned(),
            Value::new_bool(question.is_open_world),
        ),
    ]);
    let entity = |uid: &EntityUid, attributes, parents| {
        Entity::new(uid.clone(), attributes, parents).map_err(|error| error.to_string())
    };
    let (attributes, parents) = caller(words, &question.principal);
    let entities = [
        entity(&names.principal, attributes, parents)?,
        entity(&names.server, server, HashSet::new())?,
        entity(
            &names.resource,
            target,
            HashSet::from([names.server.clone()]),
        )?,
    ];
    Entities::from_entities(entities, None).map_err(|error| error.to_string())
}

fn caller(
    words: &Words,
    principal: &Principal<'_>,
) -> (HashMap<String, Value>, HashSet<EntityUid>) {
    let mut attributes = HashMap::from([(
        "is_operator".to_owned(),
        Value::new_bool(principal.is_operator),
    )]);
    let mut parents: HashSet<EntityUid> = principal
        .departments
        .iter()
        .map(|name| words.department(name))
        .collect();
    let optional = [
        ("user", principal.user.map(|name| words.user(name))),
        ("agent", principal.agent.map(|name| words.agent(name))),
        ("context", principal.context.map(|name| words.context(name))),
    ];
    for (attribute, uid) in optional {
        let Some(uid) = uid else { continue };
        attributes.insert(attribute.to_owned(), Value::new_entity_uid(uid.clone()));
        parents.insert(uid);
    }
    (attributes, parents)
}

/// A rank and a name.
fn level(words: &Words, level: Level) -> [Value; 2] {
    [
        Value::new_long(i64::from(level as u8)),
        Value::new_entity_uid(words.level(level).clone()),
    ]
}

/// The facts of the moment, and the views of the arguments they refer to: only those that are needed.
pub(super) fn moment(
    words: &Words,
    needs: &Needs,
    question: &Question<'_>,
) -> Result<(Context, Vec<Entity>), String> {
    let arguments = Json::checked_before(question.arguments.trim_ascii());
    let mut pairs = Vec::new();
    let mut put = |name: &str, value| pairs.push((name.to_owned(), value));
    if needs.label {
        put("label", label(words, question)?);
    }
    if needs.calls {
        put("session_calls", long(question.session_calls));
        put("target_calls", long(question.target_calls));
    }
    if needs.time {
        put("time", time(question.now_ms)?);
    }
    if needs.door {
        put("door", Value::new_string(question.door.to_owned()));
    }
    if needs.provenance {
        put("provenance", provenance(question.provenance)?);
    }
    if needs.outline {
        let (count, outline) = outline(arguments)?;
        put("argument_count", long(count));
        put("outline", Value::new_string(outline));
    }
    let mut entities = Vec::new();
    for view in &needs.views {
        put(
            view.attribute(),
            Value::new_entity_uid(words.view(*view).clone()),
        );
        let tags = tags(*view, needs, arguments)?;
        entities.push(
            Entity::new_with_tags(words.view(*view).clone(), [], [], tags)
                .map_err(|error| error.to_string())?,
        );
    }
    let context = Context::from_pairs(pairs).map_err(|error| error.to_string())?;
    Ok((context, entities))
}

fn long(number: u64) -> Value {
    Value::new_long(i64::try_from(number).unwrap_or(i64::MAX))
}

fn record<const N: usize>(fields: [(&str, Value); N]) -> Result<Value, String> {
    Value::new_record(fields.map(|(name, value)| (name.to_owned(), value)))
        .map_err(|error| error.to_string())
}

fn label(words: &Words, question: &Question<'_>) -> Result<Value, String> {
    let [secrecy, secrecy_name] = level(words, question.label.secrecy);
    let untrusted = question.label.integrity == Integrity::Untrusted;
    record([
        ("secrecy", secrecy),
        ("secrecy_name", secrecy_name),
        ("is_untrusted", Value::new_bool(untrusted)),
    ])
}

/// Stands in a set for that no argument has the role. An empty set would be within every other.
const NONE: &str = "none";

/// Where nobody knows, every set says so, and where there is nothing, too: what must be said never is, by being absent.
fn provenance(known: Option<&Provenance>) -> Result<Value, String> {
    let set = |words: &mut dyn Iterator<Item = &str>| {
        let words: std::collections::BTreeSet<&str> = words.collect();
        Value::new_set(
            words
                .into_iter()
                .map(|word| Value::new_string(word.to_owned())),
        )
    };
    let sources = |role: Role| match known {
        Some(known) => {
            let of_role = known.arguments.iter().filter(|traced| traced.role == role);
            let mut sources = of_role.map(|traced| traced.source.as_str()).peekable();
            match sources.peek() {
                Some(_) => set(&mut sources),
                None => set(&mut std::iter::once(NONE)),
            }
        }
        None => set(&mut std::iter::once(Source::Unknown.as_str())),
    };
    let servers = known.into_iter().flat_map(|known| &known.arguments);
    record([
        (
            "has_words",
            Value::new_bool(known.is_some_and(|known| known.has_words)),
        ),
        ("targets", sources(Role::Target)),
        ("objects", sources(Role::Object)),
        ("amounts", sources(Role::Amount)),
        ("names", sources(Role::Name)),
        ("contents", sources(Role::Content)),
        ("values", sources(Role::Value)),
        (
            "servers",
            set(&mut servers.filter_map(|traced| traced.server.as_deref())),
        ),
    ])
}

fn time(now_ms: u64) -> Result<Value, String> {
    let unix = now_ms / 1000;
    let days = unix / 86_400;
    // The first of January 1970 was a Thursday, the fourth day.
    record([
        ("hour", long(unix / 3600 % 24)),
        ("weekday", long((days + 3) % 7 + 1)),
        ("unix", long(unix)),
    ])
}

/// How many leaves the arguments have, and all of them by path and kind.
pub(super) fn outline(arguments: Json<'_>) -> Result<(u64, String), String> {
    let too_many = || {
        format!("the arguments hold more than {MAX_LEAVES} values, more than a policy may be shown")
    };
    let leaves = path::leaves(arguments, MAX_LEAVES).ok_or_else(too_many)?;
    let mut out = String::new();
    for leaf in &leaves {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&leaf.path);
        out.push(':');
        out.push_str(leaf.kind);
        if out.len() > MAX_TEXT {
            return Err(too_many());
        }
    }
    Ok((leaves.len() as u64, out))
}

/// The values of one view that the policies name. Fails where an argument is there but not as they read it.
fn tags(view: View, needs: &Needs, arguments: Json<'_>) -> Result<Vec<(String, Value)>, String> {
    let mut tags = Vec::new();
    for (_, path) in needs.paths.iter().filter(|(of, _)| *of == view) {
        let value = match view {
            View::Arguments => scalar(path, needs, arguments)?,
            View::Numbers => number(path, arguments, "a whole number", whole)?.map(Value::new_long),
            View::Decimals => number(
                path,
                arguments,
                "a number of at most four decimal places",
                decimal,
            )?
            .map(Value::new_decimal),
            View::Lists => list(path, needs, arguments)?,
        };
        tags.extend(value.map(|value| (path.to_string(), value)));
    }
    Ok(tags)
}

fn scalar(path: &Path, needs: &Needs, arguments: Json<'_>) -> Result<Option<Value>, String> {
    let Some(value) = path.find(arguments) else {
        return Ok(None);
    };
    match text_of(value) {
        Some(text) => shown(text, path).map(Some),
        // Policies that also look inside are ready for either.
        None if needs.paths.iter().any(|(_, other)| other.is_inside(path)) => Ok(None),
        None => Err(unfit(path, value, "a text, number or boolean")),
    }
}

fn shown(text: Cow<'_, str>, path: &Path) -> Result<Value, String> {
    match text.len() <= MAX_TEXT {
        true => Ok(Value::new_string(text.into_owned())),
        false => Err(format!(
            "the argument `{path}` is longer than {MAX_TEXT} bytes, longer than a policy may be shown"
        )),
    }
}

fn number<T>(
    path: &Path,
    arguments: Json<'_>,
    what: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(value) = path.find(arguments).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let found = (value.kind() == Kind::Number)
        .then(|| read(value.text()))
        .flatten();
    found.map(Some).ok_or_else(|| unfit(path, value, what))
}

/// All scalars at a path with `[]` in it, as a set.
fn list(path: &Path, needs: &Needs, arguments: Json<'_>) -> Result<Option<Value>, String> {
    let mut found = Vec::new();
    let mut is_there = false;
    gather(path, &path.0, arguments, needs, &mut found, &mut is_there)?;
    Ok(is_there.then(|| Value::new_set(found)))
}

fn gather(
    path: &Path,
    steps: &[Step],
    value: Json<'_>,
    needs: &Needs,
    found: &mut Vec<Value>,
    is_there: &mut bool,
) -> Result<(), String> {
    let Some((step, rest)) = steps.split_first() else {
        let text =
            text_of(value).ok_or_else(|| unfit(path, value, "texts, numbers or booleans"))?;
        found.push(shown(text, path)?);
        return if found.len() <= MAX_LEAVES {
            Ok(())
        } else {
            Err(format!("`{path}` has more than {MAX_LEAVES} elements"))
        };
    };
    let inner = match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.items().nth(*index),
        Step::Each if value.is_array() => {
            *is_there = true;
            return value
                .items()
                .try_for_each(|inner| gather(path, rest, inner, needs, found, is_there));
        }
        Step::Each if value.is_null() => None,
        Step::Each => {
            let outer = Path(
                path.0
                    .iter()
                    .take(path.0.len() - steps.len())
                    .cloned()
                    .collect(),
            );
            let is_read_alone = needs
                .paths
                .iter()
                .any(|(view, other)| *view == View::Arguments && *other == outer);
            return if is_read_alone {
                Ok(())
            } else {
                Err(unfit(&outer, value, "an array"))
            };
        }
    };
    inner.map_or(Ok(()), |inner| {
        gather(path, rest, inner, needs, found, is_there)
    })
}

fn unfit(path: &Path, value: Json<'_>, what: &str) -> String {
    format!(
        "a policy reads the argument `{path}` as {what}, but it is a value of kind {}",
        kind_name(value.kind())
    )
}

/// The whole number a JSON number stands for, however it is written: `1000`, `1000.0` and `1e3` are one number.
pub(super) fn whole(text: &str) -> Option<i64> {
    let (digits, shift) = scaled(text)?;
    let value = match shift {
        0.. => digits.checked_mul(10i128.checked_pow(u32::try_from(shift).ok()?)?)?,
        _ => {
            let divisor = 10i128.checked_pow(shift.unsigned_abs())?;
            (digits % divisor == 0).then_some(digits / divisor)?
        }
    };
    i64::try_from(value).ok()
}

/// The same number as Cedar writes decimals, if it has at most four places.
fn decimal(text: &str) -> Option<String> {
    let (digits, shift) = scaled(text)?;
    let ten_thousandths = match shift.checked_add(4)? {
        up @ 0.. => digits.checked_mul(10i128.checked_pow(u32::try_from(up).ok()?)?)?,
        down => {
            let divisor = 10i128.checked_pow(down.unsigned_abs())?;
            (digits % divisor == 0).then_some(digits / divisor)?
        }
    };
    let fits = i64::try_from(ten_thousandths).ok()?;
    let sign = if fits < 0 { "-" } else { "" };
    Some(format!(
        "{sign}{}.{:04}",
        fits.unsigned_abs() / 10_000,
        fits.unsigned_abs() % 10_000
    ))
}

/// A JSON number as `digits × 10^shift`, without trailing zeros; `None` if it has more digits than any number here.
fn scaled(text: &str) -> Option<(i128, i32)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    Some(if digits == 0 { (0, 0) } else { (digits, shift) })
}
