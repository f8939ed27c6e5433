//! The verbs and their options.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use home::answers::level;
use terminal::ColorChoice;

mod audit;
mod decide;
mod executions;
mod import;
mod seal;
mod servers;
mod task;
mod volume;

pub use audit::*;
pub use decide::*;
pub use executions::*;
pub use import::*;
pub use seal::*;
pub use servers::*;
pub use task::*;
pub use volume::*;

const EXAMPLES: &str = "\
Examples:
  portcullis up                 start the gate
  portcullis clients show claude-code     what to paste into your client
  portcullis demo               a tour: a permitted call, a refused one, the ledger
  portcullis servers add time --command uvx --classification PUBLIC -- mcp-server-time
  portcullis servers add search --url https://mcp.example.com/mcp --bearer env:SEARCH_TOKEN
  portcullis call demo-notes__search_notes '{\"query\": \"launch\"}'
  portcullis status --watch
  portcullis approvals list     the calls that wait for you
  portcullis policy explain --tool demo-web__post_message --caller first-client

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 refused by the gate,
4 gate not running, 5 server failed, 6 ledger altered, 130 interrupted.";

/// The gate between AI agents and their tools.
///
/// Portcullis stands between an MCP client and its servers. Every call is identified, weighed against what the session has already
/// seen, judged, recorded and only then carried out.
#[derive(Debug, Parser)]
#[command(name = "portcullis", version, after_help = EXAMPLES, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// Keep configuration, state, ledger and sockets in DIR instead of the XDG directories
    #[arg(long, value_name = "DIR", global = true)]
    pub home: Option<PathBuf>,

    /// Answer in JSON: one document, or one per line where there are many records
    #[arg(long, global = true)]
    pub json: bool,

    /// When to use colours
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto")]
    pub color: ColorChoice,

    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start the gate
    ///
    /// Creates what is missing in the home: a commented portcullis.yaml, a client credential, the ledger. The gate is ready before
    /// its servers are; they connect in the background.
    ///
    /// Ctrl-C stops it: no new connection is taken, and calls under way get ten seconds. Ctrl-C again cancels them at once. On SIGTERM the
    /// gate first answers `/readyz` with 503 for two seconds and serves everything as before.
    Up(Up),
    /// Speak MCP on standard input and output, for clients that start a command
    Connect(Connect),
    /// See and change the servers behind the gate
    #[command(subcommand)]
    Servers(Servers),
    /// See the tools clients can call
    #[command(subcommand)]
    Tools(Tools),
    /// Call one tool through the gate
    ///
    /// Texts of the result are printed as they are: byte for byte into a file or a pipe, and with their lines and blanks on a terminal.
    Call(Call),
    /// Show whether the gate runs, its servers and its callers
    Status(Status),
    /// Open the console in your browser
    ///
    /// The gate serves it to this machine, on a name of its own. This asks the running gate for a code that is good for one login within a
    /// minute, and opens the browser with it. Without a browser here, it prints the address and the code.
    Console(Console),
    /// Check this machine, the configuration and what is confined
    Doctor,
    /// See what this version would decide more carefully than an earlier one did
    #[command(subcommand)]
    Upgrade(Upgrade),
    /// Take a short tour: a permitted call, a refused one, an approval, the ledger
    Demo(Demo),
    /// See volumes and the files on them, and change those
    ///
    /// Volumes are declared under `volumes:` in portcullis.yaml.
    #[command(subcommand)]
    Volume(Volume),
    /// See and answer the calls that wait for a person
    #[command(subcommand)]
    Approvals(Approvals),
    /// See what runs in jails, and end it
    #[command(subcommand)]
    Sandbox(Sandbox),
    /// See and steer agents whose commands an executor runs, inside a container of theirs
    #[command(subcommand, after_help = EXECUTION_EXAMPLES)]
    Executions(Executions),
    /// See what callers' sessions have seen, or begin a new one
    #[command(subcommand)]
    Session(Session),
    /// Begin conversations with what a person said
    #[command(subcommand)]
    Task(Task),
    /// Trace what may have influenced a call, or what its result may have
    Lineage(Lineage),
    /// Check, try and write the rules that judge calls
    #[command(subcommand)]
    Policy(Policy),
    /// Make signed calls, and see and end the sessions of those who do
    #[command(subcommand, after_help = SEAL_EXAMPLES)]
    Seal(Seal),
    /// Make, see and revoke client credentials
    #[command(subcommand)]
    Token(Token),
    /// Show what to paste into an MCP client
    #[command(subcommand)]
    Clients(Clients),
    /// Take over the servers that other programs have
    ///
    /// Claude Code, Claude Desktop, Codex, Cursor, Gemini CLI, opencode, VS Code, Windsurf and Zed. Servers arrive switched off and UNTRUSTED, in
    /// imported.yaml; secrets that were written out go into the vault.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(Import),
    /// Keep a user's own token for a server, for tools that require it
    ///
    /// A tool with `requires_user_auth` is called with the account of the user behind the call, never with the server's own. The token is
    /// asked for, or read from standard input, never taken from the command line, and sealed in the home's vault.
    ConnectAccount(ConnectAccount),
    /// Check and explain the configuration
    #[command(subcommand)]
    Config(Config),
    /// Store secrets that the configuration refers to as keychain:NAME
    #[command(subcommand)]
    Secret(Secret),
    /// Read and verify the ledger
    #[command(subcommand)]
    Audit(Audit),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page, or write the pages of all verbs into a directory
    Man(Man),
    /// Play a small MCP server on standard input and output
    #[command(hide = true)]
    DemoServer(DemoServer),
}

#[derive(Debug, Args)]
pub struct Up {
    /// Address and port of the door; loopback only
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Do not print what to do next
    #[arg(long)]
    pub no_snippets: bool,
}

#[derive(Debug, Args)]
pub struct Connect {
    /// Show the tools of one server only, under their own names
    #[arg(long, value_name = "ID")]
    pub server: Option<String>,
    #[command(flatten)]
    pub who: Who,
}

/// Which credential calls. Without either, the token in PORTCULLIS_TOKEN, or else the first client's.
#[derive(Debug, Clone, Default, Args)]
pub struct Who {
    /// Call as this credential: one made with `portcullis token new NAME --keep`
    #[arg(long = "as", value_name = "NAME", conflicts_with = "token_file")]
    pub name: Option<String>,
    /// Call with the token in this file, instead of the one in PORTCULLIS_TOKEN or the first client's
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Tools {
    /// List the tools of all connected servers
    List(ToolsList),
}

#[derive(Debug, Args)]
pub struct ToolsList {
    /// Only this server's
    #[arg(long, value_name = "ID")]
    pub server: Option<String>,
}

#[derive(Debug, Args)]
pub struct Call {
    /// The tool, as `portcullis tools list` shows it
    pub tool: String,
    /// Its arguments, a JSON object; - reads them from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    pub arguments: String,
    /// Write the result's content to FILE: an image, a recording, a file, or its text
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Which part of the content to write, where there are several
    #[arg(long, value_name = "N", requires = "out")]
    pub part: Option<usize>,
    #[command(flatten)]
    pub who: Who,
}

#[derive(Debug, Args)]
pub struct Status {
    /// Keep showing it as it changes, until interrupted
    #[arg(long)]
    pub watch: bool,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Do not wait between the steps
    #[arg(long)]
    pub no_pause: bool,
}

#[derive(Debug, Subcommand)]
pub enum Clients {
    /// List the clients whose forms are known
    List,
    /// Show how one client is told of the gate: over standard input and output, and over HTTP
    #[command(after_help = CLIENT_EXAMPLES)]
    Show(ClientsShow),
    /// Make a client tell the gate what a person types, by a hook in its own settings
    ///
    /// What the person named is then not asked about, and a new conversation begins clean. Everything else in the client's file stays as it is;
    /// what the file was before is kept beside it.
    #[command(after_help = INSTALL_EXAMPLES)]
    Install(ClientsInstall),
    /// Take back what install wrote
    Uninstall(ClientsUninstall),
}

const INSTALL_EXAMPLES: &str = "\
Examples:
  portcullis token new claude --keep                      a credential of its own
  portcullis clients install claude-code --as claude --dry-run
  portcullis clients install claude-code --as claude";

const CLIENT_EXAMPLES: &str = "\
Examples:
  portcullis clients show claude-desktop          with the first client's credential and label
  portcullis token new cursor --keep              a credential of its own …
  portcullis clients show cursor --as cursor      … and how to use it
  portcullis clients show codex --show-token      the form over HTTP, ready to paste";

#[derive(Debug, Args)]
pub struct ClientsShow {
    /// The client
    #[arg(value_name = "CLIENT", value_parser = crate::snippets::CLIENTS.map(|(name, _)| name))]
    pub client: String,
    #[command(flatten)]
    pub who: Who,
    /// Write the token itself into the form over HTTP, instead of the word TOKEN
    #[arg(long)]
    pub show_token: bool,
}

#[derive(Debug, Args)]
pub struct ClientsInstall {
    /// The client
    #[arg(value_name = "CLIENT", value_parser = crate::snippets::CLIENTS.map(|(name, _)| name))]
    pub client: String,
    /// The credential that the client uses
    #[arg(long = "as", value_name = "NAME")]
    pub name: String,
    /// Also add the gate to the client's servers
    #[arg(long)]
    pub with_server: bool,
    /// Stop prompts that the gate did not hear
    #[arg(long)]
    pub strict: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct ClientsUninstall {
    /// The client
    #[arg(value_name = "CLIENT", value_parser = crate::snippets::CLIENTS.map(|(name, _)| name))]
    pub client: String,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub enum Token {
    /// Make a credential and print its token, once
    New(TokenNew),
    /// List credentials, without their tokens
    List,
    /// Revoke a credential at once
    Revoke(TokenRevoke),
}

#[derive(Debug, Args)]
pub struct TokenNew {
    /// What to call it, such as the client's name
    pub name: String,
    /// What it may do besides calling tools: a viewer sees what the gate does, an approver also answers calls that wait, an operator also
    /// steers the gate
    #[arg(long, value_name = "ROLE", value_parser = role)]
    pub role: Option<api::Role>,
    /// The same as --role operator
    #[arg(long, conflicts_with = "role")]
    pub operator: bool,
    /// Also print what to paste into this client
    #[arg(long = "for", value_name = "CLIENT", conflicts_with_all = ["operator", "role"], value_parser = crate::snippets::CLIENTS.map(|(name, _)| name))]
    pub client: Option<String>,
    /// Keep the token in the home, for `portcullis connect --as NAME` and `portcullis call --as NAME`
    #[arg(long, conflicts_with_all = ["operator", "role"])]
    pub keep: bool,
    /// How tools are named to this client
    #[arg(long, value_name = "VIEW", default_value = "double")]
    pub view: ViewChoice,
    /// Restricted tool this client may call: server__tool, or server__* for all of a server
    #[arg(long, value_name = "GRANT")]
    pub grant: Vec<String>,
    /// The person it acts for; rules can name them, and their connected accounts are used
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// A department of that person, for rules; may be given more than once
    #[arg(long, value_name = "DEPARTMENT")]
    pub department: Vec<String>,
    /// The program that holds it, such as claude-code, for rules
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// The tenant it belongs to; servers of other tenants do not exist for it
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// The security context that bounds its calls
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViewChoice {
    /// server__tool
    Double,
    /// mcp_server_tool
    Flat,
}

impl From<ViewChoice> for vocab::View {
    fn from(choice: ViewChoice) -> Self {
        match choice {
            ViewChoice::Double => Self::Double,
            ViewChoice::Flat => Self::Flat,
        }
    }
}

#[derive(Debug, Args)]
pub struct TokenRevoke {
    /// The credential's id, or its name if no other has it
    pub id: String,
}

#[derive(Debug, Subcommand)]
pub enum Config {
    /// List every mistake in the file, with its line and how to fix it
    Check(ConfigFile),
    /// Show every value and where it came from
    ///
    /// A gate that runs has them too, as soon as the file is written; what waits for a restart is marked.
    Explain(ConfigFile),
    /// Print the JSON Schema of portcullis.yaml
    Schema,
    /// Print where portcullis.yaml is
    Path,
}

#[derive(Debug, Args)]
pub struct ConfigFile {
    /// Another file than the home's portcullis.yaml
    pub file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Secret {
    /// Store a secret; it is asked for, or read from standard input, never taken from the command line
    Set(SecretName),
    /// List the names of stored secrets
    List,
    /// Delete a stored secret
    Delete(SecretName),
    /// Let the running gate look for new versions of the secrets it reads from stores
    Refresh,
}

#[derive(Debug, Args)]
pub struct SecretName {
    /// The name the configuration uses after keychain:
    pub name: String,
}

#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Show the latest records
    Tail(Box<AuditTail>),
    /// Check every record, hash and checkpoint of the ledger
    Verify(AuditVerify),
    /// Show one record, or all records of one call
    Show(AuditShow),
    /// Find records by who, what, verdict, level, time or lineage
    Query(Box<AuditQuery>),
    /// Summarise a period: calls, refusals, approvals, changes, and whether the ledger verifies
    Report(AuditReport),
    /// Write a period's records to a file that can be verified by itself
    Export(AuditExport),
    /// Remove what is older than the ledger must be kept
    ///
    /// Whole segments go, and the arguments kept for their calls. What remains still verifies, and says what was removed. A running gate does
    /// this by itself as `audit.retention` and `audit.max_bytes` say; by hand it is done without one.
    Retain(AuditRetain),
    /// Print the latest signed head of the ledger, to be kept elsewhere
    ///
    /// With it and the public key, `portcullis audit verify --against` finds a ledger that was cut or written anew, even by whoever holds
    /// the signing key.
    Checkpoint,
    /// Print a proof that a record is in the ledger, which can be checked without the ledger
    Proof(AuditProof),
    /// Check a proof
    CheckProof(AuditCheckProof),
    /// Destroy the kept arguments of a call; its records stay, and say that it was done
    Erase(AuditErase),
    /// Show where events are sent, what was delivered last and what is wrong
    Sinks,
}

#[derive(Debug, Args)]
pub struct AuditVerify {
    /// A checkpoint that was kept elsewhere, which the ledger must still agree with
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// The ledger's public key that was kept elsewhere, or a file with it
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Verify this export instead of the ledger
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct AuditProof {
    /// Sequence number of the record
    pub seq: u64,
}

#[derive(Debug, Args)]
pub struct AuditCheckProof {
    /// The proof
    pub file: PathBuf,
    /// The ledger's public key that was kept elsewhere, or a file with it; without it, this home's
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Debug, Args)]
pub struct AuditErase {
    /// Id of the call
    pub call: String,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: String,
}

#[derive(Debug, Args)]
pub struct AuditTail {
    /// How many
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20)]
    pub lines: usize,
    /// Keep showing new records until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Show events instead of records, in the names of docs/operate/events.md
    #[arg(long)]
    pub events: bool,
    /// Everything from this position on, instead of the newest
    #[arg(long, value_name = "POSITION")]
    pub from: Option<::audit::Place>,
    /// Only events of this name, as in `InvocationFailed`; shows events
    #[arg(long, value_name = "NAME", value_parser = audit::event)]
    pub event: Option<String>,
    /// Only events of this family, as in `approval`; shows events
    #[arg(long, value_name = "NAME", value_parser = audit::family)]
    pub family: Option<String>,
    #[command(flatten)]
    pub conditions: audit::Conditions,
}

#[derive(Debug, Args)]
pub struct AuditShow {
    /// Sequence number of a record, or id of a call
    pub id: String,
}

#[derive(Debug, Args)]
pub struct Completions {
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct Man {
    /// Write a page for each verb into DIR
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Console {
    /// Print a code and open nothing: to log in by typing it, or to confirm a form where scripts are off
    #[arg(long)]
    pub code: bool,
    /// What the visit may do: viewer, approver or operator; without it, what the command line's own credential may
    #[arg(long, value_name = "ROLE")]
    pub role: Option<api::Role>,
    /// List who is at the console
    #[arg(long, conflicts_with_all = ["code", "role"])]
    pub visits: bool,
    /// End a visit
    #[arg(long, value_name = "VISIT", conflicts_with_all = ["code", "role", "visits"])]
    pub end: Option<String>,
}

#[derive(Debug, Args)]
pub struct DemoServer {
    pub name: DemoName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DemoName {
    Notes,
    Web,
}

/// The completion script.
#[must_use]
pub fn completions(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut <Cli as clap::CommandFactory>::command(),
        "portcullis",
        &mut script,
    );
    script
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

/// One line of words; the gate refuses longer ones too.
fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text {
        "" => Err("say why in a few words".to_owned()),
        _ if text.chars().any(char::is_control) => Err("write it on one line".to_owned()),
        _ if text.chars().count() > api::MAX_REASON => {
            Err(format!("write at most {} characters", api::MAX_REASON))
        }
        _ if shape::secrets::redact_text(text, &shape::secrets::Held::default()).is_some() => {
            Err("it holds something that looks like a secret; write it without".to_owned())
        }
        text => Ok(text.to_owned()),
    }
}

fn role(text: &str) -> Result<api::Role, String> {
    text.parse()
        .map_err(|error: api::UnknownRole| error.to_string())
}
