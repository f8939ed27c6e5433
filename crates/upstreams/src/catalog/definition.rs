//! One definition as a server showed it, and what is derived from it once.
//!
//! **Invariant: what a server says of itself decides nothing.** Tests `a_servers_own_hints_decide_nothing`,
//! `effects_come_from_the_operator_then_the_lock_then_the_name_and_never_from_hints`.

use std::{collections::BTreeMap, sync::OnceLock};

use bytes::Bytes;
use shape::Schema;
use wire::Json;

use super::reparse;

/// What kind of thing a definition defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Tool,
    Prompt,
    Template,
    /// The text a server gives its clients as instructions; there is at most one.
    Instructions,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Template, Self::Instructions];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Template => "template",
            Self::Instructions => "instructions",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A schema of a definition: none declared, one to check against, or one that cannot be used and why.
pub type Declared = Result<Option<Schema>, String>;

/// A definition's text and what it comes to. Schemas are compiled when first needed: most tools are never called.
#[derive(Debug)]
pub struct Definition {
    raw: Bytes,
    digest: String,
    input: OnceLock<Declared>,
    output: OnceLock<Declared>,
    takes_address: OnceLock<bool>,
    roles: OnceLock<provenance::Roles>,
}

impl Definition {
    pub fn new(raw: Bytes) -> Self {
        let digest = digest(&wire::canonical(reparse(&raw)));
        Self {
            raw,
            digest,
            input: OnceLock::new(),
            output: OnceLock::new(),
            takes_address: OnceLock::new(),
            roles: OnceLock::new(),
        }
    }

    /// Names the definition: equal values have equal digests, however they are written.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub fn canonical(&self) -> Vec<u8> {
        wire::canonical(self.json())
    }

    pub fn json(&self) -> Json<'_> {
        reparse(&self.raw)
    }

    pub fn input(&self) -> &Declared {
        self.input.get_or_init(|| self.compile("inputSchema"))
    }

    pub fn output(&self) -> &Declared {
        self.output.get_or_init(|| self.compile("outputSchema"))
    }

    /// What its arguments are for.
    #[must_use]
    pub fn roles(&self) -> &provenance::Roles {
        self.roles
            .get_or_init(|| provenance::Roles::new(BTreeMap::new(), self.json().get("inputSchema")))
    }

    /// Whether it takes addresses: calling it tells somebody something, and what comes back may be anyone's words.
    pub fn takes_address(&self) -> bool {
        *self
            .takes_address
            .get_or_init(|| shape::definition::takes_address(self.json()))
    }

    fn compile(&self, field: &str) -> Declared {
        let Some(schema) = self.json().get(field) else {
            return Ok(None);
        };
        Schema::compile(schema.as_bytes())
            .map(Some)
            .map_err(|problem| format!("its {field} cannot be used: {problem}"))
    }
}

pub fn digest(canonical: &[u8]) -> String {
    blake3::hash(canonical).to_hex().to_string()
}
