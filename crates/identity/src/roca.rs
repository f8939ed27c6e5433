//! RSA keys that one widespread generator made too predictably (CVE-2017-15361).
//!
//! Its primes are powers of 65537 modulo a product of small primes, so the modulus is one too, for each of those small primes. An honest
//! modulus passes all of these by chance once in many millions of keys.

/// Small primes modulo which the powers of 65537 leave something out.
const PRIMES: [u16; 20] = [
    3, 5, 7, 11, 13, 17, 19, 37, 53, 61, 71, 73, 79, 97, 103, 107, 109, 127, 151, 157,
];

pub(crate) fn is_vulnerable(modulus: &[u8]) -> bool {
    PRIMES.into_iter().all(|prime| {
        let rest = modulus.iter().fold(0, |rest, byte| {
            (rest * 256 + u32::from(*byte)) % u32::from(prime)
        });
        is_power(rest, u32::from(prime))
    })
}

/// Is this number a power of 65537 modulo a prime?
fn is_power(number: u32, prime: u32) -> bool {
    let step = 65_537 % prime;
    let mut power = 1;
    for _ in 0..prime {
        if power == number {
            return true;
        }
        power = power * step % prime;
    }
    false
}
