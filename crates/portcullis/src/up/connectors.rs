//! Servers that a host program adds and removes over HTTP: an edit of the person's own file, like that of a verb.

use api::{Kind, Operation, Problem};
use commands::verbs::servers;
use config::edit::{self, NewServer, NewTransport};
use home::{Home, answers, layers};
use terminal::Trouble;

/// Carries out an addition or a removal; what it answers.
pub(super) fn change(
    home: &Home,
    operation: Operation,
    name: &str,
    input: &[u8],
) -> Result<Vec<u8>, Problem> {
    match operation {
        Operation::AddConnector => add(home, api::read(input)?),
        _ => remove(home, name),
    }
}

fn add(home: &Home, new: api::NewConnector) -> Result<Vec<u8>, Problem> {
    let (raw, resolved) = layers::load(home).map_err(Problem::broken)?;
    let id = new.id.clone();
    if let Err(error) = vocab::ServerId::parse(&id) {
        return Err(wrong(
            "bad_id",
            format!("the id cannot be a server's: {error}"),
        ));
    }
    if raw.server(&id).is_some() {
        let text = format!("server_exists: mcpServers.{id}");
        return Err(Problem::new(Kind::Conflict, "server_exists", text));
    }
    if let Some(lock) = raw.layers.lock(&["mcp_servers", &id]) {
        return Err(Problem::new(
            Kind::Conflict,
            "profile_section_locked",
            lock.to_string(),
        ));
    }
    if new.command.is_some() && !resolved.connector_commands {
        return Err(Problem::new(
            Kind::NotAllowed,
            "commands_not_allowed",
            "a server with a command is not added over HTTP: `connectors.commands: true` allows it, or use `portcullis servers add`",
        ));
    }
    let server = entry(new);
    servers::edit::change(home, &id, |text| edit::add_server(text, &server), || Ok(()))
        .map_err(|trouble| refused(&trouble))?;
    let raw = layers::read(home).map_err(Problem::broken)?;
    let added = answers::connector(&raw, &id).ok_or_else(|| Problem::no_server(&id))?;
    Ok(api::text(&added))
}

fn remove(home: &Home, id: &str) -> Result<Vec<u8>, Problem> {
    let raw = layers::read(home).map_err(Problem::broken)?;
    let Some(connector) = answers::connector(&raw, id) else {
        return Err(Problem::no_server(id));
    };
    if !connector.direct {
        let text = format!(
            "server_is_locked: `{id}` is in the layer {}",
            connector.source
        );
        return Err(Problem::new(Kind::Conflict, "server_is_locked", text));
    }
    servers::edit::change(home, id, |text| edit::remove_server(text, id), || Ok(()))
        .map_err(|trouble| refused(&trouble))?;
    Ok(api::text(&api::ConnectorRemoved {
        mode: api::MODE.to_owned(),
        profile_id: api::PROFILE.to_owned(),
        server_id: id.to_owned(),
        removed: true,
    }))
}

fn entry(new: api::NewConnector) -> NewServer {
    let transport = match (new.command, new.url) {
        (Some(command), _) => NewTransport::Stdio {
            command,
            args: new.args,
            env: new.env.into_iter().collect(),
            cwd: new.cwd,
        },
        (None, url) => NewTransport::Http {
            url: url.unwrap_or_default(),
            bearer: new.bearer,
            headers: new.headers.into_iter().collect(),
        },
    };
    NewServer {
        id: new.id,
        transport,
        classification: None,
        accepts: None,
        open_world: None,
        more: new
            .enabled
            .map(|enabled| ("enabled".to_owned(), enabled.to_string()))
            .into_iter()
            .collect(),
    }
}

fn wrong(code: &'static str, text: String) -> Problem {
    Problem::new(Kind::Malformed, code, text)
}

/// What an edit refused: the entry does not fit, or a company does not want it.
fn refused(trouble: &Trouble) -> Problem {
    wrong("connector_refused", trouble.message.clone())
}
