//! Where verify finds its bytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Where a ledger's files are; a test has them in memory.
pub(crate) trait Files {
    fn names(&self) -> io::Result<Vec<PathBuf>>;
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>>;
    fn place(&self, name: &str) -> PathBuf;
}

pub(super) struct Folder<'a>(pub(super) &'a Path);

impl Files for Folder<'_> {
    fn names(&self) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(self.0)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }

    fn place(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

pub(super) fn read_if_there(files: &dyn Files, path: &Path) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    match files.open(path) {
        Ok(file) => file.take(1 << 16).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
