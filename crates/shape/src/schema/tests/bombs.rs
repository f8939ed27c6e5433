//! Schemas and instances made to stall, exhaust or crash whoever checks them. Each is refused within a tenth of a second: when it is
//! compiled, or when the instance that sets it off is checked.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::Schema;

const LIMIT: Duration = Duration::from_millis(100);

/// What becomes of a bomb.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Fate {
    /// Refused when it is compiled.
    Schema,
    /// Compiles; the instance is refused, because it does not fit or because checking it would cost too much.
    Instance,
    /// Compiles, and the instance is fine: the checker sees through it.
    Harmless,
}

struct Bomb {
    name: String,
    schema: String,
    instance: String,
    fate: Fate,
}

fn bomb(name: impl Into<String>, schema: &Value, instance: &Value, fate: Fate) -> Bomb {
    Bomb {
        name: name.into(),
        schema: schema.to_string(),
        instance: instance.to_string(),
        fate,
    }
}

/// Definitions `d0` to `dN`, each made from the name of the next; the last is a string.
fn chain(length: usize, link: impl Fn(&str) -> Value) -> Value {
    let mut defs = serde_json::Map::new();
    for at in 0..length {
        defs.insert(format!("d{at}"), link(&format!("#/$defs/d{}", at + 1)));
    }
    defs.insert(format!("d{length}"), json!({"type": "string"}));
    json!({"$defs": defs, "$ref": "#/$defs/d0"})
}

/// A value inside itself: objects under `key`, or arrays.
fn nested(depth: usize, key: Option<&str>, core: Value) -> Value {
    (0..depth).fold(core, |inner, _| {
        key.map_or_else(|| json!([inner]), |key| json!({ key: inner }))
    })
}

/// What applies to the same value and doubles at every step.
fn doubling() -> Vec<Bomb> {
    let twice = |next: &str| json!([{"$ref": next}, {"$ref": next}]);
    let mut bombs = vec![
        bomb(
            "allOf",
            &chain(40, |next| json!({"allOf": twice(next)})),
            &json!(1),
            Fate::Schema,
        ),
        bomb(
            "anyOf",
            &chain(40, |next| json!({"anyOf": twice(next)})),
            &json!(1),
            Fate::Schema,
        ),
        bomb(
            "oneOf",
            &chain(40, |next| json!({"oneOf": twice(next)})),
            &json!(1),
            Fate::Schema,
        ),
        bomb(
            "not not",
            &chain(40, |next| json!({"not": {"anyOf": twice(next)}})),
            &json!(1),
            Fate::Schema,
        ),
        bomb(
            "if then",
            &chain(
                40,
                |next| json!({"if": {"$ref": next}, "then": {"$ref": next}}),
            ),
            &json!("x"),
            Fate::Schema,
        ),
        bomb(
            "if else",
            &chain(
                40,
                |next| json!({"if": {"$ref": next}, "else": {"$ref": next}}),
            ),
            &json!(1),
            Fate::Schema,
        ),
        bomb(
            "ref and allOf",
            &chain(40, |next| json!({"$ref": next, "allOf": [{"$ref": next}]})),
            &json!(1),
            Fate::Schema,
        ),
        bomb(
            "dependentSchemas",
            &chain(
                40,
                |next| json!({"dependentSchemas": {"a": {"$ref": next}, "b": {"$ref": next}}}),
            ),
            &json!({"a": 1, "b": 1}),
            Fate::Schema,
        ),
        bomb(
            "dependencies",
            &chain(
                40,
                |next| json!({"dependencies": {"a": {"$ref": next}, "b": {"$ref": next}}}),
            ),
            &json!({"a": 1, "b": 1}),
            Fate::Schema,
        ),
        bomb(
            "a thousand ways, twice",
            &json!({"$defs": {"a": {"anyOf": vec![json!({"$ref": "#/$defs/b"}); 1000]}, "b": {"anyOf": vec![json!({"type": "string"}); 1000]}},
                "$ref": "#/$defs/a"}),
            &json!(1),
            Fate::Schema,
        ),
        bomb(
            "collecting what was seen",
            &chain(
                16,
                |next| json!({"anyOf": twice(next), "unevaluatedProperties": false}),
            ),
            &json!({"a": 1}),
            Fate::Schema,
        ),
    ];
    for width in [3, 10, 100] {
        let link = |next: &str| json!({"anyOf": vec![json!({"$ref": next}); width]});
        bombs.push(bomb(
            format!("{width} ways"),
            &chain(20, link),
            &json!(1),
            Fate::Schema,
        ));
    }
    bombs
}

/// What leads back to itself without going into the value.
fn endless() -> Vec<Bomb> {
    let schemas = [
        ("self", json!({"$ref": "#"})),
        ("self in allOf", json!({"allOf": [{"$ref": "#"}]})),
        (
            "self in anyOf",
            json!({"anyOf": [{"type": "string"}, {"$ref": "#"}]}),
        ),
        (
            "self in oneOf",
            json!({"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        ),
        ("self in not", json!({"not": {"$ref": "#"}})),
        ("self in if", json!({"if": {"$ref": "#"}, "then": false})),
        (
            "self in dependentSchemas",
            json!({"dependentSchemas": {"a": {"$ref": "#"}}}),
        ),
        (
            "two",
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        ),
        (
            "anchors",
            json!({"$defs": {"a": {"$anchor": "a", "$ref": "#b"}, "b": {"$anchor": "b", "$ref": "#a"}}, "$ref": "#a"}),
        ),
        (
            "ids",
            json!({"$id": "https://a.example/x", "$defs": {"y": {"$id": "y", "$ref": "x"}}, "$ref": "y"}),
        ),
        (
            "dynamic",
            json!({"$dynamicAnchor": "x", "allOf": [{"$dynamicRef": "#x"}]}),
        ),
        (
            "dynamic, elsewhere",
            json!({"$id": "https://a.example/x", "$dynamicAnchor": "m", "$ref": "y",
                "$defs": {"y": {"$id": "y", "$dynamicAnchor": "m", "$defs": {"z": {"$dynamicRef": "#m"}}, "allOf": [{"$ref": "#/$defs/z"}]}}}),
        ),
        (
            "recursive",
            json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": true, "anyOf": [{"$recursiveRef": "#"}]}),
        ),
        (
            "pointer into itself",
            json!({"allOf": [{"allOf": [{"$ref": "#/allOf/0"}]}]}),
        ),
        (
            "escaped pointer",
            json!({"$defs": {"a/b": {"$ref": "#/$defs/a~1b"}}, "$ref": "#/$defs/a~1b"}),
        ),
        (
            "draft-07",
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$ref": "#/definitions/a"}}, "$ref": "#/definitions/a"}),
        ),
    ];
    schemas
        .map(|(name, schema)| bomb(format!("endless: {name}"), &schema, &json!(1), Fate::Schema))
        .into()
}

/// Recursion that goes into the value and branches: the deeper the value, the more ways to its core.
fn branching() -> Vec<Bomb> {
    let me = json!({"$ref": "#"});
    let deep = |key| nested(60, key, json!(1));
    let objects = |schema: Value, fate| {
        bomb(
            format!("branching: {schema}"),
            &schema,
            &deep(Some("a")),
            fate,
        )
    };
    let arrays =
        |schema: Value, fate| bomb(format!("branching: {schema}"), &schema, &deep(None), fate);
    vec![
        objects(
            json!({"type": "object", "properties": {"a": {"allOf": [me, me]}}}),
            Fate::Instance,
        ),
        objects(
            json!({"type": "object", "properties": {"a": {"anyOf": [me, me]}}}),
            Fate::Instance,
        ),
        objects(
            json!({"type": "object", "properties": {"a": {"oneOf": [me, me, me]}}}),
            Fate::Instance,
        ),
        objects(
            json!({"type": "object", "properties": {"a": me}, "patternProperties": {"a": me, "^a": me}}),
            Fate::Instance,
        ),
        objects(
            json!({"anyOf": vec![json!({"type": "object", "additionalProperties": me}); 8]}),
            Fate::Instance,
        ),
        objects(
            json!({"not": {"properties": {"a": {"anyOf": [me, me]}}}}),
            Fate::Instance,
        ),
        objects(
            json!({"type": "object", "properties": {"a": {"if": me, "then": me, "else": me}}}),
            Fate::Instance,
        ),
        objects(
            json!({"anyOf": [{"properties": {"a": me}}, {"properties": {"a": me}}], "unevaluatedProperties": false}),
            Fate::Harmless,
        ),
        objects(
            json!({"type": "object", "dependentSchemas": {"a": {"properties": {"a": me}}}, "properties": {"a": me}}),
            Fate::Instance,
        ),
        arrays(
            json!({"type": "array", "items": {"allOf": [me, me]}}),
            Fate::Instance,
        ),
        arrays(
            json!({"type": "array", "items": me, "contains": me}),
            Fate::Instance,
        ),
        arrays(
            json!({"type": "array", "prefixItems": [me], "contains": me, "minContains": 1}),
            Fate::Instance,
        ),
        arrays(
            json!({"anyOf": [{"items": me}, {"items": me}, {"items": me}], "unevaluatedItems": false}),
            Fate::Harmless,
        ),
        arrays(json!({"uniqueItems": true, "items": me}), Fate::Harmless),
        arrays(
            json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": true, "type": "array",
                "items": {"anyOf": [{"$recursiveRef": "#"}, {"$recursiveRef": "#"}]}}),
            Fate::Instance,
        ),
        arrays(
            json!({"$dynamicAnchor": "x", "type": "array", "items": {"anyOf": [{"$dynamicRef": "#x"}, {"$dynamicRef": "#x"}]}}),
            Fate::Instance,
        ),
    ]
}

/// Documents inside documents, reached in ever new ways, each of which a dynamic reference at the end could depend on.
fn scopes() -> Vec<Bomb> {
    let layered = |layers: usize, leaf: &Value, use_next: &dyn Fn(&str, &str) -> Value| {
        let mut defs = serde_json::Map::new();
        for layer in 0..layers {
            for side in ["a", "b"] {
                let (left, right) = (format!("r{}a", layer + 1), format!("r{}b", layer + 1));
                let mut resource = use_next(&left, &right);
                resource["$id"] = json!(format!("r{layer}{side}"));
                resource["$defs"] =
                    json!({"x": {"$dynamicAnchor": "x", "type": "integer", "minimum": layer}});
                defs.insert(format!("r{layer}{side}"), resource);
            }
        }
        for side in ["a", "b"] {
            let mut resource = leaf.clone();
            resource["$id"] = json!(format!("r{layers}{side}"));
            defs.insert(format!("r{layers}{side}"), resource);
        }
        json!({"$id": "https://scopes.example/root", "$defs": defs, "$ref": "r0a"})
    };
    let leaf = json!({"$defs": {"x": {"$dynamicAnchor": "x"}}, "$dynamicRef": "#x"});
    let down = |left: &str, right: &str| json!({"properties": {"l": {"$ref": left}, "r": {"$ref": right}}});
    let across = |left: &str, right: &str| json!({"anyOf": [{"$ref": left}, {"$ref": right}]});
    let mut bombs = vec![bomb(
        "scopes across",
        &layered(30, &leaf, &across),
        &json!(1),
        Fate::Schema,
    )];
    for layers in [8, 12, 20, 30, 60] {
        let fate = if layers > 8 {
            Fate::Schema
        } else {
            Fate::Instance
        };
        bombs.push(bomb(
            format!("{layers} scopes down"),
            &layered(layers, &leaf, &down),
            &nested(layers + 1, Some("l"), json!("x")),
            fate,
        ));
    }
    bombs
}

/// Size alone.
fn large() -> Vec<Bomb> {
    let many = |n: usize| {
        (0..n)
            .map(|at| (format!("p{at}"), json!({"type": "string"})))
            .collect::<serde_json::Map<_, _>>()
    };
    let raw = |name: &str, schema: String, fate| Bomb {
        name: name.to_owned(),
        schema,
        instance: "{}".to_owned(),
        fate,
    };
    let numbers: Vec<Value> = (0..20_000)
        .map(|at| json!(9_000_000_000_000_000_000_u64 + at))
        .collect();
    vec![
        bomb(
            "100,000 properties",
            &json!({"properties": many(100_000)}),
            &json!({}),
            Fate::Schema,
        ),
        bomb(
            "9,000 properties",
            &json!({"properties": many(9_000)}),
            &json!({}),
            Fate::Schema,
        ),
        bomb(
            "a large enum",
            &json!({"enum": (0..200_000).collect::<Vec<_>>()}),
            &json!(-1),
            Fate::Schema,
        ),
        bomb(
            "10,000 alternatives",
            &json!({"anyOf": vec![json!({"type": "string"}); 10_000]}),
            &json!(1),
            Fate::Schema,
        ),
        raw(
            "100,000 levels",
            format!("{}1{}", r#"{"not":"#.repeat(100_000), "}".repeat(100_000)),
            Fate::Schema,
        ),
        raw(
            "65 levels",
            format!("{}true{}", r#"{"not":"#.repeat(65), "}".repeat(65)),
            Fate::Schema,
        ),
        raw(
            "a megabyte of title",
            format!(r#"{{"title":"{}","type":"string"}}"#, "x".repeat(1 << 20)),
            Fate::Schema,
        ),
        bomb(
            "a long chain",
            &chain(4_000, |next| json!({"$ref": next})),
            &json!(1),
            Fate::Schema,
        ),
        bomb(
            "a long chain of arrays",
            &chain(4_000, |next| json!({"items": {"$ref": next}})),
            &nested(60, None, json!(1)),
            Fate::Schema,
        ),
        bomb(
            "a chain of arrays",
            &chain(2_000, |next| json!({"items": {"$ref": next}})),
            &nested(60, None, json!(1)),
            Fate::Harmless,
        ),
        bomb(
            "numbers that look alike",
            &json!({"uniqueItems": true, "items": {"type": "integer"}}),
            &json!(numbers),
            Fate::Harmless,
        ),
        bomb(
            "1,000 patterns",
            &json!({"patternProperties": (0..1_025).map(|at| (format!("a{at}"), json!(true))).collect::<serde_json::Map<_, _>>()}),
            &json!({}),
            Fate::Schema,
        ),
        bomb(
            "many texts, many values",
            &json!({"items": {"enum": (0..5_000).map(|at| format!("{at:0>40}")).collect::<Vec<_>>()}}),
            &json!(vec!["z"; 20_000]),
            Fate::Instance,
        ),
    ]
}

/// Regular expressions.
fn patterns() -> Vec<Bomb> {
    let long = json!("a".repeat(50_000) + "!");
    let mixed: String = (0..200_000u32)
        .map(|at| {
            if at.wrapping_mul(2_654_435_761) >> 31 == 0 {
                'a'
            } else {
                'b'
            }
        })
        .collect();
    let refused = [
        "(a{1,1000}){1,1000}",
        "((a{1,100}){1,100}){1,100}",
        "a{1,10000000}",
        r"(?:\p{L}{1,1000}){1,100}",
        r"(a)\1",
        "(?=a)b",
        "(?<!a)b",
        "[",
    ];
    let mut bombs: Vec<Bomb> = refused
        .map(|pattern| {
            bomb(
                format!("pattern {pattern}"),
                &json!({ "pattern": pattern }),
                &long,
                Fate::Schema,
            )
        })
        .into();
    bombs.push(bomb(
        "a long pattern",
        &json!({"pattern": "a|".repeat(50_000)}),
        &long,
        Fate::Schema,
    ));
    for (pattern, text) in [
        ("^(a+)+$", &long),
        ("(x+x+)+y", &long),
        ("^(a|aa)+$", &long),
        ("(a|a|a|a|a)*b", &long),
    ] {
        bombs.push(bomb(
            format!("pattern {pattern}"),
            &json!({ "pattern": pattern }),
            text,
            Fate::Instance,
        ));
    }
    for pattern in ["[ab]*a[ab]{500}c", "([ab]*a[ab]{60}){8}c", "(.*a){40}c"] {
        bombs.push(bomb(
            format!("pattern {pattern}"),
            &json!({ "pattern": pattern }),
            &json!(mixed),
            Fate::Instance,
        ));
    }
    // The last letter is there, so that nothing can be told from its absence; and nothing before it is remembered for long.
    for length in [500, 5_000, 50_000, 500_000] {
        let text: String = mixed.chars().cycle().take(length).collect::<String>() + "yx";
        for pattern in [
            "[ab]*a[ab]{14}x",
            "[ab]*a[ab]{60}x",
            "[ab]*a[ab]{500}x",
            "[ab]*a[ab]{4000}x",
            "(?:[ab]{1,50}){1,50}x",
            "(?:[ab]{1,20}){1,20}x",
        ] {
            bombs.push(bomb(
                format!("pattern {pattern}, {length} bytes"),
                &json!({ "pattern": pattern }),
                &json!(text),
                Fate::Instance,
            ));
        }
        bombs.push(bomb(
            format!("word ends, {length} bytes"),
            &json!({"pattern": r"(\b[aé]*\b.?)*y$"}),
            &json!(text.replace('b', "é")),
            Fate::Instance,
        ));
    }
    let names: serde_json::Map<_, _> = (0..5_000).map(|at| (format!("a{at}"), json!(1))).collect();
    let matching: serde_json::Map<_, _> = (0..250)
        .map(|at| (format!("[a-z]+{at}[0-9]*x"), json!(false)))
        .collect();
    bombs.push(bomb(
        "names and patterns",
        &json!({"patternProperties": matching}),
        &json!(names),
        Fate::Instance,
    ));
    bombs
}

/// Documents that are somewhere else. None is fetched, so each is refused at once.
fn elsewhere() -> Vec<Bomb> {
    let references = [
        "http://127.0.0.1:9/x",
        "https://schema.example/x.json",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
        "ftp://schema.example/x",
        "//schema.example/x",
        "other.json",
        "../../x",
        "#/$defs/absent",
        "#absent",
        "urn:uuid:00000000-0000-0000-0000-000000000000",
    ];
    let mut bombs: Vec<Bomb> = references
        .map(|to| {
            bomb(
                format!("ref {to}"),
                &json!({"properties": {"a": {"$ref": to}}}),
                &json!({}),
                Fate::Schema,
            )
        })
        .into();
    bombs.push(bomb(
        "dialect",
        &json!({"$schema": "https://schema.example/x", "type": "object", "minProperties": 1}),
        &json!({}),
        Fate::Schema,
    ));
    bombs.push(bomb(
        "dialect only",
        &json!({"$schema": "https://schema.example/x"}),
        &json!({}),
        Fate::Schema,
    ));
    bombs.push(bomb(
        "dynamic",
        &json!({"$dynamicRef": "https://schema.example/x#a"}),
        &json!({}),
        Fate::Schema,
    ));
    bombs.push(bomb(
        "base",
        &json!({"$id": "https://schema.example/x", "properties": {"a": {"$ref": "y"}}}),
        &json!({}),
        Fate::Schema,
    ));
    bombs
}

/// Time this thread has computed for; what other tests do on the same machine does not count.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap(),
        u32::try_from(now.tv_nsec).unwrap(),
    )
}

fn fate_of(bomb: &Bomb) -> Fate {
    match Schema::compile(bomb.schema.as_bytes()) {
        Err(_) => Fate::Schema,
        Ok(schema) if schema.check(bomb.instance.as_bytes()).is_err() => Fate::Instance,
        Ok(_) => Fate::Harmless,
    }
}

#[test]
fn every_bomb_is_refused_in_time() {
    let bombs: Vec<Bomb> = [
        doubling(),
        endless(),
        branching(),
        scopes(),
        large(),
        patterns(),
        elsewhere(),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!(bombs.len() >= 50, "{}", bombs.len());
    let mut wrong = Vec::new();
    for bomb in &bombs {
        let started = cpu_time();
        let fate = fate_of(bomb);
        let took = cpu_time() - started;
        if fate != bomb.fate || took > LIMIT {
            wrong.push(format!(
                "{}: {fate:?} (expected {:?}) after {took:?}",
                bomb.name, bomb.fate
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        bombs.len(),
        wrong.join("\n")
    );
}

/// Patterns as people write them, on texts as long as they come.
#[test]
fn plain_patterns_are_cheap() {
    let image = "iVBORw0KGgo".repeat(200_000);
    for (pattern, text) in [
        ("^[A-Za-z0-9+/]*={0,2}$", image.clone() + "="),
        (
            "^data:image/(png);base64,[A-Za-z0-9+/]+={0,2}$",
            format!("data:image/png;base64,{image}=="),
        ),
        (r"^\S+$", image.clone()),
        ("[A-Z]", "a".repeat(2_000_000) + "Z"),
        ("^.*$", image.clone()),
    ] {
        let schema = Schema::compile(json!({ "pattern": pattern }).to_string().as_bytes()).unwrap();
        let started = cpu_time();
        schema
            .check(json!(text).to_string().as_bytes())
            .unwrap_or_else(|mismatch| panic!("{pattern}: {mismatch}"));
        assert!(
            cpu_time() - started < LIMIT,
            "{pattern}: {:?}",
            cpu_time() - started
        );
    }
}

/// Chains of checks that wait for each other, over the deepest value there can be, on half the stack a thread of ours has.
#[test]
fn no_bomb_runs_out_of_stack() {
    type Link = fn(Value) -> Value;
    let links: [(&str, Link); 6] = [
        ("ref", |next| next),
        ("anyOf", |next| json!({"anyOf": [next]})),
        ("oneOf", |next| json!({"oneOf": [next]})),
        ("not", |next| json!({"not": next})),
        ("then", |next| json!({"if": true, "then": next})),
        (
            "collecting",
            |next| json!({"anyOf": [next], "unevaluatedItems": false}),
        ),
    ];
    for (name, link) in links {
        for length in [1, 3, 8, 15, 30, 60, 95, 190] {
            let schema = chain(length, |next| link(json!({"$ref": next})));
            let mut schema = schema;
            schema["$defs"][format!("d{length}")] =
                json!({"type": ["array"], "items": {"$ref": "#"}});
            for depth in [5, 17, 34, 63] {
                let (schema, instance) = (
                    schema.to_string(),
                    nested(depth, None, json!(1)).to_string(),
                );
                let checking = std::thread::Builder::new()
                    .stack_size(1 << 20)
                    .spawn(move || {
                        Schema::compile(schema.as_bytes())
                            .is_ok_and(|schema| schema.check(instance.as_bytes()).is_ok())
                    });
                assert!(
                    !checking.unwrap().join().unwrap() || name == "not",
                    "{name} {length} {depth}"
                );
            }
        }
    }
}
