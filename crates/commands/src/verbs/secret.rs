//! `portcullis secret …`

use std::io::{self, IsTerminal as _, Read as _};

use api::ask;
use home::{Home, accounts, logins};
use secrets::{Secret, SecretError, Vault, os_entropy};
use serde_json::json;
use terminal::{Exit, Screen, Trouble};

use crate::{args, line::Line, prompt};

/// Longer than any secret, short enough to refuse a pipe that never ends.
const MAX_SECRET: u64 = 1 << 20;

pub fn run(verb: &args::Secret, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    if !matches!(verb, args::Secret::List | args::Secret::Refresh) {
        home.prepare().map_err(Trouble::failed)?;
    }
    let vault = Vault::in_home(home.vault(), os_entropy());
    match verb {
        args::Secret::Set(args) => {
            refuse_login(&args.name)?;
            vault.set(&args.name, &ask(&args.name)?).map_err(trouble)?;
            let text = format!("Stored. Write keychain:{} where it is needed.\n", args.name);
            screen.show(
                &json!({ "name": args.name, "reference": format!("keychain:{}", args.name) }),
                &text,
            )?;
        }
        args::Secret::List => {
            // Users' accounts are `portcullis connect-account --list`'s, and logins `portcullis servers list`'s.
            let mut names = vault.names().map_err(trouble)?;
            names.retain(|name| accounts::parse(name).is_none() && logins::parse(name).is_none());
            let text = match names.as_slice() {
                [] => "No secrets stored. Store one with: portcullis secret set NAME\n".to_owned(),
                names => names.iter().map(|name| format!("{name}\n")).collect(),
            };
            screen.show(&names, &text)?;
        }
        args::Secret::Refresh => {
            Line::as_operator(home)?.ask(ask::Reload)?;
            screen.show(
                &json!({ "looked": true }),
                "The gate looks for new versions now; servers that use one are connected anew.\n",
            )?;
        }
        args::Secret::Delete(args) => {
            refuse_login(&args.name)?;
            if !vault.delete(&args.name).map_err(trouble)? {
                return Err(Trouble::usage(format!(
                    "no secret `{}` is stored; `portcullis secret list` shows them",
                    args.name
                )));
            }
            screen.show(
                &json!({ "name": args.name, "deleted": true }),
                &format!("Deleted {}.\n", args.name),
            )?;
        }
    }
    Ok(Exit::Done)
}

/// A login is made and ended by its own verbs, which also tell the gate and the authorization server.
fn refuse_login(name: &str) -> Result<(), Trouble> {
    match logins::parse(name) {
        Some(server) => Err(Trouble::usage(format!(
            "`{name}` is the login of {server}: portcullis servers login|logout {server}"
        ))),
        None => Ok(()),
    }
}

pub(super) fn trouble(error: SecretError) -> Trouble {
    match error {
        SecretError::BadName { .. } | SecretError::BadValue { .. } => Trouble::usage(error),
        _ => Trouble::because(&error),
    }
}

/// From the terminal without showing it, or from a pipe. One newline at the end is not part of the secret.
pub(super) fn ask(name: &str) -> Result<Secret, Trouble> {
    let stdin = io::stdin();
    let mut text = String::new();
    if stdin.is_terminal() {
        text = prompt::hidden_line(&format!("Value of {name} (not shown): "), MAX_SECRET)?;
    } else {
        stdin.lock().take(MAX_SECRET).read_to_string(&mut text)?;
    }
    let without_end = text.trim_end_matches('\n').trim_end_matches('\r').len();
    text.truncate(without_end);
    Ok(Secret::new(text))
}
