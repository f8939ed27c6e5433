//! What a server says with HTTP 401 or 403: the `WWW-Authenticate` header.

use crate::{Address, Plain, Scopes};

/// Longer headers, and schemes beyond these, are not read.
const MAX_BYTES: usize = 4 << 10;
const MAX_SCHEMES: usize = 8;

/// The first challenge for a bearer or a proof of possession. A part that cannot be read counts as not said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Challenge {
    /// Where the server's metadata is.
    pub resource_metadata: Option<String>,
    pub scope: Option<Scopes>,
    pub error: Option<String>,
    pub is_dpop: bool,
}

impl Challenge {
    /// `None` if the header has no challenge of these schemes, or is not one at all.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        if header.len() > MAX_BYTES {
            return None;
        }
        let all = schemes(header)?;
        let found = all
            .iter()
            .find(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let is_dpop = |(scheme, _): &&Scheme<'_>| scheme.eq_ignore_ascii_case("dpop");
        let (scheme, params) = found.or_else(|| all.iter().find(is_dpop))?;
        let param = |name: &str| {
            params
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.clone())
        };
        Some(Self {
            resource_metadata: param("resource_metadata"),
            scope: param("scope")
                .and_then(|scope| Scopes::parse(&scope).ok())
                .filter(|scope| !scope.is_empty()),
            error: param("error").filter(|error| error.len() <= 64),
            is_dpop: scheme.eq_ignore_ascii_case("dpop"),
        })
    }

    /// More rights are needed than the login has.
    #[must_use]
    pub fn wants_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// The place of the server's metadata, if it is one that may be asked.
    pub(crate) fn place(&self, plain: Plain) -> Option<Result<Address, crate::AddressError>> {
        self.resource_metadata
            .as_deref()
            .map(|text| Address::parse(text, plain))
    }
}

type Params = Vec<(String, String)>;
type Scheme<'a> = (&'a str, Params);

/// RFC 9110 §11.6.1: schemes, each with a list of parameters, all separated by commas.
fn schemes(header: &str) -> Option<Vec<Scheme<'_>>> {
    let mut found: Vec<Scheme<'_>> = Vec::new();
    let mut rest = header.trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() {
        let (word, after) = token(rest)?;
        let trimmed = after.trim_start_matches([' ', '\t']);
        match trimmed.strip_prefix('=') {
            // `name=value` belongs to the scheme before it, unless it is the padding of a token68.
            Some(value) if !found.is_empty() && !value.starts_with('=') => {
                let (value, after) = value_of(value.trim_start_matches([' ', '\t']))?;
                let (_, params) = found.last_mut()?;
                // Which of two would count is anybody's guess.
                if params
                    .iter()
                    .any(|(known, _)| known.eq_ignore_ascii_case(word))
                {
                    return None;
                }
                params.push((word.to_owned(), value));
                rest = end_of_item(after)?;
            }
            Some(_) => return None,
            None => {
                if found.len() >= MAX_SCHEMES {
                    return None;
                }
                found.push((word, Params::new()));
                rest = skip_token68(trimmed).trim_start_matches([' ', '\t', ',']);
            }
        }
    }
    Some(found)
}

/// A scheme such as `Negotiate` may carry one long word instead of parameters.
fn skip_token68(rest: &str) -> &str {
    let end = rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || "-._~+/".contains(c)))
        .unwrap_or(rest.len());
    let Some((word, after)) = rest.split_at_checked(end) else {
        return rest;
    };
    let unpadded = after.trim_start_matches('=');
    let ends = unpadded.trim_start_matches([' ', '\t']);
    let is_item = ends.is_empty() || ends.starts_with(',');
    // `realm="x"` is a parameter, and so is `realm=x`; a word that ends in padding, or alone, is neither.
    let is_word = !word.is_empty() && is_item && (after == unpadded || !after.is_empty());
    if is_word { ends } else { rest }
}

fn end_of_item(rest: &str) -> Option<&str> {
    let rest = rest.trim_start_matches([' ', '\t']);
    match rest.is_empty() || rest.starts_with(',') {
        true => Some(rest.trim_start_matches([' ', '\t', ','])),
        false => None,
    }
}

fn token(text: &str) -> Option<(&str, &str)> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at_checked(end)).flatten()
}

fn value_of(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        // Some servers do not quote addresses; up to the comma there is one reading of it.
        let end = text.find([',', ' ', '\t', '"']).unwrap_or(text.len());
        let (value, rest) = text.split_at_checked(end)?;
        return (!value.is_empty()).then(|| (value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => value.push(chars.next()?),
            c if c.is_control() => return None,
            c => value.push(c),
        }
    }
}
