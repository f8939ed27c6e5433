//! Users' own accounts at servers: where the vault keeps their tokens.
//!
//! A token belongs to one user at one server. The name it is kept under says both, and no two pairs share a name, so no user can be
//! given another's.

use vocab::ServerId;

const PREFIX: &str = "account.";
/// The vault takes no longer names.
const MAX_NAME: usize = 128;

/// The vault's name for a user's token at a server; `None` where it would be too long to keep.
pub fn name(server: &ServerId, user: &str) -> Option<String> {
    let mut name = format!("{PREFIX}{server}.");
    for byte in user.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => name.push(char::from(byte)),
            _ => name.push_str(&format!("_{byte:02x}")),
        }
    }
    (name.len() <= MAX_NAME).then_some(name)
}

/// The server and the user, if this is the name of an account.
pub fn parse(name: &str) -> Option<(ServerId, String)> {
    // A server's id has no dot.
    let (server, escaped) = name.strip_prefix(PREFIX)?.split_once('.')?;
    let server = ServerId::parse(server).ok()?;
    let mut bytes = Vec::new();
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'_' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            byte => byte,
        });
    }
    let user = String::from_utf8(bytes).ok()?;
    // Only what `name` writes is an account's.
    (self::name(&server, &user)? == name).then_some((server, user))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vocab::ServerId;

    use super::{name, parse};

    #[test]
    fn names_say_whose_account_it_is_and_where() {
        let github = ServerId::parse("git_hub").unwrap();
        assert_eq!(name(&github, "alice").unwrap(), "account.git_hub.alice");
        assert_eq!(name(&github, "a.b@c").unwrap(), "account.git_hub.a_2eb_40c");
        assert_eq!(name(&github, &"ä".repeat(64)), None);
        for other in [
            "github-pat",
            "account.",
            "account.github",
            "account.github.a.b",
            "account.github._2",
            "account.GitHub.a",
            "account.github._61",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_two_users_share_a_name(a in "[a-zA-Z0-9_.@ é-]{1,12}", b in "[a-zA-Z0-9_.@ é-]{1,12}") {
            let server = ServerId::parse("demo").unwrap();
            let (first, second) = (name(&server, &a).unwrap(), name(&server, &b).unwrap());
            prop_assert_eq!(first == second, a == b);
            prop_assert_eq!(parse(&first), Some((server, a)));
        }
    }
}
