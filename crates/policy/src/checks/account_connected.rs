//! A tool that acts for a user acts with that user's credential. There is no falling back to the gate's own.

use vocab::{Rule, Violation};

use crate::{Account, Facts};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let (server, target) = (facts.server, facts.target);
    match facts.account {
        Account::Shared | Account::Connected(_) => Ok(()),
        Account::Missing { user, tenant } => {
            let of = tenant.map(|tenant| format!(" --tenant {tenant}"));
            let of = of.unwrap_or_default();
            Err(Violation::new(
                Rule::PermissionDenied,
                format!("`{target}` of server `{server}` needs an account of user `{user}`; `portcullis connect-account {server} --user {user}{of}` would allow it"),
            )
            .with_hint(format!(
                "user `{user}` has not connected an account for `{server}`; connect it with `portcullis connect-account {server} --user {user}{of}`"
            )))
        }
        Account::Nobody => Err(Violation::new(
            Rule::PermissionDenied,
            format!("`{target}` of server `{server}` acts for a user, and the credential stands for none; one made with `portcullis token new NAME --user USER` would be allowed"),
        )
        .with_hint(format!(
            "`{target}` acts for a user, and this credential stands for none; ask for one made with `portcullis token new NAME --user USER`"
        ))),
    }
}
