//! Commands and values as bytes.
//!
//! **Invariant: no answer makes us hold more than its bound.** Lengths are looked at before anything is kept; what is longer or deeper
//! ends the connection. Tests `what_is_cut_anywhere_is_asked_for_again`, `what_is_too_long_or_too_deep_is_refused`.

/// A text of an answer is never longer: ours are numbers and short words.
const MAX_BULK: usize = 1 << 20;
const MAX_LINE: usize = 4 << 10;
const MAX_ITEMS: usize = 4096;
const MAX_DEPTH: usize = 4;

/// What an answer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    /// `None`: there is no such thing.
    Bulk(Option<Vec<u8>>),
    Array(Vec<Value>),
}

impl Value {
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    #[must_use]
    pub fn items(&self) -> &[Value] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }
}

/// The other side does not speak RESP, or says more than we listen to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not RESP within our bounds: {0}")]
pub struct Malformed(&'static str);

/// A command as it is sent.
#[must_use]
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The first value of `bytes` and how many of them it takes; `None`: the rest has not come yet.
pub fn parse(bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
    let mut reader = Reader { bytes, at: 0 };
    Ok(reader.value(0)?.map(|value| (value, reader.at)))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Option<Value>, Malformed> {
        if depth > MAX_DEPTH {
            return Err(Malformed("it is nested too deeply"));
        }
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        let (kind, rest) = line.split_first().ok_or(Malformed("an empty line"))?;
        Ok(match kind {
            b'+' => Some(Value::Simple(text(rest))),
            b'-' => Some(Value::Error(text(rest))),
            b':' => Some(Value::Integer(number(rest)?)),
            b'$' => match number(rest)? {
                -1 => Some(Value::Bulk(None)),
                length => self.bulk(bounded(length, MAX_BULK)?)?,
            },
            b'*' => match number(rest)? {
                -1 => Some(Value::Array(Vec::new())),
                length => self.array(bounded(length, MAX_ITEMS)?, depth)?,
            },
            _ => return Err(Malformed("an unknown kind of value")),
        })
    }

    fn bulk(&mut self, length: usize) -> Result<Option<Value>, Malformed> {
        let Some(bytes) = self.bytes.get(self.at..self.at + length + 2) else {
            return Ok(None);
        };
        let Some(text) = bytes.strip_suffix(b"\r\n") else {
            return Err(Malformed("a text that is longer than it says"));
        };
        self.at += bytes.len();
        Ok(Some(Value::Bulk(Some(text.to_vec()))))
    }

    fn array(&mut self, length: usize, depth: usize) -> Result<Option<Value>, Malformed> {
        let mut items = Vec::new();
        for _ in 0..length {
            match self.value(depth + 1)? {
                Some(item) => items.push(item),
                None => return Ok(None),
            }
        }
        Ok(Some(Value::Array(items)))
    }

    fn line(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let looked_at = rest.get(..MAX_LINE.min(rest.len())).unwrap_or_default();
        let Some(end) = looked_at.windows(2).position(|pair| pair == b"\r\n") else {
            return match rest.len() >= MAX_LINE {
                true => Err(Malformed("a line without an end")),
                false => Ok(None),
            };
        };
        self.at += end + 2;
        Ok(rest.get(..end))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn number(bytes: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Malformed("a number that is none"))
}

fn bounded(length: i64, most: usize) -> Result<usize, Malformed> {
    usize::try_from(length)
        .ok()
        .filter(|length| *length <= most)
        .ok_or(Malformed("a length beyond its bound"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(value: &Value) -> Vec<u8> {
        match value {
            Value::Simple(text) => format!("+{text}\r\n").into_bytes(),
            Value::Error(text) => format!("-{text}\r\n").into_bytes(),
            Value::Integer(number) => format!(":{number}\r\n").into_bytes(),
            Value::Bulk(None) => b"$-1\r\n".to_vec(),
            Value::Bulk(Some(bytes)) => {
                let mut out = format!("${}\r\n", bytes.len()).into_bytes();
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
                out
            }
            Value::Array(items) => {
                let mut out = format!("*{}\r\n", items.len()).into_bytes();
                out.extend(items.iter().flat_map(written));
                out
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            "[a-zA-Z ]{0,12}".prop_map(Value::Simple),
            "[a-zA-Z ]{0,12}".prop_map(Value::Error),
            any::<i64>().prop_map(Value::Integer),
            Just(Value::Bulk(None)),
            proptest::collection::vec(any::<u8>(), 0..40)
                .prop_map(|bytes| Value::Bulk(Some(bytes))),
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            proptest::collection::vec(inner, 0..5).prop_map(Value::Array)
        })
    }

    proptest! {
        #[test]
        fn what_is_cut_anywhere_is_asked_for_again(value in values(), tail in proptest::collection::vec(any::<u8>(), 0..8)) {
            let bytes = written(&value);
            for end in 0..bytes.len() {
                prop_assert_eq!(parse(&bytes[..end]), Ok(None));
            }
            let mut with_more = bytes.clone();
            with_more.extend(tail);
            prop_assert_eq!(parse(&with_more), Ok(Some((value, bytes.len()))));
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_refused() {
        for bytes in [
            "$1048577\r\n".to_owned(),
            "$-2\r\n".to_owned(),
            "*4097\r\n".to_owned(),
            "*1\r\n".repeat(6),
            "x\r\n".to_owned(),
            ":\r\n".to_owned(),
            "\r\n".to_owned(),
            "+".to_owned() + &"a".repeat(MAX_LINE),
        ] {
            assert!(parse(bytes.as_bytes()).is_err(), "{bytes:.20}");
        }
    }

    #[test]
    fn a_command_is_a_list_of_texts() {
        assert_eq!(
            command(&[b"GET", b"a\r\nb"]),
            b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n"
        );
    }
}
