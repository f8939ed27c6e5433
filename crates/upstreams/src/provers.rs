//! Proofs of possession for tokens that are bound to a key.
//!
//! The worker, which sends the tokens, asks for a proof of each request; the keys stay here.
//!
//! **Invariant: a proof is for the server that the login is for, and for no other.** Whoever took over the worker can ask for proofs of
//! requests that it could make anyhow, while it lives, and for nothing else. Test `proofs_are_for_the_server_of_the_login`.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use oauth::{Address, Login, Moment, Plain, Scheme};
use secrets::Secret;

use crate::logins::Holder;

/// What a request of MCP is made with.
const METHODS: [&str; 3] = ["GET", "POST", "DELETE"];
const MAX_NONCE: usize = 512;

/// The keys in use, by the numbers that the worker knows them by. There is one for each holder of such a login.
#[derive(Debug, Default)]
pub(crate) struct Provers(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    numbers: HashMap<Holder, u64>,
    logins: HashMap<u64, Login>,
}

impl Provers {
    /// Keeps the key of a login that is going to be used, and answers its number. `None`: its token is bound to none.
    pub(crate) fn keep(&self, holder: &Holder, login: &Login) -> Option<u64> {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if login.scheme != Scheme::Dpop || login.key.is_none() {
            if let Some(number) = book.numbers.get(holder).copied() {
                book.logins.remove(&number);
            }
            return None;
        }
        let next = book.numbers.len() as u64 + 1;
        let number = *book.numbers.entry(holder.clone()).or_insert(next);
        let is_known = book
            .logins
            .get(&number)
            .is_some_and(|known| known.access.expose() == login.access.expose());
        if !is_known {
            let copy = Login::open(&login.seal(), Plain::OnLoopback)?;
            book.logins.insert(number, copy);
        }
        Some(number)
    }

    /// A proof for one request to the server of this login.
    pub(crate) fn prove(
        &self,
        number: u64,
        method: &str,
        address: &str,
        nonce: Option<&str>,
        moment: Moment,
    ) -> Option<Secret> {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let login = book.logins.get(&number)?;
        let to = Address::parse(address, Plain::OnLoopback).ok()?;
        let server = Address::parse(&login.server, Plain::OnLoopback).ok()?;
        let is_fine = |nonce: &str| {
            nonce.len() <= MAX_NONCE && nonce.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        };
        if !to.same_origin(&server) || !METHODS.contains(&method) || !nonce.is_none_or(is_fine) {
            return None;
        }
        login.proof(method, &to, nonce, moment).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use oauth::SigningKey;
    use vocab::ServerId;

    use super::*;

    fn bound(server: &str, access: &str) -> Login {
        let key = SigningKey::generate().unwrap();
        let sealed = serde_json::json!({
            "version": 1, "server": server, "issuer": "https://id.example",
            "token_endpoint": "https://id.example/token", "client_id": "gate", "client_proof": "none",
            "client_is_dynamic": false, "redirects": "", "scopes": "use", "access": access,
            "scheme": "DPoP", "key": key.kept().expose(), "is_machine": false, "obtained_at": 0,
        });
        Login::open(&Secret::new(sealed.to_string()), Plain::OnLoopback).unwrap()
    }

    fn holder(server: &str) -> Holder {
        Holder::from(&ServerId::parse(server).unwrap())
    }

    fn moment() -> Moment {
        Moment {
            now: 7,
            random: [1; 16],
        }
    }

    #[test]
    fn proofs_are_for_the_server_of_the_login() {
        let provers = Provers::default();
        let up = bound("https://up.example/mcp", "token-1");
        let number = provers.keep(&holder("up"), &up).unwrap();
        let prove = |method, address| provers.prove(number, method, address, None, moment());
        assert!(prove("POST", "https://up.example:443/mcp").is_some());
        assert!(prove("DELETE", "https://up.example/other").is_some());
        for (method, address) in [
            ("POST", "https://other.example/mcp"),
            ("POST", "http://up.example/mcp"),
            ("POST", "https://up.example:8443/mcp"),
            ("POST", "https://up.example@other.example/mcp"),
            ("PUT", "https://up.example/mcp"),
        ] {
            assert!(prove(method, address).is_none(), "{method} {address}");
        }
        let odd = provers.prove(
            number,
            "POST",
            "https://up.example/mcp",
            Some("a\nb"),
            moment(),
        );
        assert!(odd.is_none());
        assert!(
            provers
                .prove(number + 1, "POST", "https://up.example/mcp", None, moment())
                .is_none()
        );
    }

    #[test]
    fn a_holder_keeps_its_number_and_a_login_without_a_key_ends_its_proofs() {
        let provers = Provers::default();
        let (up, down) = (holder("up"), holder("down"));
        let first = provers.keep(&up, &bound("https://up.example/mcp", "token-1"));
        let other = provers.keep(&down, &bound("https://down.example/mcp", "token-1"));
        assert_ne!(first, other);
        let renewed = provers.keep(&up, &bound("https://up.example/mcp", "token-2"));
        assert_eq!(first, renewed);
        let mut plain = bound("https://up.example/mcp", "token-3");
        plain.scheme = Scheme::Bearer;
        assert_eq!(provers.keep(&up, &plain), None);
        let proof = provers.prove(
            first.unwrap(),
            "POST",
            "https://up.example/mcp",
            None,
            moment(),
        );
        assert!(proof.is_none());
    }
}
