//! `portcullis executions`: agents whose commands an executor runs.

use clap::{Args, Subcommand};

use crate::args::reason;

pub const EXECUTION_EXAMPLES: &str = "\
Examples:
  portcullis executions begin coder --accepts INTERNAL   all its commands go to its executor
  portcullis executions begin coder --execution run-7    those of one execution that signs
  portcullis executions end run-7 --reason 'done'        what waits for it fails";

#[derive(Debug, Subcommand)]
pub enum Executions {
    /// List the executions, and how each is doing
    List,
    /// Show one of them
    Show(ExecutionName),
    /// Let an executor run the commands of an agent
    ///
    /// Prints what the executor needs: the id, and a token that is told once. Until an executor asks for them, commands wait within their
    /// time.
    Begin(ExecutionBegin),
    /// End one: commands that wait for its executor fail, and its executor is told to end
    End(ExecutionEnd),
}

#[derive(Debug, Args)]
pub struct ExecutionName {
    /// As `portcullis executions list` names it
    pub id: String,
}

#[derive(Debug, Args)]
pub struct ExecutionBegin {
    /// The agent's credential, by id or name
    pub caller: String,
    /// Only signed calls of this execution; without it, all commands of the credential
    #[arg(long, value_name = "ID")]
    pub execution: Option<String>,
    /// The most secret data that may be sent there
    #[arg(long, value_name = "LEVEL", default_value = "PUBLIC")]
    pub accepts: String,
    /// Nothing from outside reaches the sandbox, such as a network; without it, what commands print is a stranger's
    #[arg(long)]
    pub closed: bool,
    /// For how many seconds; a day if not said
    #[arg(long, value_name = "SECONDS")]
    pub ttl: Option<u32>,
}

#[derive(Debug, Args)]
pub struct ExecutionEnd {
    /// As `portcullis executions list` names it
    pub id: String,
    /// Why, for whoever reads the ledger later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}
