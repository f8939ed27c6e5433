//! What the jailer tells the gate on its way: one line per step, until the program runs.

use std::fmt;

/// Every measure that may stand in the report of a jail.
pub const MEASURES: &[&str] = &[
    "namespaces",
    "network",
    "view",
    "root",
    "user",
    "limits",
    "processor",
    "capabilities",
    "landlock",
    "system calls",
];

/// One line from the jailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Applied(&'static str, String),
    Refused(&'static str, String),
    /// Nothing was started.
    Failed(String),
    /// The walls stand, but the program could not be executed; whether the jail has a file of its name.
    NotExecuted(i32, bool),
    /// The walls stand, but the program's directory cannot be entered.
    NoDirectory(i32),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A line is a line, whatever the kernel or a path brought into it.
        let flat = |text: &str| text.replace(['\n', '\t'], " ");
        match self {
            Self::Applied(name, how) => writeln!(f, "applied\t{name}\t{}", flat(how)),
            Self::Refused(name, why) => writeln!(f, "refused\t{name}\t{}", flat(why)),
            Self::Failed(why) => writeln!(f, "failed\t\t{}", flat(why)),
            Self::NotExecuted(errno, is_there) => {
                writeln!(f, "not executed\t{}\t{errno}", u8::from(*is_there))
            }
            Self::NoDirectory(errno) => writeln!(f, "no directory\t\t{errno}"),
        }
    }
}

impl Line {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(3, '\t');
        let (kind, name, text) = (fields.next()?, fields.next()?, fields.next()?);
        let measure = || MEASURES.iter().copied().find(|&known| known == name);
        match kind {
            "applied" => Some(Self::Applied(measure()?, text.to_owned())),
            "refused" => Some(Self::Refused(measure()?, text.to_owned())),
            "failed" => Some(Self::Failed(text.to_owned())),
            "not executed" => Some(Self::NotExecuted(text.parse().ok()?, name == "1")),
            "no directory" => Some(Self::NoDirectory(text.parse().ok()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let lines = [
            Line::Applied("view", "12 places".into()),
            Line::Refused("landlock", "this kernel has no Landlock".into()),
            Line::Failed("namespaces: not permitted".into()),
            Line::NotExecuted(libc::ENOENT, false),
            Line::NotExecuted(libc::ENOENT, true),
            Line::NoDirectory(libc::ENOTDIR),
        ];
        for line in lines {
            assert_eq!(Line::parse(line.to_string().trim_end()), Some(line));
        }
        assert_eq!(Line::parse("applied\tmagic\tx"), None);
        let odd = Line::Failed("a\nfailed\tb".into()).to_string();
        assert_eq!(odd.lines().count(), 1);
    }
}
