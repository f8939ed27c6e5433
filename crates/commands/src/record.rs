//! Changes made by hand, while no gate runs that would record them.

use std::{fs, io};

use audit::Change;

use home::{
    Home,
    holding::{self, Taken},
};
use terminal::Trouble;

/// Writes the change to the ledger, with who made it. A running gate holds the ledger and records what it applies, so then there is
/// nothing to do here.
pub(super) fn by_hand(home: &Home, change: &Change<'_>) -> Result<(), Trouble> {
    let ledger = match holding::open_ledger(home) {
        Ok(ledger) => ledger,
        Err(Taken::ByGate(_)) => return Ok(()),
        Err(taken) => {
            let why = Trouble::because(&taken).message;
            return Err(Trouble::failed(format!(
                "nothing was changed, because it cannot be recorded: {why}"
            )));
        }
    };
    ledger.scrub_with(Box::new(|json| {
        shape::secrets::redact(json, &shape::secrets::Held::default()).map(|redacted| redacted.text)
    }));
    let user = os_user();
    ledger
        .change(&Change {
            user: &user,
            ..*change
        })
        .and_then(|_| ledger.sync())
        .map(drop)
        .map_err(|error| {
            Trouble::failed(format!(
                "nothing was changed, because it cannot be recorded: {error}"
            ))
        })
}

/// Who runs this program, as the system knows them.
pub fn os_user() -> String {
    let uid = rustix::process::geteuid().as_raw();
    name_of(uid, fs::read_to_string("/etc/passwd")).unwrap_or_else(|| format!("uid {uid}"))
}

fn name_of(uid: u32, passwd: io::Result<String>) -> Option<String> {
    passwd.ok()?.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn users_have_the_name_the_system_gives_them() {
        let passwd = || {
            Ok(
                "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:1000::/users/ann:/bin/sh\n"
                    .to_owned(),
            )
        };
        assert_eq!(name_of(1000, passwd()).as_deref(), Some("ann"));
        assert_eq!(name_of(0, passwd()).as_deref(), Some("root"));
        assert_eq!(name_of(7, passwd()), None);
        assert_eq!(name_of(7, Err(std::io::Error::other("gone"))), None);
    }
}
