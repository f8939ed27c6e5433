//! Networks of addresses, as in `10.0.0.0/8`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// All addresses that begin with the same bits. An IPv4 address that comes as IPv6 is still one of IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is not an address, or a network as in `10.0.0.0/8` or `fd00::/8` without bits beyond its length"
)]
pub struct BadNetwork;

fn number(address: IpAddr) -> (u128, u8) {
    match address.to_canonical() {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

fn mask(bits: u8) -> u128 {
    u128::MAX
        .checked_shl(128 - u32::from(bits))
        .unwrap_or_default()
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                (address, Some(bits.parse().map_err(|_| BadNetwork)?))
            }
            Some(_) => return Err(BadNetwork),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| BadNetwork)?;
        let (value, width) = number(first);
        let bits = bits.unwrap_or(width);
        if bits > width || value & !mask(bits) != 0 {
            return Err(BadNetwork);
        }
        Ok(Self {
            first: first.to_canonical(),
            bits,
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl Network {
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (first, width) = number(self.first);
        let (given, given_width) = number(address);
        width == given_width && (first ^ given) & mask(self.bits) == 0
    }

    #[must_use]
    pub fn any_contains(networks: &[Self], address: IpAddr) -> bool {
        networks.iter().any(|network| network.contains(address))
    }
}

/// What requests of one client are counted under: an IPv4 address, or the 64 bits of IPv6 that one site has.
#[must_use]
pub(crate) fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from(u32::from(address))),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask(64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        let holds = |network: &str, address: &str| {
            network
                .parse::<Network>()
                .unwrap()
                .contains(address.parse().unwrap())
        };
        assert!(holds("10.0.0.0/8", "10.255.0.1") && !holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(!holds("::/0", "10.1.2.3") && holds("0.0.0.0/0", "10.1.2.3"));
        assert!(holds("fd00::/8", "fd12::1") && !holds("fd00::/8", "fe80::1"));
        assert!(holds("192.0.2.7", "192.0.2.7") && !holds("192.0.2.7", "192.0.2.8"));
        for bad in [
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "x",
            "::1/200",
        ] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_site_of_ipv6_is_one_client() {
        let of = |text: &str| site(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("::ffff:192.0.2.1"), "192.0.2.1");
    }
}
