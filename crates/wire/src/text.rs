//! A text that was checked, together with what was learnt on the way, so that nobody steps over a megabyte to learn it again.

use std::{
    ops::{Deref, Range},
    sync::Arc,
};

use bytes::Bytes;

use crate::{
    Json,
    json::{Outline, RawField},
};

/// The text of one JSON value. Without notes it is just that; with notes the answers are the same and cost nothing.
#[derive(Debug, Clone)]
pub struct Text {
    bytes: Bytes,
    fields: Option<Arc<[Place]>>,
    one_line: bool,
    digest: Option<[u8; 32]>,
}

/// Where a field's key and value are.
#[derive(Debug, Clone)]
struct Place {
    key: Range<usize>,
    value: Range<usize>,
}

impl Text {
    /// A whole text that was just validated.
    #[must_use]
    pub fn of(owner: &Bytes, outline: &Outline<'_>) -> Self {
        Self::noted(
            owner.slice_ref(outline.json.as_bytes()),
            &outline.fields(),
            outline.one_line,
        )
    }

    /// An object that is a field of a text that was just validated.
    #[must_use]
    pub fn inside(owner: &Bytes, outline: &Outline<'_>, object: Json<'_>) -> Self {
        Self::noted(
            owner.slice_ref(object.as_bytes()),
            &outline.fields_of(object),
            outline.one_line,
        )
    }

    fn noted(bytes: Bytes, fields: &[RawField<'_>], one_line: bool) -> Self {
        let place = |part: &[u8]| {
            let start = (part.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
            (start + part.len() <= bytes.len()).then(|| start..start + part.len())
        };
        let places = fields.iter().map(|(key, value)| {
            Some(Place {
                key: place(key)?,
                value: place(value.as_bytes())?,
            })
        });
        Self {
            fields: places.collect(),
            bytes,
            one_line,
            digest: None,
        }
    }

    /// Adds a digest of exactly these bytes.
    #[must_use]
    pub fn with_digest(self, digest: [u8; 32]) -> Self {
        Self {
            digest: Some(digest),
            ..self
        }
    }

    /// The digest, if whoever made the text has it.
    #[must_use]
    pub fn digest(&self) -> Option<[u8; 32]> {
        self.digest
    }

    /// It is known to hold no line break.
    #[must_use]
    pub fn is_one_line(&self) -> bool {
        self.one_line
    }

    /// The fields, with their keys as written; none if this is not an object.
    #[must_use]
    pub fn fields(&self) -> Vec<RawField<'_>> {
        let part = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        match &self.fields {
            Some(places) => places
                .iter()
                .map(|place| (part(&place.key), Json::checked_before(part(&place.value))))
                .collect(),
            None => Json::checked_before(&self.bytes).raw_fields(),
        }
    }

    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl<T: Into<Bytes>> From<T> for Text {
    fn from(bytes: T) -> Self {
        Self {
            bytes: bytes.into(),
            fields: None,
            one_line: false,
            digest: None,
        }
    }
}

impl Deref for Text {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

impl<T: ?Sized> PartialEq<T> for Text
where
    Bytes: PartialEq<T>,
{
    fn eq(&self, other: &T) -> bool {
        self.bytes == *other
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Text;
    use crate::{Json, Limits};

    #[test]
    fn notes_say_what_a_walk_would() {
        let owner = Bytes::from_static(b" {\"a\": {\"b\":[1,2], \"c\" :\"}\"},\"d\":null} ");
        let outline = Json::parse_fields(&owner, Limits::default()).unwrap();
        let whole = Text::of(&owner, &outline);
        assert_eq!(whole.fields(), Json::checked_before(&whole).raw_fields());
        assert_eq!(whole.fields().len(), 2);
        let inner = Text::inside(&owner, &outline, outline.json.get("a").unwrap());
        assert_eq!(inner, b"{\"b\":[1,2], \"c\" :\"}\"}".as_slice());
        assert_eq!(inner.fields(), Json::checked_before(&inner).raw_fields());
        assert_eq!(Text::from(inner.bytes().clone()).fields(), inner.fields());
        assert!(inner.is_one_line() && !Text::from("{}").is_one_line());
    }

    #[test]
    fn what_is_no_object_has_no_fields() {
        let owner = Bytes::from_static(b"[{\"a\":1}]");
        let outline = Json::parse_fields(&owner, Limits::default()).unwrap();
        assert!(Text::of(&owner, &outline).fields().is_empty());
    }
}
