//! Whom a JSON-RPC message is for that is too long to be kept, or too broken to be read.
//!
//! The message is fed in pieces and a few bytes of it are kept, however long it is. The `id` is found wherever it stands at the top:
//! some write it first, some last, and a result may hold any number of other things called `id`. Nothing is validated here, so what
//! comes out serves to fail a request, and never to answer one.
//!
//! What has piled up before a message turned out too long is read in steps, so that whoever has others to serve can do so in between.
//!
//! **Invariant: whom an unreadable answer is for is told at once**, and nobody else hears of it. Tests
//! `an_answer_above_the_cap_is_told_at_once_wherever_its_id_stands`, `a_servers_own_words_above_the_cap_fail_no_call`.

use crate::{Json, Limits, json::decode_key, rpc::Id};

/// Keys and ids longer than this are not ours.
const MAX_TOKEN: usize = 256;

/// What is read at once.
const STEP: usize = 64 << 10;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skim {
    depth: usize,
    within: Within,
    /// The string or number at the top that is being read.
    token: Vec<u8>,
    /// What the value being read belongs to.
    key: Key,
    expects_value: bool,
    is_over: bool,
    has_method: bool,
    ids: Vec<Id>,
    /// What has come and is not read yet, and how much of it is.
    backlog: Vec<u8>,
    done: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Between,
    Text,
    /// A string, after a backslash.
    Escape,
    /// A number or a word, at the top.
    Scalar,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Key {
    Id,
    #[default]
    Other,
}

impl Skim {
    /// A message that is here as a whole.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let mut skim = Self::default();
        skim.feed(text);
        skim.finish();
        skim
    }

    /// Takes in more of the message. A long piece is only kept; see [`Skim::step`].
    pub fn feed(&mut self, piece: &[u8]) {
        if self.backlog.is_empty() && piece.len() <= STEP {
            self.read(piece);
        } else {
            self.backlog.extend_from_slice(piece);
        }
    }

    /// There is something to read yet. Until then nothing is known for certain.
    #[must_use]
    pub fn lags(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Reads a little of what is kept; how much.
    pub fn step(&mut self) -> usize {
        let backlog = std::mem::take(&mut self.backlog);
        let piece = backlog.get(self.done..).unwrap_or_default();
        let taken = piece.len().min(STEP);
        self.read(piece.get(..taken).unwrap_or_default());
        self.done += taken;
        if self.done < backlog.len() {
            self.backlog = backlog;
        } else {
            self.done = 0;
        }
        taken
    }

    /// Reads all that is kept.
    pub fn finish(&mut self) {
        while self.lags() {
            self.step();
        }
    }

    fn read(&mut self, mut piece: &[u8]) {
        while let (false, Some(&byte)) = (self.is_over, piece.first()) {
            let taken = match self.within {
                Within::Between => self.between(byte),
                Within::Text => self.text(piece),
                Within::Escape => {
                    self.keep(piece.get(..1).unwrap_or_default());
                    self.within = Within::Text;
                    1
                }
                Within::Scalar => self.scalar(piece),
            };
            piece = piece.get(taken..).unwrap_or_default();
        }
    }

    /// The requests that the message claims to answer: one, two if it has two readings, none if it is no answer.
    pub fn answers(&self) -> impl Iterator<Item = &Id> {
        self.ids.iter().filter(|_| !self.has_method)
    }

    /// The id of a request, whose sender waits for an answer.
    #[must_use]
    pub fn asks(&self) -> Option<&Id> {
        self.id().filter(|_| self.has_method)
    }

    /// It calls a method, with or without an id.
    #[must_use]
    pub fn has_method(&self) -> bool {
        self.has_method
    }

    /// The id, if there is one and only one.
    #[must_use]
    pub fn id(&self) -> Option<&Id> {
        match self.ids.as_slice() {
            [id] => Some(id),
            _ => None,
        }
    }

    fn between(&mut self, byte: u8) -> usize {
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                // A list of messages has no id of its own.
                self.is_over = self.depth == 1 && byte == b'[';
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.is_over = self.depth == 0;
            }
            b'"' => {
                self.within = Within::Text;
                self.token.clear();
                self.keep(b"\"");
            }
            b',' if self.depth == 1 => {
                self.expects_value = false;
                self.key = Key::Other;
            }
            b':' if self.depth == 1 => self.expects_value = true,
            byte if self.depth == 1 && self.key == Key::Id && !byte.is_ascii_whitespace() => {
                self.within = Within::Scalar;
                self.token.clear();
                return 0;
            }
            _ => {}
        }
        1
    }

    fn text(&mut self, piece: &[u8]) -> usize {
        let end = memchr::memchr2(b'"', b'\\', piece);
        let taken = end.map_or(piece.len(), |end| end + 1);
        self.keep(piece.get(..taken).unwrap_or_default());
        match end.and_then(|end| piece.get(end)) {
            Some(b'\\') => self.within = Within::Escape,
            Some(_) => {
                self.within = Within::Between;
                self.end_of_text();
            }
            None => {}
        }
        taken
    }

    fn end_of_text(&mut self) {
        match (self.depth, self.expects_value) {
            (1, true) => self.end_of_value(),
            (1, false) => {
                let key = decode_key(&self.token);
                self.has_method |= key == "method";
                self.key = if key == "id" { Key::Id } else { Key::Other };
            }
            _ => {}
        }
    }

    fn scalar(&mut self, piece: &[u8]) -> usize {
        let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
        let end = piece.iter().position(is_end);
        let taken = end.unwrap_or(piece.len());
        self.keep(piece.get(..taken).unwrap_or_default());
        if end.is_some() {
            self.within = Within::Between;
            self.end_of_value();
            self.key = Key::Other;
        }
        taken
    }

    fn end_of_value(&mut self) {
        if self.key != Key::Id {
            return;
        }
        let id = Json::parse(&self.token, Limits::new(MAX_TOKEN, 1))
            .ok()
            .and_then(Id::read);
        if let Some(id) = id.filter(|id| !self.ids.contains(id)) {
            // Of many readings the first and the last are enough: whoever waits for another one waits in vain anyway.
            self.ids.truncate(1);
            self.ids.push(id);
        }
    }

    /// Only what stands at the top is ever looked at. What is cut off is valid no more, so it is taken for nothing.
    fn keep(&mut self, bytes: &[u8]) {
        if self.depth == 1 {
            let room = (MAX_TOKEN + 1).saturating_sub(self.token.len());
            self.token
                .extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However a message is cut off, what is left of it names its own id or none.
        #[test]
        fn a_cut_message_keeps_its_id_or_has_none(number: u32, filler in "[a-z{}\\[\\]:,]{0,40}", cut in 0usize..120) {
            let text = format!(r#"{{"jsonrpc":"2.0","params":{{"t":"{filler}"}},"id":{number},"method":"m"}}"#);
            let skim = Skim::of(&text.as_bytes()[..cut.min(text.len())]);
            prop_assert!(skim.id().is_none_or(|id| *id == Id::number(u64::from(number))));
        }

        #[test]
        fn anything_may_come(text in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = Skim::of(&text).id();
        }
    }

    fn told(text: &str) -> (Vec<u64>, bool) {
        let whole = Skim::of(text.as_bytes());
        let mut cut = Skim::default();
        text.as_bytes().chunks(1).for_each(|byte| cut.feed(byte));
        assert!(!cut.lags());
        assert_eq!(whole, cut, "however it is cut: {text}");
        (
            whole.answers().filter_map(Id::as_u64).collect(),
            whole.has_method(),
        )
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        let result = r#"{"id":1,"x":[{"id":2},"\"id\":3",{"a":{"id":4}}],"t":"}}]\\\""}"#;
        for text in [
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#),
            format!(r#"{{"result":{result},"jsonrpc":"2.0","id":7}}"#),
            format!(r#" {{ "result" : {result} , "id" : 7 , "jsonrpc":"2.0" }} "#),
            format!(r#"{{"error":{result},"\u0069d":7}}"#),
            r#"{"id":7,"result":"never ends"#.to_owned(),
        ] {
            assert_eq!(told(&text), (vec![7], false), "{text}");
        }
    }

    #[test]
    fn what_piled_up_is_read_in_steps() {
        let text = format!(r#"{{"result":"{}","id":7}}"#, "x".repeat(3 * STEP));
        let mut skim = Skim::default();
        skim.feed(text.as_bytes());
        skim.feed(b" ");
        assert!(skim.lags() && skim.id().is_none());
        let steps: Vec<usize> = std::iter::from_fn(|| skim.lags().then(|| skim.step())).collect();
        assert_eq!(
            (steps.len(), steps.iter().sum::<usize>()),
            (4, text.len() + 1)
        );
        assert_eq!(skim.id(), Some(&Id::number(7)));
    }

    #[test]
    fn what_is_no_answer_to_us_answers_nobody() {
        for text in [
            r#"{"result":{"id":7}}"#,
            r#"{"result":{},"id":"7"}"#,
            r#"{"result":{},"id":null}"#,
            r#"{"result":{},"id":7.0}"#,
            r#"{"result":{},"id":{"id":7}}"#,
            r#"{"result":"id","x":7}"#,
            r#"{"result":{},"id":7"#,
            r#"[{"id":7,"result":{}}]"#,
            r#""id":7"#,
            "",
        ] {
            assert_eq!(told(text).0, [0_u64; 0], "{text}");
        }
        let long = format!(r#"{{"result":{{}},"id":{}}}"#, "7".repeat(1000));
        assert_eq!(told(&long).0, [0_u64; 0]);
    }

    #[test]
    fn a_request_of_the_server_is_told_from_an_answer() {
        let text = r#"{"id":7,"params":{"method":1},"method":"sampling/createMessage"}"#;
        assert_eq!(told(text), (vec![], true));
        assert_eq!(Skim::of(text.as_bytes()).asks(), Some(&Id::number(7)));
        let (answered, has_method) =
            told(r#"{"method":"notifications/message","params":{"id":7}}"#);
        assert_eq!((answered.len(), has_method), (0, true));
    }

    #[test]
    fn of_two_readings_both_are_named() {
        assert_eq!(told(r#"{"id":7,"result":{},"id":7}"#).0, [7]);
        assert_eq!(told(r#"{"id":7,"result":{},"id":8}"#).0, [7, 8]);
        assert_eq!(told(r#"{"id":7,"id":9,"result":{},"id":8}"#).0, [7, 8]);
        assert_eq!(Skim::of(br#"{"id":7,"id":8}"#).id(), None);
    }
}
