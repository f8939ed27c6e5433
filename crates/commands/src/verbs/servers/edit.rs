//! `portcullis servers add|edit|set|remove|enable|disable|classify|block|unblock`: edits of `portcullis.yaml`.

use std::{fs, io, path::Path};

use config::{
    Resolved,
    edit::{self, EditError, NewServer, NewTransport},
    layers,
};
use gateway::settings::{HttpKind, ServerSpec, Standing, Transport};
use home::{Home, private_file};
use serde_json::json;
use terminal::{Exit, Screen, Trouble};

use crate::{args, record, verbs::servers::adding};

/// Edits the file of the home.
pub fn run(verb: &args::Servers, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    if let args::Servers::Edit(args) = verb
        && is_without_changes(args)
    {
        return Err(nothing_to_change(args, home));
    }
    let planned = Planned::of(verb).ok_or_else(|| Trouble::failed("this verb edits nothing"))?;
    if let args::Servers::Add(args) = verb {
        adding::refuse_sentence(args.command.as_deref())?;
        let doubts = adding::doubts(args.command.as_deref(), &adding::values(args), home);
        doubts.iter().for_each(|doubt| screen.warn(doubt));
    }
    // Before the file says that it is classified: a gate that starts then finds that nothing was approved.
    let classified = match verb {
        args::Servers::Add(args) => args.classification.is_some(),
        args::Servers::Classify(_) => true,
        _ => false,
    };
    let resolved = planned.carry_out(home, classified)?;
    let (id, done) = (planned.id, planned.done);
    let untrusted = resolved
        .server(id)
        .is_some_and(|server| server.classification.is_none());
    let advice = match done {
        "added" if untrusted => format!(
            "It has no classification yet, so none of its tools can be called: portcullis servers classify {id} LEVEL\n"
        ),
        "added" | "classified" if is_waiting(home, id) => format!(
            "No gate runs, so nobody has seen what it offers. When one does, look and approve:\n  portcullis servers review {id}\n  \
             portcullis servers approve {id}\n"
        ),
        _ => String::new(),
    };
    let file = home.config_file();
    screen.show(
        &json!({ "server": id, "done": done, "file": file }),
        &format!("Server {id} {done} in {}.\n{advice}", file.display()),
    )?;
    Ok(Exit::Done)
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
            args::Servers::Add(args) => plain(
                &args.id,
                "added",
                Box::new(|text| edit::add_server(text, &new_server(args, args.classification))),
            ),
            args::Servers::Edit(args) => plain(
                &args.id,
                "edited",
                Box::new(|text| edit::edit_server(text, &args.id, &changes(args))),
            ),
            args::Servers::Set(args) => {
                let detail = match &args.what {
                    args::SetWhat::Effect(effects) => {
                        let effects = effects
                            .effects
                            .iter()
                            .map(|(tool, effect)| format!("{tool}={effect}"));
                        format!("effect {}", effects.collect::<Vec<_>>().join(" "))
                    }
                    args::SetWhat::OpenWorld(said) => {
                        let values = said.values.iter().map(ToString::to_string);
                        format!("open-world {}", values.collect::<Vec<_>>().join(" "))
                    }
                    args::SetWhat::Accepts(said) => format!("accepts {}", said.level),
                };
                Self {
                    detail,
                    ..plain(&args.id, "set", Box::new(|text| set(text, args)))
                }
            }
            args::Servers::Remove(args) => plain(
                &args.id,
                "removed",
                Box::new(|text| edit::remove_server(text, &args.id)),
            ),
            args::Servers::Enable(args) => plain(
                &args.id,
                "enabled",
                Box::new(|text| edit::set_enabled(text, &args.id, true)),
            ),
            args::Servers::Disable(args) => plain(
                &args.id,
                "disabled",
                Box::new(|text| edit::set_enabled(text, &args.id, false)),
            ),
            args::Servers::Classify(args) => {
                let edit =
                    Box::new(|text: &str| edit::set_classification(text, &args.id, args.level));
                state(
                    &args.id,
                    "classified",
                    &format!("CLASSIFIED {}", args.level),
                    args.reason.as_deref(),
                    edit,
                )
            }
            args::Servers::Block(args) => {
                let edit =
                    Box::new(|text: &str| edit::set_blocked(text, &args.id, Some(&args.reason)));
                state(&args.id, "blocked", "BLOCKED", Some(&args.reason), edit)
            }
            args::Servers::Unblock(args) => {
                let edit = Box::new(|text: &str| edit::set_blocked(text, &args.id, None));
                state(
                    &args.id,
                    "unblocked",
                    "unblocked",
                    args.reason.as_deref(),
                    edit,
                )
            }
            args::Servers::List
            | args::Servers::Show(_)
            | args::Servers::Login(_)
            | args::Servers::Logout(_)
            | args::Servers::Retry(_)
            | args::Servers::Reinstall(_)
            | args::Servers::Review(_)
            | args::Servers::Approve(_) => return None,
        })
    }

    /// Edits the home's file, and says so in the ledger first where no gate runs that would.
    fn carry_out(&self, home: &Home, classified: bool) -> Result<Resolved, Trouble> {
        change(home, self.id, &*self.edit, || {
            if classified {
                withhold(home, self.id)?;
            }
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

/// Nothing of this server is approved before a person has been shown it. Without a gate nobody can be.
fn withhold(home: &Home, id: &str) -> Result<(), Trouble> {
    let id = vocab::ServerId::parse(id).map_err(Trouble::usage)?;
    gateway::Pins::open(home.lock_file())
        .map_err(Trouble::failed)?
        .withhold(&id)
        .map_err(Trouble::failed)
}

fn is_waiting(home: &Home, id: &str) -> bool {
    let text = fs::read(home.lock_file()).unwrap_or_default();
    let lock: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let pins = lock
        .get("servers")
        .and_then(|servers| servers.get(id))
        .and_then(serde_json::Value::as_object);
    pins.is_some_and(serde_json::Map::is_empty)
}

fn changes(args: &args::EditServer) -> edit::Changes {
    edit::Changes {
        command: args.command.clone(),
        args: (!args.args.is_empty()).then(|| args.args.clone()),
        env: args.env.clone(),
        unset_env: args.unset_env.clone(),
        cwd: args.cwd.as_deref().map(whole),
        url: args.url.clone(),
        bearer: args.bearer.clone(),
        headers: args.header.clone(),
    }
}

fn is_without_changes(args: &args::EditServer) -> bool {
    changes(args) == edit::Changes::default()
}

fn set(text: &str, args: &args::SetServer) -> Result<String, EditError> {
    match &args.what {
        args::SetWhat::Effect(effects) => effects
            .effects
            .iter()
            .try_fold(text.to_owned(), |text, (tool, effect)| {
                edit::set_effect(&text, &args.id, tool, *effect)
            }),
        args::SetWhat::OpenWorld(said) => {
            said.values
                .iter()
                .try_fold(text.to_owned(), |text, value| match value {
                    args::OpenWorld::Server(is_open) => {
                        edit::set_open_world(&text, &args.id, *is_open)
                    }
                    args::OpenWorld::Tool(tool, is_open) => {
                        edit::set_tool_open_world(&text, &args.id, tool, *is_open)
                    }
                })
        }
        args::SetWhat::Accepts(said) => edit::set_accepts(text, &args.id, said.level),
    }
}

/// Nothing was said to be changed: the person is told what can be, and where the entry stands.
fn nothing_to_change(args: &args::EditServer, home: &Home) -> Trouble {
    let file = home.config_file();
    let resolved = match crate::files::of_home(home) {
        Ok((_, resolved)) => resolved,
        Err(trouble) => return trouble,
    };
    match resolved.place(&args.id) {
        Some(place) => Trouble::usage(format!(
            "say what to change (see --help), or edit the entry yourself: it is at {}:{}",
            file.display(),
            place.line
        )),
        None => Trouble::usage(EditError::unknown(
            &args.id,
            resolved.servers.iter().map(|server| server.id.as_str()),
        )),
    }
}

fn whole(dir: &Path) -> String {
    std::path::absolute(dir)
        .unwrap_or_else(|_| dir.to_owned())
        .to_string_lossy()
        .into_owned()
}

pub fn new_server(args: &args::Add, classification: Option<vocab::Level>) -> NewServer {
    let transport = match (&args.command, &args.url) {
        (_, Some(url)) => NewTransport::Http {
            url: url.clone(),
            bearer: args.bearer.clone(),
            headers: args.header.clone(),
        },
        (command, None) => NewTransport::Stdio {
            command: command.clone().unwrap_or_default(),
            args: args.args.clone(),
            env: args.env.clone(),
            // The file is read from elsewhere, so a relative directory must be made whole here.
            cwd: args.cwd.as_deref().map(whole),
        },
    };
    NewServer {
        id: args.id.clone(),
        transport,
        classification,
        accepts: args.accepts,
        open_world: args.open_world.map(|answer| answer == args::Answer::Yes),
        more: Vec::new(),
    }
}

/// Edits the entry of a server in the home's own file, or in the imported one if it is there, under a lock; creates the home's first file if
/// there is none. What a company locked, forbids or has not approved is refused. `record` comes between knowing that the edit is good and
/// making it.
pub fn change(
    home: &Home,
    id: &str,
    edit: impl FnOnce(&str) -> Result<String, EditError>,
    record: impl FnOnce() -> Result<(), Trouble>,
) -> Result<Resolved, Trouble> {
    home.prepare().map_err(Trouble::failed)?;
    let _held = private_file::lock(&home.state.join("config.lock"))?;
    first_config(home)?;
    let (whole, was) = crate::files::of_home(home)?;
    let file = match whole.server(id) {
        Some((place, _)) if place.layer == layers::IMPORTED => home.imported_file(),
        _ => home.config_file(),
    };
    let before = fs::read_to_string(&file)?;
    let own = config::Raw::parse(&file, &before).map_err(Trouble::usage)?;
    let after = edit(&before).map_err(|error| match error {
        EditError::Unknown { .. } if whole.server(id).is_some() => Trouble::usage(format!(
            "`{id}` is in corp.yaml, which only whoever signs it changes; what is not locked can be set under mcp_servers.{id} in {}",
            file.display()
        )),
        error => Trouble::usage(error),
    })?;
    let edited = config::Raw::parse(&file, &after).map_err(Trouble::usage)?;
    // Its keys would be mixed with those of the other.
    if own.server(id).is_none() && edited.server(id).is_some() && whole.server(id).is_some() {
        return Err(Trouble::usage(EditError::Exists(id.to_owned())));
    }
    let (user, imported) = match file == home.imported_file() {
        true => (config::read(&home.config_file()), Some(edited)),
        false => {
            let imported = home.imported_file();
            let imported = imported.exists().then(|| config::read(&imported));
            (
                Ok(edited),
                imported.transpose().map_err(crate::files::trouble)?,
            )
        }
    };
    let user = user.map_err(crate::files::trouble)?;
    let now = home::layers::with(home, user, imported).map_err(crate::files::trouble)?;
    let resolved = now.resolve().map_err(Trouble::usage)?;
    if let Some(passed) = now.layers.newly_passed_over(&whole.layers) {
        let (path, why) = (&passed.path, &passed.why);
        return Err(Trouble::usage(format!("`{path}` cannot be changed: {why}")));
    }
    // What was wrong before and is left as it was may be changed otherwise.
    let refusal = now.layers.refuses(&now, &resolved, id);
    if let Some(why) = &refusal
        && (refusal != whole.layers.refuses(&whole, &was, id)
            || level_of(&now, id) != level_of(&whole, id))
    {
        return Err(Trouble::usage(format!("`{id}`: {why}")));
    }
    if after != before {
        record()?;
        private_file::replace(&file, after.as_bytes())?;
    }
    Ok(resolved)
}

/// The level that an entry asks for.
fn level_of<'a>(raw: &'a config::Raw, id: &str) -> Option<&'a str> {
    raw.server(id)?.1.get("classification")?.text()
}

/// Writes the commented first `portcullis.yaml` where there is none. Says whether it did.
pub fn first_config(home: &Home) -> Result<bool, Trouble> {
    let executable = std::env::current_exe().unwrap_or_else(|_| Path::new("portcullis").to_owned());
    match private_file::create(
        &home.config_file(),
        config::default_file(&executable).as_bytes(),
    ) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The servers as the file has them, for when no gate runs that could say more.
#[must_use]
pub fn configured(resolved: &Resolved) -> Vec<api::Server> {
    let view = |server: &ServerSpec| {
        let (state, note) = match &server.standing {
            _ if server.blocked.is_some() => (api::ServerState::Blocked, None),
            Standing::Enabled => (
                api::ServerState::Disconnected,
                Some("the gate is not running".to_owned()),
            ),
            Standing::Disabled => (api::ServerState::Disabled, None),
            Standing::Skipped(reason) => (api::ServerState::Skipped, Some(reason.clone())),
        };
        let transport = match &server.transport {
            Transport::Stdio { .. } => "stdio",
            Transport::Http {
                kind: HttpKind::Sse,
                ..
            } => "sse",
            Transport::Http { .. } => "http",
            Transport::Nothing => "",
        };
        api::Server {
            id: server.id.to_string(),
            state,
            transport: transport.to_owned(),
            classification: server.classification.map(|level| level.to_string()),
            blocked: server.blocked.clone(),
            last_error: note,
            ..api::Server::default()
        }
    };
    resolved.servers.iter().map(view).collect()
}
