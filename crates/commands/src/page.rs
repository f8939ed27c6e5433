//! `docs/use/cli.md`, drawn from the verbs and the exit codes.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};
use terminal::Exit;

use crate::Cli;

const HEAD: &str = "\
# Command line

<!-- Drawn from crates/commands/src/args.rs by `cargo xtask codegen`. -->

`--home DIR`, `--json` and `--color WHEN` go with every verb. Without `--home` the configuration is in
`$XDG_CONFIG_HOME/portcullis`, state and ledger in `$XDG_STATE_HOME/portcullis`, the socket in `$XDG_RUNTIME_DIR/portcullis`.

With `--json` an answer is a document on standard output. So is an error, beside the words on standard error:
`{\"error\": {\"message\": …, \"exit_code\": …, \"meaning\": …}}`. Characters that a terminal would obey are escaped in documents and
replaced in text, whoever wrote them. Colours are for terminals; `NO_COLOR`, `TERM=dumb` and `--color never` turn them off, in the
gate's log too. A verb whose reader leaves, as in `portcullis tools list | head -1`, ends with 0; a gate goes on without one.

`--out FILE` replaces a plain file whole or not at all, follows links, and writes to devices, pipes and `/dev/stdout` as they are.

## Exit codes

| code | meaning |
|---|---|
";

/// The whole page.
#[must_use]
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for exit in Exit::ALL {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| {} | {} |", exit.code(), exit.meaning());
    }
    let mut root = Cli::command()
        .color(clap::ColorChoice::Never)
        .term_width(100);
    root.build();
    for verb in root.get_subcommands_mut() {
        section(&mut page, verb, "portcullis");
    }
    page
}

fn section(page: &mut String, command: &mut Command, parent: &str) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{parent} {}", command.get_name());
    let verbs: Vec<String> = command
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned())
        .collect();
    if verbs.iter().all(|verb| verb == "help") {
        let help = command.render_long_help().to_string();
        let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", own_part(&help));
    }
    for verb in command.get_subcommands_mut() {
        section(page, verb, &name);
    }
}

/// Without the options that every verb has, and without spaces at the ends of lines.
fn own_part(help: &str) -> String {
    const SHARED: [&str; 5] = ["--home", "--json", "--color", "-h, --help", "-V, --version"];
    let mut lines = Vec::new();
    let mut skipping = false;
    for line in help.lines().map(str::trim_end) {
        let trimmed = line.trim_start();
        let is_option = trimmed.starts_with('-') && line.starts_with("  ");
        if is_option || (!line.starts_with(' ') && !line.is_empty()) {
            skipping = is_option && SHARED.iter().any(|shared| trimmed.starts_with(shared));
        }
        if !skipping {
            lines.push(line);
        }
    }
    let text = lines.join("\n");
    let text = text
        .trim_end()
        .strip_suffix("Options:")
        .unwrap_or(&text)
        .trim_end();
    text.to_owned()
}
