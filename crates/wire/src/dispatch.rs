//! Dispatch: what the gate and the executor of an execution say to each other. Every message is one JSON object with a `type`.
//!
//! The executor asks, the gate answers: `attach` and `dispatch_result` go in, `dispatch`, `final`, `idle` and `error` come out. Fields
//! that are not known here are ignored, a `type` that is not known is an error. Both ends are read and written here, so that the gate and
//! our own executor cannot differ.

use std::{borrow::Cow, fmt};

use crate::{Json, Kind, Limits, write::Object};

/// The revision of this protocol. An executor that names another is not attached.
pub const PROTOCOL: u64 = 1;
/// Where a command runs unless it says otherwise.
pub const WORKSPACE: &str = "/workspace";
/// What an executor says of what it did itself, on the standard error of the command.
pub const OWN_WORDS: &str = "[portcullis] ";
/// The code of a command that the executor could not run to its end.
pub const NOT_RUN: i64 = -1;
/// A posted result may exceed what the command was allowed to print by this much, for what the executor says itself.
pub const SLACK: usize = 64 << 10;

/// The names of messages and actions.
pub mod name {
    pub const ATTACH: &str = "attach";
    pub const RESULT: &str = "dispatch_result";
    pub const GENERATE: &str = "generate";
    pub const DISPATCH: &str = "dispatch";
    pub const FINAL: &str = "final";
    pub const IDLE: &str = "idle";
    pub const ERROR: &str = "error";
    pub const EXEC: &str = "exec";
    pub const PING: &str = "ping";
}

/// The longest id, name or instance that is taken.
const MAX_NAME: usize = 256;
/// Messages are flat: an object, in it lists and one object.
const DEPTH: usize = 16;

/// Why a message cannot be read. The text is for whoever wrote the executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    Malformed(String),
    /// Its `type` is none of ours.
    UnknownType(String),
}

impl Unreadable {
    /// The word for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::UnknownType(_) => "unknown_type",
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => f.write_str(why),
            Self::UnknownType(found) => write!(f, "`type` is `{found}`, which is not known here"),
        }
    }
}

impl std::error::Error for Unreadable {}

/// What an executor says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromExecutor {
    /// It is there, and asks for work.
    Attach {
        execution: String,
        /// Which process it is, if it says so: another one remembers nothing of what this one ran.
        instance: Option<String>,
    },
    /// How a dispatch ended.
    Result { execution: String, posted: Posted },
    /// It wants a model to think. The gate has none.
    Generate { execution: String },
}

impl FromExecutor {
    /// Reads a message of at most `bytes` bytes.
    pub fn parse(text: &[u8], bytes: usize) -> Result<Self, Unreadable> {
        let message = object(text, bytes)?;
        let kind = required(message, "type")?;
        let execution = || required(message, "execution_id");
        Ok(match &*kind {
            name::ATTACH => {
                let protocol = message.get("protocol").map(|given| given.as_u64());
                if protocol.is_some_and(|given| given != Some(PROTOCOL)) {
                    return Err(malformed(format!(
                        "`protocol` must be {PROTOCOL}, the only revision there is"
                    )));
                }
                Self::Attach {
                    execution: execution()?,
                    instance: optional(message, "instance")?,
                }
            }
            name::RESULT => Self::Result {
                execution: execution()?,
                posted: Posted::read(message)?,
            },
            name::GENERATE => Self::Generate {
                execution: execution()?,
            },
            other => return Err(unknown_type(other)),
        })
    }

    /// Whose execution the executor says it is.
    #[must_use]
    pub fn execution(&self) -> &str {
        match self {
            Self::Attach { execution, .. }
            | Self::Result { execution, .. }
            | Self::Generate { execution } => execution,
        }
    }

    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = Object::new();
        match self {
            Self::Attach {
                execution,
                instance,
            } => {
                out.str("type", name::ATTACH)
                    .str("execution_id", execution)
                    .u64("protocol", PROTOCOL)
                    .raw("actions", br#"["exec","ping"]"#);
                if let Some(instance) = instance {
                    out.str("instance", instance);
                }
            }
            Self::Result { execution, posted } => {
                out.str("type", name::RESULT).str("execution_id", execution);
                posted.write(&mut out);
            }
            Self::Generate { execution } => {
                out.str("type", name::GENERATE)
                    .str("execution_id", execution);
            }
        }
        out.finish()
    }
}

/// How a dispatched command ended, as its executor says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Posted {
    pub dispatch_id: String,
    pub exit_code: i64,
    pub stdout: String,
    pub stderr: String,
    pub duration_ms: u64,
    /// Whether what it printed was cut to the limit.
    pub truncated: bool,
    /// How much it printed in all, where the executor counted.
    pub stdout_bytes: Option<u64>,
    pub stderr_bytes: Option<u64>,
    pub signal: Option<i64>,
    /// Whether the executor ended it because its time was over.
    pub timed_out: bool,
    /// Whether it printed what is no text.
    pub lossy: bool,
}

impl Posted {
    /// What is shown of what it printed.
    #[must_use]
    pub fn shown_bytes(&self) -> usize {
        self.stdout.len() + self.stderr.len()
    }

    fn read(message: Json<'_>) -> Result<Self, Unreadable> {
        let whole = |key: &str| message.get(key).and_then(Json::as_u64);
        let flag = |key: &str| message.get(key).and_then(Json::as_bool).unwrap_or(false);
        Ok(Self {
            dispatch_id: required(message, "dispatch_id")?,
            exit_code: message
                .get("exit_code")
                .and_then(Json::as_i64)
                .filter(|code| i32::try_from(*code).is_ok())
                .ok_or_else(|| malformed("`exit_code` must be a whole number"))?,
            stdout: output(message, "stdout")?,
            stderr: output(message, "stderr")?,
            duration_ms: whole("duration_ms").unwrap_or_default(),
            truncated: flag("truncated"),
            stdout_bytes: whole("stdout_bytes"),
            stderr_bytes: whole("stderr_bytes"),
            signal: message
                .get("signal")
                .and_then(Json::as_i64)
                .filter(|signal| (1..=64).contains(signal)),
            timed_out: flag("timed_out"),
            lossy: flag("lossy"),
        })
    }

    fn write(&self, out: &mut Object) {
        out.str("dispatch_id", &self.dispatch_id)
            .i64("exit_code", self.exit_code)
            .str("stdout", &self.stdout)
            .str("stderr", &self.stderr)
            .u64("duration_ms", self.duration_ms)
            .bool("truncated", self.truncated);
        for (key, bytes) in [
            ("stdout_bytes", self.stdout_bytes),
            ("stderr_bytes", self.stderr_bytes),
        ] {
            if let Some(bytes) = bytes {
                out.u64(key, bytes);
            }
        }
        if let Some(signal) = self.signal {
            out.i64("signal", signal);
        }
        for (key, is_so) in [("timed_out", self.timed_out), ("lossy", self.lossy)] {
            if is_so {
                out.bool(key, true);
            }
        }
    }
}

/// One command for an executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch {
    pub id: String,
    /// [`name::EXEC`], or another that the executor may not know.
    pub action: String,
    pub command: String,
    pub args: Vec<String>,
    pub cwd: String,
    pub env: Vec<(String, String)>,
    pub stdin: String,
    pub timeout_secs: u64,
    pub max_output_bytes: u64,
}

/// What the gate answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToExecutor {
    Dispatch(Box<Dispatch>),
    /// The execution is over, after so many commands; the executor ends.
    Final {
        executed: u64,
    },
    /// There was nothing to do for a while; ask again after this time.
    Idle {
        retry_after_ms: u64,
    },
    Error {
        error: String,
        message: String,
    },
}

impl ToExecutor {
    /// Reads an answer of at most `bytes` bytes.
    pub fn parse(text: &[u8], bytes: usize) -> Result<Self, Unreadable> {
        let message = object(text, bytes)?;
        let kind = required(message, "type")?;
        Ok(match &*kind {
            name::DISPATCH => Self::Dispatch(Box::new(Dispatch::read(message)?)),
            name::FINAL => Self::Final {
                executed: message
                    .get("tool_calls_executed")
                    .and_then(Json::as_u64)
                    .unwrap_or_default(),
            },
            name::IDLE => Self::Idle {
                retry_after_ms: message
                    .get("retry_after_ms")
                    .and_then(Json::as_u64)
                    .unwrap_or_default(),
            },
            name::ERROR => Self::Error {
                error: output(message, "error")?,
                message: output(message, "message")?,
            },
            other => return Err(unknown_type(other)),
        })
    }

    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = Object::new();
        match self {
            Self::Dispatch(dispatch) => dispatch.write(&mut out),
            Self::Final { executed } => {
                out.str("type", name::FINAL)
                    .str("content", "")
                    .u64("tool_calls_executed", *executed)
                    .raw("conversation", b"[]");
            }
            Self::Idle { retry_after_ms } => {
                out.str("type", name::IDLE)
                    .u64("retry_after_ms", *retry_after_ms);
            }
            Self::Error { error, message } => {
                out.str("type", name::ERROR)
                    .str("error", error)
                    .str("message", message);
            }
        }
        out.finish()
    }
}

impl Dispatch {
    fn read(message: Json<'_>) -> Result<Self, Unreadable> {
        let env = message.get("env_additions");
        let whole = |key: &str| message.get(key).and_then(Json::as_u64);
        Ok(Self {
            id: required(message, "dispatch_id")?,
            action: required(message, "action")?,
            command: output(message, "command")?,
            args: texts(message, "args")?,
            cwd: message
                .get("cwd")
                .and_then(Json::as_str)
                .map_or_else(|| WORKSPACE.to_owned(), Cow::into_owned),
            env: env
                .filter(|env| env.is_object())
                .map(|env| {
                    env.fields()
                        .filter_map(|(key, value)| {
                            Some((key.into_owned(), value.as_str()?.into_owned()))
                        })
                        .collect()
                })
                .unwrap_or_default(),
            stdin: output(message, "stdin")?,
            timeout_secs: whole("timeout_secs").unwrap_or(60),
            max_output_bytes: whole("max_output_bytes").unwrap_or(512 << 10),
        })
    }

    fn write(&self, out: &mut Object) {
        let argv = std::iter::once(&self.command).chain(&self.args);
        out.str("type", name::DISPATCH)
            .str("dispatch_id", &self.id)
            .str("action", &self.action)
            .str("command", &self.command)
            .raw("args", &list(self.args.iter()))
            .raw("argv", &list(argv))
            .str("cwd", &self.cwd)
            .object("env_additions", |env| {
                for (key, value) in &self.env {
                    env.str(key, value);
                }
            })
            .u64("timeout_secs", self.timeout_secs)
            .u64("max_output_bytes", self.max_output_bytes);
        if !self.stdin.is_empty() {
            out.str("stdin", &self.stdin);
        }
    }
}

fn list<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<u8> {
    let mut out = vec![b'['];
    for (at, text) in texts.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        crate::write::quote(&mut out, text);
    }
    out.push(b']');
    out
}

fn object(text: &[u8], bytes: usize) -> Result<Json<'_>, Unreadable> {
    let message = Json::parse(text, Limits::new(bytes, DEPTH))
        .map_err(|error| malformed(format!("this is not JSON: {error}")))?;
    if message.is_object() {
        Ok(message)
    } else {
        Err(malformed("a message must be a JSON object"))
    }
}

/// A name that must be there.
fn required(message: Json<'_>, key: &str) -> Result<String, Unreadable> {
    match optional(message, key)? {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err(malformed(format!("`{key}` is missing"))),
    }
}

fn optional(message: Json<'_>, key: &str) -> Result<Option<String>, Unreadable> {
    let Some(given) = message.get(key).filter(|given| given.kind() != Kind::Null) else {
        return Ok(None);
    };
    let text = given
        .as_str()
        .ok_or_else(|| malformed(format!("`{key}` must be a text")))?;
    if text.len() > MAX_NAME {
        return Err(malformed(format!(
            "`{key}` is longer than {MAX_NAME} bytes"
        )));
    }
    Ok(Some(text.into_owned()))
}

/// A text of any length; empty if it is not there.
fn output(message: Json<'_>, key: &str) -> Result<String, Unreadable> {
    match message.get(key) {
        None => Ok(String::new()),
        Some(given) => given
            .as_str()
            .map(Cow::into_owned)
            .ok_or_else(|| malformed(format!("`{key}` must be a text"))),
    }
}

fn texts(message: Json<'_>, key: &str) -> Result<Vec<String>, Unreadable> {
    let wrong = || malformed(format!("`{key}` must be a list of texts"));
    match message.get(key) {
        None => Ok(Vec::new()),
        Some(given) if given.is_array() => given
            .items()
            .map(|item| item.as_str().map(Cow::into_owned).ok_or_else(wrong))
            .collect(),
        Some(_) => Err(wrong()),
    }
}

fn malformed(why: impl Into<String>) -> Unreadable {
    Unreadable::Malformed(why.into())
}

fn unknown_type(found: &str) -> Unreadable {
    Unreadable::UnknownType(found.chars().take(64).collect())
}

#[cfg(test)]
mod tests;
