//! The configuration as meant, every default filled in. What has an owner elsewhere is of that owner's type; the types here are only for
//! what this crate decides itself: which files are named, and where in the text something stands.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use gateway::settings::{
    ApprovalSettings, OAuth, SealTerms, ServerSpec, Terms, VolumeEntry, WebTerms,
};
use policy::{
    Influence, SecurityContext,
    context::{AgentTools, Ceilings},
};

use super::{
    finding::{Finding, Place},
    stores::StoreSpec,
};

/// A file that was read and has no mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub listen: SocketAddr,
    /// The doors besides the first.
    pub doors: Vec<doors::DoorSpec>,
    /// How often one address may ask. `None`: nobody counts.
    pub rate_limit: Option<doors::Terms>,
    pub drain: Drain,
    /// Where those who watch the gate find it.
    pub admin_listen: Option<SocketAddr>,
    /// What requests and calls are held to: who is let in, and the limits.
    pub terms: Terms,
    pub bundle: BundleSource,
    pub untrusted_influence: Influence,
    pub approvals: ApprovalSettings,
    pub retention: Retention,
    pub sinks: Vec<sinks::Spec>,
    /// Certificate authorities to trust beside the system's.
    pub ca_files: Vec<PathBuf>,
    /// Whether a server with a command may be added over HTTP.
    pub connector_commands: bool,
    /// Where `secret:` references lead.
    pub stores: Vec<StoreSpec>,
    /// In the order of the file; those that are skipped or disabled included.
    pub servers: Vec<ServerSpec>,
    /// Without a root where the gate keeps the files itself.
    pub volumes: Vec<VolumeEntry>,
    /// What the tools for the web may do; `None`: there are none.
    pub web: Option<WebTerms>,
    pub contexts: Vec<SecurityContext>,
    pub agents: Vec<AgentEntry>,
    pub ceilings: Ceilings,
    pub seal: SealTerms,
    /// `None`: the gate makes a key of its own.
    pub seal_keys: Option<KeyFiles>,
    pub oauth: Option<OAuth<IssuerKeys>>,
    /// What works but should be looked at.
    pub warnings: Vec<Finding>,
    /// Where the entry of each server stands in the file, by its id.
    pub(crate) places: BTreeMap<String, Place>,
}

impl Resolved {
    #[must_use]
    pub fn server(&self, id: &str) -> Option<&ServerSpec> {
        self.servers.iter().find(|server| server.id.as_str() == id)
    }

    /// Where the entry of a server stands in the file.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<Place> {
        self.places.get(id).copied()
    }
}

/// How a gate that was told to terminate stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// It says that it stops, and takes everything.
    pub delay: Duration,
    /// What calls under way have after that.
    pub timeout: Duration,
}

/// Where the policies come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleSource {
    /// One that comes with the program.
    Shipped(&'static str),
    /// A `.cedar` file, or a directory of them.
    At(PathBuf),
}

/// How long the ledger is kept. `None` is for ever, and without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    pub age: Option<Duration>,
    pub max_bytes: Option<u64>,
}

/// An agent, with the manifest its tools are to be read from, if they are not in this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentEntry {
    pub agent: AgentTools,
    pub manifest: Option<PathBuf>,
    /// Where the entry stands in the file.
    pub place: Place,
}

/// Where the keys of an identity provider are, as written. [`crate::oauth`] reads the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuerKeys {
    Url(String),
    File(PathBuf),
}

/// The keys that sign tokens, and that recognise tokens of an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFiles {
    pub private: NamedFile,
    pub public: Option<NamedFile>,
}

/// A file that the configuration names, and where it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    pub path: PathBuf,
    pub place: Place,
}
