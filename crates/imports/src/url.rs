//! Addresses of servers: what in them is a credential is taken out.

use secrets::{Secret, looks_like_credential};

use crate::value::is_secret;

/// An address without its credentials, and those, by the name each had.
pub(crate) fn clean(url: &str) -> Result<(String, Vec<(String, Secret)>), String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err("its address is no URL".to_owned());
    };
    let scheme = scheme.to_ascii_lowercase();
    if !matches!(scheme.as_str(), "http" | "https") {
        return Err(format!(
            "its address begins with `{}://`, which the gate does not speak",
            crate::value::shown(&scheme)
        ));
    }
    let mut taken = Vec::new();
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            taken.push(("url-user".to_owned(), Secret::new(user.to_owned())));
            host
        }
        None => authority,
    };
    // What stands behind `#` is never sent.
    let rest = rest.split('#').next().unwrap_or_default();
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    // A token in the path is part of where the server is, and cannot be told from it without breaking the address.
    if path
        .split('/')
        .any(|part| looks_like_credential("", part).is_some() || is_secret("", part))
    {
        return Err("a credential is part of its path: add it by hand, with the address in a variable of its own program".to_owned());
    }
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if is_secret(name, value) || is_secret("", name) {
            taken.push((name.to_owned(), Secret::new(value.to_owned())));
        } else {
            kept.push(pair);
        }
    }
    let query = match kept.is_empty() {
        true => String::new(),
        false => format!("?{}", kept.join("&")),
    };
    Ok((format!("{scheme}://{host}{path}{query}"), taken))
}
