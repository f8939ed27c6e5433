//! What one caller notices of another: of one that calls as fast as it can, of one that asks for long results, of one that never reads.
//!
//! Each scene has a polite caller with one call in flight. It is measured alone and beside the other, in turns.

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    matrix::{Measured, median},
    places::{CONNECTIONS_UNREAD, Stand},
};
use crate::say;

/// Kinds of text that a long result is made of: ordinary ones, and those that are dearest to search.
const LONG_TEXTS: [&str; 8] = [
    "prose", "rows", "russian", "words", "slack", "azure", "aws", "jwt",
];
/// As long as a result may be, but for what is around it.
const LONG: usize = 30 << 20;

/// How a polite caller fared in one scene.
#[derive(Debug, Serialize)]
pub(super) struct Neighbour {
    pub(super) scene: String,
    /// Of every round: the 99th percentile alone and beside the other, in microseconds.
    pub(super) alone_us: Vec<f64>,
    pub(super) beside_us: Vec<f64>,
    /// How many calls of the other were answered meanwhile.
    pub(super) others_calls: usize,
}

impl Neighbour {
    /// The median, over rounds, of beside to alone.
    pub(super) fn ratio(&self) -> f64 {
        let pairs = self
            .alone_us
            .iter()
            .zip(&self.beside_us)
            .filter(|(alone, _)| **alone > 0.0);
        median(pairs.map(|(alone, beside)| beside / alone).collect())
    }

    pub(super) fn beside_ms(&self) -> f64 {
        median(self.beside_us.clone()) / 1e3
    }

    pub(super) fn is_long(&self) -> bool {
        self.scene.starts_with("30 MiB")
    }
}

/// What never read: how many connections, and the most memory that gate and worker had meanwhile.
#[derive(Debug, Default, Serialize)]
pub(super) struct Unread {
    pub(super) connections: usize,
    pub(super) resident_bytes: u64,
}

/// What the other caller does.
struct Other {
    scene: String,
    options: Vec<(&'static str, String)>,
}

fn others() -> Vec<Other> {
    let busy = Other {
        scene: "64 connections that call as fast as they can".to_owned(),
        options: vec![
            ("connections", "64".to_owned()),
            ("tool", "elsewhere__echo".to_owned()),
        ],
    };
    let long = LONG_TEXTS.iter().map(|text| Other {
        scene: format!("30 MiB results: {text}"),
        options: vec![
            ("connections", "4".to_owned()),
            ("tool", "elsewhere__fill".to_owned()),
            ("text", (*text).to_owned()),
            ("fill", LONG.to_string()),
        ],
    });
    std::iter::once(busy).chain(long).collect()
}

pub(super) fn measure(
    stand: &mut Stand,
    rounds: usize,
    seconds: f64,
) -> Result<(Vec<Neighbour>, Unread)> {
    let mut all = Vec::new();
    for other in others() {
        say(format_args!("beside {}", other.scene));
        let mut neighbour = Neighbour {
            scene: other.scene,
            alone_us: Vec::new(),
            beside_us: Vec::new(),
            others_calls: 0,
        };
        for _ in 0..rounds {
            neighbour.alone_us.push(stand.polite(seconds)?.p99_us);
            let (polite, greedy) = stand
                .beside(&other.options, seconds)
                .with_context(|| neighbour.scene.clone())?;
            neighbour.beside_us.push(polite.p99_us);
            neighbour.others_calls += greedy.calls;
        }
        all.push(neighbour);
    }
    say(format_args!(
        "{CONNECTIONS_UNREAD} connections that never read"
    ));
    let Measured {
        calls,
        resident_bytes,
        ..
    } = stand.unread(LONG, seconds)?;
    Ok((
        all,
        Unread {
            connections: calls,
            resident_bytes,
        },
    ))
}

pub(super) fn show(neighbours: &[Neighbour], unread: &Unread) {
    if neighbours.is_empty() {
        return;
    }
    say(
        "\nbeside another caller (medians)                         p99 alone µs   beside µs   ratio   other's calls",
    );
    for neighbour in neighbours {
        say(format_args!(
            "  {:52} {:13.0} {:11.0} {:7.1} {:15}",
            neighbour.scene,
            median(neighbour.alone_us.clone()),
            median(neighbour.beside_us.clone()),
            neighbour.ratio(),
            neighbour.others_calls
        ));
    }
    say(format_args!(
        "  {} connections that never read: {:.0} MiB",
        unread.connections,
        unread.resident_bytes as f64 / super::report::MIB
    ));
}
