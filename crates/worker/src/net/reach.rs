//! How far inside an address is: what a stranger's document, or an agent, may make us connect to.
//!
//! **Invariant: an address that a server names leads nowhere its reader did not allow.** It is judged on the socket address that is then
//! connected to, so a name that resolves elsewhere the second time gains nothing. Tests `every_spelling_of_an_inner_address_is_known`,
//! `what_is_beyond_reach_is_never_connected_to`, `one_inner_address_among_several_refuses_the_name`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The innermost address that may be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Reachable by everybody, and written as what it is.
    Global,
    /// Also an IPv4 address that everybody reaches, in the clothes of an IPv6 one: machines without IPv4 reach the world so.
    Public,
    /// Private networks too.
    Private,
    /// This machine, and what only its own link knows, too.
    Anywhere,
}

impl Reach {
    pub(crate) fn read(text: &str) -> Option<Self> {
        Some(match text {
            "global" => Self::Global,
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
        _ => Reach::Global,
    }
}

fn of_v6(ip: Ipv6Addr) -> Reach {
    let inner = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        of_v4(Ipv4Addr::new(a, b, c, d)).max(Reach::Public)
    };
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Reach::Anywhere,
        // An IPv4 address in disguise: compatible, mapped, translated, or in a tunnel.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => inner(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => inner(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
        [0x2002, high, low, ..] => inner(high, low),
        [0xfe80..=0xfebf, ..] | [0xfd00, 0xec2, ..] => Reach::Anywhere,
        // Kept for protocols and tunnels, and for examples.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Reach::Private,
        [0x2000..=0x3fff, ..] => Reach::Global,
        _ => Reach::Private,
    }
}

/// A range of addresses, as in `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    first: IpAddr,
    bits: u32,
}

impl Network {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (first, bits) = text.split_once('/')?;
        let (first, bits): (IpAddr, u32) = (first.parse().ok()?, bits.parse().ok()?);
        let most = if first.is_ipv4() { 32 } else { 128 };
        (bits <= most).then_some(Self { first, bits })
    }

    /// An IPv4 address in the clothes of an IPv6 one is in no range of IPv4 addresses.
    fn holds(self, ip: IpAddr) -> bool {
        let same = |first: u128, other: u128, width: u32| {
            let shift = width.saturating_sub(self.bits);
            shift >= 128 || first >> shift == other >> shift
        };
        match (self.first, ip) {
            (IpAddr::V4(first), IpAddr::V4(ip)) => {
                same(u32::from(first).into(), u32::from(ip).into(), 32)
            }
            (IpAddr::V6(first), IpAddr::V6(ip)) => same(first.into(), ip.into(), 128),
            _ => false,
        }
    }
}

/// Which addresses a name may lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounds {
    reach: Reach,
    /// And these, wherever they are.
    also: Vec<Network>,
    /// One address beyond them refuses the name, instead of being left out.
    is_strict: bool,
}

impl Bounds {
    pub(crate) const fn within(reach: Reach) -> Self {
        Self {
            reach,
            also: Vec::new(),
            is_strict: false,
        }
    }

    /// What agents may reach: what everybody reaches, and what an operator opened.
    pub(crate) const fn global_and(also: Vec<Network>) -> Self {
        Self {
            reach: Reach::Global,
            also,
            is_strict: true,
        }
    }

    /// Those of the addresses of one name that may be connected to.
    pub(crate) fn kept(&self, mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let found = addresses.len();
        addresses.retain(|address| {
            let ip = address.ip();
            self.reach.covers(ip) || self.also.iter().any(|network| network.holds(ip))
        });
        if self.is_strict && addresses.len() < found {
            addresses.clear();
        }
        addresses
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::{Bounds, Network, Reach, of};

    fn addresses(all: &[&str]) -> Vec<SocketAddr> {
        let with_port = |ip: &&str| SocketAddr::new(ip.parse().unwrap(), 443);
        all.iter().map(with_port).collect()
    }

    #[test]
    fn one_inner_address_among_several_refuses_the_name() {
        let both = addresses(&["1.1.1.1", "10.0.0.1"]);
        let strict = Bounds::global_and(Vec::new());
        assert!(strict.kept(both.clone()).is_empty());
        assert_eq!(strict.kept(addresses(&["1.1.1.1"])).len(), 1);
        assert_eq!(
            Bounds::within(Reach::Public).kept(both.clone()),
            addresses(&["1.1.1.1"])
        );
        let opened = |text| Bounds::global_and(vec![Network::read(text).unwrap()]);
        assert_eq!(opened("10.0.0.0/8").kept(both).len(), 2);
        assert!(
            opened("10.0.0.0/31")
                .kept(addresses(&["10.0.0.2"]))
                .is_empty()
        );
        assert!(
            opened("10.0.0.0/8")
                .kept(addresses(&["::ffff:10.0.0.1"]))
                .is_empty()
        );
        assert_eq!(opened("::/0").kept(addresses(&["fd00::1"])).len(), 1);
        for bad in ["10.0.0.0", "10.0.0.0/33", "::/129", "x/8", "10.0.0.0/-1"] {
            assert!(Network::read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn every_spelling_of_an_inner_address_is_known() {
        for (reach, addresses) in [
            (
                Reach::Global,
                &["1.1.1.1", "8.8.8.8", "2606:4700::1111", "172.32.0.1"][..],
            ),
            (
                Reach::Public,
                &[
                    "::ffff:1.1.1.1",
                    "::1.1.1.1",
                    "64:ff9b::101:101",
                    "2002:101:101::",
                ],
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
                    "2001:2::1",
                    "2001:1ff::1",
                    "3fff::1",
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
