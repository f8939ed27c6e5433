//! `portcullis clients install` and `uninstall`: a hook in a client's own settings tells the gate what a person types.

use std::path::Path;

use home::Home;
use serde_json::json;
use terminal::{Exit, Screen, Trouble, style::tame};

use crate::{
    args, chosen_credential,
    client_hooks::{self, Change, FileError, NAMES, Wanted},
    snippets::CLIENTS,
};

pub(super) fn install(
    args: &args::ClientsInstall,
    given_home: Option<&Path>,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    has_hooks(&args.client, &args.name)?;
    chosen_credential::known(&args.name, home)?;
    let (program, home_dir) = super::program(given_home);
    let words = |verb: &[&str]| -> Vec<String> {
        let home = home_dir
            .iter()
            .flat_map(|home| ["--home".to_owned(), home.to_string_lossy().into_owned()]);
        std::iter::once(program.to_string_lossy().into_owned())
            .chain(home)
            .chain(verb.iter().map(|&word| word.to_owned()))
            .collect()
    };
    let mut hook = vec!["task", "hook", &args.client, "--caller", &args.name];
    hook.extend(args.strict.then_some("--strict"));
    let connect = words(&["connect", "--as", &args.name]);
    let own_command = client_hooks::server_command(&args.client, &connect);
    let wanted = Wanted {
        client: args.client.clone(),
        hook: words(&hook),
        server: (args.with_server && own_command.is_none()).then(|| connect.clone()),
    };
    let changes = client_hooks::install(&wanted, &|name| std::env::var_os(name)).map_err(failed)?;
    let mut text = carry_out(&changes, args.dry_run)?;
    if changes.iter().all(|change| !change.is_needed()) {
        text.push_str("It is installed already; nothing was changed.\n");
    }
    text.push_str(note(&args.client));
    match own_command {
        Some(command) => text.push_str(&format!(
            "If the gate is not among its servers yet:\n  {command}\n"
        )),
        None if !args.with_server => {
            text.push_str("--with-server also adds the gate to its servers.\n")
        }
        None => {}
    }
    show(&args.client, &changes, args.dry_run, &text, screen)
}

pub(super) fn uninstall(
    args: &args::ClientsUninstall,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    has_hooks(&args.client, "NAME")?;
    let changes =
        client_hooks::uninstall(&args.client, &|name| std::env::var_os(name)).map_err(failed)?;
    let mut text = carry_out(&changes, args.dry_run)?;
    if changes.iter().all(|change| !change.is_needed()) {
        text.push_str("There is nothing of the gate in its settings.\n");
    }
    show(&args.client, &changes, args.dry_run, &text, screen)
}

/// Clients without a hook are told of by hand.
fn has_hooks(client: &str, name: &str) -> Result<(), Trouble> {
    if NAMES.contains(&client) {
        return Ok(());
    }
    let shown = CLIENTS.iter().find(|(typed, _)| *typed == client);
    let shown = shown.map_or(client, |(_, name)| name);
    Err(Trouble::failed(format!(
        "{shown} has no hook that tells what a person typed; tell the gate yourself when you begin something new: \
         portcullis task begin --caller {} --text -",
        tame(name)
    )))
}

/// Writes the files, and says which.
fn carry_out(changes: &[Change], is_dry: bool) -> Result<String, Trouble> {
    let mut text = String::new();
    for change in changes.iter().filter(|change| change.is_needed()) {
        let path = change.path.to_string_lossy();
        if is_dry {
            text.push_str(&format!(
                "{} would change:\n{}",
                tame(&path),
                tame_lines(&change.difference())
            ));
            continue;
        }
        change.apply().map_err(failed)?;
        text.push_str(&format!("{} is changed.\n", tame(&path)));
        if let Some(backup) = change.backup() {
            text.push_str(&format!(
                "What it was is in {}.\n",
                tame(&backup.to_string_lossy())
            ));
        }
    }
    Ok(text)
}

/// Lines of a file that may hold anything, with what they are indented by.
fn tame_lines(text: &str) -> String {
    let each = text.lines().map(|line| {
        let words = line.trim_start_matches(['+', '-', ' ', '\t']);
        let indent = line.get(..line.len() - words.len()).unwrap_or_default();
        format!("{}{}\n", indent.replace('\t', "    "), tame(words))
    });
    each.collect()
}

/// What a person must know of a client's hooks.
fn note(client: &str) -> &'static str {
    match client {
        "codex" => "Codex asks you to trust the hook before it runs it; /hooks shows it.\n",
        "opencode" => "opencode reads the plugin when it starts.\n",
        _ => "Windows that are open take it when they start again.\n",
    }
}

fn show(
    client: &str,
    changes: &[Change],
    is_dry: bool,
    text: &str,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let files: Vec<_> = changes
        .iter()
        .map(|change| json!({ "file": change.path, "changed": change.is_needed() && !is_dry, "would_change": change.is_needed() }))
        .collect();
    screen.show(&json!({ "client": client, "files": files }), text)?;
    Ok(Exit::Done)
}

fn failed(error: FileError) -> Trouble {
    Trouble::failed(error)
}
