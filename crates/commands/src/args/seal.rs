//! The verbs of signed calls.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub const SEAL_EXAMPLES: &str = "\
Examples:
  portcullis seal keygen agent.pem
  portcullis seal attest --key agent.pem --context read-only-research
  portcullis seal call --key agent.pem web.fetch '{\"url\":\"https://example.com\"}'
  portcullis seal sessions
  portcullis seal revoke 3f4e29aa-84b1-4a3c-9d7e-1f2a3b4c5d6e
  portcullis seal run --context code-assistant -- python3 agent.py";

#[derive(Debug, Subcommand)]
pub enum Seal {
    /// Make a key pair for an agent
    ///
    /// The file holds the private half and is readable by its owner only; the public half is printed.
    Keygen(Keygen),
    /// Prove who you are and begin a session of signed calls
    ///
    /// The session's token is kept beside the key, in a file of the same name that ends in .session, for `seal call`.
    Attest(Attest),
    /// Sign one call and make it
    Call(SealCall),
    /// List what a session may call
    Tools(SealKey),
    /// Show the sessions in force
    Sessions(SealSessions),
    /// End the session of an execution; its next call is refused
    Revoke(Revoke),
    /// Start a program that may attest by itself
    ///
    /// The program finds what it needs in its environment: SEAL_GATEWAY_URL, SEAL_WORKLOAD_ID and SEAL_SECURITY_CONTEXT. The workload id
    /// is its proof, good for as many sessions as --uses says. The program takes this one's place, so its exit code is its own.
    Run(SealRun),
    /// Sign tokens with a new key; those of the old one stay good until they expire
    Rotate,
}

#[derive(Debug, Args)]
pub struct Keygen {
    /// Where to put it
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct SealKey {
    /// The agent's key, as `seal keygen` made it
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
}

#[derive(Debug, Args)]
pub struct Attest {
    /// The agent's key, as `seal keygen` made it
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// The security context that bounds the session; without it, the one that the agent is for
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The agent's id; without it, a new one
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The execution's id; without it, a new one
    #[arg(long, value_name = "ID")]
    pub execution: Option<String>,
}

#[derive(Debug, Args)]
pub struct SealCall {
    /// The agent's key, as `seal keygen` made it
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// The tool: a dotted name such as web.fetch, or server__tool
    pub tool: String,
    /// Its arguments, a JSON object
    #[arg(default_value = "{}")]
    pub arguments: String,
}

#[derive(Debug, Args)]
pub struct SealSessions {
    /// Also those that have ended
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct Revoke {
    /// The execution's id
    pub execution: String,
}

#[derive(Debug, Args)]
pub struct SealRun {
    /// The security context of its sessions; without it, the one that the agent is for
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The agent it is
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// How many sessions it may begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub uses: u32,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
