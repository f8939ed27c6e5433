//! The verbs that read the ledger at length: questions, reports, exports, retention.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use home::{
    answers::{condition, one_of},
    when::When,
};

use super::reason;

pub const QUERY_EXAMPLES: &str = "\
Examples:
  portcullis audit query --verdict refused --since 7d
  portcullis audit query --user alice --server github --tool create_issue
  portcullis audit query --level RESTRICTED --since 2026-11-01 --until 2026-12-01 --json
  portcullis audit query --lineage 19a8c-17   what may have influenced that call";

macro_rules! draw_conditions {
    ([] $({ $name:ident $kind:ident $asked:literal $what:literal })*) => {
        /// Conditions on records; all of them must hold.
        #[derive(Debug, Args)]
        pub struct Conditions {
            /// Only this kind of record: intent, outcome, refusal or change
            #[arg(long, value_parser = |text: &str| condition("kind", text))]
            pub kind: Option<String>,
            /// Only where the session had reached this level
            #[arg(long, value_parser = |text: &str| condition("level", text))]
            pub level: Option<String>,
            $(
                #[arg(long, help = $asked, value_parser = |text: &str| condition(stringify!($name), text))]
                pub $name: Option<String>,
            )*
        }

        impl Conditions {
            /// The conditions in the words of the operator interface.
            pub fn query(&self) -> api::RecordsQuery {
                api::RecordsQuery {
                    kind: self.kind.clone(),
                    level: self.level.clone(),
                    $($name: self.$name.clone(),)*
                    ..api::RecordsQuery::default()
                }
            }
        }
    };
}
vocab::record_columns!(asked => draw_conditions []);

#[derive(Debug, Args)]
#[command(after_help = QUERY_EXAMPLES)]
pub struct AuditQuery {
    #[command(flatten)]
    pub conditions: Conditions,
    /// From then on: 30m, 2h or 7d ago, or a date or time
    #[arg(long, value_name = "TIME", value_parser = When::checked)]
    pub since: Option<String>,
    /// Before then
    #[arg(long, value_name = "TIME", value_parser = When::checked)]
    pub until: Option<String>,
    /// A call, and every call whose result may have influenced it
    #[arg(long, value_name = "CALL")]
    pub lineage: Option<String>,
    /// Show everything: changes, and intents whose outcome is known
    #[arg(long)]
    pub all: bool,
    /// Show at most this many, the newest
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,
}

pub const REPORT_EXAMPLES: &str = "\
Examples:
  portcullis audit report --since 7d
  portcullis audit report --since 30d --format html --out november.html
  portcullis audit report --since 2026-11-01 --until 2026-12-01 --format csv > november.csv";

#[derive(Debug, Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct AuditReport {
    /// From then on: 30m, 2h or 7d ago, or a date or time; without it, from the beginning
    #[arg(long, value_name = "TIME", value_parser = When::checked)]
    pub since: Option<String>,
    /// Before then; without it, until now
    #[arg(long, value_name = "TIME", value_parser = When::checked)]
    pub until: Option<String>,
    /// What to write; JSON where --json is given
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: ReportFormat,
    /// Write it to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For a terminal
    Text,
    Json,
    /// One line per figure
    Csv,
    /// One page with charts, which needs nothing else
    Html,
}

pub const EXPORT_EXAMPLES: &str = "\
Examples:
  portcullis audit export --since 2026-11-01 --until 2026-12-01 --out november.ledger
  portcullis audit verify --export november.ledger --key ledger.pub";

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub struct AuditExport {
    /// From then on: 30m, 2h or 7d ago, or a date or time; without it, from the oldest record
    #[arg(long, value_name = "TIME", value_parser = When::parse)]
    pub since: Option<When>,
    /// Before then; without it, up to the signed head
    #[arg(long, value_name = "TIME", value_parser = When::parse)]
    pub until: Option<When>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

pub const RETAIN_EXAMPLES: &str = "\
Examples:
  portcullis audit retain --dry-run   what would go now, as the configuration says
  portcullis audit retain --before 90d --reason expired";

#[derive(Debug, Args)]
#[command(after_help = RETAIN_EXAMPLES)]
pub struct AuditRetain {
    /// Remove what is older, instead of what the configuration says
    #[arg(long, value_name = "TIME", value_parser = When::parse)]
    pub before: Option<When>,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// A family of events; the set is closed.
pub(super) fn family(text: &str) -> Result<String, String> {
    one_of(text, &::audit::event_families())
}

/// The name of an event, with or without its type. Which there are follows from what is recorded, so only the form is checked.
pub(super) fn event(text: &str) -> Result<String, String> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let parts = text
        .split_once("Event::")
        .map_or((true, text), |(kind, name)| (is_name(kind), name));
    match parts {
        (true, name) if is_name(name) => Ok(text.to_owned()),
        _ => {
            Err("it is a name as in `InvocationFailed` or `MCPToolEvent::InvocationFailed`; docs/operate/events.md lists them".to_owned())
        }
    }
}
