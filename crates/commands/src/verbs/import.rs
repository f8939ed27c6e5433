//! `portcullis import`: takes over the servers that other programs have.
//!
//! What is found is planned whole before anything is written. Then, in this order: what is needed to take it back is sealed, the secrets go
//! into the vault, the servers into `imported.yaml`, and last the clients' files change, if that is asked for. Whoever is stopped in between
//! can take back what was done.
//!
//! **Invariant: no secret is written but into the vault and the seal.** Tests `no_canary_of_any_client_is_in_a_byte_that_is_written`,
//! `a_dry_run_writes_nothing`.

mod journal;
mod plan;
mod source;
mod undo;

use std::path::Path;

use config::edit;
use home::{Home, private_file};
use imports::{Gate, Surroundings};
use secrets::{Vault, os_entropy};
use serde_json::json;
use terminal::{Exit, Screen, Trouble, style::tame};

use crate::{args, record};
use journal::Journal;
use plan::{Plan, Planned};
use source::Source;

/// What the file of imported servers begins with.
const HEAD: &str = "\
# Servers that `portcullis import` found in other programs. Each arrives switched off and without a classification:
#   portcullis servers classify ID LEVEL; portcullis servers enable ID
mcp_servers:
";

pub fn run(
    args: &args::Import,
    given_home: Option<&Path>,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    if let Some(id) = args.undo {
        return undo::run(id, home, screen);
    }
    let around = surroundings(args.project.as_deref())?;
    let (sources, mut problems) = source::sources(args, &around)?;
    // Without a word about what to take, nothing is taken.
    let is_dry = args.dry_run || args.from.is_none() && !args.all;
    if !is_dry {
        home.prepare().map_err(Trouble::failed)?;
    }
    let plan = Plan::of(home, &sources, &around, &mut problems)?;
    let id = match is_dry {
        true => None,
        false => carry_out(args, given_home, home, &sources, &plan)?,
    };
    let remaining = remaining(&plan, &sources, args.take_over && !is_dry);
    let document = json!({
        "import": id, "dry_run": is_dry,
        "entries": plan.entries.iter().map(Planned::document).collect::<Vec<_>>(),
        "still_in_clear": remaining,
        "problems": problems.iter().map(|(file, why)| json!({ "file": file, "why": why })).collect::<Vec<_>>(),
    });
    let mut text: String = plan.entries.iter().map(Planned::line).collect();
    if plan.entries.is_empty() {
        text.push_str("No client here has servers of its own.\n");
    }
    for (file, why) in &problems {
        text.push_str(&format!("{}: {}\n", file.display(), tame(why)));
    }
    let added = plan.added().count();
    match id {
        Some(id) => text.push_str(&format!(
            "\nImport {id}: {added} servers in {}, switched off and UNTRUSTED. portcullis import --undo {id} takes it back.\n",
            home.imported_file().display()
        )),
        None if is_dry => text.push_str(&format!(
            "\nNothing was changed: {added} servers could be imported. portcullis import CLIENT, or --all, does it.\n"
        )),
        None => text.push_str("\nNothing to import.\n"),
    }
    for file in &remaining {
        text.push_str(&format!(
            "{file} still holds secrets in clear; --take-over removes them there\n"
        ));
    }
    screen.show(&document, &text)?;
    let exit = match problems.is_empty() {
        true => Exit::Done,
        false => Exit::Failed,
    };
    match id {
        Some(_) => {
            super::reloaded(Exit::Done, home)?;
            Ok(exit)
        }
        None => Ok(exit),
    }
}

/// What the environment says of where clients keep their files.
fn surroundings(project: Option<&Path>) -> Result<Surroundings, Trouble> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(std::path::PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = absolute("HOME")
        .ok_or_else(|| Trouble::failed("HOME does not say where clients keep their settings"))?;
    let named = ["CLAUDE_CONFIG_DIR", "CODEX_HOME"]
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), absolute(name)?)));
    Ok(Surroundings {
        home,
        config: absolute("XDG_CONFIG_HOME"),
        project: project.map(std::path::absolute).transpose()?,
        variables: named.collect(),
    })
}

/// Does what is planned; the number of the import, if anything was done.
fn carry_out(
    args: &args::Import,
    given_home: Option<&Path>,
    home: &Home,
    sources: &[Source],
    plan: &Plan,
) -> Result<Option<u64>, Trouble> {
    let taken_over = match args.take_over {
        true => rewritten(given_home, sources, plan)?,
        false => Vec::new(),
    };
    if plan.added().next().is_none() && taken_over.is_empty() {
        return Ok(None);
    }
    let _held = private_file::lock(&home.state.join("config.lock"))?;
    super::servers::edit::first_config(home)?;
    let vault = Vault::in_home(home.vault(), os_entropy());
    let journal = Journal::begin(home, plan, &taken_over)?;
    let (id, detail) = (journal.id, plan.detail(journal.id));
    record::by_hand(
        home,
        &audit::Change {
            action: "servers.imported",
            door: "cli",
            detail: &detail,
            ..audit::Change::default()
        },
    )?;
    for secret in plan.added().flat_map(|planned| &planned.secrets) {
        if let Some(value) = &secret.value {
            vault
                .set(&secret.name, value)
                .map_err(super::secret::trouble)?;
        }
    }
    if plan.added().next().is_some() {
        private_file::replace(&home.imported_file(), plan.text.as_bytes())?;
    }
    for file in &taken_over {
        private_file::replace(&file.path, file.after.as_bytes())?;
    }
    Ok(Some(id))
}

/// A client's file, before and after the gate takes the place of its servers.
struct Rewritten {
    path: std::path::PathBuf,
    before: String,
    after: String,
}

fn rewritten(
    given_home: Option<&Path>,
    sources: &[Source],
    plan: &Plan,
) -> Result<Vec<Rewritten>, Trouble> {
    let home = given_home.map(std::path::absolute).transpose()?;
    let home = home.map(|home| home.to_string_lossy().into_owned());
    let gate = Gate {
        command: std::env::current_exe()?.to_string_lossy().into_owned(),
        args: home
            .into_iter()
            .flat_map(|home| ["--home".to_owned(), home])
            .chain(["connect".to_owned()])
            .collect(),
    };
    let mut files = Vec::new();
    for source in sources.iter().filter(|source| !source.is_managed) {
        let entries: Vec<Vec<String>> = plan
            .entries
            .iter()
            .filter(|planned| planned.file == source.path && planned.is_behind_the_gate())
            .map(|planned| planned.at.clone())
            .collect();
        if entries.is_empty() {
            continue;
        }
        let after =
            imports::without(source.client, &source.text, &entries, &gate).map_err(|why| {
                Trouble::failed(format!(
                    "{}: {why}; nothing was changed",
                    source.path.display()
                ))
            })?;
        files.push(Rewritten {
            path: source.path.clone(),
            before: source.text.clone(),
            after,
        });
    }
    Ok(files)
}

/// The files in which secrets stay as they were.
fn remaining(plan: &Plan, sources: &[Source], taken_over: bool) -> Vec<String> {
    let stays = |source: &&Source| {
        let is_left =
            |planned: &Planned| !taken_over || source.is_managed || !planned.is_behind_the_gate();
        let entries = plan.entries.iter();
        let mut own = entries.filter(|planned| planned.file == source.path && planned.has_clear);
        own.any(is_left)
    };
    let files = sources.iter().filter(stays);
    files
        .map(|source| source.path.display().to_string())
        .collect()
}

/// A new entry, where no other file has one of its id.
fn with_entry(text: &str, server: &edit::NewServer) -> Result<String, edit::EditError> {
    edit::add_server(text, server)
}
