//! The line protocol between the gate and its worker.
//!
//! One JSON object per line, at most [`LINE_LIMIT`] bytes with its line break. Longer texts travel as *parts*: several lines with the
//! same id, each holding a piece of the text as a JSON string. Both sides use this file, so they cannot disagree.

use std::collections::HashMap;

use crate::{Json, JsonError, Limits, write};

/// A line has at most this many bytes, the line break included.
pub const LINE_LIMIT: usize = 1 << 20;
/// The default cap on one message assembled from parts.
pub const TOTAL_LIMIT: usize = 32 << 20;
/// Nesting allowed in a line: what the door allows, plus our own wrapping.
pub const DEPTH: usize = 80;
/// A piece of this many bytes fits a line whatever escaping it needs (`\u00XX` is six bytes for one).
const PIECE: usize = 160 << 10;

/// The methods of the protocol. The first nine are the aggregator's own; the rest serve the gate.
pub mod method {
    pub const LIST_SERVERS: &str = "list_servers";
    pub const LIST_TOOLS: &str = "list_tools";
    pub const LIST_RESOURCES: &str = "list_resources";
    pub const LIST_PROMPTS: &str = "list_prompts";
    pub const CALL_TOOL: &str = "call_tool";
    pub const READ_RESOURCE: &str = "read_resource";
    pub const GET_PROMPT: &str = "get_prompt";
    pub const REFRESH: &str = "refresh";
    pub const SHUTDOWN: &str = "shutdown";
    pub const WATCH: &str = "watch";
    pub const CONNECT: &str = "connect";
    pub const DISCONNECT: &str = "disconnect";
    pub const CATALOG: &str = "catalog";
    pub const HEALTH: &str = "health";
    pub const FORWARD: &str = "forward";
    pub const ANSWER: &str = "answer";
    pub const CANCEL: &str = "cancel";
    pub const SUBSCRIBE: &str = "subscribe";
    pub const UNSUBSCRIBE: &str = "unsubscribe";
    pub const NOTIFY: &str = "notify";
    pub const LOG_LEVEL: &str = "log_level";
    pub const CONFINEMENT: &str = "confinement";
    /// Answers `ok` at once: the worker's loop is alive.
    pub const PING: &str = "ping";
}

/// `{"id":…,"method":…,"params":…}` without a line break.
#[must_use]
pub fn request(id: u64, method: &str, params: &[u8]) -> Vec<u8> {
    let mut out = write::Object::with_capacity(params.len() + method.len() + 48);
    out.u64("id", id).str("method", method).raw("params", params);
    out.finish()
}

/// Appends `text` to `out` as one line, or as parts when it is too long for one.
pub fn push(out: &mut Vec<u8>, id: u64, text: &[u8]) {
    if text.len() < LINE_LIMIT {
        out.reserve(text.len() + 1);
        out.extend_from_slice(text);
        out.push(b'\n');
        return;
    }
    let text = std::str::from_utf8(text).unwrap_or_default();
    let mut rest = text;
    while !rest.is_empty() {
        let mut cut = PIECE.min(rest.len());
        while !rest.is_char_boundary(cut) {
            cut -= 1;
        }
        let (piece, after) = rest.split_at(cut);
        let mut line = write::Object::with_capacity(piece.len() + piece.len() / 8 + 64);
        line.u64("id", id).str("part", piece).bool("more", !after.is_empty());
        out.extend_from_slice(&line.finish());
        out.push(b'\n');
        rest = after;
    }
}

/// Why a line could not become a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineError {
    Json(JsonError),
    /// Parts of this id add up to more than the cap; the rest of them is ignored.
    TooLarge {
        id: u64,
    },
    /// More messages are being assembled than we hold at once.
    TooManyParts {
        id: u64,
    },
}

/// Puts parts together again.
#[derive(Debug)]
pub struct Assembler {
    total_limit: usize,
    open: HashMap<u64, Option<Vec<u8>>>,
    held: usize,
}

/// Messages that may be in parts at one time.
const MAX_OPEN: usize = 256;

impl Assembler {
    #[must_use]
    pub fn new(total_limit: usize) -> Self {
        Self { total_limit, open: HashMap::new(), held: 0 }
    }

    /// Takes a line. `Ok(None)`: a part, and more follow. `Ok(Some(None))`: the line itself is the message. `Ok(Some(Some(text)))`: the
    /// last part; `text` is the message.
    pub fn take(&mut self, line: Json<'_>) -> Result<Option<Option<Vec<u8>>>, LineError> {
        let Some(part) = line.get("part").and_then(Json::as_str) else { return Ok(Some(None)) };
        let id = line.get("id").and_then(Json::as_u64).unwrap_or(0);
        let more = line.get("more").and_then(Json::as_bool).unwrap_or(false);
        if !self.open.contains_key(&id) && self.open.len() >= MAX_OPEN {
            return Err(LineError::TooManyParts { id });
        }
        let slot = self.open.entry(id).or_insert_with(|| Some(Vec::new()));
        if let Some(text) = slot {
            if text.len() + part.len() > self.total_limit || self.held + part.len() > self.total_limit.saturating_mul(4) {
                self.held -= text.len();
                *slot = None;
                if !more {
                    self.open.remove(&id);
                }
                return Err(LineError::TooLarge { id });
            }
            text.extend_from_slice(part.as_bytes());
            self.held += part.len();
        }
        if more {
            return Ok(None);
        }
        let Some(Some(text)) = self.open.remove(&id) else { return Ok(None) };
        self.held -= text.len();
        Ok(Some(Some(text)))
    }

    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits::new(self.total_limit, DEPTH)
    }
}

/// The id of a line that is not valid as a whole, if it can be read from its beginning.
#[must_use]
pub fn salvage_id(prefix: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(prefix, b"\"id\"")?;
    let rest = prefix.get(at + 4..)?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}
