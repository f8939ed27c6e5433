//! How far inside an address is: what a stranger's document may make us connect to.
//!
//! **Invariant: an address that a server names leads nowhere its reader did not allow.** It is judged on the socket address that is then
//! connected to, so a name that resolves elsewhere the second time gains nothing. Tests `every_spelling_of_an_inner_address_is_known`,
//! `what_is_beyond_reach_is_never_connected_to`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The innermost address that may be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    Public,
    /// Private networks too.
    Private,
    /// This machine, and what only its own link knows, too.
    Anywhere,
}

impl Reach {
    pub(crate) fn read(text: &str) -> Option<Self> {
        Some(match text {
            "public" => Self::Public,
            "private" => Self::Private,
            "anywhere" => Self::Anywhere,
            _ => return None,
        })
    }

    pub(crate) fn covers(self, ip: IpAddr) -> bool {
        of(ip) <= self
    }
}

fn of(ip: IpAddr) -> Reach {
    match ip {
        IpAddr::V4(ip) => of_v4(ip),
        IpAddr::V6(ip) => of_v6(ip),
    }
}

fn of_v4(ip: Ipv4Addr) -> Reach {
    match ip.octets() {
        // Zero is this machine to many systems; the link's own addresses hold the secrets of clouds.
        [0 | 127, ..] | [169, 254, ..] => Reach::Anywhere,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Reach::Private,
        // Shared by carriers, kept for protocols, benchmarks and examples, multicast, and what is not given out.
        [100, 64..=127, ..] | [192, 0, 0 | 2, _] | [192, 88, 99, _] => Reach::Private,
        [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] | [224..=255, ..] => {
            Reach::Private
        }
        _ => Reach::Public,
    }
}

fn of_v6(ip: Ipv6Addr) -> Reach {
    let inner = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        of_v4(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Reach::Anywhere,
        // An IPv4 address in disguise: compatible, mapped, translated, or in a tunnel.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => inner(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => inner(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
        [0x2002, high, low, ..] => inner(high, low),
        [0xfe80..=0xfebf, ..] | [0xfd00, 0xec2, ..] => Reach::Anywhere,
        [0x2001, 0 | 0xdb8, ..] => Reach::Private,
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Private,
    }
}

#[cfg(test)]
mod tests {
    use super::{Reach, of};

    #[test]
    fn every_spelling_of_an_inner_address_is_known() {
        for (reach, addresses) in [
            (
                Reach::Public,
                &[
                    "1.1.1.1",
                    "8.8.8.8",
                    "2606:4700::1111",
                    "::ffff:1.1.1.1",
                    "64:ff9b::101:101",
                    "2002:101:101::",
                    "172.32.0.1",
                ][..],
            ),
            (
                Reach::Private,
                &[
                    "10.0.0.1",
                    "172.16.0.1",
                    "192.168.1.1",
                    "100.64.0.1",
                    "198.18.0.1",
                    "224.0.0.1",
                    "255.255.255.255",
                    "fc00::1",
                    "fd12::1",
                    "ff02::1",
                    "2001:db8::1",
                    "2001::1",
                    "::ffff:10.0.0.1",
                    "64:ff9b::a00:1",
                    "64:ff9b:1::1",
                    "2002:a00:1::",
                    "::10.0.0.1",
                    "fec0::1",
                    "100::1",
                ],
            ),
            (
                Reach::Anywhere,
                &[
                    "127.0.0.1",
                    "127.9.9.9",
                    "0.0.0.0",
                    "0.1.2.3",
                    "169.254.169.254",
                    "::1",
                    "::",
                    "fe80::1",
                    "::ffff:127.0.0.1",
                    "::ffff:169.254.169.254",
                    "64:ff9b::7f00:1",
                    "::ffff:0:127.0.0.1",
                    "::127.0.0.1",
                    "2002:7f00:1::",
                    "fd00:ec2::254",
                ],
            ),
        ] {
            for address in addresses {
                assert_eq!(of(address.parse().unwrap()), reach, "{address}");
            }
        }
    }
}
