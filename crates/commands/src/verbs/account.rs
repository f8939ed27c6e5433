//! `portcullis connect-account`

use gateway::settings::{Holder, Transport};
use home::{Home, accounts};
use secrets::{Vault, os_entropy};
use serde_json::{Value, json};
use terminal::{
    Exit, Screen, Trouble,
    style::{Cell, Paint, cell, painted, table},
};
use vocab::ServerId;

use crate::{
    args,
    files::load,
    record,
    verbs::{secret, servers::login},
};

pub fn run(
    args: &args::ConnectAccount,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let vault = Vault::in_home(home.vault(), os_entropy());
    let (Some(server), Some(user)) = (&args.server, &args.user) else {
        return list(&vault, screen);
    };
    home.prepare().map_err(Trouble::failed)?;
    let id = ServerId::parse(server)
        .map_err(|error| Trouble::usage(format!("`{server}` cannot be a server's id: {error}")))?;
    let too_long = || {
        Trouble::usage(format!(
            "`{user}` is too long a name to keep an account under"
        ))
    };
    let name = accounts::name(&id, user)
        .filter(|_| vocab::is_caller_name(user))
        .ok_or_else(too_long)?;
    let holder = Holder {
        server: id,
        user: Some(user.clone()),
    };
    let document = |done: &str| json!({ "server": server, "user": user, "done": done });
    if args.remove {
        if !vault.names().map_err(secret::trouble)?.contains(&name) {
            return Err(Trouble::usage(format!(
                "{user} has no account at {server}; `portcullis connect-account --list` shows them"
            )));
        }
        note(home, "account.removed", server, user)?;
        // A login is taken back where it came from; a token is only forgotten.
        if login::end(&holder, home)?.is_none() {
            vault.delete(&name).map_err(secret::trouble)?;
        }
        screen.show(
            &document("removed"),
            &format!("The account of {user} at {server} is forgotten.\n"),
        )?;
        return Ok(Exit::Done);
    }
    let advice = advice(home, server)?;
    if !args.login && args.how != args::LoginOptions::default() {
        return Err(Trouble::usage(
            "these options are for a login; say --login with them",
        ));
    }
    if args.login {
        let made = login::make(&holder, &args.how, home, screen)?;
        note(home, "account.connected", server, user)?;
        login::keep(&holder, &made, home)?;
        screen.show(
            &document("connected"),
            &format!("Logged in. Calls of {user} to tools of {server} that require it use this account.\n{advice}"),
        )?;
        return Ok(Exit::Done);
    }
    let token = secret::ask(&format!("{user}'s token for {server}"))?;
    if token.expose().bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(Trouble::usage(
            "a token has no spaces, no line breaks and no characters beyond ASCII; was the right thing pasted?",
        ));
    }
    note(home, "account.connected", server, user)?;
    vault.set(&name, &token).map_err(secret::trouble)?;
    screen.show(
        &document("connected"),
        &format!("Stored. Calls of {user} to tools of {server} that require it use this account.\n{advice}"),
    )?;
    Ok(Exit::Done)
}

fn note(home: &Home, action: &str, server: &str, user: &str) -> Result<(), Trouble> {
    record::by_hand(
        home,
        &audit::Change {
            action,
            door: "cli",
            server,
            target: user,
            ..audit::Change::default()
        },
    )
}

fn list(vault: &Vault, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let names = vault.names().map_err(secret::trouble)?;
    let found: Vec<(ServerId, String)> = names
        .iter()
        .filter_map(|name| accounts::parse(name))
        .collect();
    let document: Vec<Value> = found
        .iter()
        .map(|(server, user)| json!({ "server": server.as_str(), "user": user }))
        .collect();
    let rows: Vec<Vec<Cell>> = found
        .iter()
        .map(|(server, user)| vec![painted(server.as_str(), Paint::Bold), cell(user)])
        .collect();
    let text = match rows.as_slice() {
        [] => "No accounts connected. Connect one with: portcullis connect-account SERVER --user USER\n".to_owned(),
        rows => table(&["SERVER", "USER"], rows, screen.style),
    };
    screen.show(&document, &text)?;
    Ok(Exit::Done)
}

/// What the person should know about the server: an account nothing uses is a surprise. A server that is not there is a mistake.
fn advice(home: &Home, server: &str) -> Result<String, Trouble> {
    let (_, resolved) = load(&home.config_file())?;
    let Some(entry) = resolved.server(server) else {
        let hint = config::finding::nearest(
            server,
            resolved.servers.iter().map(|server| server.id.as_str()),
        );
        let hint = hint
            .map(|name| format!("; did you mean `{name}`?"))
            .unwrap_or_default();
        return Err(Trouble::usage(format!(
            "there is no server `{server}`{hint}"
        )));
    };
    if !matches!(entry.transport, Transport::Http { .. }) {
        return Err(Trouble::usage(format!(
            "`{server}` is a program of this machine; only servers with a `url` have accounts"
        )));
    }
    let rules = std::iter::once(&entry.default_rule).chain(entry.rules.values());
    Ok(
        match rules.into_iter().any(|rule| rule.requires_user_auth) {
            true => String::new(),
            false => {
                format!(
                    "No tool of {server} requires it yet: write `requires_user_auth: true` in its rule in portcullis.yaml.\n"
                )
            }
        },
    )
}
