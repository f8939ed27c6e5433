//! The files that are looked at.

use std::{
    fs, io,
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use imports::{CLIENTS, Client, MOST_BYTES, Place, Surroundings};
use terminal::Trouble;

use crate::args;

/// A client's file, as it is.
pub(super) struct Source {
    pub(super) client: &'static Client,
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) is_managed: bool,
}

/// What cannot be read, and why.
pub(super) type Problems = Vec<(PathBuf, String)>;

pub(super) fn sources(
    args: &args::Import,
    around: &Surroundings,
) -> Result<(Vec<Source>, Problems), Trouble> {
    let mut problems = Vec::new();
    if let Some(from) = &args.from
        && Client::named(from).is_none()
    {
        let path = std::path::absolute(from)?;
        if !path.exists() {
            let names: Vec<&str> = CLIENTS.iter().map(|client| client.id).collect();
            return Err(Trouble::usage(format!(
                "`{from}` is neither a file nor a client; clients are {}",
                names.join(", ")
            )));
        }
        let text = read(&path, false)
            .map_err(|why| Trouble::failed(format!("{}: {why}", path.display())))?;
        let client = imports::of_file(&path, &text).ok_or_else(|| {
            Trouble::usage(format!(
                "{} is no file of a client that is known",
                path.display()
            ))
        })?;
        let source = Source {
            client,
            path,
            text,
            is_managed: false,
        };
        return Ok((vec![source], problems));
    }
    let wanted = CLIENTS
        .iter()
        .filter(|client| args.from.as_deref().is_none_or(|from| from == client.id));
    let mut sources: Vec<Source> = Vec::new();
    for place in wanted.flat_map(|client| client.places(around)) {
        let Place {
            client,
            path,
            is_managed,
        } = place;
        match read(&path, is_managed) {
            Err(why) => problems.push((path, why)),
            Ok(_) if sources.iter().any(|known| known.path == path) => {}
            Ok(text) => sources.push(Source {
                client,
                path,
                text,
                is_managed,
            }),
        }
    }
    problems.retain(|(_, why)| why != GONE);
    if let (Some(from), true, true) = (&args.from, sources.is_empty(), problems.is_empty()) {
        return Err(Trouble::failed(format!("{from} has no settings here")));
    }
    Ok((sources, problems))
}

const GONE: &str = "it is not there";

/// A regular file of the user's own, of a size that settings have.
pub(super) fn read(path: &Path, is_managed: bool) -> Result<String, String> {
    let gone = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => GONE.to_owned(),
        _ => error.to_string(),
    };
    let check = |metadata: &fs::Metadata| {
        let own = rustix::process::geteuid().as_raw();
        if !metadata.is_file() {
            return Err("it is not a file".to_owned());
        }
        if metadata.uid() != own && !(is_managed && metadata.uid() == 0) {
            return Err("it belongs to another user".to_owned());
        }
        if metadata.len() > MOST_BYTES as u64 {
            return Err(format!("it has more than {MOST_BYTES} bytes"));
        }
        Ok(())
    };
    // Before it is opened: opening a pipe would wait for whoever writes it.
    check(&fs::metadata(path).map_err(gone)?)?;
    let file = fs::File::open(path).map_err(gone)?;
    check(&file.metadata().map_err(gone)?)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(gone)?;
    if bytes.len() > MOST_BYTES {
        return Err(format!("it has more than {MOST_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}
