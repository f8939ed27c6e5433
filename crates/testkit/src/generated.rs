//! Files in the repository that are drawn from the code: compared by tests, rewritten when asked.

use std::{fs, path::Path};

/// Panics when the file at `path` (from the top of the repository) is not `text`. With `UPDATE_GENERATED` set it is written instead.
pub fn check(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        let parent = file.parent().map_or(Ok(()), fs::create_dir_all);
        let written = parent.and_then(|()| fs::write(&file, text));
        assert!(written.is_ok(), "{path}: {written:?}");
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "{path} is stale; run: cargo xtask codegen");
}
