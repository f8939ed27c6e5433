//! `portcullis clients …`: what to paste into an MCP client, and the hooks in its settings.

mod install;

use std::path::{Path, PathBuf};

use home::Home;
use serde_json::json;
use terminal::{Exit, Screen, Trouble};

use crate::{
    args, chosen_credential,
    files::of_home,
    snippets::{self, CLIENTS, Snippet},
};

/// Stands where the token belongs, until somebody wants to see it.
const PLACE: &str = "TOKEN";

pub fn run(
    verb: &args::Clients,
    given_home: Option<&Path>,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    match verb {
        args::Clients::Install(args) => return install::install(args, given_home, home, screen),
        args::Clients::Uninstall(args) => return install::uninstall(args, screen),
        args::Clients::List => {
            let text: String = CLIENTS
                .iter()
                .map(|(typed, name)| format!("{typed:<16}{name}\n"))
                .collect();
            let names: Vec<_> = CLIENTS
                .iter()
                .map(|(typed, name)| json!({ "client": typed, "name": name }))
                .collect();
            screen.show(
                &names,
                &format!("{text}\nportcullis clients show CLIENT says what to paste\n"),
            )?;
        }
        args::Clients::Show(args) => {
            let token = chosen_credential::chosen(&args.who, home)?;
            let shown = token
                .as_ref()
                .filter(|_| args.show_token)
                .map_or(PLACE, |token| token.expose());
            let (stdio, http) = forms(
                &args.client,
                given_home,
                home,
                &connect_options(&args.who),
                shown,
            );
            let document = json!({ "client": args.client, "stdio": stdio, "http": http });
            screen.show(&document, &render(&stdio, &http, args))?;
        }
    }
    Ok(Exit::Done)
}

/// Both forms of one client: it starts a command, or it opens a connection with a token.
pub(super) fn forms(
    client: &str,
    given_home: Option<&Path>,
    home: &Home,
    options: &[String],
    token: &str,
) -> (Vec<Snippet>, Vec<Snippet>) {
    let (executable, home_dir) = program(given_home);
    (
        snippets::of_client(
            snippets::stdio(&executable, home_dir.as_deref(), options),
            client,
        ),
        snippets::of_client(snippets::http(&url(home), token), client),
    )
}

/// This program and the home that it was given, as others find them.
fn program(given_home: Option<&Path>) -> (PathBuf, Option<PathBuf>) {
    let executable = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("portcullis"));
    let home = given_home.map(|dir| std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()));
    (executable, home)
}

/// Where the gate is, or would be.
fn url(home: &Home) -> String {
    let announced = std::fs::read_to_string(home.run.join("gate.json")).ok();
    let announced: Option<serde_json::Value> =
        announced.and_then(|text| serde_json::from_str(&text).ok());
    let running = announced.and_then(|gate| Some(gate.get("url")?.as_str()?.to_owned()));
    let listen = || {
        of_home(home).map_or_else(
            |_| config::default_listen(),
            |(_, resolved)| resolved.listen,
        )
    };
    running.unwrap_or_else(|| format!("http://{}/mcp", listen()))
}

fn connect_options(who: &args::Who) -> Vec<String> {
    let file = who
        .token_file
        .as_ref()
        .map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
    let name = who
        .name
        .iter()
        .flat_map(|name| ["--as".to_owned(), name.clone()]);
    name.chain(file.iter().flat_map(|file| {
        [
            "--token-file".to_owned(),
            file.to_string_lossy().into_owned(),
        ]
    }))
    .collect()
}

fn render(stdio: &[Snippet], http: &[Snippet], args: &args::ClientsShow) -> String {
    let mut out = format!(
        "The client starts a command; no token stands in its file:\n\n{}",
        snippets::render(stdio)
    );
    match http {
        [] => out.push_str("\nThis client takes no bearer token over HTTP from its file.\n"),
        http => out.push_str(&format!(
            "\nOr it connects over HTTP, with a token:\n\n{}",
            snippets::render(http)
        )),
    }
    if !http.is_empty() && !args.show_token {
        out.push_str(&format!(
            "\n{PLACE} stands for the token; --show-token writes it there.\n"
        ));
    }
    if args.who.name.is_none() && args.who.token_file.is_none() {
        out.push_str(&format!(
            "\nThis is the first client's credential. Clients that share a credential share what it has seen; one of its own:\n  \
             portcullis token new {0} --keep\n  portcullis clients show {0} --as {0}\n",
            args.client
        ));
    }
    out
}
