//! The table of columns, held against what was written before there was one.

use crate::encode;
use crate::record::{Draft, Kind, Record, Verdict};
use vocab::{Effect, Stage};

macro_rules! sample {
    (number $name:ident) => {
        Some(7)
    };
    (effect $name:ident) => {
        Some(Effect::Read)
    };
    (stage $name:ident) => {
        Some(Stage::Weigh)
    };
    (verdict $name:ident) => {
        Some(Verdict::Permitted)
    };
    ($text:ident $name:ident) => {
        stringify!($name)
    };
}

macro_rules! draw_full {
    ([] $({ $name:ident $kind:ident $title:tt $what:literal })*) => {
        fn full() -> Draft<'static> {
            Draft { kind: Kind::Outcome, $($name: sample!($kind $name),)* }
        }
    };
}
vocab::record_columns!(all => draw_full []);

/// As the ledger wrote them before the table. New columns come after these.
const BEFORE: &str = r#","ms":0,"time":"1970-01-01T00:00:00.000Z","kind":"outcome","call":"call","intent":7,"door":"door","action":"action","caller":"caller","session":"session","server":"server","tool":"tool","user":"user","agent":"agent","tenant":"tenant","execution":"execution","context":"context","signature":"signature","target":"target","effect":"read","definition":"definition","stage":"Weigh","verdict":"permitted","violation":"violation","payload":"payload","detail":"detail","label":"label","label_after":"label_after","origins":"origins","after":"after","approval":"approval","reason":"reason","args":"args","args_bytes":7,"body":"body","result":"result","result_bytes":7,"us":7,"bundle":"bundle","policy":"policy","tree":"tree","count":7"#;

#[test]
fn a_record_has_the_keys_it_always_had() {
    let mut line = Vec::new();
    encode::fields(&mut line, 0, &full());
    let line = String::from_utf8(line).unwrap();
    assert!(line.starts_with(BEFORE), "{line}");
}

#[test]
fn what_an_older_or_a_newer_gate_wrote_is_read() {
    let old = format!("{{\"v\":1,\"seq\":3{BEFORE},\"prev\":\"p\",\"hash\":\"h\"}}");
    let record: Record = serde_json::from_str(&old).unwrap();
    assert_eq!(
        (record.seq, record.caller.as_str(), record.count),
        (3, "caller", Some(7))
    );
    assert_eq!(serde_json::to_string(&record).unwrap(), old);
    let newer = old.replace(",\"prev\"", ",\"not_yet\":1,\"prev\"");
    assert_eq!(serde_json::from_str::<Record>(&newer).unwrap(), record);
}
