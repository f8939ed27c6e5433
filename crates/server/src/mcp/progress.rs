//! Progress tokens. The client's own stays here; servers never see it, and their reports get it back.

use bytes::Bytes;
use wire::{Json, Kind, mcp::meta, write::Object};

const MAX_TOKEN: usize = 1024;

/// The client's token, as it wrote it.
pub(crate) fn token(meta: Option<Json<'_>>, body: &Bytes) -> Option<Bytes> {
    let token = meta?.get(meta::PROGRESS_TOKEN)?;
    let usable =
        matches!(token.kind(), Kind::String | Kind::Number) && token.as_bytes().len() <= MAX_TOKEN;
    usable.then(|| body.slice_ref(token.as_bytes()))
}

/// A report's parameters with the client's token in front.
pub(crate) fn with_token(token: &[u8], params: &[u8]) -> Vec<u8> {
    let mut out = Object::with_capacity(params.len() + token.len() + 24);
    out.raw(meta::PROGRESS_TOKEN, token);
    let mut fields = Json::checked_before(params).fields();
    while let Some((key, value)) = fields.next_raw() {
        out.copied(key, value);
    }
    out.finish()
}
