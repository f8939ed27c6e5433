//! Signatures over files, as `ssh-keygen -Y sign` makes them, by Ed25519 keys.
//!
//! What the signature says of its own key is never followed: the key must be one of those handed in. Everything that is read has one form, so
//! no byte of a signature can change without its failing.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256, Sha512};

use crate::PublicKey;

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
const MAGIC: &[u8] = b"SSHSIG";
const KIND: &[u8] = b"ssh-ed25519";
/// One of ours has some 300.
const MOST_BYTES: usize = 4096;
/// As many signers as a company rotates through.
const MOST_KEYS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SshSigError {
    #[error("it is no signature of `ssh-keygen -Y sign`")]
    Malformed,
    #[error("it was made for another purpose; sign with `-n` and the namespace that is asked for")]
    Namespace,
    #[error("it is not by an Ed25519 key")]
    Kind,
    #[error("it is by a key that is not among the keys that may sign")]
    Stranger,
    #[error("it does not fit what was signed")]
    Wrong,
}

/// The keys of a file with a public key on each line, as `ssh-keygen` writes them or as in `allowed_signers`. A line that holds no Ed25519 key is
/// an error, by its number: a key that was meant to count must not be lost.
pub fn keys(text: &str) -> Result<Vec<PublicKey>, usize> {
    let mut keys = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = key_of(line).filter(|_| keys.len() < MOST_KEYS);
        keys.push(key.ok_or(index + 1)?);
    }
    Ok(keys)
}

fn key_of(line: &str) -> Option<PublicKey> {
    let mut words = line
        .split_whitespace()
        .skip_while(|word| *word != "ssh-ed25519");
    words.next()?;
    public(&STANDARD.decode(words.next()?).ok()?)
}

/// Whether one of the keys signed exactly these bytes for this purpose.
pub fn verify(
    signature: &str,
    message: &[u8],
    namespace: &str,
    keys: &[PublicKey],
) -> Result<(), SshSigError> {
    let blob = unarmoured(signature).ok_or(SshSigError::Malformed)?;
    let malformed = SshSigError::Malformed;
    let rest = blob.strip_prefix(MAGIC).ok_or(malformed)?;
    // The version, where a length would stand.
    let mut rest = rest.strip_prefix(&[0, 0, 0, 1]).ok_or(malformed)?;
    let key = string(&mut rest).ok_or(malformed)?;
    let purpose = string(&mut rest).ok_or(malformed)?;
    let reserved = string(&mut rest).ok_or(malformed)?;
    let hash = string(&mut rest).ok_or(malformed)?;
    let mut signed = string(&mut rest).ok_or(malformed)?;
    if !rest.is_empty() || !reserved.is_empty() {
        return Err(malformed);
    }
    if purpose != namespace.as_bytes() {
        return Err(SshSigError::Namespace);
    }
    let digest = match hash {
        b"sha512" => Sha512::digest(message).to_vec(),
        b"sha256" => Sha256::digest(message).to_vec(),
        _ => return Err(malformed),
    };
    let claimed = public(key).ok_or(SshSigError::Kind)?;
    let kind = string(&mut signed).ok_or(malformed)?;
    let bytes = string(&mut signed).ok_or(malformed)?;
    let bytes: &[u8; 64] = bytes.try_into().map_err(|_| SshSigError::Kind)?;
    if kind != KIND || !signed.is_empty() {
        return Err(SshSigError::Kind);
    }
    let key = keys.iter().find(|key| key.as_bytes() == claimed.as_bytes());
    let key = key.ok_or(SshSigError::Stranger)?;
    let mut input = MAGIC.to_vec();
    for part in [namespace.as_bytes(), &[], hash, &digest] {
        let length = u32::try_from(part.len()).map_err(|_| malformed)?;
        input.extend(length.to_be_bytes());
        input.extend(part);
    }
    match key.verifies_bytes(&input, bytes) {
        true => Ok(()),
        false => Err(SshSigError::Wrong),
    }
}

fn public(blob: &[u8]) -> Option<PublicKey> {
    let mut rest = blob;
    let kind = string(&mut rest)?;
    let key: &[u8; 32] = string(&mut rest)?.try_into().ok()?;
    (kind == KIND && rest.is_empty())
        .then(|| PublicKey::from_bytes(key).ok())
        .flatten()
}

/// The bytes between the two lines. `ssh-keygen` breaks them after 70 characters; no other form is taken.
fn unarmoured(text: &str) -> Option<Vec<u8>> {
    if text.len() > MOST_BYTES {
        return None;
    }
    let body = text.strip_prefix(BEGIN)?.strip_prefix('\n')?;
    let body = body.strip_suffix('\n').unwrap_or(body);
    let body = body.strip_suffix(END)?.strip_suffix('\n')?;
    let mut lines = body.split('\n').peekable();
    let mut whole = String::new();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        if line.is_empty() || line.len() > 70 || !is_last && line.len() != 70 {
            return None;
        }
        whole.push_str(line);
    }
    STANDARD.decode(whole).ok()
}

/// A text with its length before it.
fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (text, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made by OpenSSH: `ssh-keygen -t ed25519`, `ssh-keygen -Y sign -n portcullis-corp`.
    const KEY: &str = include_str!("sshsig/key.pub");
    const SIGNATURE: &str = include_str!("sshsig/corp.yaml.sig");
    const SIGNED: &[u8] = include_bytes!("sshsig/corp.yaml");
    const NAMESPACE: &str = "portcullis-corp";

    #[test]
    fn what_ssh_keygen_signed_is_verified() {
        let keys = keys(KEY).unwrap();
        assert_eq!(verify(SIGNATURE, SIGNED, NAMESPACE, &keys), Ok(()));
        let listed = super::keys(&format!("# who signs\n\nada@example.com {KEY}")).unwrap();
        assert_eq!(verify(SIGNATURE, SIGNED, NAMESPACE, &listed), Ok(()));
        assert_eq!(
            verify(SIGNATURE, SIGNED, "file", &keys),
            Err(SshSigError::Namespace)
        );
        assert_eq!(
            verify(SIGNATURE, SIGNED, NAMESPACE, &[]),
            Err(SshSigError::Stranger)
        );
        assert_eq!(super::keys("ssh-rsa AAAA\n").unwrap_err(), 1);
    }

    #[test]
    fn every_changed_byte_of_either_is_refused() {
        let keys = keys(KEY).unwrap();
        for at in 0..SIGNED.len() {
            let mut other = SIGNED.to_vec();
            other[at] ^= 1;
            assert_eq!(
                verify(SIGNATURE, &other, NAMESPACE, &keys),
                Err(SshSigError::Wrong)
            );
        }
        for at in 0..SIGNATURE.len() {
            for bit in 0..7 {
                let mut other = SIGNATURE.as_bytes().to_vec();
                other[at] ^= 1 << bit;
                let Ok(other) = String::from_utf8(other) else {
                    continue;
                };
                assert!(
                    verify(&other, SIGNED, NAMESPACE, &keys).is_err(),
                    "byte {at}, bit {bit}"
                );
            }
        }
    }
}
