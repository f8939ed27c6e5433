//! Signed heads: what to publish elsewhere, so that nobody can take the ledger back behind it.
//!
//! A checkpoint is a C2SP signed note (`tlog-checkpoint`): the tree's name, size and root, and an Ed25519 signature. The signer's key
//! lies beside the ledger, readable by its owner only; it proves to strangers that two checkpoints come from the same ledger, not
//! that the machine was honest. It must never sign records that are not synced.

use crate::chain::Hash;
use crate::disk::Disk;
use crate::entropy::Keys;
use crate::error::LedgerUnavailable;
use crate::ledger::Shared;
use crate::tree::Tree;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The signed head, in the ledger's directory.
pub(crate) const CHECKPOINT: &str = "checkpoint";
/// Its public key, to be published with it, and the private one.
pub(crate) const PUBLIC_KEY: &str = "checkpoint.pub";
const PRIVATE_KEY: &str = "checkpoint.key";
/// How often the head is signed while records come in.
const PERIOD_US: u64 = 1_000_000;
/// How C2SP notes say Ed25519.
const ED25519: u8 = 1;

pub(crate) fn checkpoint_path(dir: &Path) -> PathBuf {
    dir.join(CHECKPOINT)
}

/// The latest signed head of the ledger in `dir`, to be kept elsewhere; `None` if there is none yet.
pub fn read_checkpoint(dir: &Path) -> io::Result<Option<String>> {
    read_text(&checkpoint_path(dir))
}

/// The public key of the ledger in `dir` as a C2SP verifier key; `None` if it has none yet.
pub fn read_public_key(dir: &Path) -> io::Result<Option<String>> {
    Ok(read_text(&dir.join(PUBLIC_KEY))?.map(|text| text.trim_end().to_owned()))
}

fn read_text(path: &Path) -> io::Result<Option<String>> {
    Ok(if_there(std::fs::read(path))?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// What the ledger remembers about its signed heads.
#[derive(Debug)]
pub(crate) struct Heads {
    signer: Mutex<Option<Signer>>,
    latest: Mutex<Latest>,
}

#[derive(Clone, Copy, Debug)]
struct Latest {
    /// How many records the latest head covers.
    size: u64,
    signed_us: u64,
}

impl Heads {
    pub(crate) fn new(signer: Option<Signer>, size: u64) -> Heads {
        Heads {
            signer: Mutex::new(signer),
            latest: Mutex::new(Latest { size, signed_us: 0 }),
        }
    }
}

impl Shared {
    /// A new head, if there is something new to sign and the last one is old enough.
    pub(crate) fn sign_if_due(&self) -> Result<(), LedgerUnavailable> {
        let latest = *self
            .heads
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = (self.writer.clock)().mono_us;
        // A head over nothing, as a new ledger has it, is always old enough.
        if latest.size > 0
            && latest.signed_us > 0
            && now.saturating_sub(latest.signed_us) < PERIOD_US
        {
            return Ok(());
        }
        self.sign_if_new()
    }

    /// A last head when the ledger is closed.
    pub(crate) fn sign_if_new(&self) -> Result<(), LedgerUnavailable> {
        let latest = *self
            .heads
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.writer.written() == latest.size {
            return Ok(());
        }
        self.checkpoint().map(drop)
    }

    pub(crate) fn checkpoint(&self) -> Result<String, LedgerUnavailable> {
        let tree = self.writer.lock().tree.clone();
        self.sync()?;
        let mut signer = self
            .heads
            .signer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let note = self
            .store(&mut signer, &tree)
            .map_err(|error| LedgerUnavailable {
                reason: format!(
                    "signing its head in {} failed: {error}",
                    self.writer.dir.display()
                )
                .into(),
            })?;
        let signed_us = (self.writer.clock)().mono_us.max(1);
        *self
            .heads
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Latest {
            size: tree.size(),
            signed_us,
        };
        Ok(note)
    }

    fn store(&self, signer: &mut Option<Signer>, tree: &Tree) -> io::Result<String> {
        let (disk, dir) = (&*self.writer.disk, &self.writer.dir);
        let signer = match signer {
            Some(signer) => signer,
            None => signer.insert(Signer::at(disk, dir)?),
        };
        let note = signer.sign(tree);
        disk.replace(&checkpoint_path(dir), note.as_bytes())?;
        Ok(note)
    }
}

pub(crate) struct Signer {
    pair: Ed25519KeyPair,
    /// Of the key and, by the C2SP recommendation, of the tree.
    name: String,
    /// Four bytes that tell keys of one name apart.
    id: [u8; 4],
}

impl Signer {
    /// The ledger's own signer; makes its key if there is none.
    fn at(disk: &dyn Disk, dir: &Path) -> io::Result<Signer> {
        if let Some(signer) = Signer::load(disk, dir)? {
            return Ok(signer);
        }
        let seed = Keys::default().fresh()?;
        let signer = Signer::from_seed(&seed)?;
        // The public half first: a private key that exists has been published.
        disk.replace(
            &dir.join(PUBLIC_KEY),
            format!("{}\n", signer.public_key()).as_bytes(),
        )?;
        disk.replace(&dir.join(PRIVATE_KEY), signer.private_key(&seed).as_bytes())?;
        Ok(signer)
    }

    fn load(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Signer>> {
        let path = dir.join(PRIVATE_KEY);
        let Some(bytes) = if_there(disk.read(&path))? else {
            return Ok(None);
        };
        let seed = private_seed(&bytes).ok_or_else(|| {
            let text = format!(
                "{} is no Ed25519 key; restore it, or move it aside for a new one",
                path.display()
            );
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        Signer::from_seed(&seed).map(Some)
    }

    /// The signer there is, and how many records its latest head covers, if there is such a head.
    pub(crate) fn known(disk: &dyn Disk, dir: &Path) -> io::Result<(Option<Signer>, Option<u64>)> {
        let Some(signer) = Signer::load(disk, dir)? else {
            return Ok((None, None));
        };
        let note = if_there(disk.read(&checkpoint_path(dir)))?.unwrap_or_default();
        let size = std::str::from_utf8(&note)
            .ok()
            .and_then(|note| signer.covers(note));
        Ok((Some(signer), size))
    }

    fn from_seed(seed: &[u8; 32]) -> io::Result<Signer> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let public = pair.public_key().as_ref();
        let digest = Hash::of(public).to_string();
        let name = format!("portcullis/{}", digest.get(..16).unwrap_or(&digest));
        let named = [name.as_bytes(), b"\n", &[ED25519], public].concat();
        let id = Hash::of(&named)
            .bytes()
            .first_chunk()
            .copied()
            .unwrap_or_default();
        Ok(Signer { pair, name, id })
    }

    /// `name+id+key`, as C2SP tools read it.
    pub(crate) fn public_key(&self) -> String {
        let key = [&[ED25519], self.pair.public_key().as_ref()].concat();
        format!("{}+{}+{}", self.name, self.hex_id(), BASE64.encode(key))
    }

    fn private_key(&self, seed: &[u8; 32]) -> String {
        format!(
            "PRIVATE+KEY+{}+{}+{}\n",
            self.name,
            self.hex_id(),
            BASE64.encode([&[ED25519], &seed[..]].concat())
        )
    }

    fn hex_id(&self) -> String {
        self.id.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The signed head of `tree`.
    pub(crate) fn sign(&self, tree: &Tree) -> String {
        let text = format!(
            "{}\n{}\n{}\n",
            self.name,
            tree.size(),
            BASE64.encode(tree.root().bytes())
        );
        let signature = [&self.id, self.pair.sign(text.as_bytes()).as_ref()].concat();
        format!("{text}\n— {} {}\n", self.name, BASE64.encode(signature))
    }

    /// How many records a head that this signer made covers; `None` for any other text.
    pub(crate) fn covers(&self, note: &str) -> Option<u64> {
        let (text, signatures) = note.split_once("\n\n")?;
        let size = text.split('\n').nth(1)?.parse().ok()?;
        let signature = signatures
            .strip_prefix("— ")?
            .strip_prefix(&*self.name)?
            .strip_prefix(' ')?
            .strip_suffix('\n')?;
        let signature = BASE64.decode(signature).ok()?;
        let signature = signature.strip_prefix(&self.id)?;
        let signed = format!("{text}\n");
        let key = ring::signature::UnparsedPublicKey::new(
            &ring::signature::ED25519,
            self.pair.public_key(),
        );
        key.verify(signed.as_bytes(), signature).ok()?;
        Some(size)
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn if_there(read: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// `PRIVATE+KEY+name+id+seed`.
fn private_seed(bytes: &[u8]) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(bytes)
        .ok()?
        .trim_end()
        .strip_prefix("PRIVATE+KEY+")?;
    // The name may hold no `+`, but base64 may.
    let encoded = text.splitn(3, '+').nth(2)?;
    let key = BASE64.decode(encoded).ok()?;
    key.strip_prefix(&[ED25519])?.try_into().ok()
}
