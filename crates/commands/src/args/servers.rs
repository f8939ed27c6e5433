//! The verbs about the servers behind the gate.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::{APPROVE_EXAMPLES, ApproveDefinitions, Block, Unblock, level, pair, reason};

#[derive(Debug, Subcommand)]
pub enum Servers {
    /// List servers and their state
    List,
    /// Show everything about one server: its entry, what it offers, its last error
    Show(ServerName),
    /// Add a server to portcullis.yaml, and see what it offers
    ///
    /// Either a program (--command, its arguments after --) or an address (--url). A running gate connects it at once; what it offers is
    /// shown, and you are asked before its definitions are approved. Without a terminal nothing is approved unless you say --yes.
    /// Without --classification none of its tools can be called.
    #[command(after_help = ADD_EXAMPLES)]
    Add(Add),
    /// Change a server's entry: its program, address, variables or headers
    ///
    /// What is not named stays as it is.
    #[command(after_help = EDIT_EXAMPLES)]
    Edit(EditServer),
    /// Say what a tool does, or whether strangers can write what a server returns
    #[command(after_help = SET_EXAMPLES)]
    Set(SetServer),
    /// Remove a server from portcullis.yaml
    Remove(ServerName),
    /// Connect a server that was disabled
    Enable(ServerName),
    /// Keep a server's entry but disconnect it
    Disable(ServerName),
    /// Try a failed server again now
    Retry(ServerName),
    /// Log in to a remote server that wants OAuth
    ///
    /// Opens a browser at the server's authorization server and waits for you to come back. The login is sealed in the vault, and the
    /// gate renews it.
    #[command(after_help = LOGIN_EXAMPLES)]
    Login(Login),
    /// Forget a login, and ask the authorization server to take its tokens back
    Logout(ServerName),
    /// Empty a stdio server's own home and start it anew, so that it fetches its packages again
    ///
    /// Package runners such as npx and uvx keep what they execute in that home, and servers their own files. All of it is gone afterwards.
    /// What the server then shows is held against what you approved.
    Reinstall(Reinstall),
    /// Set how secret a server's data is, and what may be sent to it
    ///
    /// This is what lets its tools be called at all. The first time, it approves the definitions that the server shows now; on a terminal
    /// you see them and are asked. What a server shows or changes later waits for `portcullis servers approve`.
    Classify(Classify),
    /// Stop using a server: it is not started and none of its tools can be called
    Block(Block),
    /// Let a blocked server be used again as it is classified
    Unblock(Unblock),
    /// Show a server's definitions, and how they differ from what was approved
    Review(Review),
    /// Approve changed or new definitions as they are now
    #[command(after_help = APPROVE_EXAMPLES)]
    Approve(ApproveDefinitions),
}

const ADD_EXAMPLES: &str = "\
Examples:
  portcullis servers add time --command uvx --classification PUBLIC -- mcp-server-time
  portcullis servers add github --command npx --env GITHUB_TOKEN=keychain:github-pat \\
      --classification CONFIDENTIAL -- -y @modelcontextprotocol/server-github
  portcullis servers add search --url https://mcp.example.com/mcp --bearer env:SEARCH_TOKEN";

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true).args(["command", "url"]))]
pub struct Add {
    /// The server's id: lower-case words joined by single - or _
    pub id: String,
    /// Program to start; it speaks MCP on its standard input and output
    #[arg(long, value_name = "CMD")]
    pub command: Option<String>,
    /// Variable for the program: text, env:NAME, keychain:name or secret:engine/path#field
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "url")]
    pub env: Vec<(String, String)>,
    /// Directory the program starts in
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub cwd: Option<PathBuf>,
    /// Address of a remote server
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Secret reference of the token to send to the address
    #[arg(long, value_name = "REF", conflicts_with = "command")]
    pub bearer: Option<String>,
    /// Header to send to the address; its value may be a secret reference
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "command")]
    pub header: Vec<(String, String)>,
    /// How secret the server's data is: PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub classification: Option<vocab::Level>,
    /// The most secret data that may be sent to it, where that is not its classification
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub accepts: Option<vocab::Level>,
    /// Whether strangers can write what it returns, as they write mail, pages and issues; without an answer they can
    #[arg(long, value_name = "yes|no")]
    pub open_world: Option<Answer>,
    /// Approve what it shows without asking, for scripts
    #[arg(long)]
    pub yes: bool,
    /// Do not wait for its first connection; what it shows then waits for `portcullis servers approve`
    #[arg(long, conflicts_with = "yes")]
    pub no_wait: bool,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGS", conflicts_with = "url")]
    pub args: Vec<String>,
}

const LOGIN_EXAMPLES: &str = "\
Examples:
  portcullis servers login linear
  portcullis servers login github --client-id Iv1.abc --client-secret keychain:github-app
  portcullis servers login linear --no-browser   open the address elsewhere, paste where you end
  portcullis servers login billing --client-credentials --issuer https://id.example.com \\
      --client-id gate --client-secret env:BILLING_SECRET";

#[derive(Debug, Args)]
pub struct Login {
    /// The server's id
    pub id: String,
    #[command(flatten)]
    pub how: LoginOptions,
}

/// How a person, or a machine, is let in.
#[derive(Debug, Args, PartialEq, Eq)]
pub struct LoginOptions {
    /// Rights to ask for, instead of those the server names
    #[arg(long, value_name = "SCOPES")]
    pub scopes: Option<String>,
    /// Do not open a browser; the address is printed
    #[arg(long)]
    pub no_browser: bool,
    /// Go on without the port, and wait for the address to be pasted
    #[arg(long)]
    pub paste: bool,
    /// Port of this machine to come back to
    #[arg(long, value_name = "PORT", default_value_t = 17878)]
    pub port: u16,
    /// A client that was registered at the authorization server by hand
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
    /// Secret reference of that client's secret
    #[arg(long, value_name = "REF", requires = "client_id")]
    pub client_secret: Option<String>,
    /// Secret reference of that client's private key: P-256, PKCS#8, PEM
    #[arg(
        long,
        value_name = "REF",
        requires = "client_id",
        conflicts_with = "client_secret"
    )]
    pub client_key: Option<String>,
    /// Address of a document about this client, where the authorization server takes such
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    pub client_document: Option<String>,
    /// Log in as the client itself, without a person
    #[arg(long, requires = "client_id")]
    pub client_credentials: bool,
    /// Log in as the program that runs here: the file with the assertion that the platform keeps fresh
    #[arg(long, value_name = "FILE", conflicts_with = "client_credentials")]
    pub workload: Option<PathBuf>,
    /// Log in with what the company's identity provider says: the file with its ID token of the user
    #[arg(
        long,
        value_name = "FILE",
        requires_all = ["provider", "provider_client_id", "client_id"],
        conflicts_with_all = ["client_credentials", "workload"]
    )]
    pub id_token: Option<PathBuf>,
    /// Where the identity provider exchanges tokens: its token endpoint
    #[arg(long, value_name = "URL", requires = "id_token")]
    pub provider: Option<String>,
    /// The client at the identity provider that the ID token is for
    #[arg(long, value_name = "ID", requires = "id_token")]
    pub provider_client_id: Option<String>,
    /// Secret reference of that client's secret
    #[arg(long, value_name = "REF", requires = "id_token")]
    pub provider_client_secret: Option<String>,
    /// The authorization server to use, of those the server names
    #[arg(long, value_name = "URL")]
    pub issuer: Option<String>,
    /// What tokens are asked for, where it is not what the server names: an address, or none
    #[arg(long, value_name = "URL")]
    pub resource: Option<String>,
    /// Parameter to add to the address, as some providers want: access_type=offline
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub param: Vec<(String, String)>,
    /// The server is its own authorization server, as in the protocol of 2025-03-26
    #[arg(long)]
    pub older_discovery: bool,
    /// The authorization server does PKCE although it does not say so
    #[arg(long)]
    pub assume_pkce: bool,
    /// The authorization server is another than at the last login, and that is expected
    #[arg(long)]
    pub accept_issuer: bool,
}

impl LoginOptions {
    /// No person is sent anywhere.
    pub const fn is_without_person(&self) -> bool {
        self.client_credentials || self.workload.is_some() || self.id_token.is_some()
    }
}

impl Default for LoginOptions {
    fn default() -> Self {
        Self {
            scopes: None,
            no_browser: false,
            paste: false,
            port: 17878,
            client_id: None,
            client_secret: None,
            client_key: None,
            client_document: None,
            client_credentials: false,
            workload: None,
            id_token: None,
            provider: None,
            provider_client_id: None,
            provider_client_secret: None,
            issuer: None,
            resource: None,
            param: Vec::new(),
            older_discovery: false,
            assume_pkce: false,
            accept_issuer: false,
        }
    }
}

const EDIT_EXAMPLES: &str = "\
Examples:
  portcullis servers edit time --env SSL_CERT_FILE=/etc/ssl/corp.pem
  portcullis servers edit github -- -y @modelcontextprotocol/server-github@2026.8.31
  portcullis servers edit search --url https://mcp.example.com/v2/mcp";

#[derive(Debug, Args)]
pub struct EditServer {
    /// The server's id
    pub id: String,
    /// Program to start
    #[arg(long, value_name = "CMD", conflicts_with = "url")]
    pub command: Option<String>,
    /// Variable to add or replace
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub env: Vec<(String, String)>,
    /// Variable to remove
    #[arg(long, value_name = "NAME")]
    pub unset_env: Vec<String>,
    /// Directory the program starts in
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Address of a remote server
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Secret reference of the token to send to the address
    #[arg(long, value_name = "REF")]
    pub bearer: Option<String>,
    /// Header to add or replace
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub header: Vec<(String, String)>,
    /// Arguments of the program; they replace all it had
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<String>,
}

const SET_EXAMPLES: &str = "\
Examples:
  portcullis servers set git effect git_log=read            it only looks
  portcullis servers set mail effect send=consequential     it does something
  portcullis servers set github open-world true             strangers write issues
  portcullis servers set time open-world false              nobody writes what a clock says
  portcullis servers set web open-world post=false          its answers are its own words
  portcullis servers set search accepts CONFIDENTIAL        it may be told more than it gives";

#[derive(Debug, Args)]
pub struct SetServer {
    /// The server's id
    pub id: String,
    #[command(subcommand)]
    pub what: SetWhat,
}

#[derive(Debug, Subcommand)]
pub enum SetWhat {
    /// What calling a tool does: read or consequential
    Effect(SetEffect),
    /// Whether strangers can write what the server, or one of its tools, returns
    OpenWorld(SetOpenWorld),
    /// The most secret data that may be sent to the server, where that is not its classification
    Accepts(SetAccepts),
}

#[derive(Debug, Args)]
pub struct SetEffect {
    /// The tool by the server's own name, and read or consequential; several may be given
    #[arg(value_name = "TOOL=EFFECT", required = true, value_parser = effect)]
    pub effects: Vec<(String, vocab::Effect)>,
}

#[derive(Debug, Args)]
pub struct SetOpenWorld {
    /// true or false, unsaid to take it back, which counts as true; or TOOL=true, TOOL=false for one tool
    #[arg(value_name = "VALUE|TOOL=VALUE", required = true, value_parser = open_world)]
    pub values: Vec<OpenWorld>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenWorld {
    /// Of the whole server; `None` takes back what was said.
    Server(Option<bool>),
    Tool(String, bool),
}

impl std::fmt::Display for OpenWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server(Some(is_open)) => write!(f, "{is_open}"),
            Self::Server(None) => f.write_str("unsaid"),
            Self::Tool(tool, is_open) => write!(f, "{tool}={is_open}"),
        }
    }
}

#[derive(Debug, Args)]
pub struct SetAccepts {
    /// PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED
    #[arg(value_name = "LEVEL", value_parser = level)]
    pub level: vocab::Level,
}

/// Whether strangers can write what a server returns, as somebody answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Answer {
    Yes,
    No,
}

fn open_world(text: &str) -> Result<OpenWorld, String> {
    let (tool, word) = match text.rsplit_once('=') {
        Some((tool, word)) if !tool.is_empty() => (Some(tool), word),
        _ => (None, text),
    };
    let is_open = match word {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        // The word of earlier versions, in which it was then guessed.
        "unsaid" | "auto" if tool.is_none() => None,
        _ => return Err(format!("`{word}` says nothing; say true or false")),
    };
    Ok(match (tool, is_open) {
        (Some(tool), Some(is_open)) => OpenWorld::Tool(tool.to_owned(), is_open),
        _ => OpenWorld::Server(is_open),
    })
}

fn effect(text: &str) -> Result<(String, vocab::Effect), String> {
    let (tool, effect) = text
        .rsplit_once('=')
        .filter(|(tool, _)| !tool.is_empty())
        .ok_or("write it as TOOL=read or TOOL=consequential")?;
    let effect = effect
        .parse()
        .map_err(|_| format!("`{effect}` is not an effect; say read or consequential"))?;
    Ok((tool.to_owned(), effect))
}

#[derive(Debug, Subcommand)]
pub enum Upgrade {
    /// List what rests on a guess of an earlier version, and how to decide it
    ///
    /// Nothing changes by itself: a home means what it meant until a person decides.
    Check,
}

#[derive(Debug, Args)]
pub struct Reinstall {
    /// The server's id
    pub id: String,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct ServerName {
    /// The server's id
    pub id: String,
}

#[derive(Debug, Args)]
pub struct Review {
    /// The server's id
    pub id: String,
    /// Which definitions to show in full; without names, all, long ones in part
    pub names: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Classify {
    /// The server's id
    pub id: String,
    /// PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED
    #[arg(value_parser = level)]
    pub level: vocab::Level,
    /// Approve what it shows without asking, for scripts
    #[arg(long)]
    pub yes: bool,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}
