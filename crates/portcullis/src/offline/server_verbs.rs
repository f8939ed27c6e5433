//! `portcullis servers add|remove|enable|disable|classify`: edits of `portcullis.yaml`.

use std::{fs, io, path::Path};

use serde_json::json;

use super::{Screen, Trouble};
use crate::{
    cli::{
        Exit, args,
        model::{ServerState, ServerView},
    },
    config::{
        self, HttpKind, Resolved, State, Transport,
        edit::{self, EditError, NewServer, NewTransport},
    },
    home::Home,
    private_file,
};

/// `None` for the verbs that ask the gate.
pub(super) fn run(verb: &args::Servers, home: &Home, screen: &mut Screen<'_>) -> Option<Result<Exit, Trouble>> {
    let (id, done, edited) = match verb {
        args::Servers::List | args::Servers::Retry(_) => return None,
        args::Servers::Add(args) => (&args.id, "added", change(home, |text| edit::add_server(text, &new_server(args)))),
        args::Servers::Remove(args) => (&args.id, "removed", change(home, |text| edit::remove_server(text, &args.id))),
        args::Servers::Enable(args) => (&args.id, "enabled", change(home, |text| edit::set_enabled(text, &args.id, true))),
        args::Servers::Disable(args) => (&args.id, "disabled", change(home, |text| edit::set_enabled(text, &args.id, false))),
        args::Servers::Classify(args) => {
            (&args.id, "classified", change(home, |text| edit::set_classification(text, &args.id, args.level)))
        }
    };
    Some(edited.and_then(|resolved| {
        let untrusted = resolved.server(id).is_some_and(|server| server.classification.is_none());
        let advice = if done == "added" && untrusted {
            format!("It has no classification yet, so none of its tools can be called: portcullis servers classify {id} LEVEL\n")
        } else {
            String::new()
        };
        let file = home.config_file();
        screen.show(
            &json!({ "server": id, "done": done, "file": file }),
            &format!("Server {id} {done} in {}.\n{advice}", file.display()),
        )?;
        Ok(Exit::Done)
    }))
}

fn new_server(args: &args::Add) -> NewServer {
    let transport = match (&args.command, &args.url) {
        (_, Some(url)) => NewTransport::Http { url: url.clone(), bearer: args.bearer.clone(), headers: args.header.clone() },
        (command, None) => NewTransport::Stdio {
            command: command.clone().unwrap_or_default(),
            args: args.args.clone(),
            env: args.env.clone(),
            // The file is read from elsewhere, so a relative directory must be made whole here.
            cwd: args
                .cwd
                .as_ref()
                .map(|dir| std::path::absolute(dir).unwrap_or_else(|_| dir.clone()).to_string_lossy().into_owned()),
        },
    };
    NewServer { id: args.id.clone(), transport, classification: args.classification }
}

/// Edits the home's file under a lock, creating the home's first file if there is none.
fn change(home: &Home, edit: impl FnOnce(&str) -> Result<String, EditError>) -> Result<Resolved, Trouble> {
    home.prepare()?;
    let _held = private_file::lock(&home.state.join("config.lock"))?;
    let file = home.config_file();
    first_config(home)?;
    let before = fs::read_to_string(&file)?;
    let after = edit(&before).map_err(Trouble::usage)?;
    let resolved = config::parse(&file, &after).map_err(Trouble::usage)?;
    if after != before {
        private_file::replace(&file, after.as_bytes())?;
    }
    Ok(resolved)
}

/// Writes the commented first `portcullis.yaml` where there is none. Says whether it did.
pub fn first_config(home: &Home) -> Result<bool, Trouble> {
    let executable = std::env::current_exe().unwrap_or_else(|_| Path::new("portcullis").to_owned());
    match private_file::create(&home.config_file(), config::default_file(&executable).as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The servers as the file has them, for when no gate runs that could say more.
#[must_use]
pub fn configured(resolved: &Resolved) -> Vec<ServerView> {
    let view = |server: &config::ServerEntry| {
        let (state, note) = match &server.state {
            State::Enabled => (ServerState::Disconnected, Some("the gate is not running".to_owned())),
            State::Disabled => (ServerState::Disabled, None),
            State::Skipped(reason) => (ServerState::Skipped, Some(reason.clone())),
        };
        let transport = match &server.transport {
            Transport::Stdio(_) => "stdio",
            Transport::Http(http) if http.kind == HttpKind::Sse => "sse",
            Transport::Http(_) => "http",
            Transport::Missing => "",
        };
        ServerView {
            id: server.id.to_string(),
            state,
            transport: transport.to_owned(),
            classification: server.classification.map(|level| level.to_string()),
            last_error: note,
            ..ServerView::default()
        }
    };
    resolved.servers.iter().map(view).collect()
}
