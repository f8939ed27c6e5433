//! Servers and ledgers for tests.

use std::{path::PathBuf, sync::Arc, time::Duration};

use audit::{Filter, Ledger};
use bytes::Bytes;
use callers::{caller::Callers, meters::Meters};
use policy::Budget;
use tempfile::TempDir;
use vocab::{Level, ServerId};

use crate::{
    Catalog, Pins, Sight,
    catalog::{Basis, Face},
    settings::{Allow, ServerSpec, TargetSpec},
};

/// How many random scenes a property is tried on; more in a campaign.
pub(super) fn scenes() -> u64 {
    let told = std::env::var("PORTCULLIS_SCENES").ok();
    told.and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

pub(super) fn spec(id: &str, classification: Option<Level>) -> Arc<ServerSpec> {
    let budget = Budget {
        time: Duration::from_secs(60),
        result_bytes: 1 << 20,
    };
    let target = TargetSpec {
        classification,
        ..TargetSpec::new(ServerId::parse(id).unwrap(), budget)
    };
    Arc::new(ServerSpec {
        rotation: 0,
        open_world: Some(false),
        allow: Allow {
            elicitation: true,
            ..Allow::default()
        },
        ..ServerSpec::new(target)
    })
}

/// What somebody sees who has read nothing and may use everything.
pub(super) fn sight() -> Sight {
    let callers = Callers::new(Vec::new(), [0; 32]);
    callers.allow_anonymous(true);
    Sight::of(&callers.anonymous().unwrap(), true)
}

pub(super) fn face(tools: &str) -> Arc<Face> {
    let hello = Bytes::from_static(
        br#"{"protocol":"2025-11-25","era":"legacy","instructions":"be nice","capabilities":{"tools":{},"tasks":{"x":1},"extensions":{}}}"#,
    );
    let lists = format!(
        r#"{{"tools":[{tools}],"resources":[{{"uri":"demo://a","name":"a"}}],"templates":[],"prompts":[]}}"#
    );
    Arc::new(Face::read(&hello, &lists.into(), None).unwrap())
}

/// Pins and a ledger in a directory of their own.
pub(super) struct Bench {
    pub(super) pins: Arc<Pins>,
    pub(super) ledger: Ledger,
    meters: Meters,
    dir: TempDir,
}

impl Bench {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(dir.path().join("ledger")).unwrap();
        let pins = Pins::open(dir.path().join("portcullis.lock")).unwrap();
        Self {
            pins,
            ledger,
            meters: Meters::default(),
            dir,
        }
    }

    pub(super) fn lock_file(&self) -> PathBuf {
        self.dir.path().join("portcullis.lock")
    }

    pub(super) fn build(&self, servers: &[(Arc<ServerSpec>, Option<Arc<Face>>)]) -> Catalog {
        for (spec, face) in servers {
            if let Some(face) = face {
                self.pins.notice(spec, face, &self.ledger);
            }
        }
        Catalog::build(
            servers,
            Basis {
                pins: &self.pins,
                meters: &self.meters,
            },
        )
    }

    /// The actions of the changes on record, with what they are about.
    pub(super) fn changes(&self) -> Vec<(String, String)> {
        let records = audit::read(
            self.ledger.dir(),
            Filter {
                kind: "change".into(),
                ..Filter::default()
            },
        )
        .unwrap();
        let changes = records
            .map(Result::unwrap)
            .filter(|record| record.action.starts_with("definition"));
        changes.map(|record| (record.action, record.tool)).collect()
    }
}
