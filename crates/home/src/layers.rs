//! The files of a configuration: the person's, what was imported, and what a company signed.
//!
//! The company's file is parsed only after its signature was verified. One that is bad, older than one that was in force, expired or gone
//! changes nothing: the last good copy holds, and everybody who reads the configuration is told. Where a company's keys are installed and
//! there is no good copy, there is no configuration.
//!
//! **Invariant: no byte of the company's file counts unsigned.** Tests `a_bad_older_or_missing_file_leaves_the_good_copy_in_force`,
//! `every_changed_byte_of_either_is_refused`.

use std::{
    fs,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use config::{Finding, LoadError, Place, Raw, Report, Resolved, layers};
use identity::sshsig;

use crate::{Home, private_file};

/// Where a company puts its files, for every user of the machine.
const ETC: &str = "/etc/portcullis";
/// Another place, where there are no keys in that one: a container's, or a person's own.
const ELSEWHERE: &str = "PORTCULLIS_CORP_DIR";
const KEYS: &str = "corp.keys";
const FILE: &str = "corp.yaml";
const SIGNATURE: &str = "corp.yaml.sig";
/// What a signature must have been made for.
pub const NAMESPACE: &str = "portcullis-corp";
const MOST_BYTES: u64 = config::tree::MAX_BYTES as u64;

impl Home {
    /// What `portcullis import` found.
    #[must_use]
    pub fn imported_file(&self) -> PathBuf {
        self.config.join("imported.yaml")
    }

    fn corp_copy(&self) -> PathBuf {
        self.state.join("corp")
    }
}

/// A company's file that may be used.
struct Good {
    raw: Raw,
    signature: String,
    serial: u64,
    /// Why it is a copy, if it is.
    instead_of: Option<String>,
}

/// The whole configuration of a home.
pub fn load(home: &Home) -> Result<(Raw, Resolved), LoadError> {
    let raw = read(home)?;
    let resolved = raw
        .resolve_in(&config::environment())
        .map_err(LoadError::Invalid)?;
    Ok((raw, resolved))
}

/// The same, not resolved.
pub fn read(home: &Home) -> Result<Raw, LoadError> {
    with_user(home, config::read(&home.config_file())?)
}

/// The configuration as it would be with this text as the person's file.
pub fn with_user(home: &Home, user: Raw) -> Result<Raw, LoadError> {
    let imported = match config::read(&home.imported_file()) {
        Err(LoadError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        imported => Some(imported?),
    };
    with(home, user, imported)
}

/// The same with both of the person's files given.
pub fn with(home: &Home, user: Raw, imported: Option<Raw>) -> Result<Raw, LoadError> {
    let corp = corp(home, now_ms())?;
    let instead_of = corp.as_ref().and_then(|good| good.instead_of.clone());
    let corp = corp.map(|good| good.raw);
    let mut raw = layers::merge(user, corp, imported).map_err(LoadError::Invalid)?;
    raw.layers.notes.extend(instead_of);
    Ok(raw)
}

/// Every file that a configuration is read from, there or not.
#[must_use]
pub fn files(home: &Home) -> Vec<PathBuf> {
    let corp = dir();
    [KEYS, FILE, SIGNATURE]
        .iter()
        .map(|name| corp.join(name))
        .chain([home.config_file(), home.imported_file()])
        .collect()
}

/// Keeps the company's file, now that it is in force: from here on nothing older counts. Says its serial where that is new.
pub fn keep(home: &Home) -> Result<Option<u64>, String> {
    let Ok(Some(good)) = corp(home, now_ms()) else {
        return Ok(None);
    };
    if good.instead_of.is_some() {
        return Ok(None);
    }
    let dir = home.corp_copy();
    let kept = fs::read_to_string(dir.join(FILE)).unwrap_or_default();
    if kept == good.raw.text && highest(home) == good.serial {
        return Ok(None);
    }
    let failed = |error: io::Error| format!("cannot keep the company's file: {error}");
    private_file::make_dirs(&dir).map_err(failed)?;
    // The number first: whoever is stopped in between has no copy of what it refuses.
    let files = [
        ("serial", good.serial.to_string()),
        (SIGNATURE, good.signature),
        (FILE, good.raw.text),
    ];
    for (name, text) in files {
        private_file::replace(&dir.join(name), text.as_bytes()).map_err(failed)?;
    }
    Ok(Some(good.serial))
}

/// The highest serial that was ever in force here.
fn highest(home: &Home) -> u64 {
    let text = fs::read_to_string(home.corp_copy().join("serial"));
    text.ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or_default()
}

/// The company's file, if a company has installed its keys.
fn corp(home: &Home, now_ms: u64) -> Result<Option<Good>, LoadError> {
    let dir = dir();
    let Some(keys) = keys(&dir).map_err(|why| refused(&dir.join(KEYS), &why))? else {
        return Ok(None);
    };
    let highest = highest(home);
    let wrong = match good(&dir, &keys, highest, now_ms) {
        Ok(good) => return Ok(Some(good)),
        Err(why) => why,
    };
    let file = dir.join(FILE);
    match good(&home.corp_copy(), &keys, highest, 0) {
        Ok(copy) => {
            let raw = Raw {
                file: file.clone(),
                ..copy.raw
            };
            let instead_of = format!(
                "{}: {wrong}; the copy with serial {} stays in force",
                file.display(),
                copy.serial
            );
            Ok(Some(Good {
                raw,
                instead_of: Some(instead_of),
                ..copy
            }))
        }
        Err(_) => Err(refused(
            &file,
            &format!("{wrong}, and this home has no good copy of an earlier one"),
        )),
    }
}

fn refused(file: &Path, why: &str) -> LoadError {
    let finding = Finding::error(
        Place::start(),
        format!("the company's configuration cannot be used: {why}"),
        "ask whoever signs it; without it this gate does not start",
    );
    LoadError::Invalid(Report::new(&file.display().to_string(), "", vec![finding]))
}

/// A file of a directory, if it verifies and is neither too old nor at its end.
fn good(
    dir: &Path,
    keys: &[identity::PublicKey],
    highest: u64,
    now_ms: u64,
) -> Result<Good, String> {
    let read = |name: &str| {
        small(&dir.join(name)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("{name} is gone"),
            _ => format!("{name} cannot be read: {error}"),
        })
    };
    let (text, signature) = (read(FILE)?, read(SIGNATURE)?);
    sshsig::verify(&signature, text.as_bytes(), NAMESPACE, keys)
        .map_err(|error| format!("its signature is not good: {error}"))?;
    let raw = Raw::parse(&dir.join(FILE), &text).map_err(|report| report.to_string())?;
    let nobody =
        Raw::parse(Path::new("portcullis.yaml"), "").map_err(|report| report.to_string())?;
    let whole =
        layers::merge(nobody, Some(raw.clone()), None).map_err(|report| report.to_string())?;
    whole.resolve().map_err(|report| report.to_string())?;
    let terms = &whole.layers.corp;
    if terms.serial < highest {
        return Err(format!(
            "its serial is {}, and {highest} was in force already",
            terms.serial
        ));
    }
    if terms.not_after_ms.is_some_and(|end| now_ms > end) {
        return Err("it has expired".to_owned());
    }
    Ok(Good {
        serial: terms.serial,
        raw,
        signature,
        instead_of: None,
    })
}

/// Where a company's files are. Where it has installed keys, no variable leads elsewhere.
fn dir() -> PathBuf {
    let etc = PathBuf::from(ETC);
    match std::env::var_os(ELSEWHERE) {
        Some(dir) if fs::symlink_metadata(etc.join(KEYS)).is_err() => PathBuf::from(dir),
        _ => etc,
    }
}

/// The keys that may sign. `None`: there is no company here.
fn keys(dir: &Path) -> Result<Option<Vec<identity::PublicKey>>, String> {
    let path = dir.join(KEYS);
    let metadata = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(|error| error.to_string())?,
    };
    let own = rustix::process::geteuid().as_raw();
    let is_trusted = metadata.uid() == 0 || dir != Path::new(ETC) && metadata.uid() == own;
    if !metadata.is_file() || !is_trusted || metadata.mode() & 0o022 != 0 {
        return Err(format!(
            "{} must be a file of root's that nobody else can write",
            path.display()
        ));
    }
    let text = small(&path).map_err(|error| error.to_string())?;
    let keys = sshsig::keys(&text)
        .map_err(|line| format!("line {line} of {} holds no Ed25519 key", path.display()))?;
    match keys.is_empty() {
        true => Err(format!("{} holds no key", path.display())),
        false => Ok(Some(keys)),
    }
}

fn small(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = fs::File::open(path)?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(io::Error::other("it is too large")),
        false => Ok(text),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
