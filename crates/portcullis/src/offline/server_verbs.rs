//! `portcullis servers add|remove|enable|disable|classify|block|unblock`: edits of `portcullis.yaml`.

use std::{fs, io, path::Path};

use serde_json::json;

use super::{Screen, Trouble, record};
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
    let planned = Planned::of(verb)?;
    Some(planned.carry_out(home).and_then(|resolved| {
        let (id, done) = (planned.id, planned.done);
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

/// An edit of the file by a person at this machine.
struct Planned<'a> {
    id: &'a str,
    /// `added`, `blocked`: what will have been done.
    done: &'static str,
    /// What the record is called, and what it says: as a gate would write it.
    action: String,
    detail: String,
    reason: &'a str,
    edit: EditFn<'a>,
}

type EditFn<'a> = Box<dyn Fn(&str) -> Result<String, EditError> + 'a>;

impl<'a> Planned<'a> {
    fn of(verb: &'a args::Servers) -> Option<Self> {
        let plain = |id: &'a str, done: &'static str, edit: EditFn<'a>| Self {
            id,
            done,
            action: format!("server.{done}"),
            detail: String::new(),
            reason: "",
            edit,
        };
        let state = |id, done, detail: &str, reason: Option<&'a str>, edit| Self {
            action: "server.state".to_owned(),
            detail: detail.to_owned(),
            reason: reason.unwrap_or_default(),
            ..plain(id, done, edit)
        };
        Some(match verb {
            args::Servers::Add(args) => plain(&args.id, "added", Box::new(|text| edit::add_server(text, &new_server(args)))),
            args::Servers::Remove(args) => plain(&args.id, "removed", Box::new(|text| edit::remove_server(text, &args.id))),
            args::Servers::Enable(args) => plain(&args.id, "enabled", Box::new(|text| edit::set_enabled(text, &args.id, true))),
            args::Servers::Disable(args) => {
                plain(&args.id, "disabled", Box::new(|text| edit::set_enabled(text, &args.id, false)))
            }
            args::Servers::Classify(args) => {
                let edit = Box::new(|text: &str| edit::set_classification(text, &args.id, args.level));
                state(&args.id, "classified", &format!("CLASSIFIED {}", args.level), args.reason.as_deref(), edit)
            }
            args::Servers::Block(args) => {
                let edit = Box::new(|text: &str| edit::set_blocked(text, &args.id, Some(&args.reason)));
                state(&args.id, "blocked", "BLOCKED", Some(&args.reason), edit)
            }
            args::Servers::Unblock(args) => {
                let edit = Box::new(|text: &str| edit::set_blocked(text, &args.id, None));
                state(&args.id, "unblocked", "unblocked", args.reason.as_deref(), edit)
            }
            args::Servers::List | args::Servers::Retry(_) | args::Servers::Review(_) | args::Servers::Approve(_) => return None,
        })
    }

    /// Edits the home's file, and says so in the ledger first where no gate runs that would.
    fn carry_out(&self, home: &Home) -> Result<Resolved, Trouble> {
        change(home, &*self.edit, || {
            let change = audit::Change {
                action: &self.action,
                door: "cli",
                server: self.id,
                reason: self.reason,
                detail: &self.detail,
                ..audit::Change::default()
            };
            record::by_hand(home, &change)
        })
    }
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

/// Edits the home's file under a lock, creating the home's first file if there is none. `record` comes between knowing that the edit
/// is good and making it.
pub(crate) fn change(
    home: &Home,
    edit: impl FnOnce(&str) -> Result<String, EditError>,
    record: impl FnOnce() -> Result<(), Trouble>,
) -> Result<Resolved, Trouble> {
    home.prepare()?;
    let _held = private_file::lock(&home.state.join("config.lock"))?;
    let file = home.config_file();
    first_config(home)?;
    let before = fs::read_to_string(&file)?;
    let after = edit(&before).map_err(Trouble::usage)?;
    let resolved = config::parse(&file, &after).map_err(Trouble::usage)?;
    if after != before {
        record()?;
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
            _ if server.blocked.is_some() => (ServerState::Blocked, None),
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
            blocked: server.blocked.clone(),
            last_error: note,
            ..ServerView::default()
        }
    };
    resolved.servers.iter().map(view).collect()
}
