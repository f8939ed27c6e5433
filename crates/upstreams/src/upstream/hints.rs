//! What a server's complaints say about its jail: which path or port it misses, and the line that would give it.
//!
//! The complaints are a server's words: they are searched for paths and ports, and nothing of them is granted.

use std::path::Path;

/// More would only repeat themselves.
const MOST: usize = 3;

/// Words by which programs say that something is not there, or not theirs.
const MISSING: [&str; 4] = ["ENOENT", "No such file", "Cannot find module", "not found"];
const REFUSED: [&str; 6] = [
    "EACCES",
    "EPERM",
    "EROFS",
    "Permission denied",
    "Read-only file system",
    "not permitted",
];
const UNKNOWN_NAME: [&str; 4] = [
    "EAI_AGAIN",
    "ENOTFOUND",
    "Temporary failure in name resolution",
    "dns error",
];

/// The lines to add, read out of what a server wrote to its standard error.
pub(super) fn hints(complaints: &str) -> Vec<String> {
    let mut hints: Vec<String> = Vec::new();
    for line in complaints.lines().rev() {
        if hints.len() >= MOST {
            break;
        }
        if let Some(hint) = hint(line).filter(|hint| !hints.contains(hint)) {
            hints.push(hint);
        }
    }
    hints
}

fn hint(line: &str) -> Option<String> {
    let says = |words: &[&str]| words.iter().any(|word| line.contains(word));
    if says(&UNKNOWN_NAME) {
        return Some("its jail may have no network: `jail: contained` has one".to_owned());
    }
    let (missing, refused) = (says(&MISSING), says(&REFUSED));
    if refused && let Some(port) = port_in(line) {
        return Some(format!(
            "its jail refuses port {port}: add `jail: {{ ports: [{port}] }}`"
        ));
    }
    let path = path_in(line).filter(|_| missing || refused)?;
    let (path, key) = match Path::new(path).parent() {
        _ if Path::new(path).exists() => (path, if missing { "read" } else { "write" }),
        // What is to be made needs the directory it is made in. A path that leads nowhere outside either is no matter of the jail.
        Some(above) if above.parent().is_some() && above.is_dir() => (above.to_str()?, "write"),
        _ => return None,
    };
    Some(format!(
        "its jail does not let it {key} {path}: add `jail: {{ {key}: [{path}] }}`"
    ))
}

/// The first absolute path of a line, by itself or in quotes.
fn path_in(line: &str) -> Option<&str> {
    line.split(|letter: char| letter.is_whitespace() || "'\"`()[]<>,".contains(letter))
        .map(|word| word.trim_end_matches([':', ';', '.']))
        .find(|word| word.len() > 1 && word.starts_with('/') && !word.starts_with("//"))
}

/// The port of an address such as `connect EACCES 10.0.0.1:5432`.
fn port_in(line: &str) -> Option<u16> {
    line.split_whitespace()
        .filter_map(|word| word.trim_end_matches([',', ')']).rsplit_once(':'))
        .filter(|(host, _)| host.contains('.') || host.contains(':') || *host == "localhost")
        .find_map(|(_, port)| port.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_become_the_line_to_add() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("notes.txt");
        std::fs::write(&file, "").unwrap();
        let file = file.display();
        let cases = [
            (
                format!("Error: ENOENT: no such file or directory, open '{file}'"),
                format!("`jail: {{ read: [{file}] }}`"),
            ),
            (
                format!("sh: 1: cannot create {file}: Read-only file system"),
                format!("`jail: {{ write: [{file}] }}`"),
            ),
            (
                "Error: connect EACCES 10.1.2.3:5432".to_owned(),
                "`jail: { ports: [5432] }`".to_owned(),
            ),
            (
                "getaddrinfo EAI_AGAIN api.example.com".to_owned(),
                "`jail: contained`".to_owned(),
            ),
        ];
        for (complaint, line) in cases {
            let hints = hints(&complaint);
            assert!(
                hints.len() == 1 && hints[0].contains(&line),
                "{complaint}: {hints:?}"
            );
        }
    }

    #[test]
    fn what_the_jail_has_no_part_in_is_left_alone() {
        for complaint in [
            "ENOENT: open '/no/such/file'",
            "listening on /tmp",
            "",
            "TypeError: x is not a function",
        ] {
            assert!(hints(complaint).is_empty(), "{complaint}");
        }
    }
}
