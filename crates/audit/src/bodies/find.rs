//! Finding a kept body again: the key files are the index.
//!
//! It must never write. A body that was torn by a power cut, or was changed since, is [`Body::Absent`]: its record still
//! stands, and says what the body's digest was.

use super::slot::{BODIES, Slot, bodies_path, part_number, slots, tag};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What is left of a call's redacted arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Kept {
        bytes: Vec<u8>,
        /// They were longer than [`BODY_LIMIT`](crate::BODY_LIMIT) and end there.
        cut: bool,
    },
    /// Its key was destroyed.
    Erased,
    /// None was kept, or its bytes did not survive.
    Absent,
}

impl Body {
    /// The bytes, if they are there.
    pub fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Body::Kept { bytes, .. } => Some(bytes),
            Body::Erased | Body::Absent => None,
        }
    }
}

/// The redacted arguments of one call. To look up many, open a [`Bodies`] once.
pub fn body(dir: &Path, call: &str) -> io::Result<Body> {
    Bodies::open(dir)?.get(call)
}

/// The kept bodies of a ledger as they were when this was opened.
#[derive(Debug)]
pub struct Bodies {
    dir: PathBuf,
    slots: HashMap<[u8; 16], (u64, Slot)>,
}

impl Bodies {
    /// Reads the key files of the ledger in `dir`.
    pub fn open(dir: &Path) -> io::Result<Bodies> {
        let mut bodies = Bodies {
            dir: dir.to_owned(),
            slots: HashMap::new(),
        };
        let mut parts: Vec<(u64, PathBuf)> = Vec::new();
        let entries = match std::fs::read_dir(dir.join(BODIES)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(bodies),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            let number = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(part_number);
            if let (Some(number), Some("keys")) =
                (number, path.extension().and_then(|e| e.to_str()))
            {
                parts.push((number, path));
            }
        }
        // In order, so that the newest body of a call is the one that is found.
        parts.sort_unstable();
        for (number, path) in parts {
            bodies
                .slots
                .extend(slots(&std::fs::read(path)?).map(|slot| (slot.tag, (number, slot))));
        }
        Ok(bodies)
    }

    pub fn get(&self, call: &str) -> io::Result<Body> {
        let Some((number, slot)) = self.slots.get(&tag(call)) else {
            return Ok(Body::Absent);
        };
        if slot.is_erased() {
            return Ok(Body::Erased);
        }
        let sealed = match self.sealed(*number, slot) {
            Ok(sealed) => sealed,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof
                ) =>
            {
                return Ok(Body::Absent);
            }
            Err(error) => return Err(error),
        };
        Ok(slot
            .unseal(call, sealed)
            .map_or(Body::Absent, |(bytes, cut)| Body::Kept { bytes, cut }))
    }

    /// The sealed bytes of a call's body, whose SHA-256 its record names, erased or not.
    pub fn sealed_bytes(&self, call: &str) -> io::Result<Option<Vec<u8>>> {
        self.slots
            .get(&tag(call))
            .map(|(number, slot)| self.sealed(*number, slot))
            .transpose()
    }

    fn sealed(&self, number: u64, slot: &Slot) -> io::Result<Vec<u8>> {
        let file = File::open(bodies_path(&self.dir, number))?;
        // A damaged slot must not ask for more than there is.
        let end = slot.place.saturating_add(u64::from(slot.length));
        if end > file.metadata()?.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut sealed = vec![0; slot.length as usize];
        file.read_exact_at(&mut sealed, slot.place)?;
        Ok(sealed)
    }
}
