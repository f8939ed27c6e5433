//! What names a file to who mounted a volume: 64 bytes that only this gate can make.
//!
//! Which mount, which volume, which file, the moment of the file's birth, and a keyed digest of these. Nothing else is kept of a handle, so
//! it holds for as long as the file and the gate's key do.
//!
//! **Invariant: a handle that this gate did not make for this mount leads nowhere.** Tests `no_forged_handle_is_taken`,
//! `a_handle_of_another_mount_is_refused_and_told`.

use storage::FileId;

pub const HANDLE_BYTES: usize = 64;
const SIGNED: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) mount: [u8; 16],
    pub(super) volume: [u8; 16],
    pub(super) file: FileId,
}

/// A name for this purpose that nobody can choose.
pub(super) fn id(purpose: &str, name: &str) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key(purpose);
    hasher.update(name.as_bytes());
    let mut id = [0; 16];
    hasher.finalize_xof().fill(&mut id);
    id
}

impl Named {
    pub(super) fn write(&self, key: &[u8; 32]) -> [u8; HANDLE_BYTES] {
        let mut out = [0; HANDLE_BYTES];
        let parts: [&[u8]; 4] = [
            &self.mount,
            &self.volume,
            &self.file.inode.to_be_bytes(),
            &self.file.birth.to_be_bytes(),
        ];
        let mut all = parts.concat();
        let digest = digest(key, &all);
        all.extend_from_slice(&digest);
        for (to, from) in out.iter_mut().zip(all) {
            *to = from;
        }
        out
    }

    /// `None`: this gate did not make it.
    pub(super) fn read(key: &[u8; 32], bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HANDLE_BYTES] = bytes.try_into().ok()?;
        let (signed, given) = bytes.split_at_checked(SIGNED)?;
        let expected = digest(key, signed);
        // Every byte is looked at, so that time tells nothing.
        let differs = expected
            .iter()
            .zip(given)
            .fold(0, |differs, (one, two)| differs | (one ^ two));
        if differs != 0 {
            return None;
        }
        let (mount, rest) = signed.split_first_chunk::<16>()?;
        let (volume, rest) = rest.split_first_chunk::<16>()?;
        let (inode, birth) = rest.split_first_chunk::<8>()?;
        Some(Self {
            mount: *mount,
            volume: *volume,
            file: FileId {
                inode: u64::from_be_bytes(*inode),
                birth: u64::from_be_bytes(birth.try_into().ok()?),
            },
        })
    }
}

fn digest(key: &[u8; 32], signed: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(signed);
    let mut digest = [0; 16];
    hasher.finalize_xof().fill(&mut digest);
    digest
}

#[cfg(test)]
mod tests {
    use storage::FileId;

    use super::{HANDLE_BYTES, Named, id};

    #[test]
    fn no_forged_handle_is_taken() {
        let key = [7; 32];
        let named = Named {
            mount: id("a", "one"),
            volume: id("b", "two"),
            file: FileId {
                inode: 12,
                birth: 99,
            },
        };
        let made = named.write(&key);
        assert_eq!(Named::read(&key, &made), Some(named));
        assert_eq!(Named::read(&[8; 32], &made), None);
        for bit in 0..HANDLE_BYTES * 8 {
            let mut forged = made;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Named::read(&key, &forged), None, "bit {bit}");
        }
        for length in 0..HANDLE_BYTES {
            assert_eq!(Named::read(&key, &made[..length]), None);
        }
        // A hundred thousand guesses, each with another tail.
        let mut forged = made;
        for guess in 0_u128..100_000 {
            let tail = guess.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            forged[48..].copy_from_slice(&tail.to_be_bytes());
            assert!(forged == made || Named::read(&key, &forged).is_none());
        }
    }
}
