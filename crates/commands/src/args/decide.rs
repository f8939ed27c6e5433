//! The verbs of whoever decides: sessions, approvals, policies, accounts.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};

use crate::args::reason;

#[derive(Debug, Args)]
pub struct Block {
    /// The server's id
    pub id: String,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: String,
}

#[derive(Debug, Args)]
pub struct Unblock {
    /// The server's id
    pub id: String,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}

pub const APPROVE_EXAMPLES: &str = "\
Examples:
  portcullis servers review github                         what changed, line by line
  portcullis servers approve github create_issue           one of them, as it is now
  portcullis servers approve github --reason 'read them'   everything that waits";

#[derive(Debug, Args)]
pub struct ApproveDefinitions {
    /// The server's id
    pub id: String,
    /// Which, as `portcullis servers review` shows them; one that is gone is forgotten. Without names, all that wait
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Sandbox {
    /// List the stdio servers and commands that run in jails
    List,
    /// Show what one of them sees and reaches
    Show(SandboxName),
    /// End a command, with everything in its jail
    Kill(SandboxKill),
}

#[derive(Debug, Args)]
pub struct SandboxName {
    /// As `portcullis sandbox list` names it
    pub id: String,
}

#[derive(Debug, Args)]
pub struct SandboxKill {
    /// As `portcullis sandbox list` names it
    pub id: String,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Session {
    /// Show what each caller's session has seen
    ///
    /// A session belongs to a credential, not to a connection: its label only rises, and lasts over restarts.
    Show(SessionShow),
    /// Forget what a caller's session has seen, and begin a new one
    ///
    /// What it has read stays in the ledger. Do this when the agent itself has forgotten too: the gate cannot look into it.
    Reset(SessionReset),
}

#[derive(Debug, Args)]
pub struct SessionShow {
    /// The caller's id or name; without it, all
    pub caller: Option<String>,
}

#[derive(Debug, Args)]
pub struct SessionReset {
    /// The caller's id, or its name if no other has it
    pub caller: String,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: String,
    /// Do not ask back
    #[arg(long)]
    pub yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = LINEAGE_EXAMPLES)]
pub struct Lineage {
    /// The call, as `portcullis audit tail` and `portcullis audit show` name it
    #[arg(value_name = "CALL")]
    pub call: String,
    /// What it may have influenced, instead of what may have influenced it
    #[arg(long)]
    pub forward: bool,
}

const LINEAGE_EXAMPLES: &str = "\
Examples:
  portcullis lineage 19a8c-17              what the agent had read when it made this call
  portcullis lineage 19a8c-12 --forward    everything that came after this result";

#[derive(Debug, Subcommand)]
pub enum Approvals {
    /// List the calls that wait for a person
    List(ApprovalsList),
    /// Show some in full: their arguments, what the session has read, and why they were asked
    Show(ApprovalIds),
    /// Let a call be made, exactly as it was shown
    #[command(after_help = APPROVE_CALL_EXAMPLES)]
    Approve(ApprovalYes),
    /// Refuse a call
    Deny(ApprovalAnswer),
    /// List the answers that last
    Lasting,
    /// Take an answer that lasts back: the next such call is asked about again
    Revoke(ApprovalAnswer),
}

const APPROVE_CALL_EXAMPLES: &str = "\
Examples:
  portcullis approvals approve d64asf                         this call, once
  portcullis approvals approve d64asf k2x9                    two that wait
  portcullis approvals approve d64asf --for conversation      these targets, in this conversation
  portcullis approvals revoke d64asf                          not any longer";

/// How long a yes holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum YesFor {
    /// For this call
    #[default]
    Call,
    /// For this tool with these targets in this conversation
    Conversation,
}

#[derive(Debug, Args)]
pub struct ApprovalYes {
    /// The approvals' ids; their first characters are enough if no other begins so
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// How long the yes holds: for this call, or for this tool with these targets in this conversation
    #[arg(long = "for", value_name = "HOW LONG", value_enum, default_value_t)]
    pub holds: YesFor,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct ApprovalsList {
    /// Those that were answered, used or have expired too
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct ApprovalIds {
    /// The approvals' ids; their first characters are enough if no other begins so. Without any, all that wait
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ApprovalAnswer {
    /// The approval's id; its first characters are enough if no other begins so
    pub id: String,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}

const ACCOUNT_EXAMPLES: &str = "\
Examples:
  portcullis connect-account github --user alice            asks for the token, without showing it
  portcullis connect-account github --user alice < token    takes it from a file
  portcullis connect-account github --user alice --login    alice logs in with a browser
  portcullis connect-account --list
  portcullis connect-account github --user alice --remove
  portcullis connect-account github --user alice --tenant acme    of the tenant acme";

#[derive(Debug, Args)]
#[command(after_help = ACCOUNT_EXAMPLES, group = clap::ArgGroup::new("what").required(true).args(["server", "list"]))]
pub struct ConnectAccount {
    /// The server the account is at
    #[arg(requires = "user")]
    pub server: Option<String>,
    /// Whose account it is, as in `portcullis token new --user`
    #[arg(long, value_name = "USER", conflicts_with = "list")]
    pub user: Option<String>,
    /// The tenant that the user belongs to, as in `portcullis token new --tenant`
    #[arg(
        long,
        value_name = "TENANT",
        conflicts_with = "list",
        requires = "user"
    )]
    pub tenant: Option<String>,
    /// Show which accounts are connected
    #[arg(long)]
    pub list: bool,
    /// Forget the account's token
    #[arg(long, conflicts_with = "list", requires = "server")]
    pub remove: bool,
    /// Log in as the user in a browser, instead of handing over a token
    #[arg(long, conflicts_with_all = ["list", "remove"], requires = "server")]
    pub login: bool,
    #[command(flatten)]
    pub how: super::LoginOptions,
}

#[derive(Debug, Subcommand)]
pub enum Policy {
    /// List every mistake in a bundle, with its line and column
    Check(PolicyCheck),
    /// Run the cases of a file through a bundle
    #[command(after_help = TEST_EXAMPLE)]
    Test(PolicyTest),
    /// Show what every stage says of a call, and what would have allowed it
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(PolicyExplain),
    /// Run recorded calls through another bundle, and list every verdict that would change
    Diff(PolicyDiff),
    /// Write the smallest bundle that admits the recorded calls, for a person to edit
    #[command(after_help = SUGGEST_EXAMPLES)]
    Suggest(PolicySuggest),
}

#[derive(Debug, Args)]
pub struct PolicyCheck {
    /// A .cedar file, a directory of them, or the name of a bundle; without it, the one in portcullis.yaml
    pub path: Option<PathBuf>,
}

const TEST_EXAMPLE: &str = "\
A file of cases is JSON; docs/operate/policy.md has every field:
  {\"cases\": [
    {\"name\": \"on-call may restart\", \"user\": \"alice\", \"departments\": [\"oncall\"],
     \"server\": \"ops\", \"target\": \"restart\", \"arguments\": {\"service\": \"web\"},
     \"label\": \"INTERNAL\", \"expect\": \"allow\", \"policy\": \"oncall-restarts\"}
  ]}";

#[derive(Debug, Args)]
pub struct PolicyTest {
    /// The cases
    pub file: PathBuf,
    /// Another bundle than the one in portcullis.yaml
    #[arg(long, value_name = "PATH")]
    pub bundle: Option<PathBuf>,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  portcullis policy explain 19a8c-17
  portcullis policy explain --tool web__post --arguments '{\"text\":\"hi\"}' --caller laptop
  portcullis policy explain --tool cmd.run --context code-assistant --agent coder";

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("which").required(true).args(["call", "tool"]),
    group = clap::ArgGroup::new("who").multiple(true).args(["caller", "context"])
)]
pub struct PolicyExplain {
    /// A recorded call, as `portcullis audit tail` names it
    #[arg(value_name = "CALL", conflicts_with_all = ["arguments", "caller", "context", "agent"])]
    pub call: Option<String>,
    /// A call that was not made: its tool, as `portcullis tools list` shows it
    #[arg(long, value_name = "TOOL", requires = "who")]
    pub tool: Option<String>,
    /// Its arguments, a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub arguments: String,
    /// Who would make it: a credential's id or name, or the execution of a session
    #[arg(long, value_name = "CALLER")]
    pub caller: Option<String>,
    /// The security context it would be made in, instead of the caller's own; without a caller, by nobody in particular
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The agent that would make it
    #[arg(long, value_name = "AGENT", requires = "who")]
    pub agent: Option<String>,
}

#[derive(Debug, Args)]
pub struct PolicyDiff {
    /// The other bundle: a .cedar file, a directory of them, or the name of a bundle
    pub path: PathBuf,
    /// Only this caller's calls: a credential's id or name
    #[arg(long, value_name = "CALLER")]
    pub caller: Option<String>,
    /// Only calls of this time, as in 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<Duration>,
}

const SUGGEST_EXAMPLES: &str = "\
Examples:
  portcullis policy suggest --since 2h > mine.cedar
  portcullis policy suggest --caller laptop";

#[derive(Debug, Args)]
pub struct PolicySuggest {
    /// Only this caller's calls: a credential's id or name
    #[arg(long, value_name = "CALLER")]
    pub caller: Option<String>,
    /// Only calls of this time, as in 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<Duration>,
}

/// `30m`, `2h`, `7d`.
fn since(text: &str) -> Result<Duration, String> {
    home::when::ago(text).ok_or_else(|| "write it as in 30m, 2h or 7d".to_owned())
}
