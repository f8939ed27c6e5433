//! The table of operations: everything an operator can ask for, each with its path, its method and the role it needs.
//!
//! A row is all that a new operation needs to have a route, a place in the OpenAPI document and a typed call. What carries it out is an
//! arm of the exhaustive matches in `server` and in the command line.

use crate::{
    AllOrOpen, Answered, Approval, ApproveDefinitions, Approved, BeginExecution, BundleCheck,
    BundleText, Classify, ConfigCheck, ConfigValue, Connector, ConnectorRemoved, Connectors,
    ConsoleCode, ConsoleCodeWanted, Direction, Done, EventStream, EventsQuery, Execution,
    ExecutionBegun, Explain, Explanation, Input, Jail, LastingAnswer, Lineage, MustReason,
    NewConnector, Nothing, Period, PolicyDiff, PolicyDiffQuery, PolicySuggestQuery, Reasoned,
    Records, RecordsQuery, Reloaded, Report, Review, Role, Server, ServerChange, Session,
    SessionReset, Sink, Status, Suggestion, Task, TaskBegun, Tool, Visit, Volume, VolumeAttached,
    VolumeAttachment, VolumeContent, VolumeDetachment, VolumeEntry, VolumeFile, VolumeLabel,
    VolumePlace, VolumeRemoval, Yes,
};

/// How an operation is asked for over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Only looks; what comes with it stands in the query.
    Get,
    /// Changes something, or takes more with it than a query holds.
    Post,
}

impl Method {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// What must be there for an operation to be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Needs {
    /// A running gate: only it knows.
    Gate,
    /// The files of a home. The command line answers it without a gate.
    Files,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationRow {
    /// Dotted, stable, for programs and records.
    pub name: &'static str,
    pub method: Method,
    /// What follows [`crate::PREFIX`]; at most one name in braces stands in it.
    pub path: &'static str,
    /// The least role that may ask.
    pub role: Role,
    pub needs: Needs,
    /// The sentence about it, for people.
    pub says: &'static str,
}

/// An operation with the types of what it takes and gives, for callers in Rust.
pub trait Ask {
    type Input: Input;
    type Output: serde::Serialize + serde::de::DeserializeOwned;
    const OPERATION: Operation;
}

macro_rules! operations {
    ($( #[doc = $says:literal] $name:ident, $text:literal, $method:ident $path:literal, $role:ident, $needs:ident, $input:ty => $output:ty; )+) => {
        /// Everything an operator can ask for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Operation {
            $( #[doc = $says] $name, )+
        }

        impl Operation {
            pub const ALL: &'static [Self] = &[$( Self::$name, )+];

            #[must_use]
            pub const fn row(self) -> OperationRow {
                match self {
                    $( Self::$name => OperationRow {
                        name: $text,
                        method: Method::$method,
                        path: $path,
                        role: Role::$role,
                        needs: Needs::$needs,
                        says: $says.trim_ascii(),
                    }, )+
                }
            }

            /// The schemas of what it takes and of what it gives.
            #[cfg(feature = "schema")]
            pub(crate) fn schemas(
                self,
                takes: &mut schemars::SchemaGenerator,
                gives: &mut schemars::SchemaGenerator,
            ) -> (schemars::Schema, schemars::Schema) {
                match self {
                    $( Self::$name => (
                        takes.subschema_for::<$input>(),
                        gives.subschema_for::<$output>(),
                    ), )+
                }
            }
        }

        /// The operations as types, so that a call and its answer have theirs.
        pub mod ask {
            use super::*;
            $(
                #[doc = $says]
                #[derive(Debug, Clone, Copy)]
                pub struct $name;

                impl Ask for $name {
                    type Input = $input;
                    type Output = $output;
                    const OPERATION: Operation = Operation::$name;
                }
            )+
        }
    };
}

operations! {
    /// Everything at a glance.
    Status, "status", Get "status", Viewer, Gate, Nothing => super::Status;
    /// The servers, and how each is doing.
    Servers, "servers.list", Get "servers", Viewer, Gate, Nothing => Vec<Server>;
    /// The programs that run in jails now: stdio servers and commands.
    Jails, "jails.list", Get "jails", Viewer, Gate, Nothing => Vec<Jail>;
    /// Ends a command that runs, with everything in its jail.
    EndJail, "jails.end", Post "jails/{jail}/end", Operator, Gate, Reasoned => Done;
    /// The executions whose commands an executor runs, those that ended of late included.
    Executions, "executions.list", Get "executions", Viewer, Gate, Nothing => Vec<Execution>;
    /// Begins an execution: from now on an executor runs the commands of a credential, or of one of its executions of signed calls.
    BeginExecution, "executions.begin", Post "executions/begin", Operator, Gate, super::BeginExecution => ExecutionBegun;
    /// Ends an execution: commands that wait for its executor fail, and its executor is told to end.
    EndExecution, "executions.end", Post "executions/{execution}/end", Operator, Gate, Reasoned => Done;
    /// Every tool of every server, those that callers are not shown included.
    Tools, "tools.list", Get "tools", Viewer, Gate, Nothing => Vec<Tool>;
    /// Tries a server again now, however often it has failed.
    RetryServer, "servers.retry", Post "servers/{server}/retry", Operator, Gate, Nothing => Done;
    /// Empties the home of a stdio server's own, where package runners keep what they fetched, and starts it anew.
    ReinstallServer, "servers.reinstall", Post "servers/{server}/reinstall", Operator, Gate, Reasoned => Done;
    /// Gives a server a level; the first time, what it shows is approved with it.
    ClassifyServer, "servers.classify", Post "servers/{server}/classify", Operator, Gate, Classify => ServerChange;
    /// Prohibits a server, whatever else is said of it.
    BlockServer, "servers.block", Post "servers/{server}/block", Operator, Gate, MustReason => ServerChange;
    /// Lets a server be what its classification says again.
    UnblockServer, "servers.unblock", Post "servers/{server}/unblock", Operator, Gate, Reasoned => ServerChange;
    /// Every definition of a server, held against what was approved.
    Definitions, "definitions.list", Get "servers/{server}/definitions", Viewer, Gate, Nothing => Review;
    /// Approves definitions as the server shows them now.
    ApproveDefinitions, "definitions.approve", Post "servers/{server}/approve", Operator, Gate, super::ApproveDefinitions => Approved;
    /// Reads the configuration again; a bad one changes nothing.
    Reload, "config.reload", Post "reload", Operator, Gate, Nothing => Done;
    /// The same, in the words of host programs; also at `/reload-config`.
    ReloadConfig, "config.reload_config", Post "reload-config", Operator, Gate, Nothing => Reloaded;
    /// The servers of every layer, as the files have them; also at `/mcp/connectors`.
    Connectors, "connectors.list", Get "connectors", Viewer, Files, Nothing => super::Connectors;
    /// Adds a server to the person's own file, UNTRUSTED; also as POST to `/mcp/connectors`.
    AddConnector, "connectors.add", Post "connectors/add", Operator, Gate, NewConnector => Connector;
    /// Removes a server from the person's own file; also as DELETE of `/mcp/connectors/{server}`.
    RemoveConnector, "connectors.remove", Post "connectors/{server}/remove", Operator, Gate, Nothing => ConnectorRemoved;
    /// What each caller's session has seen.
    Sessions, "sessions.list", Get "sessions", Viewer, Gate, Nothing => Vec<Session>;
    /// Begins a caller's session anew; the caller is named by id or name.
    ResetSession, "sessions.reset", Post "sessions/{caller}/reset", Operator, Gate, MustReason => SessionReset;
    /// Begins a conversation of a caller, clean, with what a person said; or goes on with the one under way.
    BeginTask, "tasks.begin", Post "tasks", Runtime, Gate, Task => TaskBegun;
    /// The calls that wait for a person.
    Approvals, "approvals.list", Get "approvals", Viewer, Gate, AllOrOpen => Vec<Approval>;
    /// One call that waits, or waited, for a person, with everything its answer is bound to.
    ShowApproval, "approvals.show", Get "approvals/{approval}/show", Viewer, Gate, Nothing => Approval;
    /// Lets a call that waits go on, as it was shown: once, or for its tool with its targets as long as the conversation lasts.
    Approve, "approvals.approve", Post "approvals/{approval}/approve", Approver, Gate, Yes => Answered;
    /// The answers that last.
    Lasting, "approvals.lasting", Get "lasting", Viewer, Gate, Nothing => Vec<LastingAnswer>;
    /// Takes an answer that lasts back: the next such call is asked about again.
    Revoke, "approvals.revoke", Post "lasting/{approval}/revoke", Approver, Gate, Reasoned => Done;
    /// Refuses a call that waits.
    Deny, "approvals.deny", Post "approvals/{approval}/deny", Approver, Gate, Reasoned => Answered;
    /// What every stage says of a call, made or imagined. Reaches no server and changes nothing.
    Explain, "policy.explain", Post "policy/explain", Viewer, Gate, super::Explain => Explanation;
    /// What happens, as a stream of server-sent events.
    Events, "events.stream", Get "events", Viewer, Gate, EventsQuery => EventStream;
    /// The volumes, and how full they are.
    Volumes, "volumes.list", Get "volumes", Viewer, Gate, Nothing => Vec<Volume>;
    /// A directory of a volume, with the label of each entry.
    VolumeEntries, "volumes.entries", Post "volumes/{volume}/entries", Operator, Gate, VolumePlace => Vec<VolumeEntry>;
    /// A file of a volume.
    VolumeContent, "volumes.read", Post "volumes/{volume}/content", Operator, Gate, VolumePlace => super::VolumeContent;
    /// Writes a file to a volume.
    PutOnVolume, "volumes.put", Post "volumes/{volume}/put", Operator, Gate, VolumeFile => Done;
    /// Deletes a file or directory from a volume.
    RemoveFromVolume, "volumes.remove", Post "volumes/{volume}/remove", Operator, Gate, VolumeRemoval => Done;
    /// Raises the label of a file or directory.
    LabelOnVolume, "volumes.label", Post "volumes/{volume}/label", Operator, Gate, VolumeLabel => Done;
    /// Opens the NFS door of a caller with a volume behind it.
    AttachVolume, "volumes.attach", Post "volumes/{volume}/attach", Operator, Gate, VolumeAttachment => VolumeAttached;
    /// Takes a volume away from behind the NFS door of a caller.
    DetachVolume, "volumes.detach", Post "volumes/{volume}/detach", Operator, Gate, VolumeDetachment => Done;
    /// A code that begins a visit of the console. Asked for on the gate's own socket only.
    ConsoleCode, "console.code", Post "console/codes", Viewer, Gate, ConsoleCodeWanted => super::ConsoleCode;
    /// Who is at the console.
    Visits, "console.visits", Get "console/visits", Viewer, Gate, Nothing => Vec<Visit>;
    /// Ends a visit of the console.
    EndVisit, "console.end", Post "console/visits/{visit}/end", Operator, Gate, Reasoned => Done;
    /// How each sink is doing.
    Sinks, "sinks.list", Get "sinks", Viewer, Gate, Nothing => Vec<Sink>;
    /// Records of the ledger; without conditions, the newest calls.
    Records, "audit.query", Get "audit/records", Viewer, Files, RecordsQuery => super::Records;
    /// What happened in a period, and whether the ledger verifies.
    Report, "audit.report", Get "audit/report", Viewer, Files, Period => super::Report;
    /// What may have influenced a call, or what its result may have.
    Lineage, "audit.lineage", Get "audit/lineage/{call}", Viewer, Files, Direction => super::Lineage;
    /// What is wrong with the configuration file, if anything.
    CheckConfig, "config.check", Get "config/check", Viewer, Files, Nothing => ConfigCheck;
    /// Every value of the configuration file, and where it came from.
    ExplainConfig, "config.explain", Get "config/explain", Viewer, Files, Nothing => Vec<ConfigValue>;
    /// Whether policies can be used: those that were sent, or those of the configuration.
    CheckPolicy, "policy.check", Post "policy/check", Viewer, Files, BundleText => BundleCheck;
    /// The recorded calls that other policies would decide otherwise.
    DiffPolicy, "policy.diff", Post "policy/diff", Viewer, Files, PolicyDiffQuery => PolicyDiff;
    /// Writes policies that allow what recorded calls did.
    SuggestPolicy, "policy.suggest", Get "policy/suggest", Viewer, Files, PolicySuggestQuery => Suggestion;
}
