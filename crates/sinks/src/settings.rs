//! What an operator says about a sink, and what the program lends it.

use std::{fmt, future::Future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use audit::{Clock, Filter};
use vocab::Redacted;

use crate::nats::NatsSpec;

/// One sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Names its cursor too: a sink that keeps its name goes on where it was, wherever it sends to now.
    pub name: String,
    pub filter: Filter,
    pub start: Start,
    /// Events handed over at once.
    pub batch: usize,
    /// How long the other side may take.
    pub timeout: Duration,
    pub kind: Kind,
}

/// Where a sink without a cursor begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Beginning,
    Now,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    File {
        path: PathBuf,
        rotate_bytes: u64,
    },
    Syslog {
        address: Address,
        facility: Facility,
    },
    Webhook {
        url: String,
        headers: Vec<(String, Text)>,
        secret: Option<String>,
    },
    Otlp {
        url: String,
        headers: Vec<(String, Text)>,
    },
    Nats(NatsSpec),
}

impl Kind {
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Kind::File { .. } => "file",
            Kind::Syslog { .. } => "syslog",
            Kind::Webhook { .. } => "webhook",
            Kind::Otlp { .. } => "otlp",
            Kind::Nats(_) => "nats",
        }
    }
}

/// Where a syslog daemon listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Udp(String),
    Tcp(String),
    Unix(PathBuf),
}

/// Who a syslog message comes from, as a number of RFC 5424.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facility(u8);

impl Facility {
    /// The words an operator may write, by their numbers.
    pub const WORDS: [(&'static str, u8); 13] = [
        ("user", 1),
        ("daemon", 3),
        ("auth", 4),
        ("authpriv", 10),
        ("audit", 13),
        ("local0", 16),
        ("local1", 17),
        ("local2", 18),
        ("local3", 19),
        ("local4", 20),
        ("local5", 21),
        ("local6", 22),
        ("local7", 23),
    ];

    #[must_use]
    pub fn parse(word: &str) -> Option<Facility> {
        Facility::WORDS
            .iter()
            .find(|(known, _)| *known == word)
            .map(|(_, number)| Facility(*number))
    }

    pub(crate) fn number(self) -> u8 {
        self.0
    }
}

/// A value, or the name of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    Literal(String),
    Secret(String),
}

/// One HTTP request to be made by somebody who may.
#[derive(Debug)]
pub struct Parcel {
    pub url: String,
    pub headers: Vec<(String, Redacted<String>)>,
    pub body: String,
    pub timeout: Duration,
}

/// What came back: a status, and the beginning of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub status: u16,
    pub body: String,
}

/// A request under way.
pub type Sending = Pin<Box<dyn Future<Output = Result<Receipt, String>> + Send>>;

/// What the program lends to its sinks.
#[derive(Clone)]
pub struct Outside {
    /// Reveals what a reference names, at the moment it is spent.
    pub secrets: Arc<dyn secrets::Store>,
    /// Makes HTTP requests. A sink that needs it where there is none says so and waits.
    pub courier: Option<Arc<dyn Fn(Parcel) -> Sending + Send + Sync>>,
    pub clock: Clock,
    /// Any number; pauses are stretched by it, so that sinks of many gates do not come back all at once.
    pub dice: Arc<dyn Fn() -> u32 + Send + Sync>,
    /// What messages say about where they come from.
    pub version: &'static str,
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").finish_non_exhaustive()
    }
}
