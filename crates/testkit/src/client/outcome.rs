//! What becomes of a request: on its way, and answered.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{Client, Era};

/// What came of a tool call, in the few words tests need.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// The texts of the content, joined.
    pub text: String,
    pub is_error: bool,
    /// The whole answer: a JSON-RPC response.
    pub answer: Value,
}

impl Called {
    /// The `violation` of the error envelope, or the JSON-RPC error's.
    pub fn violation(&self) -> Option<&str> {
        self.envelope()?.get("violation")?.as_str()
    }

    /// The `error_code` of the error envelope.
    pub fn error_code(&self) -> Option<&str> {
        self.envelope()?.get("error_code")?.as_str()
    }

    /// What the gate says of a call it stopped.
    pub fn envelope(&self) -> Option<&Value> {
        self.answer
            .pointer("/result/_meta/portcullis~1error")
            .or_else(|| self.answer.pointer("/error/data"))
    }

    /// The code of a JSON-RPC error.
    pub fn rpc_code(&self) -> Option<i64> {
        self.answer.pointer("/error/code")?.as_i64()
    }
}

/// A request on its way.
#[derive(Debug)]
pub struct Pending {
    pub(super) client: Client,
    pub(super) id: u64,
    pub(super) answer: JoinHandle<Result<Value>>,
}

impl Pending {
    /// The id the request went out with.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// When none comes.
    pub async fn answer(self) -> Result<Value> {
        self.answer.await.context("the request task ended early")?
    }

    /// Cancels the way the era cancels: a notification, or hanging up.
    ///
    /// # Errors
    /// When a legacy server does not accept the notification.
    pub async fn cancel(self) -> Result<()> {
        match self.client.shared.era {
            Era::Legacy => {
                self.client
                    .notify(
                        "notifications/cancelled",
                        json!({"requestId": self.id, "reason": "changed my mind"}),
                    )
                    .await
            }
            Era::Modern => {
                self.answer.abort();
                Ok(())
            }
        }
    }
}

pub(super) fn called(answer: Value) -> Called {
    let content = answer.pointer("/result/content").and_then(Value::as_array);
    let text = content
        .into_iter()
        .flatten()
        .filter_map(|block| block.get("text")?.as_str())
        .collect();
    let is_error = answer.get("error").is_some()
        || answer.pointer("/result/isError") == Some(&Value::Bool(true));
    Called {
        text,
        is_error,
        answer,
    }
}
