//! The keys that sign sessions' tokens, and the window in which no envelope counts twice: from files to what the gate wants.
//!
//! A key of our own is made on the first run and kept 0600. A new one takes over with `seal rotate`; the one before it is still
//! recognised for as long as a token may live.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use config::{
    Resolved,
    key_files::{self, check_mode, read_key},
};
use gateway::settings::Signing;
use identity::{Bounds, SigningKey, TokenKeys};
use state::State;

use crate::{Home, private_file, replay_file::ReplayFile};

/// No token lives longer, so no key has to be recognised longer after it was replaced.
const OVERLAP: Duration = Duration::from_secs(24 * 3600);

pub fn key_file(home: &Home) -> PathBuf {
    home.state.join("seal-token.pem")
}

const EARLIER: &str = "seal-token.earlier-";

/// Keys that were replaced so recently that tokens of theirs may still be good.
fn earlier_key_files(home: &Home) -> Vec<PathBuf> {
    let entries = fs::read_dir(&home.state).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(EARLIER));
    named
        .map(|entry| entry.path())
        .filter(|path| is_recent(path))
        .collect()
}

/// The keys as the files are now.
pub fn keys(home: &Home, resolved: &Resolved) -> Result<TokenKeys, String> {
    if let Some(files) = &resolved.seal_keys {
        return key_files::token_keys(files);
    }
    let mut keys = key_files::usable(own_key(home)?)?;
    for earlier in earlier_key_files(home) {
        keys = keys
            .also_verify(read_key(&earlier)?.public().clone())
            .map_err(|error| format!("{}: {error}", earlier.display()))?;
    }
    Ok(keys)
}

/// Names this run of the machine: what was written before a power cut may be lost, and this tells.
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// What the gate needs for signed calls.
pub async fn signing(
    home: &Home,
    state: &State,
    boot: &str,
    now_ms: u64,
) -> Result<Signing, String> {
    let file = home.state.join("replay.log");
    let restored = ReplayFile::restore(file.clone(), Bounds::default(), boot, now_ms);
    let (file, replay) =
        restored.map_err(|error| format!("cannot use {}: {error}", file.display()))?;
    Ok(Signing {
        replay: Arc::new(replay),
        tidy: Box::new(move |replay| file.tidy(replay)),
        random: secrets::os_entropy(),
        sessions: state
            .signed_sessions()
            .await
            .map_err(|error| error.to_string())?,
        used: state
            .used_calls()
            .await
            .map_err(|error| error.to_string())?,
        workloads: state
            .workloads(now_ms)
            .await
            .map_err(|error| error.to_string())?,
    })
}

/// A new key signs from now on; tokens of the old one stay good until they expire.
pub fn rotate(home: &Home, resolved: &Resolved) -> Result<String, String> {
    if let Some(files) = &resolved.seal_keys {
        return Err(format!(
            "tokens are signed with {}, which `seal.private_key_path` names; put a new key there",
            files.private.path.display()
        ));
    }
    let file = key_file(home);
    let replaced = read_key(&file)?.public().thumbprint().to_owned();
    let earlier = home.state.join(format!("{EARLIER}{replaced}.pem"));
    let failed = |error: io::Error| format!("cannot replace {}: {error}", file.display());
    let old = read(&file)?;
    private_file::replace(&earlier, &old).map_err(failed)?;
    let pem = new_key()?;
    private_file::replace(&file, &pem).map_err(failed)?;
    Ok(read_key(&file)?.public().thumbprint().to_owned())
}

/// Makes a key of our own where there is none.
pub fn prepare(home: &Home) -> Result<(), String> {
    let file = key_file(home);
    if file.exists() {
        return Ok(());
    }
    private_file::create(&file, &new_key()?)
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}

fn own_key(home: &Home) -> Result<SigningKey, String> {
    prepare(home)?;
    check_mode(&key_file(home))?;
    read_key(&key_file(home))
}

pub fn new_key() -> Result<Vec<u8>, String> {
    let mut seed = zeroize::Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice())
        .map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(SigningKey::seed_to_pem(&seed).as_bytes().to_vec())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn is_recent(path: &Path) -> bool {
    let replaced = fs::metadata(path).and_then(|metadata| metadata.modified());
    replaced.is_ok_and(|at| {
        SystemTime::now()
            .duration_since(at)
            .is_ok_and(|age| age < OVERLAP)
    })
}
