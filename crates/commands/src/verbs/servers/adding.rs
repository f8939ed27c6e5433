//! What can be told about a server before anybody connects to it.

use std::{env, os::unix::fs::PermissionsExt as _, path::Path};

use home::Home;
use secrets::{Vault, os_entropy};
use terminal::Trouble;

use crate::{args, snippets::shell};

/// A program and its arguments in one word are a mistake that only shows when nothing of that name can be started.
pub fn refuse_sentence(command: Option<&str>) -> Result<(), Trouble> {
    let Some(command) = command else {
        return Ok(());
    };
    let mut words = command.split_whitespace();
    let (Some(program), true) = (words.next(), command.contains(char::is_whitespace)) else {
        return Ok(());
    };
    if is_found(command) {
        return Ok(());
    }
    let rest: Vec<String> = words.map(shell).collect();
    Err(Trouble::usage(format!(
        "--command is one program, and there is none called `{command}`; write its arguments after --:\n  --command {} -- {}",
        shell(program),
        rest.join(" ")
    )))
}

/// What will probably not work, said before it does not.
pub fn doubts(command: Option<&str>, values: &[&str], home: &Home) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(command) = command.filter(|command| !is_found(command)) {
        doubts.push(format!(
            "`{command}` was not found on your PATH; install it, or give its whole path"
        ));
    }
    let stored = Vault::in_home(home.vault(), os_entropy())
        .names()
        .unwrap_or_default();
    for name in values
        .iter()
        .filter_map(|value| value.strip_prefix("keychain:"))
    {
        if !stored.iter().any(|known| known == name) {
            doubts.push(format!(
                "`keychain:{name}` is not stored yet: portcullis secret set {name}"
            ));
        }
    }
    for name in values.iter().filter_map(|value| value.strip_prefix("env:")) {
        if env::var_os(name).is_none() {
            doubts.push(format!(
                "`env:{name}` is not set here; the gate must have it when it starts"
            ));
        }
    }
    doubts
}

/// The values of an entry that may be references.
pub fn values(args: &args::Add) -> Vec<&str> {
    let pairs = args
        .env
        .iter()
        .chain(&args.header)
        .map(|(_, value)| value.as_str());
    pairs.chain(args.bearer.as_deref()).collect()
}

fn is_found(command: &str) -> bool {
    let is_program = |path: &Path| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if command.contains('/') {
        return is_program(Path::new(command));
    }
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| is_program(&dir.join(command))))
}
