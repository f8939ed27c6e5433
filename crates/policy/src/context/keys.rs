//! Which arguments carry a path, an address or a recipient, by what they are called and by what they look like.
//!
//! Servers name their arguments as they please, so names are compared without case and punctuation, and a text under a name that says
//! nothing counts by its looks. Only what is plainly content (a body, a search, the text of an edit) is left alone: what is written
//! about a place goes nowhere. What the built-in tools call theirs is in their table.

use wire::builtin::argument;

/// A name without case and punctuation: `filePath`, `file_path` and `FILE-PATH` are one.
pub(super) fn plain(key: &str) -> String {
    key.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Holds words that are meant for a reader or a file.
pub(super) fn is_content(plain: &str) -> bool {
    const CONTENT: &[&str] = &[
        "body",
        "comment",
        argument::CONTENT,
        "contents",
        "description",
        "diff",
        "html",
        "markdown",
        "message",
        "newstring",
        "newtext",
        "note",
        "notes",
        "oldstring",
        "oldtext",
        "patch",
        argument::PATTERN,
        "prompt",
        argument::QUERY,
        "regex",
        "replacement",
        "replacementcontent",
        "snippet",
        "subject",
        "summary",
        "targetcontent",
        "text",
        "title",
    ];
    CONTENT.contains(&plain)
}

/// Must hold a path, or a list of them, wherever it stands in the arguments of a tool for files.
pub(super) fn is_path(plain: &str) -> bool {
    matches!(plain, argument::PATH | "paths")
}

/// Holds a path where it holds text, in the arguments of a tool for files.
pub(super) fn may_be_path(plain: &str) -> bool {
    const PLACES: &[&str] = &[
        "base",
        argument::CWD,
        "dest",
        "destination",
        "dst",
        "files",
        "from",
        "link",
        "location",
        "output",
        "root",
        "source",
        "src",
        "target",
        "to",
    ];
    const ENDINGS: &[&str] = &[
        "path",
        "paths",
        "file",
        "filename",
        "dir",
        "directory",
        "folder",
    ];
    PLACES.contains(&plain)
        || plain.starts_with("path")
        || (plain != "profile" && ENDINGS.iter().any(|ending| plain.ends_with(ending)))
}

/// Holds a path where it holds text, in the arguments of any other tool.
pub(super) fn is_plain_path(plain: &str) -> bool {
    is_path(plain) || matches!(plain, "filepath" | "directory" | "dir" | argument::CWD)
}

/// Where a command runs.
pub(super) fn is_working_directory(plain: &str) -> bool {
    matches!(
        plain,
        argument::CWD | "workdir" | "workingdir" | "workingdirectory"
    )
}

/// Must hold an address, or a list of them.
pub(super) fn is_url(plain: &str) -> bool {
    matches!(plain, argument::URL | "urls")
}

/// Holds an address where it holds one, or a list.
pub(super) fn may_be_url(plain: &str) -> bool {
    plain.contains("url")
        || matches!(
            plain,
            "uri" | "uris" | "href" | "link" | "links" | "endpoint" | "proxy" | "webhook"
        )
}

/// A resource's own URI, without the name of the server that the gate puts in front of it.
pub(super) fn own_uri(uri: &str) -> &str {
    let inside = ["portcullis://", "capsem://"]
        .iter()
        .find_map(|scheme| uri.strip_prefix(scheme));
    inside
        .and_then(|rest| rest.split_once('/'))
        .map_or(uri, |(_, own)| own)
}

/// Whether a URI names a place on the network, or nothing that is known not to be one.
pub(super) fn is_on_network(uri: &str) -> bool {
    const NETWORK: &[&str] = &[
        "http", "https", "ws", "wss", "ftp", "ftps", "sftp", "ssh", "scp", "git", "smb", "nfs",
        "ldap", "ldaps", "mailto",
    ];
    let Some((scheme, _)) = uri.trim_start().split_once(':') else {
        return true;
    };
    let scheme = scheme.to_ascii_lowercase();
    let is_scheme = scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'));
    !is_scheme
        || scheme
            .split(['+', '-', '.'])
            .any(|part| NETWORK.contains(&part))
}

/// Holds the name of a host, or an address.
pub(super) fn is_host(plain: &str) -> bool {
    matches!(plain, "host" | "hostname" | "hosts" | "domain" | "domains")
}

/// Says where a request comes from, not where it goes.
pub(super) fn is_origin(plain: &str) -> bool {
    matches!(plain, "referer" | "referrer" | "origin" | "useragent")
}

/// Holds who a message goes to.
pub(super) fn is_recipient(plain: &str) -> bool {
    const TO: &[&str] = &[
        "to",
        "cc",
        "bcc",
        "replyto",
        "forwardto",
        "sendto",
        "mailto",
        "deliverto",
    ];
    TO.contains(&plain) || plain.contains("recipient")
}

pub(super) fn is_account(plain: &str) -> bool {
    matches!(plain, "account" | "mailbox" | "userid")
}

pub(super) fn is_sender(plain: &str) -> bool {
    matches!(plain, "from" | "sender")
}

/// Holds a message in one piece, or its head.
pub(super) fn is_whole_message(plain: &str) -> bool {
    matches!(plain, "raw" | "mime" | "headers")
}

/// Holds a command, or more of one, under another name than `command` and `args`.
pub(super) fn is_other_command(plain: &str) -> bool {
    const COMMANDS: &[&str] = &[
        "cmd",
        "commandline",
        "commands",
        "script",
        "program",
        "executable",
        "shell",
        "argv",
        "arguments",
    ];
    COMMANDS.contains(&plain)
}

/// Whether a text is a path by its looks, under whatever name it stands.
pub(super) fn looks_like_path(text: &str) -> bool {
    let text = text.trim_start();
    let is_drive = text
        .get(1..3)
        .is_some_and(|rest| rest == ":\\" || rest == ":/");
    let climbs = || text.split(['/', '\\']).any(|part| part == "..");
    ["/", "~", "./", "../", "\\", "file:"]
        .iter()
        .any(|start| text.starts_with(start))
        || is_drive
        || climbs()
}

/// Whether a text is an address by its looks.
pub(super) fn looks_like_url(text: &str) -> bool {
    text.contains("://")
}

/// Whether a text is a mail address, or several, by its looks.
pub(super) fn looks_like_mail(text: &str) -> bool {
    text.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_the_built_in_tools_are_read_as_what_they_are() {
        use wire::builtin::{self, Family, Kind};

        for tool in builtin::all() {
            for field in tool.input {
                let plain = plain(field.name);
                let is_text = matches!(field.kind, Kind::Text | Kind::Words | Kind::Texts);
                match tool.family {
                    Family::Files if is_text => {
                        // Patterns for names are read as such, and what says nothing of a place counts by its looks.
                        let is_told = ["glob", "exclude", "ifversion", "cursor"];
                        assert!(
                            is_path(&plain)
                                || may_be_path(&plain)
                                || is_content(&plain)
                                || is_told.contains(&plain.as_str()),
                            "{}",
                            field.name
                        );
                    }
                    Family::Web if is_text => {
                        // Where a page is kept is judged as a call of `fs.write`; how it is read leads nowhere.
                        let is_judged_apart = plain == "saveto" || plain == "as";
                        let is_known = is_url(&plain) || is_content(&plain);
                        assert!(is_known || is_judged_apart, "{}", field.name);
                    }
                    Family::Command => {
                        // What a command reads counts by its looks.
                        let is_own = [argument::COMMAND, argument::ARGS, argument::STDIN]
                            .contains(&field.name);
                        let is_other = is_working_directory(&plain) || !is_text;
                        assert!(is_own || is_other, "{}", field.name);
                        assert!(!is_other_command(&plain), "{}", field.name);
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn names_are_one_whatever_their_case_and_punctuation() {
        for key in ["filePath", "file_path", "FILE-PATH", "FilePath"] {
            assert_eq!(plain(key), "filepath");
            assert!(may_be_path(&plain(key)));
        }
        assert!(
            [
                "Bcc",
                "CC",
                "To",
                "bcc_recipients",
                "bccRecipients",
                "Reply-To"
            ]
            .iter()
            .all(|key| is_recipient(&plain(key)))
        );
        assert!(
            ["URL", "callback_url", "pageUrl", "webhook"]
                .iter()
                .all(|key| may_be_url(&plain(key)))
        );
        assert!(!may_be_path("profile") && !may_be_path("name") && !is_recipient("total"));
    }
}
