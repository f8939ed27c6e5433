//! What a modern request says about itself in `_meta`.

use bytes::Bytes;
use wire::{
    Json,
    mcp::{Revision, code, meta},
    write::Object,
};

use super::{answer::Problem, log::Severity, progress};

/// Every revision this door speaks, newest first.
pub(crate) const SPOKEN: [Revision; 4] = [
    Revision::V2026_07_28,
    Revision::V2025_11_25,
    Revision::V2025_06_18,
    Revision::V2025_03_26,
];

/// The required keys were there; whether we speak the version is [`Meta::spoken`]'s question.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) version: String,
    pub(crate) capabilities: Bytes,
    pub(crate) log: Option<Severity>,
    pub(crate) progress: Option<Bytes>,
}

impl Meta {
    pub(crate) fn read(params: Option<Json<'_>>, body: &Bytes) -> Result<Self, Problem> {
        let missing = |key: &str| Problem::invalid_params(&format!("`_meta` must hold `{key}`"));
        let meta = params
            .and_then(|params| params.get("_meta"))
            .filter(|meta| meta.is_object());
        let meta = meta.ok_or_else(|| {
            Problem::invalid_params(
                "`params._meta` must be an object that names the protocol version",
            )
        })?;
        let version = meta
            .get(meta::PROTOCOL_VERSION)
            .and_then(Json::as_str)
            .ok_or_else(|| missing(meta::PROTOCOL_VERSION))?;
        let capabilities = meta
            .get(meta::CLIENT_CAPABILITIES)
            .filter(|value| value.is_object());
        let capabilities = capabilities.ok_or_else(|| missing(meta::CLIENT_CAPABILITIES))?;
        let log = match meta.get(meta::LOG_LEVEL).filter(|level| !level.is_null()) {
            None => None,
            Some(level) => {
                let level = level.as_str().and_then(|level| Severity::parse(&level));
                Some(level.ok_or_else(|| {
                    Problem::invalid_params(&format!("`{}` is not a log level", meta::LOG_LEVEL))
                })?)
            }
        };
        Ok(Self {
            version: version.into_owned(),
            capabilities: body.slice_ref(capabilities.as_bytes()),
            log,
            progress: progress::token(Some(meta), body),
        })
    }

    pub(crate) fn spoken(&self) -> Result<(), Problem> {
        if Revision::parse(&self.version).is_some_and(Revision::is_modern) {
            return Ok(());
        }
        let mut data = Object::new();
        data.raw("supported", &spoken_json())
            .str("requested", &self.version);
        Err(Problem::with_data(
            code::UNSUPPORTED_PROTOCOL_VERSION,
            "Unsupported protocol version",
            &data.finish(),
        ))
    }
}

/// `["2026-07-28",…]`
pub(crate) fn spoken_json() -> Vec<u8> {
    let names: Vec<String> = SPOKEN
        .iter()
        .map(|revision| format!("\"{revision}\""))
        .collect();
    format!("[{}]", names.join(",")).into_bytes()
}

#[cfg(test)]
mod tests;
