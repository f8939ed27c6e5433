//! The encrypted file that keeps secrets in the home.
//!
//! `secrets.vault` is text: a title, one line per entry (name, tab, hex of nonce and ciphertext), and a seal over all of it.
//! Every entry is XChaCha20-Poly1305 under the 32 bytes in `secrets.key`, with a fresh nonce and its name as associated data, so entries
//! cannot be swapped; the seal is an empty message with the whole text as associated data, so none can be removed.
//! It must never write in place (a replacement is synced, then renamed over) nor use a key that others can read.
//! It cannot notice that an older copy of the whole file was put back, and it does not defend against someone who can
//! read both files.

use crate::entropy::Entropy;
use crate::error::SecretError;
use crate::reference::is_entry;
use crate::secret::Secret;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const TITLE: &str = "portcullis vault 1\n";
const SEAL: &str = "seal\t";
const ENTRY_DOMAIN: &[u8] = b"portcullis vault 1 entry\0";
const SEAL_DOMAIN: &[u8] = b"portcullis vault 1 seal\0";
const NONCE_BYTES: usize = 24;
const VALUE_LIMIT: usize = 64 << 10;

/// A handle on the two files; holds no key and no secret between calls.
#[derive(Clone)]
pub struct Vault {
    vault: PathBuf,
    key: PathBuf,
    lock: PathBuf,
    entropy: Entropy,
}

/// Name → nonce and ciphertext.
type Entries = BTreeMap<String, Vec<u8>>;

impl Vault {
    /// The vault in `home`, which must exist; its files appear with the first secret.
    pub fn in_home(home: &Path, entropy: Entropy) -> Vault {
        Vault {
            vault: home.join("secrets.vault"),
            key: home.join("secrets.key"),
            lock: home.join("secrets.lock"),
            entropy,
        }
    }

    pub fn get(&self, name: &str) -> Result<Option<Secret>, SecretError> {
        let Some((cipher, entries)) = self.load()? else {
            return Ok(None);
        };
        let Some(sealed) = entries.get(name) else {
            return Ok(None);
        };
        let plain = open(&cipher, &[ENTRY_DOMAIN, name.as_bytes()].concat(), sealed);
        plain
            .and_then(Secret::from_bytes)
            .map(Some)
            .ok_or_else(|| self.broken())
    }

    /// Stores or replaces one secret.
    pub fn set(&self, name: &str, secret: &Secret) -> Result<(), SecretError> {
        self.put(name, secret, None).map(drop)
    }

    /// Replaces one secret if it is still what the caller read, and says whether it did. What somebody else changed or removed
    /// meanwhile stays as they left it.
    pub fn replace(
        &self,
        name: &str,
        before: &Secret,
        secret: &Secret,
    ) -> Result<bool, SecretError> {
        self.put(name, secret, Some(before))
    }

    fn put(
        &self,
        name: &str,
        secret: &Secret,
        before: Option<&Secret>,
    ) -> Result<bool, SecretError> {
        if !is_entry(name) {
            return Err(SecretError::BadName { name: name.into() });
        }
        let value = secret.expose().as_bytes();
        if value.is_empty() || value.len() > VALUE_LIMIT || value.contains(&0) {
            return Err(SecretError::BadValue { limit: VALUE_LIMIT });
        }
        let _lock = self.take_lock()?;
        if let Some(before) = before {
            let now = self.get(name)?;
            if now.is_none_or(|now| now.expose() != before.expose()) {
                return Ok(false);
            }
        }
        let (cipher, mut entries) = match self.load()? {
            Some(loaded) => loaded,
            None => (self.cipher_or_new()?, Entries::new()),
        };
        let sealed = self.seal(&cipher, &[ENTRY_DOMAIN, name.as_bytes()].concat(), value)?;
        entries.insert(name.into(), sealed);
        self.store(&cipher, &entries).map(|()| true)
    }

    /// Removes one secret; says whether it was there.
    pub fn delete(&self, name: &str) -> Result<bool, SecretError> {
        let _lock = self.take_lock()?;
        let Some((cipher, mut entries)) = self.load()? else {
            return Ok(false);
        };
        let was_there = entries.remove(name).is_some();
        if was_there {
            self.store(&cipher, &entries)?;
        }
        Ok(was_there)
    }

    /// The names of all secrets, sorted.
    pub fn names(&self) -> Result<Vec<String>, SecretError> {
        let loaded = self.load()?;
        Ok(loaded.map_or_else(Vec::new, |(_, entries)| entries.into_keys().collect()))
    }

    fn broken(&self) -> SecretError {
        SecretError::VaultBroken {
            path: self.vault.clone(),
        }
    }

    /// Reads and authenticates the whole vault; `None` if there is none yet.
    fn load(&self) -> Result<Option<(XChaCha20Poly1305, Entries)>, SecretError> {
        let text = match std::fs::read(&self.vault) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SecretError::disk("reading", &self.vault)(error)),
        };
        let cipher = self.read_key()?.ok_or_else(|| SecretError::KeyMissing {
            path: self.key.clone(),
        })?;
        let entries = authenticate(&cipher, &text).ok_or_else(|| self.broken())?;
        Ok(Some((cipher, entries)))
    }

    fn store(&self, cipher: &XChaCha20Poly1305, entries: &Entries) -> Result<(), SecretError> {
        let mut text = TITLE.to_owned();
        for (name, sealed) in entries {
            text.push_str(name);
            text.push('\t');
            push_hex(&mut text, sealed);
            text.push('\n');
        }
        let seal = self.seal(cipher, &[SEAL_DOMAIN, text.as_bytes()].concat(), b"")?;
        text.push_str(SEAL);
        push_hex(&mut text, &seal);
        text.push('\n');
        replace(&self.vault, text.as_bytes()).map_err(SecretError::disk("replacing", &self.vault))
    }

    fn take_lock(&self) -> Result<File, SecretError> {
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&self.lock)
            .and_then(|file| file.lock().map(|()| file));
        lock.map_err(SecretError::disk("locking", &self.lock))
    }

    fn read_key(&self) -> Result<Option<XChaCha20Poly1305>, SecretError> {
        let failed = || SecretError::disk("reading", &self.key);
        let mut file = match File::open(&self.key) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed()(error)),
        };
        let mode = file.metadata().map_err(failed())?.mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = self.key.clone();
            return Err(SecretError::KeyExposed { path, mode });
        }
        let mut bytes = Zeroizing::new([0; 33]);
        let length = read_up_to(&mut file, &mut *bytes).map_err(failed())?;
        let key = bytes
            .get(..length)
            .and_then(|key| <&Key>::try_from(key).ok());
        let key = key.ok_or_else(|| SecretError::KeyBroken {
            path: self.key.clone(),
        })?;
        Ok(Some(XChaCha20Poly1305::new(key)))
    }

    /// For the first secret: the key that is there, or a new one.
    fn cipher_or_new(&self) -> Result<XChaCha20Poly1305, SecretError> {
        if let Some(cipher) = self.read_key()? {
            return Ok(cipher);
        }
        let mut key = Zeroizing::new([0; 32]);
        self.fill(&mut *key)?;
        replace(&self.key, &*key).map_err(SecretError::disk("creating", &self.key))?;
        Ok(XChaCha20Poly1305::new(<&Key>::from(&*key)))
    }

    fn fill(&self, bytes: &mut [u8]) -> Result<(), SecretError> {
        (self.entropy)(bytes).map_err(|source| SecretError::NoEntropy { source })
    }

    /// A fresh nonce, followed by the ciphertext.
    fn seal(
        &self,
        cipher: &XChaCha20Poly1305,
        aad: &[u8],
        msg: &[u8],
    ) -> Result<Vec<u8>, SecretError> {
        let mut nonce = XNonce::default();
        self.fill(&mut nonce)?;
        let ciphertext = cipher
            .encrypt(&nonce, Payload { msg, aad })
            .map_err(|_| SecretError::BadValue { limit: VALUE_LIMIT })?;
        Ok([nonce.as_slice(), &ciphertext].concat())
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("file", &self.vault).finish()
    }
}

/// Checks the seal over the whole text, then splits it into entries.
fn authenticate(cipher: &XChaCha20Poly1305, text: &[u8]) -> Option<Entries> {
    let text = std::str::from_utf8(text).ok()?;
    let start_of_seal = text.strip_suffix('\n')?.rfind('\n')? + 1;
    let (sealed_text, seal) = text.split_at_checked(start_of_seal)?;
    let seal = from_hex(seal.strip_prefix(SEAL)?.strip_suffix('\n')?)?;
    open(
        cipher,
        &[SEAL_DOMAIN, sealed_text.as_bytes()].concat(),
        &seal,
    )?;
    sealed_text
        .strip_prefix(TITLE)?
        .lines()
        .map(|line| {
            let (name, sealed) = line.split_once('\t')?;
            Some((name.to_owned(), from_hex(sealed)?))
        })
        .collect()
}

fn open(cipher: &XChaCha20Poly1305, aad: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, msg) = sealed.split_at_checked(NONCE_BYTES)?;
    let nonce = <&XNonce>::try_from(nonce).ok()?;
    cipher.decrypt(nonce, Payload { msg, aad }).ok()
}

/// Old or new, never in between: write beside, sync, rename over, sync the directory.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_added_extension("new");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

fn read_up_to(file: &mut File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

fn push_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            out.extend(char::from_digit(nibble.into(), 16));
        }
    }
}

/// Lowercase only: one spelling per value.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes()
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => Some(value(*high)? << 4 | value(*low)?),
            _ => None,
        })
        .collect()
}
