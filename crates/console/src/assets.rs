//! The files that pages name: a style sheet, two scripts and an icon. Each address has the digest of its content, so that it can be kept for
//! ever and is never stale.

use std::{io::Write as _, sync::LazyLock};

use flate2::{Compression, write::GzEncoder};

/// A file as it is served.
#[derive(Debug)]
pub struct Asset {
    /// `/assets/NAME.DIGEST.css`.
    pub path: String,
    pub kind: &'static str,
    pub text: &'static [u8],
    pub gzip: Vec<u8>,
}

const FILES: [(&str, &str, &str, &[u8]); 4] = [
    (
        "console",
        "css",
        "text/css; charset=utf-8",
        include_bytes!("../assets/console.css"),
    ),
    (
        "console",
        "js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/console.js"),
    ),
    (
        "login",
        "js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/login.js"),
    ),
    (
        "icon",
        "svg",
        "image/svg+xml",
        include_bytes!("../assets/icon.svg"),
    ),
];

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let made = FILES.iter().map(|(name, ending, kind, text)| {
        let digest = blake3::hash(text).to_hex();
        Asset {
            path: format!(
                "/assets/{name}.{}.{ending}",
                &digest.as_str().get(..12).unwrap_or_default()
            ),
            kind,
            text,
            gzip: gzip(text),
        }
    });
    made.collect()
});

/// The file at a path.
#[must_use]
pub fn at(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// Where a file is, for a page that names it.
pub(crate) fn path(name: &str, ending: &str) -> &'static str {
    let begins = format!("/assets/{name}.");
    ASSETS
        .iter()
        .find(|asset| asset.path.starts_with(&begins) && asset.path.ends_with(ending))
        .map_or("", |asset| asset.path.as_str())
}

/// A text as browsers take it. Writing to memory does not fail; if it did, there would be nothing to send.
pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    let written = encoder.write_all(text).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}
