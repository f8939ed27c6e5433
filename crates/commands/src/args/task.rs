//! `portcullis task`: a person's words begin a conversation.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Task {
    /// Begin a conversation of an agent with what a person said
    ///
    /// Its session begins anew, clean. What the words name is not asked about later, even after the agent has read what strangers wrote.
    /// Do this when the agent itself begins anew; for the next thing a person says in the same chat there is --continue.
    Begin(TaskBegin),
    /// Tell the gate what a client's hook was told
    ///
    /// `portcullis clients install` writes this into a client's settings. It reads what the client tells its hooks from standard input, and prints
    /// nothing. A new conversation begins one at the gate, unless another of the same credential is open; a further prompt goes on; one that
    /// is resumed has at least the label it was left with. If the gate does not hear it, the prompt goes on unless --strict is given.
    Hook(TaskHook),
}

#[derive(Debug, Args)]
pub struct TaskBegin {
    /// The agent's credential, by id or name
    #[arg(long, value_name = "NAME")]
    pub caller: String,
    /// What the person said; - reads it from standard input
    #[arg(long, value_name = "TEXT")]
    pub text: String,
    /// Add to what was said in the conversation under way; its label stays
    #[arg(long = "continue")]
    pub continues: bool,
}

#[derive(Debug, Args)]
pub struct TaskHook {
    /// The client whose hook this is
    #[arg(value_name = "CLIENT", value_parser = crate::client_hooks::NAMES)]
    pub client: String,
    /// The agent's credential, by id or name
    #[arg(long, value_name = "NAME")]
    pub caller: String,
    /// Stop the prompt if the gate did not hear it
    #[arg(long)]
    pub strict: bool,
}
