//! Users' own accounts at servers: where the vault keeps their tokens.
//!
//! A token belongs to one user of one tenant at one server. The name it is kept under says all three, and no two of them share a name,
//! so no user can be given another's: not a namesake's in another tenant either.

use vocab::ServerId;

const PREFIX: &str = "account.";
/// The vault takes no longer names.
const MAX_NAME: usize = 128;

/// Whose account it is, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub server: ServerId,
    /// `None` for callers who belong to no tenant.
    pub tenant: Option<String>,
    pub user: String,
}

/// The vault's name for a user's token at a server; `None` where it would be too long to keep, or the tenant has no name.
pub fn name(server: &ServerId, tenant: Option<&str>, user: &str) -> Option<String> {
    let mut name = format!("{PREFIX}{server}.");
    if let Some(tenant) = tenant {
        // Nobody may pass for a user of no tenant.
        if tenant.is_empty() {
            return None;
        }
        escape(tenant, &mut name);
        name.push('.');
    }
    escape(user, &mut name);
    (name.len() <= MAX_NAME).then_some(name)
}

/// What is written has no dot, so the dots part a name.
fn escape(text: &str, name: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => name.push(char::from(byte)),
            _ => name.push_str(&format!("_{byte:02x}")),
        }
    }
}

fn unescape(escaped: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'_' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Whose account it is, if this is the name of one.
pub fn parse(name: &str) -> Option<Owner> {
    // A server's id has no dot.
    let (server, rest) = name.strip_prefix(PREFIX)?.split_once('.')?;
    let (tenant, user) = match rest.split_once('.') {
        Some((tenant, user)) => (Some(unescape(tenant)?), user),
        None => (None, rest),
    };
    let owner = Owner {
        server: ServerId::parse(server).ok()?,
        tenant,
        user: unescape(user)?,
    };
    // Only what `name` writes is an account's.
    let written = self::name(&owner.server, owner.tenant.as_deref(), &owner.user)?;
    (written == name).then_some(owner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vocab::ServerId;

    use super::{Owner, name, parse};

    #[test]
    fn names_say_whose_account_it_is_and_where() {
        let github = ServerId::parse("git_hub").unwrap();
        assert_eq!(
            name(&github, None, "alice").unwrap(),
            "account.git_hub.alice"
        );
        assert_eq!(
            name(&github, None, "a.b@c").unwrap(),
            "account.git_hub.a_2eb_40c"
        );
        assert_eq!(
            name(&github, Some("acme.eu"), "alice").unwrap(),
            "account.git_hub.acme_2eeu.alice"
        );
        assert_eq!(name(&github, None, &"ä".repeat(64)), None);
        assert_eq!(name(&github, Some(""), "alice"), None);
        for other in [
            "github-pat",
            "account.",
            "account.github",
            "account.github..b",
            "account.github.a.b.c",
            "account.github._2",
            "account.GitHub.a",
            "account.github._61",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_two_users_share_a_name(
            a in ("[a-z.]{0,3}", "[a-zA-Z0-9_.@ é-]{1,12}"),
            b in ("[a-z.]{0,3}", "[a-zA-Z0-9_.@ é-]{1,12}"),
        ) {
            let owner = |(tenant, user): &(String, String)| Owner {
                server: ServerId::parse("demo").unwrap(),
                tenant: Some(tenant.clone()).filter(|tenant| !tenant.is_empty()),
                user: user.clone(),
            };
            let named = |owner: &Owner| name(&owner.server, owner.tenant.as_deref(), &owner.user);
            let (a, b) = (owner(&a), owner(&b));
            let (first, second) = (named(&a).unwrap(), named(&b).unwrap());
            prop_assert_eq!(first == second, a == b);
            prop_assert_eq!(parse(&first), Some(a));
        }
    }
}
