//! A checkpoint as a stranger reads it: a C2SP signed note, checked against a public key.

use crate::chain::Hash;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::signature::{ED25519, UnparsedPublicKey};

/// What a signed checkpoint says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Names the ledger.
    pub origin: String,
    /// How many records it covers.
    pub size: u64,
    /// The root of the hash tree over them.
    pub root: Hash,
}

/// Why a checkpoint cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    #[error("this is no checkpoint: {0}")]
    Malformed(&'static str),
    #[error("this is no public key of the form `name+id+key`")]
    Key,
    #[error("the checkpoint carries no signature by {0}")]
    Unsigned(String),
    #[error("the signature by {0} does not fit the checkpoint")]
    Forged(String),
}

impl Head {
    /// Whether `key` is a public key at all.
    pub fn check_key(key: &str) -> Result<(), BadHead> {
        Key::parse(key).map(drop).ok_or(BadHead::Key)
    }

    /// Reads `note` and checks that `key`, in the form `name+id+base64`, has signed it.
    pub fn verified(note: &str, key: &str) -> Result<Head, BadHead> {
        let key = Key::parse(key).ok_or(BadHead::Key)?;
        let end = note
            .find("\n\n")
            .ok_or(BadHead::Malformed("it has no blank line"))?;
        let (text, rest) = note.split_at(end + 1);
        let signatures = rest.strip_prefix('\n').unwrap_or_default();
        if !signatures.ends_with('\n') {
            return Err(BadHead::Malformed("its last line has no end"));
        }
        key.has_signed(text, signatures)?;
        Head::parse(text)
    }

    fn parse(text: &str) -> Result<Head, BadHead> {
        let mut lines = text.lines();
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next())
        else {
            return Err(BadHead::Malformed("it has fewer than three lines"));
        };
        let plain = !size.is_empty()
            && size.bytes().all(|b| b.is_ascii_digit())
            && (size == "0" || !size.starts_with('0'));
        let size = size
            .parse()
            .ok()
            .filter(|_| plain)
            .ok_or(BadHead::Malformed("its size is no whole number"))?;
        let root = BASE64
            .decode(root)
            .ok()
            .and_then(|root| root.try_into().ok());
        let root = Hash::from_bytes(root.ok_or(BadHead::Malformed("its root is no hash"))?);
        Ok(Head {
            origin: origin.to_owned(),
            size,
            root,
        })
    }
}

struct Key<'a> {
    name: &'a str,
    id: [u8; 4],
    public: Vec<u8>,
}

impl<'a> Key<'a> {
    fn parse(text: &'a str) -> Option<Key<'a>> {
        let (name, rest) = text.split_once('+')?;
        let (id, encoded) = rest.split_once('+')?;
        let typed = BASE64.decode(encoded).ok()?;
        let public = typed
            .strip_prefix(&[1])
            .filter(|public| public.len() == 32)?
            .to_vec();
        // The id follows from the rest, so a wrong one is a damaged key.
        let derived = Hash::of(&[name.as_bytes(), b"\n", &typed].concat());
        let derived = derived.bytes().first_chunk::<4>()?;
        let spelled: String = derived.iter().map(|byte| format!("{byte:02x}")).collect();
        (spelled == id).then_some(Key {
            name,
            id: *derived,
            public,
        })
    }

    fn has_signed(&self, text: &str, signatures: &str) -> Result<(), BadHead> {
        let mine = signatures.lines().find_map(|line| {
            let encoded = line
                .strip_prefix("— ")?
                .strip_prefix(self.name)?
                .strip_prefix(' ')?;
            let signature = BASE64.decode(encoded).ok()?;
            Some(signature.strip_prefix(&self.id)?.to_vec())
        });
        let signature = mine.ok_or_else(|| BadHead::Unsigned(self.name.to_owned()))?;
        let key = UnparsedPublicKey::new(&ED25519, &self.public);
        key.verify(text.as_bytes(), &signature)
            .map_err(|_| BadHead::Forged(self.name.to_owned()))
    }
}
