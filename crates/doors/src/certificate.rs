//! Clients' certificates: whom they name, who signed them, and until when they hold.
//!
//! Names are alternative names, which the verifier reads strictly; the subject is never looked at. A caller's id is made of the key of the
//! authority that vouches and the name it vouches for, so a renewed certificate is the same caller.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::digest;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use crate::{CertificateCaller, ClientSpec, Name};

/// A certificate that was shown and is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Of whoever is named; the same for every certificate of theirs. `None`: nobody whom the door's list names.
    pub caller: Option<(String, CertificateCaller)>,
    /// Whether the door's list, if it has one, names nobody of this certificate.
    pub is_stranger: bool,
    /// SHA-256 of the certificate, in hex.
    pub fingerprint: String,
    /// What to show of it.
    pub shown: String,
    /// Whether it makes a caller by itself.
    pub is_identity: bool,
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Reads a chain that TLS has verified. The anchor is looked for again, because TLS does not say which one it was.
pub(crate) fn read(
    chain: &[CertificateDer<'_>],
    anchors: &[TrustAnchor<'static>],
    spec: &ClientSpec,
    is_identity: bool,
) -> Option<Known> {
    let (first, rest) = chain.split_first()?;
    let leaf = EndEntityCert::try_from(first).ok()?;
    let path = leaf
        .verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            anchors,
            rest,
            UnixTime::now(),
            KeyUsage::client_auth(),
            None,
            None,
        )
        .ok()?;
    let authority = sha256(&path.anchor().subject_public_key_info);
    let authority = authority.get(..16).unwrap_or_default();
    let fingerprint = sha256(first);
    let dns: Vec<&str> = leaf.valid_dns_names().collect();
    let uris: Vec<&str> = leaf.valid_uri_names().collect();
    let found = spec.callers.iter().find_map(|caller| {
        let name = match &caller.name {
            Name::Dns(wanted) => dns
                .iter()
                .find(|name| name.eq_ignore_ascii_case(wanted))
                .map(|name| name.to_ascii_lowercase()),
            Name::Uri(wanted) => uris
                .iter()
                .find(|name| fits(name, wanted))
                .map(|name| (*name).to_owned()),
            Name::Fingerprint(wanted) => {
                (*wanted == fingerprint).then(|| format!("sha256:{fingerprint}"))
            }
        };
        let name = name.filter(|name| name.chars().all(|c| c.is_ascii_graphic()))?;
        Some((format!("cert:{authority}:{name}"), caller.clone()))
    });
    let shown = uris.first().or(dns.first()).map_or_else(
        || fingerprint.clone(),
        |name| {
            name.chars()
                .filter(|c| c.is_ascii_graphic())
                .take(200)
                .collect()
        },
    );
    Some(Known {
        is_stranger: found.is_none() && !spec.callers.is_empty(),
        caller: found,
        fingerprint,
        shown,
        is_identity,
    })
}

/// Exactly, or beneath what ends in `/*`. A path that could mean another place beneath it is none.
fn fits(name: &str, wanted: &str) -> bool {
    match wanted.strip_suffix("/*") {
        Some(parent) => name
            .strip_prefix(parent)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|rest| {
                !rest.is_empty() && !rest.split('/').any(|part| matches!(part, "" | "." | ".."))
            }),
        None => name == wanted,
    }
}

/// From when until when a certificate holds.
pub(crate) fn validity(certificate: &CertificateDer<'_>) -> Option<(SystemTime, SystemTime)> {
    let (certificate, _) = element(certificate, 0x30)?;
    let (mut rest, _) = element(certificate, 0x30)?;
    // Version, if it is said; serial number, algorithm, issuer.
    if let Some((_, after)) = element(rest, 0xa0) {
        rest = after;
    }
    for tag in [0x02, 0x30, 0x30] {
        rest = element(rest, tag)?.1;
    }
    let (validity, _) = element(rest, 0x30)?;
    let (from, rest) = time(validity)?;
    Some((from, time(rest)?.0))
}

/// One element of DER with this tag: what it holds, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81..=0x83 => {
            let count = usize::from(length & 0x7f);
            let (digits, rest) = rest.split_at_checked(count)?;
            let length = digits
                .iter()
                .fold(0, |length, digit| (length << 8) | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    (*first == tag).then(|| rest.split_at_checked(length))?
}

fn time(bytes: &[u8]) -> Option<(SystemTime, &[u8])> {
    let (text, rest, year_digits) = match element(bytes, 0x17) {
        Some((text, rest)) => (text, rest, 2),
        None => {
            let (text, rest) = element(bytes, 0x18)?;
            (text, rest, 4)
        }
    };
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest_of) = text.split_at_checked(year_digits)?;
    let number = |at: usize| rest_of.get(at..at + 2)?.parse::<i64>().ok();
    let year: i64 = match (year.parse().ok()?, year_digits) {
        (short, 2) if short >= 50 => 1900 + short,
        (short, 2) => 2000 + short,
        (year, _) => year,
    };
    let (month, day) = (number(0)?, number(2)?);
    // Days since 1970, as the civil calendar counts them.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let seconds = days * 86_400 + number(4)? * 3600 + number(6)? * 60 + number(8)?;
    let span = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    Some((UNIX_EPOCH + span, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beneath_a_name_is_told_from_what_only_looks_so() {
        assert!(fits("spiffe://a/ns/x", "spiffe://a/ns/*"));
        assert!(fits("spiffe://a/ns/x/y", "spiffe://a/ns/*"));
        for other in [
            "spiffe://a/ns",
            "spiffe://a/ns/",
            "spiffe://a/nsx",
            "spiffe://a/ns/../b",
            "spiffe://a/ns//b",
        ] {
            assert!(!fits(other, "spiffe://a/ns/*"), "{other}");
        }
        assert!(fits("spiffe://a/b", "spiffe://a/b") && !fits("spiffe://a/B", "spiffe://a/b"));
    }

    #[test]
    fn times_are_read_as_the_calendar_has_them() {
        let read = |tag: u8, text: &str| {
            let mut der = vec![tag, u8::try_from(text.len()).unwrap()];
            der.extend(text.bytes());
            let (at, _) = time(&der).unwrap();
            at.duration_since(UNIX_EPOCH).unwrap().as_secs()
        };
        assert_eq!(read(0x17, "700101000000Z"), 0);
        assert_eq!(read(0x17, "261118190000Z"), 1_795_028_400);
        assert_eq!(read(0x18, "20240229120000Z"), 1_709_208_000);
        assert_eq!(read(0x18, "20991231235959Z"), 4_102_444_799);
    }
}
