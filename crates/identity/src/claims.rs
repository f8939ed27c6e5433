//! What a session's token says: who, for which workload and execution, under which context, for which tenant, and how long.

use wire::{Json, write};

/// A summary longer than this is dropped, as the origin of the field does.
const MAX_SUMMARY: usize = 256;
/// Longer than any name or id that is issued.
const MAX_TEXT: usize = 512;
/// Audiences in one token.
const MAX_AUDIENCES: usize = 16;

/// The claims of a session's token. All are signed; which session they must agree with is decided by whoever keeps sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    pub iss: String,
    /// One or several; the gate must be among them.
    pub aud: Vec<String>,
    /// The agent.
    pub sub: String,
    /// The name of the security context.
    pub scp: String,
    /// The workload.
    pub wid: String,
    /// The token itself, by which it is revoked.
    pub jti: String,
    /// The execution, which keys the session.
    pub exec_id: String,
    pub tenant_id: Option<String>,
    pub task_summary: Option<String>,
    /// Times are whole seconds since 1970.
    pub iat: u64,
    pub nbf: Option<u64>,
    pub exp: u64,
}

impl Claims {
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut out = write::Object::with_capacity(512);
        out.str("iss", &self.iss);
        match self.aud.as_slice() {
            [one] => out.str("aud", one),
            several => out.raw("aud", &strings(several)),
        };
        out.str("sub", &self.sub)
            .str("scp", &self.scp)
            .str("wid", &self.wid);
        out.str("jti", &self.jti).str("exec_id", &self.exec_id);
        if let Some(tenant) = &self.tenant_id {
            out.str("tenant_id", tenant);
        }
        if let Some(summary) = self
            .task_summary
            .as_ref()
            .filter(|summary| summary.len() <= MAX_SUMMARY)
        {
            out.str("task_summary", summary);
        }
        out.u64("iat", self.iat);
        if let Some(not_before) = self.nbf {
            out.u64("nbf", not_before);
        }
        out.u64("exp", self.exp);
        out.finish()
    }

    /// Reads claims; the error names the one that is missing or is not what it must be.
    pub(crate) fn read(json: Json<'_>) -> Result<Self, &'static str> {
        let demanded = |name| text(json, name)?.ok_or(name);
        Ok(Self {
            iss: demanded("iss")?,
            aud: audience(json)?,
            sub: demanded("sub")?,
            scp: demanded("scp")?,
            wid: demanded("wid")?,
            jti: demanded("jti")?,
            exec_id: demanded("exec_id")?,
            tenant_id: text(json, "tenant_id")?,
            task_summary: text(json, "task_summary")?
                .filter(|summary| summary.len() <= MAX_SUMMARY),
            iat: seconds(json, "iat")?.ok_or("iat")?,
            nbf: seconds(json, "nbf")?,
            exp: seconds(json, "exp")?.ok_or("exp")?,
        })
    }
}

/// A claim that is text, not empty and not endless.
pub(crate) fn text(json: Json<'_>, name: &'static str) -> Result<Option<String>, &'static str> {
    let Some(value) = json.get(name) else {
        return Ok(None);
    };
    let text = value
        .as_str()
        .filter(|text| !text.is_empty() && text.len() <= MAX_TEXT)
        .ok_or(name)?;
    Ok(Some(text.into_owned()))
}

/// A claim that is a time in whole seconds.
pub(crate) fn seconds(json: Json<'_>, name: &'static str) -> Result<Option<u64>, &'static str> {
    json.get(name)
        .map(|value| value.as_u64().ok_or(name))
        .transpose()
}

/// The audiences: one text or a list of texts.
pub(crate) fn audience(json: Json<'_>) -> Result<Vec<String>, &'static str> {
    let value = json.get("aud").ok_or("aud")?;
    if let Some(one) = text(json, "aud").ok().flatten() {
        return Ok(vec![one]);
    }
    if !value.is_array() {
        return Err("aud");
    }
    let all = value
        .items()
        .map(|item| item.as_str().map(|text| text.into_owned()).ok_or("aud"));
    let all = all.take(MAX_AUDIENCES + 1).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() || all.len() > MAX_AUDIENCES {
        Err("aud")
    } else {
        Ok(all)
    }
}

fn strings(texts: &[String]) -> Vec<u8> {
    let mut out = vec![b'['];
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write::quote(&mut out, text);
    }
    out.push(b']');
    out
}
