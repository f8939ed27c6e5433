//! `portcullis connect-account`

use gateway::settings::{Holder, Transport};
use home::{
    Home,
    accounts::{self, Owner},
};
use secrets::{Vault, os_entropy};
use serde_json::{Value, json};
use terminal::{
    Exit, Screen, Trouble,
    style::{Cell, Paint, cell, painted, table},
};
use vocab::ServerId;

use crate::{
    args,
    files::of_home,
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
            "`{user}` is no name, or with its tenant too long a name, to keep an account under"
        ))
    };
    let tenant = args.tenant.as_deref();
    let name = accounts::name(&id, tenant, user)
        .filter(|_| vocab::is_caller_name(user) && tenant.is_none_or(vocab::is_caller_name))
        .ok_or_else(too_long)?;
    let holder = Holder {
        server: id,
        tenant: args.tenant.clone(),
        user: Some(user.clone()),
    };
    let document = |done: &str| match tenant {
        Some(tenant) => json!({ "server": server, "tenant": tenant, "user": user, "done": done }),
        None => json!({ "server": server, "user": user, "done": done }),
    };
    if args.remove {
        if !vault.names().map_err(secret::trouble)?.contains(&name) {
            return Err(Trouble::usage(format!(
                "{user} has no account at {server}; `portcullis connect-account --list` shows them"
            )));
        }
        forget(&holder, &name, &vault, home)?;
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
        note(home, "account.connected", &holder)?;
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
    note(home, "account.connected", &holder)?;
    vault.set(&name, &token).map_err(secret::trouble)?;
    screen.show(
        &document("connected"),
        &format!("Stored. Calls of {user} to tools of {server} that require it use this account.\n{advice}"),
    )?;
    Ok(Exit::Done)
}

fn note(home: &Home, action: &str, holder: &Holder) -> Result<(), Trouble> {
    record::by_hand(
        home,
        &audit::Change {
            action,
            door: "cli",
            server: holder.server.as_str(),
            target: holder.user.as_deref().unwrap_or_default(),
            tenant: holder.tenant.as_deref().unwrap_or_default(),
            ..audit::Change::default()
        },
    )
}

fn list(vault: &Vault, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let names = vault.names().map_err(secret::trouble)?;
    let found: Vec<Owner> = names
        .iter()
        .filter_map(|name| accounts::parse(name))
        .collect();
    let document: Vec<Value> = found
        .iter()
        .map(|owner| match &owner.tenant {
            Some(tenant) => {
                json!({ "server": owner.server.as_str(), "tenant": tenant, "user": owner.user })
            }
            None => json!({ "server": owner.server.as_str(), "user": owner.user }),
        })
        .collect();
    // Where there are no tenants, nobody reads of them.
    let has_tenants = found.iter().any(|owner| owner.tenant.is_some());
    let rows: Vec<Vec<Cell>> = found
        .iter()
        .map(|owner| {
            let mut row = vec![
                painted(owner.server.as_str(), Paint::Bold),
                cell(&owner.user),
            ];
            if has_tenants {
                row.push(cell(owner.tenant.as_deref().unwrap_or_default()));
            }
            row
        })
        .collect();
    let head: &[&str] = match has_tenants {
        true => &["SERVER", "USER", "TENANT"],
        false => &["SERVER", "USER"],
    };
    let text = match rows.as_slice() {
        [] => "No accounts connected. Connect one with: portcullis connect-account SERVER --user USER\n".to_owned(),
        rows => table(head, rows, screen.style),
    };
    screen.show(&document, &text)?;
    Ok(Exit::Done)
}

/// Forgets all users' accounts at a server that is removed: a server that is given its id later must not be sent their tokens.
pub(super) fn forget_all(id: &ServerId, home: &Home) -> Result<(), Trouble> {
    let vault = Vault::in_home(home.vault(), os_entropy());
    for name in vault.names().map_err(secret::trouble)? {
        let Some(owner) = accounts::parse(&name).filter(|owner| owner.server == *id) else {
            continue;
        };
        let holder = Holder {
            server: owner.server,
            tenant: owner.tenant,
            user: Some(owner.user),
        };
        forget(&holder, &name, &vault, home)?;
    }
    Ok(())
}

/// A login is taken back where it came from; a token is only forgotten.
fn forget(holder: &Holder, name: &str, vault: &Vault, home: &Home) -> Result<(), Trouble> {
    note(home, "account.removed", holder)?;
    if login::end(holder, home)?.is_none() {
        vault.delete(name).map_err(secret::trouble)?;
    }
    Ok(())
}

/// What the person should know about the server: an account nothing uses is a surprise. A server that is not there is a mistake.
fn advice(home: &Home, server: &str) -> Result<String, Trouble> {
    let (_, resolved) = of_home(home)?;
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
