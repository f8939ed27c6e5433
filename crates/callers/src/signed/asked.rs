//! What somebody may ask for when a session begins: only what their proof stands for and the configuration has. What belongs to another
//! tenant is not there, and its name is not told.

use identity::PublicKey;
use policy::{Contexts, context::ToolPattern};

use super::attest::{AttestError, Begin};

const MAX_ID: usize = 128;

/// The tenant a proof stands for: its own. Only an operator without one may name any.
pub(super) fn tenant(
    own: Option<&str>,
    asked: Option<String>,
    is_operator: bool,
) -> Result<Option<String>, AttestError> {
    match (own, asked) {
        (own, None) => Ok(own.map(str::to_owned)),
        (Some(own), Some(asked)) if own == asked => Ok(Some(asked)),
        (None, Some(asked)) if is_operator => checked_id(asked, "tenant_id").map(Some),
        (_, Some(asked)) => Err(wrong_tenant(&asked)),
    }
}

pub(super) fn wrong_tenant(asked: &str) -> AttestError {
    AttestError::Forbidden(format!("this proof does not stand for tenant `{asked}`"))
}

/// The context that was asked for, or the one that the agent is for.
pub(super) fn context_for(
    contexts: &Contexts,
    asked: Option<String>,
    agent: Option<&str>,
    tenant: Option<&str>,
) -> Result<String, AttestError> {
    let own = || {
        contexts
            .agent(agent?)?
            .security_context
            .clone()
            .filter(|name| is_there(contexts, name, tenant))
    };
    let missing = || {
        AttestError::Malformed(
            "`security_context` is missing, and the agent has none of its own".to_owned(),
        )
    };
    asked.or_else(own).ok_or_else(missing)
}

/// Another tenant's context does not exist for this one.
fn is_there(contexts: &Contexts, name: &str, tenant: Option<&str>) -> bool {
    contexts
        .context(name)
        .is_some_and(|context| context.admits_tenant(tenant))
}

pub(super) fn context_exists(
    contexts: &Contexts,
    name: &str,
    tenant: Option<&str>,
) -> Result<(), AttestError> {
    match is_there(contexts, name, tenant) {
        true => Ok(()),
        false => Err(AttestError::NoContext(format!(
            "there is no security context `{name}`"
        ))),
    }
}

/// An agent that is configured for one context or tenant begins sessions there and nowhere else.
pub(super) fn agent_fits(contexts: &Contexts, begin: &Begin) -> Result<(), AttestError> {
    let Some(agent) = contexts.agent(&begin.agent) else {
        return Ok(());
    };
    if let Some(wanted) = agent
        .security_context
        .as_deref()
        .filter(|wanted| *wanted != begin.context)
    {
        let wanted = match is_there(contexts, wanted, begin.tenant.as_deref()) {
            true => format!("context `{wanted}`"),
            false => "another context".to_owned(),
        };
        return Err(AttestError::NoContext(format!(
            "agent `{}` is for {wanted}",
            begin.agent
        )));
    }
    match agent.tenant.as_deref() {
        Some(tenant) if begin.tenant.as_deref() != Some(tenant) => Err(AttestError::Forbidden(
            format!("agent `{}` is of another tenant", begin.agent),
        )),
        _ => Ok(()),
    }
}

pub(super) fn patterns(given: Option<Vec<String>>) -> Result<Vec<String>, AttestError> {
    let Some(given) = given else {
        return Ok(vec!["*".to_owned()]);
    };
    for text in &given {
        ToolPattern::parse(text).map_err(|error| {
            AttestError::Malformed(format!("`allowed_tool_patterns`: `{text}`: {error}"))
        })?;
    }
    Ok(given)
}

pub(super) fn public_key(text: &str) -> Result<PublicKey, AttestError> {
    PublicKey::parse(text).map_err(|error| AttestError::Malformed(format!("`public_key`: {error}")))
}

/// Names that go into tokens, records and paths: short, and nothing a terminal or a path would read differently.
pub(super) fn checked_id(id: String, field: &str) -> Result<String, AttestError> {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b'@');
    if (1..=MAX_ID).contains(&id.len()) && id.bytes().all(is_plain) {
        return Ok(id);
    }
    Err(AttestError::Malformed(format!(
        "`{field}` has 1 to {MAX_ID} letters, digits, `-`, `_`, `.`, `:` or `@`"
    )))
}
