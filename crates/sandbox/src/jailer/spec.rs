//! What a jail is: a plain value, and the bytes in which it travels to the jailer.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A program and the walls around it. A stdio server, a command and a converter are three values of this type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jail {
    /// A path as the jail sees it, or a name to look up on the `PATH` of `env`.
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where the program starts, as the jail sees it.
    pub directory: PathBuf,
    pub view: Vec<Mount>,
    pub network: Network,
    pub limits: Limits,
    pub calls: Calls,
    pub rung: Rung,
    /// Start nothing unless every measure is in force.
    pub insist: bool,
    /// The user and group number the program sees itself as; its own where there is none.
    pub shown_user: Option<u32>,
}

/// One thing that the jail sees, at a path inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub target: PathBuf,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A file or directory of the host, by a path without symbolic links.
    Bind {
        source: PathBuf,
        access: Access,
        /// Whether it may be missing.
        optional: bool,
        /// Whether its files belong to the user of the gate, whose own the jail's user then counts as.
        owned: bool,
    },
    /// An empty directory in memory.
    Memory { bytes: u64, mode: u32 },
    /// A symbolic link.
    Link { to: PathBuf },
    /// A small file.
    File { text: String },
    /// Nothing shows through: an empty directory, or an empty file, that cannot be opened.
    Mask,
    /// The jail's own processes.
    Processes,
    /// A directory of the host whose changes go to memory and are gone afterwards.
    Overlay { lower: PathBuf, bytes: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    Writable,
    Device,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// The host's, with TCP connections to these ports; `None` for all.
    Host {
        ports: Option<Vec<u16>>,
        listen: bool,
    },
    /// One of its own, with a loopback device and nothing else.
    Own,
}

/// What the jail may use up. `None` and 0 mean no limit beyond that of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    pub processes: u64,
    /// Bytes, of all processes together.
    pub memory: Option<u64>,
    pub descriptors: u64,
    /// Bytes of one file.
    pub file_bytes: Option<u64>,
    /// Seconds on the processor, of one process.
    pub processor_seconds: Option<u64>,
    /// Thousandths of a core, of all processes together.
    pub millicores: Option<u64>,
}

/// What the filter over system calls lets through besides the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// Making namespaces, which browsers want for their own walls.
    pub namespaces: bool,
    /// Tracing other processes of the same jail.
    pub tracing: bool,
    /// No unix sockets by name and no netlink.
    pub fewer_sockets: bool,
}

/// Which kind of wall the kernel offers here, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// Namespaces of its own: what is not in the view does not exist.
    Namespaces,
    /// Landlock and the filter alone: names and processes outside can be seen, and metadata changed.
    Reduced,
}

impl Rung {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Reduced => "reduced",
        }
    }
}

impl Mount {
    #[must_use]
    pub fn new(target: impl Into<PathBuf>, what: What) -> Self {
        Self {
            target: target.into(),
            what,
        }
    }

    /// A path of the host at the same place.
    #[must_use]
    pub fn same(path: impl Into<PathBuf>, access: Access) -> Self {
        let path = path.into();
        Self::new(
            path.clone(),
            What::Bind {
                source: path,
                access,
                optional: false,
                owned: true,
            },
        )
    }
}

/// The most bytes a description may have; arguments and environment are most of it.
pub(super) const MAX_BYTES: usize = 4 << 20;

impl Jail {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        out.text(&self.program);
        out.list(&self.args, |out, arg| out.text(arg));
        out.list(&self.env, |out, (name, value)| {
            out.text(name);
            out.text(value);
        });
        out.text(self.directory.as_os_str());
        out.list(&self.view, Writer::mount);
        match &self.network {
            Network::Own => out.number(0),
            Network::Host { ports, listen } => {
                out.number(1 + u64::from(*listen));
                out.number(u64::from(ports.is_some()));
                out.list(ports.as_deref().unwrap_or_default(), |out, &port| {
                    out.number(port.into())
                });
            }
        }
        let limits = self.limits;
        for number in [limits.processes, limits.descriptors] {
            out.number(number);
        }
        for limit in [
            limits.memory,
            limits.file_bytes,
            limits.processor_seconds,
            limits.millicores,
        ] {
            out.maybe(limit);
        }
        let calls = self.calls;
        for flag in [
            calls.namespaces,
            calls.tracing,
            calls.fewer_sockets,
            self.insist,
            self.rung == Rung::Reduced,
        ] {
            out.number(flag.into());
        }
        out.maybe(self.shown_user.map(u64::from));
        out.0
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let program = from.text()?;
        let args = from.list(Reader::text)?;
        let env = from.list(|from| Some((from.text()?, from.text()?)))?;
        let directory = from.path()?;
        let view = from.list(Reader::mount)?;
        let network = match from.number()? {
            0 => Network::Own,
            kind => {
                let listed = from.flag()?;
                let ports = from.list(|from| from.number()?.try_into().ok())?;
                Network::Host {
                    ports: listed.then_some(ports),
                    listen: kind == 2,
                }
            }
        };
        let (processes, descriptors) = (from.number()?, from.number()?);
        let (memory, file_bytes, processor_seconds) = (from.maybe()?, from.maybe()?, from.maybe()?);
        let millicores = from.maybe()?;
        let (namespaces, tracing, fewer_sockets) = (from.flag()?, from.flag()?, from.flag()?);
        let (insist, reduced) = (from.flag()?, from.flag()?);
        let shown_user = match from.maybe()? {
            Some(user) => Some(u32::try_from(user).ok()?),
            None => None,
        };
        from.0.is_empty().then_some(Self {
            program,
            args,
            env,
            directory,
            view,
            network,
            limits: Limits {
                processes,
                memory,
                descriptors,
                file_bytes,
                processor_seconds,
                millicores,
            },
            calls: Calls {
                namespaces,
                tracing,
                fewer_sockets,
            },
            rung: if reduced {
                Rung::Reduced
            } else {
                Rung::Namespaces
            },
            insist,
            shown_user,
        })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn maybe(&mut self, number: Option<u64>) {
        self.number(number.is_some().into());
        self.number(number.unwrap_or_default());
    }

    fn text(&mut self, text: &OsStr) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.number(items.len() as u64);
        for item in items {
            write(self, item);
        }
    }

    fn mount(&mut self, mount: &Mount) {
        self.text(mount.target.as_os_str());
        match &mount.what {
            What::Bind {
                source,
                access,
                optional,
                owned,
            } => {
                self.number(match access {
                    Access::ReadOnly => 0,
                    Access::Writable => 1,
                    Access::Device => 2,
                });
                self.text(source.as_os_str());
                self.number((*optional).into());
                self.number((*owned).into());
            }
            What::Memory { bytes, mode } => {
                self.number(3);
                self.number(*bytes);
                self.number((*mode).into());
            }
            What::Link { to } => {
                self.number(4);
                self.text(to.as_os_str());
            }
            What::File { text } => {
                self.number(5);
                self.text(text.as_ref());
            }
            What::Mask => self.number(6),
            What::Processes => self.number(7),
            What::Overlay { lower, bytes } => {
                self.number(8);
                self.text(lower.as_os_str());
                self.number(*bytes);
            }
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn flag(&mut self) -> Option<bool> {
        Some(self.number()? != 0)
    }

    fn maybe(&mut self) -> Option<Option<u64>> {
        let (is_there, number) = (self.flag()?, self.number()?);
        Some(is_there.then_some(number))
    }

    fn text(&mut self) -> Option<OsString> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(OsString::from_vec(text.to_vec()))
    }

    fn path(&mut self) -> Option<PathBuf> {
        Some(self.text()?.into())
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.number()?;
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(read(self)?);
        }
        Some(items)
    }

    fn mount(&mut self) -> Option<Mount> {
        let target = self.path()?;
        let what = match self.number()? {
            kind @ 0..=2 => What::Bind {
                access: match kind {
                    0 => Access::ReadOnly,
                    1 => Access::Writable,
                    _ => Access::Device,
                },
                source: self.path()?,
                optional: self.flag()?,
                owned: self.flag()?,
            },
            3 => What::Memory {
                bytes: self.number()?,
                mode: self.number()?.try_into().ok()?,
            },
            4 => What::Link { to: self.path()? },
            5 => What::File {
                text: self.text()?.into_string().ok()?,
            },
            6 => What::Mask,
            7 => What::Processes,
            8 => What::Overlay {
                lower: self.path()?,
                bytes: self.number()?,
            },
            _ => return None,
        };
        Some(Mount { target, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jail() -> Jail {
        Jail {
            program: "npx".into(),
            args: vec!["-y".into(), "server".into()],
            env: vec![("PATH".into(), "/usr/bin".into())],
            directory: "/srv/x".into(),
            view: vec![
                Mount::same("/srv/x", Access::Writable),
                Mount::new("/proc", What::Processes),
                Mount::new("/a", What::Link { to: "b".into() }),
                Mount::new("/c", What::File { text: "d\n".into() }),
                Mount::new("/e", What::Mask),
                Mount::new(
                    "/tmp",
                    What::Memory {
                        bytes: 7,
                        mode: 0o1777,
                    },
                ),
                Mount::new(
                    "/f",
                    What::Overlay {
                        lower: "/g".into(),
                        bytes: 9,
                    },
                ),
            ],
            network: Network::Host {
                ports: Some(vec![443, 53]),
                listen: true,
            },
            limits: Limits {
                processes: 512,
                memory: Some(1 << 30),
                descriptors: 1024,
                file_bytes: None,
                processor_seconds: Some(3),
                millicores: Some(250),
            },
            calls: Calls {
                namespaces: true,
                tracing: false,
                fewer_sockets: true,
            },
            rung: Rung::Reduced,
            insist: true,
            shown_user: Some(1000),
        }
    }

    #[test]
    fn a_jail_arrives_as_it_was_sent() {
        for network in [
            jail().network,
            Network::Own,
            Network::Host {
                ports: None,
                listen: false,
            },
        ] {
            let jail = Jail { network, ..jail() };
            assert_eq!(Jail::decode(&jail.encode()), Some(jail));
        }
    }

    #[test]
    fn a_description_that_was_cut_or_has_more_is_refused() {
        let bytes = jail().encode();
        for length in 0..bytes.len() {
            assert_eq!(Jail::decode(&bytes[..length]), None, "cut at {length}");
        }
        assert_eq!(Jail::decode(&[bytes, vec![0]].concat()), None);
    }
}
