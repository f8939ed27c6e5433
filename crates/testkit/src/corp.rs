//! A company that signs its configuration, as `ssh-keygen -Y sign` would.

use std::{fs, io, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    digest,
    signature::{Ed25519KeyPair, KeyPair as _},
};

const NAMESPACE: &str = "portcullis-corp";

/// A key of the company's.
#[derive(Debug)]
pub struct Company {
    key: Ed25519KeyPair,
}

impl Company {
    /// The key of this number.
    ///
    /// # Errors
    /// Never: any 32 bytes are a seed.
    pub fn new(number: u8) -> anyhow::Result<Self> {
        let key = Ed25519KeyPair::from_seed_unchecked(&[number; 32])
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Self { key })
    }

    /// The line of the public key, as in a `.pub` file.
    #[must_use]
    pub fn public_line(&self) -> String {
        format!("ssh-ed25519 {} company\n", STANDARD.encode(self.public()))
    }

    fn public(&self) -> Vec<u8> {
        [
            string(b"ssh-ed25519"),
            string(self.key.public_key().as_ref()),
        ]
        .concat()
    }

    /// An armoured signature over a text.
    #[must_use]
    pub fn sign(&self, text: &str) -> String {
        let hash = digest::digest(&digest::SHA512, text.as_bytes());
        let signed = [
            b"SSHSIG".to_vec(),
            string(NAMESPACE.as_bytes()),
            string(b""),
            string(b"sha512"),
            string(hash.as_ref()),
        ]
        .concat();
        let signature = self.key.sign(&signed);
        let blob = [
            b"SSHSIG\0\0\0\x01".to_vec(),
            string(&self.public()),
            string(NAMESPACE.as_bytes()),
            string(b""),
            string(b"sha512"),
            string(&[string(b"ssh-ed25519"), string(signature.as_ref())].concat()),
        ]
        .concat();
        let encoded = STANDARD.encode(blob);
        let mut armoured = "-----BEGIN SSH SIGNATURE-----\n".to_owned();
        for line in encoded.as_bytes().chunks(70) {
            armoured.push_str(&String::from_utf8_lossy(line));
            armoured.push('\n');
        }
        armoured + "-----END SSH SIGNATURE-----\n"
    }

    /// Puts the company's files into a directory.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn install(&self, dir: &Path, text: &str) -> io::Result<()> {
        fs::write(dir.join("corp.keys"), self.public_line())?;
        fs::write(dir.join("corp.yaml"), text)?;
        fs::write(dir.join("corp.yaml.sig"), self.sign(text))
    }
}

fn string(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [length.to_be_bytes().as_slice(), bytes].concat()
}
