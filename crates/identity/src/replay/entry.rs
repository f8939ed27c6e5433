//! One line of the replay journal: 64 bytes with a check of their own, so that a torn or changed one is noticed.

use sha2::{Digest, Sha256};

/// What is written down. An entry without a digest moves a horizon: that of a session, or that of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub(super) digest: [u8; 32],
    pub(super) session: [u8; 16],
    pub(super) seconds: u64,
}

const NONE: [u8; 32] = [0; 32];
const ALL_SESSIONS: [u8; 16] = [0; 16];

impl Entry {
    pub const LEN: usize = 64;

    pub(super) const fn spent(session: [u8; 16], digest: [u8; 32], seconds: u64) -> Self {
        Self {
            digest,
            session,
            seconds,
        }
    }

    /// A session was used at this second.
    pub(super) const fn newest(session: [u8; 16], seconds: u64) -> Self {
        Self {
            digest: NONE,
            session,
            seconds,
        }
    }

    pub(super) const fn floor(seconds: u64) -> Self {
        Self {
            digest: NONE,
            session: ALL_SESSIONS,
            seconds,
        }
    }

    pub(super) fn is_floor(&self) -> bool {
        !self.is_spent() && self.session == ALL_SESSIONS
    }

    pub(super) fn is_spent(&self) -> bool {
        self.digest != NONE
    }

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let content = self
            .digest
            .iter()
            .chain(&self.session)
            .copied()
            .chain(self.seconds.to_le_bytes());
        bytes
            .iter_mut()
            .zip(content)
            .for_each(|(place, byte)| *place = byte);
        let check = check(&bytes);
        bytes
            .iter_mut()
            .skip(56)
            .zip(check)
            .for_each(|(place, byte)| *place = byte);
        bytes
    }

    /// Reads an entry; `None` if it is not one that was written.
    #[must_use]
    pub fn read(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let (digest, rest) = bytes.split_first_chunk()?;
        let (session, rest) = rest.split_first_chunk()?;
        let (seconds, written) = rest.split_first_chunk()?;
        (written == check(bytes)).then(|| Self {
            digest: *digest,
            session: *session,
            seconds: u64::from_le_bytes(*seconds),
        })
    }
}

/// The check over everything before it.
fn check(bytes: &[u8; Entry::LEN]) -> [u8; 8] {
    let content = bytes.get(..56).unwrap_or_default();
    let digest: [u8; 32] = Sha256::new()
        .chain_update(b"portcullis replay 1")
        .chain_update(content)
        .finalize()
        .into();
    digest.first_chunk().copied().unwrap_or_default()
}

/// A session as entries name it.
pub(super) fn session_key(session: &str) -> [u8; 16] {
    let digest: [u8; 32] = Sha256::digest(session.as_bytes()).into();
    digest.first_chunk().copied().unwrap_or_default()
}
