mod labels;
mod lineage;
mod resets;

use proptest::prelude::*;
use vocab::{Integrity, Level, Mark, ServerId};

fn any_mark() -> impl Strategy<Value = Mark> {
    (0u8..4, any::<bool>()).prop_map(|(rank, untrusted)| Mark {
        secrecy: Level::from_rank(rank).unwrap(),
        integrity: if untrusted {
            Integrity::Untrusted
        } else {
            Integrity::Trusted
        },
    })
}

fn id(name: &str) -> ServerId {
    ServerId::parse(name).unwrap()
}

const CONFIDENTIAL: Mark = Mark::trusted(Level::Confidential);
