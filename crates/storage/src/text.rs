//! Bytes of a file as text, and back: the encoding and the line ends stay what they were.

/// How a text is written in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    /// With a byte order mark before it.
    Utf8Marked,
    Utf16Little,
    Utf16Big,
    /// What is valid in no other encoding.
    Windows1252,
}

impl Encoding {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf8Marked => "utf-8-bom",
            Self::Utf16Little => "utf-16le",
            Self::Utf16Big => "utf-16be",
            Self::Windows1252 => "windows-1252",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) encoding: Encoding,
}

/// How far bytes are looked through for one that no text has.
const LOOKED_AT: usize = 8 << 10;

/// What bytes 0x80 to 0x9f stand for; the five that stand for nothing stay what they are.
const WINDOWS: [u16; 32] = [
    0x20ac, 0x81, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039,
    0x0152, 0x8d, 0x017d, 0x8f, 0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
    0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d, 0x017e, 0x0178,
];

impl Text {
    /// `None` for what is no text.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let of = |text, encoding| Some(Self { text, encoding });
        if let Some(rest) = bytes.strip_prefix(b"\xff\xfe") {
            return of(utf16(rest, u16::from_le_bytes)?, Encoding::Utf16Little);
        }
        if let Some(rest) = bytes.strip_prefix(b"\xfe\xff") {
            return of(utf16(rest, u16::from_be_bytes)?, Encoding::Utf16Big);
        }
        if is_binary(bytes) {
            return None;
        }
        if let Some(rest) = bytes.strip_prefix(b"\xef\xbb\xbf")
            && let Ok(text) = std::str::from_utf8(rest)
        {
            return of(text.to_owned(), Encoding::Utf8Marked);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => of(text.to_owned(), Encoding::Utf8),
            Err(_) => of(
                bytes.iter().copied().map(windows).collect(),
                Encoding::Windows1252,
            ),
        }
    }

    /// The bytes of another text in the same encoding; the character that it does not have, if there is one.
    pub(crate) fn encode(text: &str, encoding: Encoding) -> Result<Vec<u8>, char> {
        Ok(match encoding {
            Encoding::Utf8 => text.as_bytes().to_vec(),
            Encoding::Utf8Marked => [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            Encoding::Utf16Little => marked(0xfeff, text).flat_map(u16::to_le_bytes).collect(),
            Encoding::Utf16Big => marked(0xfeff, text).flat_map(u16::to_be_bytes).collect(),
            Encoding::Windows1252 => text.chars().map(unwindows).collect::<Result<_, _>>()?,
        })
    }
}

pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    let start = bytes.get(..LOOKED_AT).unwrap_or(bytes);
    memchr::memchr(0, start).is_some()
}

/// Which line ends a text has, if all of its lines end alike.
pub(crate) fn line_end(text: &str) -> &'static str {
    let all = text.matches('\n').count();
    match text.matches("\r\n").count() {
        0 => "lf",
        windows if windows == all => "crlf",
        _ => "mixed",
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    let text = char::decode_utf16(units)
        .collect::<Result<String, _>>()
        .ok()?;
    rest.is_empty().then_some(text)
}

fn marked(mark: u16, text: &str) -> impl Iterator<Item = u16> {
    std::iter::once(mark).chain(text.encode_utf16())
}

fn windows(byte: u8) -> char {
    let special = byte
        .checked_sub(0x80)
        .and_then(|index| WINDOWS.get(usize::from(index)));
    special
        .and_then(|code| char::from_u32((*code).into()))
        .unwrap_or(char::from(byte))
}

fn unwindows(c: char) -> Result<u8, char> {
    let code = u32::from(c);
    let special = WINDOWS
        .iter()
        .zip(0x80_u8..)
        .find(|(known, _)| u32::from(**known) == code);
    match (special, u8::try_from(code)) {
        (Some((_, byte)), _) => Ok(byte),
        (None, Ok(byte)) if !(0x80..0xa0).contains(&byte) => Ok(byte),
        _ => Err(c),
    }
}

/// What a file that is no text seems to be: its name for people, and its media type if it is a picture.
pub(crate) fn recognise(bytes: &[u8]) -> (&'static str, Option<&'static str>) {
    const KNOWN: &[(&[u8], &str, Option<&str>)] = &[
        (b"\x89PNG\r\n\x1a\n", "PNG", Some("image/png")),
        (b"\xff\xd8\xff", "JPEG", Some("image/jpeg")),
        (b"GIF8", "GIF", Some("image/gif")),
        (b"%PDF-", "PDF", None),
        (b"PK\x03\x04", "a ZIP archive", None),
        (b"\x1f\x8b", "gzip", None),
        (b"\x7fELF", "a program", None),
        (b"SQLite format 3", "an SQLite database", None),
    ];
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return ("WebP", Some("image/webp"));
    }
    let known = KNOWN.iter().find(|(start, ..)| bytes.starts_with(start));
    known.map_or(("binary", None), |(_, name, media)| (name, *media))
}
