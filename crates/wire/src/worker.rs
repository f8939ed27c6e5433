//! The line protocol between the gate and its worker.
//!
//! One JSON object per line, at most [`LINE_LIMIT`] bytes with its line break. A longer text travels as *parts*: `+ID PIECE` for each
//! piece that has a successor and `=ID PIECE` for the last; the pieces, one after the other, are the text. A part needs no escaping,
//! so a long answer costs no more than a short one per byte. Where the two share memory, a long text does not travel at all: the line
//! says where it is, `@OFFSET LENGTH MESSAGE`, and `-OFFSET` says that its reader is done with it. Both sides use this file, so they
//! cannot disagree.

use std::collections::HashMap;

use bytes::Bytes;

use crate::{Limits, write};

/// A line has at most this many bytes, the line break included.
pub const LINE_LIMIT: usize = 1 << 20;
/// The default cap on one message assembled from parts.
pub const TOTAL_LIMIT: usize = 32 << 20;
/// Nesting allowed in a line: what the door allows, plus our own wrapping.
pub const DEPTH: usize = 80;
/// What stands before a piece: a sign, an id, a space. With it and a line break, a piece fits a line.
const PIECE: usize = LINE_LIMIT - 32;
/// Begins a part that others follow, and the last one.
const MORE: u8 = b'+';
const LAST: u8 = b'=';

/// Begins a message whose long text is in shared memory, and the line that gives such a text back.
const ATTACHED: u8 = b'@';
const RETURNED: u8 = b'-';
/// Texts from this size on are put into shared memory, if there is any.
pub const LONG: usize = 32 << 10;
/// How much memory each side may fill with texts for the other.
pub const SHARED_BYTES: usize = 64 << 20;
/// The tag under which shared memory is handed over, and the id of the answer to that; no request has it.
pub const MEMORY_TAG: u64 = 0;

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
    /// One JSON document from an address: an identity provider's key set.
    pub const FETCH: &str = "fetch";
    /// The courier's: sends a body to a URL and answers with the status.
    pub const POST: &str = "post";
    /// The clerk's: one request of a login; the answer has the members that were asked for.
    pub const EXCHANGE: &str = "exchange";
    /// The web role's: one request to an address that the gate let through. No redirect is followed; the body is base64.
    pub const OPEN: &str = "open";
    /// A server's login has a new token; or, with none, no longer any.
    pub const BEARER: &str = "bearer";
    /// From now on the worker asks with events for proofs that go with bound tokens.
    pub const PROOFS: &str = "proofs";
    /// A proof that was asked for; or, without one, there is none.
    pub const PROOF: &str = "proof";
    /// Answers `ok` at once: the worker's loop is alive.
    pub const PING: &str = "ping";
}

/// `{"id":…,"method":…,"params":…}` without a line break.
#[must_use]
pub fn request(id: u64, method: &str, params: &[u8]) -> Vec<u8> {
    let mut out = write::Object::with_capacity(params.len() + method.len() + 48);
    out.u64("id", id)
        .str("method", method)
        .raw("params", params);
    out.finish()
}

/// Appends `text` to `out` as one line, or as parts when it is too long for one.
pub fn push(out: &mut Vec<u8>, id: u64, text: &[u8]) {
    push_joined(out, id, &[text]);
}

/// Like [`push`], for a text that is in several pieces: none of them is copied but to its place in `out`.
pub fn push_joined(out: &mut Vec<u8>, id: u64, pieces: &[&[u8]]) {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    out.reserve(length + 64 * (length / PIECE + 1));
    write_joined(out, id, pieces);
}

/// Where lines are written to. Who can keep pieces of the text where they are need not copy them.
pub trait LineSink<'a> {
    /// What stands around the text.
    fn frame(&mut self, bytes: &[u8]);
    /// A piece of the text.
    fn piece(&mut self, bytes: &'a [u8]);
}

impl LineSink<'_> for Vec<u8> {
    fn frame(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes a text as one line, or as parts when it is too long for one.
pub fn write_joined<'a>(out: &mut impl LineSink<'a>, id: u64, pieces: &[&'a [u8]]) {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    if length < LINE_LIMIT {
        pieces.iter().for_each(|piece| out.piece(piece));
        out.frame(b"\n");
        return;
    }
    let mut head = Vec::with_capacity(24);
    let mut left = length;
    let mut room = 0;
    for mut rest in pieces.iter().copied() {
        while !rest.is_empty() {
            if room == 0 {
                head.clear();
                if left < length {
                    head.push(b'\n');
                }
                room = PIECE;
                head.push(if left > PIECE { MORE } else { LAST });
                write::number(&mut head, id);
                head.push(b' ');
                out.frame(&head);
            }
            let (piece, after) = rest
                .split_at_checked(cut(rest, room))
                .unwrap_or((rest, &[]));
            out.piece(piece);
            left -= piece.len();
            // A character that does not fit whole begins the next line.
            room = if after.is_empty() {
                room - piece.len()
            } else {
                0
            };
            rest = after;
        }
    }
    out.frame(b"\n");
}

/// A text in shared memory: the message in which it stands for `null`, as the parameters of a call or as the result of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    pub offset: usize,
    pub length: usize,
    pub message: Bytes,
}

/// Appends the line that announces a text in shared memory.
pub fn push_attached(out: &mut Vec<u8>, offset: usize, length: usize, message: &[u8]) {
    out.push(ATTACHED);
    write::number(out, offset as u64);
    out.push(b' ');
    write::number(out, length as u64);
    out.push(b' ');
    out.extend_from_slice(message);
    out.push(b'\n');
}

/// Appends the line that gives a text in shared memory back to its owner.
pub fn push_returned(out: &mut Vec<u8>, offset: usize) {
    out.push(RETURNED);
    write::number(out, offset as u64);
    out.push(b'\n');
}

/// What a line says about shared memory, if that is what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shared {
    Attached(Attached),
    Returned(usize),
    /// It begins like one of the two and is neither.
    Malformed,
}

impl Shared {
    /// `None` for every other line.
    #[must_use]
    pub fn read(line: &Bytes) -> Option<Self> {
        let read = match line.first() {
            Some(&ATTACHED) => attached(line).map(Self::Attached),
            Some(&RETURNED) => line.get(1..).and_then(decimal).map(Self::Returned),
            _ => return None,
        };
        Some(read.unwrap_or(Self::Malformed))
    }
}

/// Whether a line is about a long text that is elsewhere.
#[must_use]
pub fn is_attached(line: &[u8]) -> bool {
    line.first() == Some(&ATTACHED)
}

fn attached(line: &Bytes) -> Option<Attached> {
    let (offset, rest) = word(line.get(1..)?)?;
    let (length, message) = word(rest)?;
    Some(Attached {
        offset: decimal(offset)?,
        length: decimal(length)?,
        message: line.slice_ref(message),
    })
}

/// What comes before the first space, which is not far, and what comes after it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', text.get(..text.len().min(21))?)?;
    Some((text.get(..space)?, text.get(space + 1..)?))
}

fn decimal(digits: &[u8]) -> Option<usize> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    plain
        .then(|| std::str::from_utf8(digits).ok()?.parse().ok())
        .flatten()
}

/// Where a piece ends: between characters, so that every line is text.
fn cut(text: &[u8], room: usize) -> usize {
    let longest = room.min(text.len());
    let inside_character = |at: &usize| text.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (longest.saturating_sub(3)..=longest)
        .rev()
        .find(|at| !inside_character(at))
        .unwrap_or(longest)
}

/// Why a part was refused. Further parts of the same text are swallowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartError {
    /// Parts of this id add up to more than the cap.
    TooLarge { id: u64 },
    /// More texts, or more of them, are being assembled than we hold at once.
    TooMany { id: u64 },
    /// The line begins like a part and is none.
    Malformed,
}

/// Puts parts together again.
#[derive(Debug)]
pub struct Assembler {
    total_limit: usize,
    /// `None`: already refused.
    open: HashMap<u64, Option<Vec<u8>>>,
    held: usize,
}

/// Texts that may be in parts at one time, and how many whole ones their sum may be.
const MAX_OPEN: usize = 256;
const MAX_HELD: usize = 4;

impl Assembler {
    #[must_use]
    pub fn new(total_limit: usize) -> Self {
        Self {
            total_limit,
            open: HashMap::new(),
            held: 0,
        }
    }

    /// Takes a line as it came. `Some`: a whole text, not validated yet; `None`: a part, and others must follow.
    pub fn take(&mut self, line: Bytes) -> Result<Option<Bytes>, PartError> {
        let more = match line.first() {
            Some(&MORE) => true,
            Some(&LAST) => false,
            _ => return Ok(Some(line)),
        };
        let (id, piece) = part(&line).ok_or(PartError::Malformed)?;
        if !self.open.contains_key(&id) && self.open.len() >= MAX_OPEN {
            return Err(PartError::TooMany { id });
        }
        let slot = self.open.entry(id).or_insert_with(|| Some(Vec::new()));
        let Some(text) = slot else {
            if !more {
                self.open.remove(&id);
            }
            return Ok(None);
        };
        let is_too_large = text.len() + piece.len() > self.total_limit;
        if is_too_large || self.held + piece.len() > self.total_limit.saturating_mul(MAX_HELD) {
            self.held -= text.len();
            *slot = None;
            if !more {
                self.open.remove(&id);
            }
            return Err(if is_too_large {
                PartError::TooLarge { id }
            } else {
                PartError::TooMany { id }
            });
        }
        text.extend_from_slice(piece);
        self.held += piece.len();
        if more {
            return Ok(None);
        }
        let whole = self.open.remove(&id).flatten().unwrap_or_default();
        self.held -= whole.len();
        Ok(Some(whole.into()))
    }

    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits::new(self.total_limit.max(LINE_LIMIT), DEPTH)
    }
}

/// The id and the piece of a part.
fn part(line: &[u8]) -> Option<(u64, &[u8])> {
    let (id, piece) = word(line.get(1..)?)?;
    Some((std::str::from_utf8(id).ok()?.parse().ok()?, piece))
}

/// The id of a line that is not valid as a whole, if it can be read from its beginning.
#[must_use]
pub fn salvage_id(prefix: &[u8]) -> Option<u64> {
    if let Some(&(MORE | LAST)) = prefix.first() {
        return part(prefix).map(|(id, _)| id);
    }
    let at = memchr::memmem::find(prefix, b"\"id\"")?;
    let rest = prefix
        .get(at + 4..)?
        .trim_ascii_start()
        .strip_prefix(b":")?
        .trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}
