//! Catalogs at rest: what a server showed last time, so that its tools are there before it is.
//!
//! A snapshot belongs to the way a server is reached; when that changes, the snapshot is not used. Secrets are taken out before one is
//! kept, and again when it is read: the file may be older than the knowledge of what is secret.

use std::{fs, path::PathBuf};

use bytes::Bytes;
use shape::secrets::Held;
use vocab::ServerId;
use wire::{Json, write::Object};

use super::{Face, inner_limits};
use crate::settings::{ServerSpec, Transport};

const MAX_SNAPSHOT: u64 = 48 << 20;

#[derive(Debug)]
pub struct Snapshots {
    dir: PathBuf,
}

impl Snapshots {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    fn path(&self, id: &ServerId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    pub fn load(&self, spec: &ServerSpec, held: &Held) -> Option<Face> {
        let path = self.path(&spec.id);
        if fs::metadata(&path).ok()?.len() > MAX_SNAPSHOT {
            return None;
        }
        let text = fs::read(path).ok()?;
        Json::parse(&text, inner_limits()).ok()?;
        let text = shape::secrets::redact(&text, held).map_or(text, |redacted| redacted.text);
        let json = Json::checked_before(&text);
        if json.get("reached_by")?.as_str()? != fingerprint(spec) {
            return None;
        }
        let part = |key: &str| {
            json.get(key)
                .map(|json| Bytes::copy_from_slice(json.as_bytes()))
        };
        Face::read(&part("connected")?, &part("catalog")?, None)
    }

    /// Keeps a snapshot. Losing one costs only a wait at the next start, so a failure is logged and no more.
    pub fn save(&self, spec: &ServerSpec, connected: &[u8], catalog: &[u8]) {
        let mut out = Object::with_capacity(connected.len() + catalog.len() + 128);
        out.str("reached_by", &fingerprint(spec))
            .raw("connected", connected)
            .raw("catalog", catalog);
        let path = self.path(&spec.id);
        let beside = path.with_extension("json.new");
        let kept = fs::create_dir_all(&self.dir)
            .and_then(|()| fs::write(&beside, out.finish()))
            .and_then(|()| fs::rename(&beside, &path));
        if let Err(error) = kept {
            tracing::warn!(%error, server = %spec.id, "cannot keep the catalog snapshot");
        }
    }
}

/// Names the way a server is reached, without its secrets.
fn fingerprint(spec: &ServerSpec) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    match &spec.transport {
        Transport::Stdio {
            command, args, cwd, ..
        } => {
            add("stdio");
            add(command);
            args.iter().for_each(|arg| add(arg));
            add(&cwd
                .as_deref()
                .map(|path| path.to_string_lossy().into_owned())
                .unwrap_or_default());
        }
        Transport::Http { url, kind, .. } => {
            add("http");
            add(url);
            add(kind.as_str());
        }
        Transport::Nothing => add("nothing"),
    }
    hasher.finalize().to_hex().to_string()
}
