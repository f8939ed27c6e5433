//! `portcullis man`: the manual, drawn from the same table that reads the command line.

use std::{fs, path::Path};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use terminal::{Exit, Screen, Trouble};

use crate::args;

pub(super) fn run(args: &args::Man, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let mut program = args::Cli::command();
    program.build();
    let Some(dir) = &args.out else {
        Man::new(program).render(&mut screen.out)?;
        return Ok(Exit::Done);
    };
    fs::create_dir_all(dir)
        .map_err(|error| Trouble::failed(format!("cannot make {}: {error}", dir.display())))?;
    let pages = write(program, dir)?;
    writeln!(screen.out, "Wrote {pages} pages to {}.", dir.display())?;
    Ok(Exit::Done)
}

/// Writes the page of a verb and those of all below it; how many there are.
fn write(verb: Command, dir: &Path) -> Result<usize, Trouble> {
    let mut pages = 1;
    for below in verb.get_subcommands().filter(|below| is_shown(below)) {
        pages += write(below.clone(), dir)?;
    }
    let mut page = Vec::new();
    let name = verb
        .get_display_name()
        .unwrap_or_else(|| verb.get_name())
        .to_owned();
    let path = dir.join(format!("{name}.1"));
    Man::new(verb).title(name).render(&mut page)?;
    fs::write(&path, page)
        .map_err(|error| Trouble::failed(format!("cannot write {}: {error}", path.display())))?;
    Ok(pages)
}

fn is_shown(verb: &Command) -> bool {
    !verb.is_hide_set() && verb.get_name() != "help"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page_that_names_its_options() {
        let dir = tempfile::tempdir().unwrap();
        let mut program = args::Cli::command();
        program.build();
        let pages = write(program, dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), pages);
        let page = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(page("portcullis.1").contains("servers"));
        let add = page("portcullis-servers-add.1");
        assert!(add.contains(r"\-\-command") && add.contains("portcullis\\-servers\\-add"));
        assert!(!dir.path().join("portcullis-demo-server.1").exists());
    }
}
