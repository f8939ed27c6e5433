//! Which credential `call` and `connect` use. Each has a label of its own, so clients that share one also share what it has seen.

use config::finding::nearest;
use home::{
    Home,
    tokens::{self, Role, TokenText, Tokens},
};
use terminal::Trouble;

use crate::args;

/// Holds a token, for programs that are started with an environment and nothing else.
pub(crate) const VARIABLE: &str = "PORTCULLIS_TOKEN";

/// What was said on the command line, else in the environment, else the first client's.
pub(crate) fn chosen(who: &args::Who, home: &Home) -> Result<Option<TokenText>, Trouble> {
    if let Some(name) = &who.name {
        return kept(name, home).map(Some);
    }
    if let Some(file) = &who.token_file {
        let text = std::fs::read_to_string(file).map_err(|error| {
            Trouble::usage(format!(
                "--token-file: cannot read {}: {error}",
                file.display()
            ))
        })?;
        let token = TokenText::parse(text.trim());
        return token.map(Some).ok_or_else(|| {
            Trouble::usage(format!("--token-file: {} holds no token", file.display()))
        });
    }
    match std::env::var(VARIABLE) {
        Ok(text) if !text.trim().is_empty() => {
            TokenText::parse(text.trim()).map(Some).ok_or_else(|| {
                Trouble::usage(format!(
                    "{VARIABLE} is set and holds no token; one begins with pct_"
                ))
            })
        }
        _ => Ok(tokens::read_clear(&home.client_token_file())),
    }
}

/// The id of the one client credential with this name or id. A name and an id must not be taken for two callers.
pub(crate) fn known(name: &str, home: &Home) -> Result<String, Trouble> {
    let list = Tokens::load(&home.tokens_file()).map_err(Trouble::failed)?;
    let valid = list
        .list()
        .iter()
        .filter(|credential| !credential.revoked && credential.role == Role::Client);
    let mut named = valid
        .clone()
        .filter(|credential| credential.name == name || credential.id == name);
    match (named.next(), named.next()) {
        (Some(credential), None) => Ok(credential.id.clone()),
        (Some(_), Some(_)) => Err(Trouble::usage(format!(
            "more than one credential is called `{name}`; say which by its id: portcullis token list"
        ))),
        (None, _) => Err(absent(
            name,
            valid.map(|credential| credential.name.as_str()),
        )),
    }
}

fn absent<'a>(name: &str, others: impl Iterator<Item = &'a str>) -> Trouble {
    let hint = nearest(name, others);
    let hint = hint
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default();
    Trouble::usage(format!(
        "there is no credential `{name}`{hint}; make one: portcullis token new {name} --keep"
    ))
}

/// The token of a credential that was made with `--keep`, by its name or id.
fn kept(name: &str, home: &Home) -> Result<TokenText, Trouble> {
    let list = Tokens::load(&home.tokens_file()).map_err(Trouble::failed)?;
    let valid = list
        .list()
        .iter()
        .filter(|credential| !credential.revoked && credential.role == Role::Client);
    let named: Vec<_> = valid
        .clone()
        .filter(|credential| credential.name == name || credential.id == name)
        .collect();
    let mut usable = named
        .iter()
        .filter_map(|credential| tokens::read_kept(home, &credential.id));
    match (named.len(), usable.next(), usable.next()) {
        (_, Some(token), None) => Ok(token),
        (_, Some(_), Some(_)) => Err(Trouble::usage(format!(
            "more than one credential is called `{name}`; say which by its id: {}",
            named
                .iter()
                .map(|credential| credential.id.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        ))),
        (0, None, _) => Err(absent(
            name,
            valid.map(|credential| credential.name.as_str()),
        )),
        (_, None, _) => Err(Trouble::usage(format!(
            "the token of `{name}` was shown once and is not kept; give it with --token-file or {VARIABLE}, or make a credential whose \
             token is kept: portcullis token new NAME --keep"
        ))),
    }
}
