//! The normal form of a value: two spellings of one thing have one form, and two things never do.
//!
//! Equal are spellings that mean the same to whoever acts on them: case of hosts and addresses, `mailto:`, a trailing dot, a host in
//! Unicode or in ASCII, percent encoding of plain characters, spaces in phone numbers and account numbers, separators in amounts.
//! Look-alikes are never equal: an address with a Cyrillic letter is another address. They are only told apart in words, by [`look`].

use core::net::Ipv4Addr;

use wire::letters;

/// What kind of thing a value is. Values of different classes are never equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Class {
    Address = 1,
    /// A link, a host, or a file name that could be one.
    Link,
    Phone,
    Iban,
    Number,
    Moment,
    Path,
    /// Anything else: the text itself, in lower case, with one space for any white space.
    Phrase,
    /// The words of a name alone. No text is read as one; it is noted beside what was read.
    Words,
}

impl Class {
    pub(crate) const LAST: Self = Self::Words;

    /// Whether it says where something goes or who gets it.
    pub(crate) const fn is_address(self) -> bool {
        matches!(self, Self::Address | Self::Link | Self::Phone | Self::Iban)
    }
}

/// A value in normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) class: Class,
    pub(crate) text: String,
}

impl Form {
    pub(crate) fn new(class: Class, text: impl Into<String>) -> Self {
        Self {
            class,
            text: text.into(),
        }
    }
}

/// What a whole text is, when it stands alone: an argument, or a field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reading {
    Empty,
    /// One value, or several of a list.
    Values(Vec<Form>),
    /// It holds characters that nobody sees, goes up in a path, or is too long: never equal to anything.
    Odd,
}

/// The longest text that is one value.
pub(crate) const MAX_VALUE: usize = 1024;
/// The most values of one list.
const MAX_LIST: usize = 64;

/// Reads a text that stands alone.
pub(crate) fn read(text: &str) -> Reading {
    let text = text.trim();
    if text.is_empty() {
        return Reading::Empty;
    }
    if text.len() > MAX_VALUE || text.chars().any(letters::is_invisible) {
        return Reading::Odd;
    }
    if let Some(list) = addresses(text) {
        return Reading::Values(list);
    }
    match one(text) {
        Some(form) => Reading::Values(vec![form]),
        None => Reading::Odd,
    }
}

/// The one value that a text is; nothing for a text that is none.
pub(crate) fn one(text: &str) -> Option<Form> {
    if let Some(moment) = moment(text) {
        return Some(Form::new(Class::Moment, moment));
    }
    if let Some(number) = Number::read(text) {
        return Some(Form::new(Class::Number, number.text()));
    }
    if let Some(path) = path(text) {
        return path.map(|path| Form::new(Class::Path, path));
    }
    if let Some(link) = link(text) {
        return Some(Form::new(Class::Link, link));
    }
    if let Some(iban) = iban(text) {
        return Some(Form::new(Class::Iban, iban));
    }
    if let Some(phone) = phone(text) {
        return Some(Form::new(Class::Phone, phone));
    }
    words(text)
        .next()
        .map(|_| Form::new(Class::Phrase, literal(text)))
}

/// A text as it is compared where each sign counts: `rm -rf build ~` is not `rm -rf build`. The `#` of a channel is left out.
fn literal(text: &str) -> String {
    let bare = text
        .strip_prefix('#')
        .filter(|rest| rest.starts_with(char::is_alphabetic));
    let tokens: Vec<String> = bare
        .unwrap_or(text)
        .split_whitespace()
        .map(str::to_lowercase)
        .collect();
    tokens.join(" ")
}

/// The words of a name, as names are compared.
pub(crate) fn name(text: &str) -> Form {
    let words: Vec<String> = words(text).collect();
    Form::new(Class::Words, words.join(" "))
}

/// The addresses of a list in which everything is an address.
fn addresses(text: &str) -> Option<Vec<Form>> {
    let mut list = Vec::new();
    for part in text.split([',', ';', '\n']).map(str::trim) {
        if !part.is_empty() {
            list.push(Form::new(Class::Address, address(part)?));
        }
    }
    (1..=MAX_LIST).contains(&list.len()).then_some(list)
}

/// A mail address, without the name in front of it.
pub(crate) fn address(text: &str) -> Option<String> {
    let text = text.trim().trim_matches(['"', '\'']);
    let bare = match text
        .strip_suffix('>')
        .and_then(|rest| rest.rsplit_once('<'))
    {
        // A name that is itself an address shows one person and reaches another.
        Some((name, _)) if name.contains('@') => return None,
        Some((_, bare)) => bare,
        None => text,
    };
    let bare = strip_prefix(bare.trim(), "mailto:").unwrap_or(bare.trim());
    let (local, domain) = bare.split_once('@')?;
    let is_plain =
        |c: char| !c.is_whitespace() && !c.is_control() && !"()<>[],;:\\\"@?%/&".contains(c);
    if local.is_empty() || local.len() > 64 || !local.chars().all(is_plain) {
        return None;
    }
    Some(format!("{}@{}", local.to_lowercase(), host(domain)?))
}

/// A host in its ASCII form.
fn host(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.is_empty() || text.contains(['%', '@', '/', '\\', ':', ' ']) {
        return None;
    }
    url::Host::parse(text).ok().map(|host| host.to_string())
}

/// A link or a host. The scheme of the web is left out: who says `example.com` says `https://example.com/`.
pub(crate) fn link(text: &str) -> Option<String> {
    let text = text.trim_matches(['<', '>']);
    if text.contains(char::is_whitespace) {
        return None;
    }
    let has_scheme = text
        .split_once("://")
        .is_some_and(|(scheme, _)| is_scheme(scheme));
    let is_opaque = [
        "javascript:",
        "data:",
        "tel:",
        "sms:",
        "mailto:",
        "file:",
        "ftp:",
    ]
    .iter()
    .any(|scheme| strip_prefix(text, scheme).is_some());
    let url = if has_scheme || is_opaque {
        url::Url::parse(text).ok()?
    } else if let Some(rest) = text.strip_prefix("//") {
        url::Url::parse(&format!("https://{rest}")).ok()?
    } else if is_domain_like(text) {
        url::Url::parse(&format!("https://{text}")).ok()?
    } else {
        return None;
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Some(url.as_str().to_owned());
    }
    let mut link = String::from("//");
    if !url.username().is_empty() || url.password().is_some() {
        link.push_str(url.username());
        link.push(':');
        link.push_str(url.password().unwrap_or_default());
        link.push('@');
    }
    let host = url.host_str()?;
    link.push_str(host.strip_suffix('.').unwrap_or(host));
    if let Some(port) = url.port() {
        link.push_str(&format!(":{port}"));
    } else if !has_scheme && let Some(port) = written_port(text) {
        // Only a scheme says which port goes without saying: `notes.txt:443` is not `notes.txt`.
        link.push_str(&format!(":{port}"));
    }
    link.push_str(&plain_percent(url.path()));
    if let Some(query) = url.query() {
        link.push('?');
        link.push_str(&plain_percent(query));
    }
    if let Some(fragment) = url.fragment() {
        link.push('#');
        link.push_str(fragment);
    }
    Some(link)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Whether a text without a scheme begins with what could be a host: `example.com/page`, `10.0.0.1:80`, and also `notes.txt`.
pub(crate) fn is_domain_like(text: &str) -> bool {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let authority = text.get(..end).unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) => host,
        Some(_) => return false,
        None => authority,
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.parse::<Ipv4Addr>().is_ok() {
        return true;
    }
    let Some((front, last)) = host.rsplit_once('.') else {
        return false;
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .chars()
                .all(|c| c.is_alphanumeric() || c == '-' || c == '_')
    };
    front.split('.').all(is_label)
        && last.chars().count() >= 2
        && (last.chars().all(char::is_alphabetic) || last.starts_with("xn--"))
}

/// The port in a text without a scheme, as it is written there.
fn written_port(text: &str) -> Option<&str> {
    let text = text.trim_start_matches('/');
    let authority = text.split(['/', '?', '#']).next()?;
    authority.rsplit_once(':').map(|(_, port)| port)
}

/// Percent encoding only where it is needed, in one spelling.
fn plain_percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let code = after
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let Some(code) = code else {
            out.push('%');
            rest = after;
            continue;
        };
        match char::from(code) {
            c if c.is_ascii_alphanumeric() || "-._~".contains(c) => out.push(c),
            _ => out.push_str(&format!("%{code:02X}")),
        }
        rest = after.get(2..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// A path of files. `None`: it is none; `Some(None)`: it is one that goes up, which is never equal to anything.
#[expect(
    clippy::option_option,
    reason = "no path, a path that cannot be compared, and a path are three things"
)]
fn path(text: &str) -> Option<Option<String>> {
    let text = strip_prefix(text, "file://").unwrap_or(text);
    if is_astray(text) {
        return Some(None);
    }
    let is_drive =
        matches!(text.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    let begins = ["/", "~/", "./", "../"]
        .iter()
        .any(|start| text.starts_with(start));
    let is_inner = text.contains('/')
        && !text.contains(char::is_whitespace)
        && !text.contains("://")
        && !is_domain_like(text);
    if text.starts_with("//") || !(is_drive || begins || is_inner) {
        return None;
    }
    let slashed = if is_drive {
        text.replace('\\', "/")
    } else {
        text.to_owned()
    };
    let mut out = String::new();
    if slashed.starts_with('/') {
        out.push('/');
    }
    for part in slashed.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if goes_up(part) {
            return Some(None);
        }
        if !out.is_empty() && !out.ends_with('/') {
            out.push('/');
        }
        out.push_str(part);
    }
    Some((!out.is_empty()).then_some(out))
}

fn goes_up(part: &str) -> bool {
    plain_percent(part) == ".."
}

/// Whether a text goes up in a path, or begins like a path and like a host at once. Asked before a text is taken for a link, because a
/// link forgets where it went up: `notes.txt/../../etc` must not be `notes.txt/etc`.
fn is_astray(text: &str) -> bool {
    if text.contains(char::is_whitespace) || text.contains("://") {
        return false;
    }
    let could_be_host = is_domain_like(text);
    let is_astray = |part: &str| goes_up(part) || could_be_host && plain_percent(part) == ".";
    text.starts_with("//") || text.contains('/') && text.split(['/', '\\']).any(is_astray)
}

/// An international account number, by its own check digits.
pub(crate) fn iban(text: &str) -> Option<String> {
    let packed: String = text
        .chars()
        .filter(|c| !matches!(c, ' ' | '-'))
        .map(|c| c.to_ascii_uppercase())
        .collect();
    let [a, b, c, d, ..] = packed.as_bytes() else {
        return None;
    };
    let begins = a.is_ascii_uppercase()
        && b.is_ascii_uppercase()
        && c.is_ascii_digit()
        && d.is_ascii_digit();
    if !begins
        || !(15..=34).contains(&packed.len())
        || !packed.bytes().all(|c| c.is_ascii_alphanumeric())
    {
        return None;
    }
    let turned = packed.bytes().skip(4).chain(packed.bytes().take(4));
    let rest = turned.fold(0u32, |rest, byte| match byte {
        b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
        _ => (rest * 100 + u32::from(byte - b'A') + 10) % 97,
    });
    (rest == 1).then_some(packed)
}

/// A phone number that is written as one: with a plus, two zeros, or separators.
pub(crate) fn phone(text: &str) -> Option<String> {
    let text = strip_prefix(text, "tel:").unwrap_or(text).trim();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let is_only = text.chars().all(|c| {
        c.is_ascii_digit() || matches!(c, '+' | ' ' | '-' | '(' | ')' | '.' | '/' | '\u{a0}')
    });
    let is_marked = text.starts_with('+')
        || text.starts_with("00")
        || text.contains([' ', '-', '(', '.', '/', '\u{a0}']);
    if !is_only
        || !is_marked
        || !(7..=15).contains(&digits.len())
        || text.rfind('+').is_some_and(|at| at > 0)
    {
        return None;
    }
    Some(match digits.strip_prefix("00") {
        Some(rest) => format!("+{rest}"),
        None if text.starts_with('+') => format!("+{digits}"),
        None => digits,
    })
}

/// A date, a time, or both, as programs write them.
pub(crate) fn moment(text: &str) -> Option<String> {
    let text = text.trim();
    let is_only = text.chars().all(|c| {
        c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | '/' | ' ' | 'T' | 't' | 'Z' | 'z' | '+')
    });
    let count = |of: char| text.matches(of).count();
    let begins = |digits: usize, then: char| {
        let (head, rest) = (text.chars().take(digits), text.chars().nth(digits));
        head.filter(char::is_ascii_digit).count() == digits && rest == Some(then)
    };
    let is_date = begins(4, '-') && count('-') >= 2;
    let is_time = (begins(2, ':') || begins(1, ':')) && text.len() <= 14;
    let is_local = (1..=2).any(|digits| {
        begins(digits, '.') && count('.') == 2 || begins(digits, '/') && count('/') == 2
    });
    let fits = is_only && text.len() <= 35 && (is_date || is_time || is_local);
    fits.then(|| text.to_lowercase().replace('t', " "))
}

/// An amount, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    /// In hundred-thousandths.
    pub(crate) scaled: i128,
    pub(crate) has_currency: bool,
}

const SCALE: i128 = 100_000;
const CURRENCIES: [&str; 14] = [
    "$", "€", "£", "¥", "₹", "eur", "usd", "gbp", "chf", "jpy", "inr", "euro", "euros", "dollars",
];

impl Number {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut text = text.trim();
        let mut has_currency = false;
        for currency in CURRENCIES {
            let stripped = strip_prefix(text, currency).or_else(|| strip_suffix(text, currency));
            if let Some(rest) = stripped {
                (text, has_currency) = (rest.trim(), true);
                break;
            }
        }
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let plain = without_groups(digits)?;
        let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
        let fraction = fraction.trim_end_matches('0');
        if whole.is_empty() || whole.len() > 24 || fraction.len() > 5 {
            return None;
        }
        let whole: i128 = whole.parse().ok()?;
        let fraction: i128 = format!("{fraction:0<5}").parse().ok()?;
        let scaled = whole * SCALE + fraction;
        Some(Self {
            scaled: if is_negative { -scaled } else { scaled },
            has_currency,
        })
    }

    pub(crate) fn text(self) -> String {
        self.scaled.to_string()
    }
}

/// The digits of a number, with a point and without what groups them. The last separator is the point where both kinds occur; a
/// comma before exactly three digits groups, as English and JSON have it, and one point is a point.
fn without_groups(text: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number(text) {
        return Some(text.to_owned());
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let last = text.rfind([',', '.'])?;
    let (before, after) = (text.get(..last)?, text.get(last + 1..)?);
    let other = if text.get(last..=last)? == "," {
        '.'
    } else {
        ','
    };
    let groups = |text: &str, by: &[char]| {
        let mut parts = text.split(by);
        let first = parts
            .next()
            .is_some_and(|part| is_number(part) && part.len() <= 3);
        first && parts.all(|part| is_number(part) && part.len() == 3)
    };
    let by = [',', '.', ' ', '\'', '\u{a0}'];
    let is_grouping = other == '.' && after.len() == 3 && groups(text, &[',']);
    if is_grouping {
        return Some(text.replace(',', ""));
    }
    if !is_number(after) {
        return None;
    }
    if is_number(before) {
        return Some(format!("{before}.{after}"));
    }
    let grouped = before.contains(other) && !before.contains(if other == '.' { ',' } else { '.' });
    (grouped && groups(before, &[other])).then(|| format!("{}.{after}", before.replace(by, "")))
}

/// The words of a text, in lower case; [`BREAK`] where the text makes a pause. `#7` is read as `id 7`.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = text;
    let mut is_at_break = true;
    let mut has_counted = false;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(|c: char| c.is_alphanumeric())?;
            let between = rest.get(..start).unwrap_or_default();
            if !is_at_break && between.contains(PAUSES) {
                is_at_break = true;
                return Some(BREAK.to_owned());
            }
            let word = rest.get(start..).unwrap_or_default();
            is_at_break = false;
            if between.ends_with('#')
                && word.starts_with(|c: char| c.is_ascii_digit())
                && !has_counted
            {
                has_counted = true;
                // Nothing before the number is looked at a second time.
                is_at_break = true;
                return Some("id".to_owned());
            }
            has_counted = false;
            let end = word
                .find(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’')))
                .unwrap_or(word.len());
            rest = word.get(end..).unwrap_or_default();
            let word: String = word
                .chars()
                .take_while(|c| c.is_alphanumeric() || matches!(c, '\'' | '’'))
                .filter(|c| c.is_alphanumeric())
                .flat_map(char::to_lowercase)
                .collect();
            if !word.is_empty() {
                return Some(word);
            }
        }
    })
}

/// Stands between words that a pause separates: what is on its two sides was not said in one breath.
pub(crate) const BREAK: &str = "|";
const PAUSES: [char; 9] = ['.', ',', ';', ':', '!', '?', '\n', '(', ')'];

/// How a value looks to somebody who does not look closely: no accents, no case, and one sign for each group of look-alikes.
pub(crate) fn look(text: &str) -> String {
    let plain = text
        .chars()
        .filter(|c| !letters::is_invisible(*c))
        .map(|c| match letters::plain(c).to_ascii_lowercase() {
            '0' => 'o',
            '1' | 'i' | '|' => 'l',
            '5' => 's',
            c => c,
        })
        .filter(|c| c.is_alphanumeric());
    plain
        .collect::<String>()
        .replace("rn", "m")
        .replace("vv", "w")
}

/// Cuts a prefix off whatever its case.
pub(crate) fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix)
        .then(|| text.get(prefix.len()..))?
}

fn strip_suffix<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let at = text.len().checked_sub(suffix.len())?;
    let tail = text.get(at..)?;
    tail.eq_ignore_ascii_case(suffix).then(|| text.get(..at))?
}
