//! `portcullis task`: a person's words begin a conversation.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Task {
    /// Begin a conversation of an agent with what a person said
    ///
    /// Its session begins anew, clean. What the words name is not asked about later, even after the agent has read what strangers wrote.
    /// Do this when the agent itself begins anew; for the next thing a person says in the same chat there is --continue.
    Begin(TaskBegin),
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
