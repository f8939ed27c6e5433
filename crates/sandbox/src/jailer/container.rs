//! Servers in containers of their own: what the command line of a container runtime may ask for, and what it is always given.
//!
//! The container is the wall, and whoever may start containers is as strong as root. So the command line is read, not trusted: what is not
//! known to leave the wall standing is refused with its name. The runtime's program itself runs in a jail that sees its socket and nothing else.
//!
//! **Invariant: no entry gets a container that reaches the host.** Test `what_opens_a_container_to_the_host_is_refused`.

use std::path::{Path, PathBuf};

use super::grants::{Grants, Origin};
use super::protected::{Protected, real};

/// Programs whose command line starts containers.
const RUNTIMES: [&str; 2] = ["docker", "podman"];
/// Where the jail of the runtime's program has the socket.
pub(super) const SOCKET: &str = "/run/container.sock";

/// Options without a value.
const FLAGS: [&str; 9] = [
    "--interactive",
    "-i",
    "--tty",
    "-t",
    "--rm",
    "--init",
    "--read-only",
    "--quiet",
    "-q",
];
/// Options whose value says nothing of the host.
const HARMLESS: [&str; 28] = [
    "--add-host",
    "--cap-drop",
    "--cpu-shares",
    "-c",
    "--cpus",
    "--cpuset-cpus",
    "--entrypoint",
    "--env",
    "-e",
    "--health-cmd",
    "--hostname",
    "-h",
    "--label",
    "-l",
    "--memory",
    "-m",
    "--memory-swap",
    "--name",
    "--pids-limit",
    "--platform",
    "--pull",
    "--shm-size",
    "--stop-signal",
    "--stop-timeout",
    "--tmpfs",
    "--user",
    "-u",
    "--workdir",
];
/// Short ones that stand for a long one.
const SHORT_WORKDIR: &str = "-w";
/// Options that may not put the container into a namespace of the host or of another container.
const NAMESPACES: [&str; 7] = [
    "--network",
    "--net",
    "--pid",
    "--ipc",
    "--uts",
    "--userns",
    "--cgroupns",
];
/// What a mount may be told besides where it is.
const MOUNT_OPTIONS: [&str; 8] = [
    "ro",
    "rw",
    "z",
    "Z",
    "nocopy",
    "cached",
    "consistent",
    "delegated",
];
/// Places of the machine that no container gets, and those that it gets for reading.
const NEVER: [&str; 6] = ["/proc", "/sys", "/dev", "/run", "/var/run", "/boot"];
const READ_ONLY: [&str; 9] = [
    "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/var", "/root",
];

/// What a container may use up, unless its entry says less or more.
const PROCESSES: &str = "512";
const MEMORY: u64 = 2 << 30;
const MILLICORES: u64 = 1000;

/// A command line that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// What the runtime is called with.
    pub args: Vec<String>,
    /// Directories and files of the host that it gets, as they were written.
    pub mounts: Vec<String>,
}

/// What an entry says besides its command line.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The server's name, which its container is labelled with.
    pub id: &'a str,
    pub protected: &'a Protected,
    pub unprotected: &'a [PathBuf],
    pub memory: Option<u64>,
    pub millicores: Option<u64>,
}

/// Whether this command starts containers.
#[must_use]
pub fn is_runtime(command: &str) -> bool {
    Path::new(command)
        .file_name()
        .is_some_and(|name| RUNTIMES.iter().any(|runtime| name == *runtime))
}

impl Container {
    /// Reads `run OPTION… IMAGE ARGUMENT…`, and adds what a container always has.
    ///
    /// # Errors
    /// What would open the container to the host, or is not known not to, with what to write instead.
    pub fn read(args: &[String], entry: Entry<'_>) -> Result<Self, String> {
        let rest = match args {
            [run, rest @ ..] if run == "run" => rest,
            [container, run, rest @ ..] if container == "container" && run == "run" => rest,
            _ => {
                return Err(
                    "`args` must begin with `run`: the gate names the runtime's socket itself, and lets it do nothing else"
                        .to_owned(),
                );
            }
        };
        let mut options = Options::default();
        let mut rest = rest.iter();
        let image = loop {
            let Some(arg) = rest.next() else {
                return Err("`args` names no image".to_owned());
            };
            if arg == "--" {
                break rest.next().ok_or("`args` names no image")?;
            }
            if !arg.starts_with('-') || arg == "-" {
                break arg;
            }
            options.take(arg, &mut rest, entry)?;
        };
        let mut args = vec!["run".to_owned()];
        args.append(&mut options.kept);
        for (flag, is_there) in [
            ("--rm", options.has("--rm", "--rm")),
            ("--interactive", options.has("--interactive", "-i")),
            ("--init", options.has("--init", "--init")),
        ] {
            if !is_there {
                args.push(flag.to_owned());
            }
        }
        args.extend(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"].map(String::from));
        let millicores = entry.millicores.unwrap_or(MILLICORES);
        for (option, short, value) in [
            ("--pids-limit", "--pids-limit", PROCESSES.to_owned()),
            ("--memory", "-m", entry.memory.unwrap_or(MEMORY).to_string()),
            (
                "--cpus",
                "--cpus",
                format!("{}.{:03}", millicores / 1000, millicores % 1000),
            ),
        ] {
            if !options.has(option, short) {
                args.extend([option.to_owned(), value]);
            }
        }
        args.extend([
            "--label".to_owned(),
            format!("portcullis.server={}", entry.id),
        ]);
        args.push(image.clone());
        args.extend(rest.cloned());
        Ok(Self {
            args,
            mounts: options.mounts,
        })
    }
}

#[derive(Default)]
struct Options {
    kept: Vec<String>,
    names: Vec<String>,
    mounts: Vec<String>,
}

impl Options {
    fn has(&self, long: &str, short: &str) -> bool {
        self.names.iter().any(|name| name == long || name == short)
    }

    /// One option, with its value where it has one.
    fn take<'a>(
        &mut self,
        arg: &str,
        rest: &mut impl Iterator<Item = &'a String>,
        entry: Entry<'_>,
    ) -> Result<(), String> {
        let (name, given) = match arg.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (arg, None),
        };
        if !name.starts_with("--") && name.len() > 2 {
            return self.take_short(name, rest, entry);
        }
        if FLAGS.contains(&name) {
            if given.is_some_and(|value| value != "true") {
                return Err(refused(arg));
            }
            self.keep(name, &[name.to_owned()]);
            return Ok(());
        }
        let mut value = || {
            given
                .clone()
                .or_else(|| rest.next().cloned())
                .ok_or_else(|| format!("`{name}` has no value"))
        };
        if HARMLESS.contains(&name) || name == SHORT_WORKDIR {
            let value = value()?;
            self.keep(name, &[name.to_owned(), value]);
        } else if NAMESPACES.contains(&name) {
            let value = value()?;
            // A name, and not what reaches further: `container:x`, `ns:/proc/1/ns/net`, `slirp4netns:allow_host_loopback=true`.
            let is_name = value
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter));
            if !is_name || value == "host" {
                return Err(refused(&format!("{name} {value}")));
            }
            self.keep(name, &[name.to_owned(), value]);
        } else if name == "--security-opt" {
            let value = value()?;
            if ![
                "no-new-privileges",
                "no-new-privileges:true",
                "no-new-privileges=true",
            ]
            .contains(&&*value)
            {
                return Err(refused(&format!("{name} {value}")));
            }
        } else if name == "-v" || name == "--volume" {
            let value = value()?;
            let kept = self.volume(&value, entry)?;
            self.keep("--volume", &["--volume".to_owned(), kept]);
        } else if name == "--mount" {
            let value = value()?;
            let kept = self.mount(&value, entry)?;
            self.keep(name, &[name.to_owned(), kept]);
        } else {
            return Err(refused(name));
        }
        Ok(())
    }

    /// `-it`, `-eNAME=VALUE`, `-itv/a:/b`: letters without a value, then perhaps one with the rest as its value.
    fn take_short<'a>(
        &mut self,
        cluster: &str,
        rest: &mut impl Iterator<Item = &'a String>,
        entry: Entry<'_>,
    ) -> Result<(), String> {
        let letters = cluster.strip_prefix('-').unwrap_or_default();
        for (at, letter) in letters.char_indices() {
            let name = format!("-{letter}");
            if FLAGS.contains(&&*name) {
                self.keep(&name, std::slice::from_ref(&name));
                continue;
            }
            let after = letters.get(at + letter.len_utf8()..).unwrap_or_default();
            let after = after.strip_prefix('=').unwrap_or(after);
            if after.is_empty() {
                return self.take(&name, rest, entry);
            }
            return self.take(&name, &mut std::iter::once(&after.to_owned()), entry);
        }
        Ok(())
    }

    fn keep(&mut self, name: &str, args: &[String]) {
        self.names.push(name.to_owned());
        self.kept.extend_from_slice(args);
    }

    /// `SOURCE:TARGET[:OPTION,…]`, or a name of the runtime's own.
    fn volume(&mut self, value: &str, entry: Entry<'_>) -> Result<String, String> {
        let mut parts = value.splitn(3, ':');
        let (source, target) = (parts.next().unwrap_or_default(), parts.next());
        let options: Vec<&str> = parts
            .next()
            .map_or_else(Vec::new, |text| text.split(',').collect());
        if let Some(odd) = options
            .iter()
            .find(|option| !MOUNT_OPTIONS.contains(option))
        {
            return Err(refused(&format!("--volume …:{odd}")));
        }
        let Some(target) = target else {
            // One path alone is a place inside, with a volume that has no name.
            return Ok(value.to_owned());
        };
        if !source.contains('/') && !source.starts_with('.') && !source.starts_with('~') {
            return Ok(value.to_owned());
        }
        let source = self.source(source, options.contains(&"ro"), entry)?;
        let tail = if options.is_empty() {
            String::new()
        } else {
            format!(":{}", options.join(","))
        };
        Ok(format!("{source}:{target}{tail}"))
    }

    /// `type=bind,source=…,target=…`.
    fn mount(&mut self, value: &str, entry: Entry<'_>) -> Result<String, String> {
        let odd = || refused(&format!("--mount {value}"));
        if value.contains(['"', '\'']) {
            return Err(odd());
        }
        let pairs: Vec<(&str, &str)> = value
            .split(',')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "true")))
            .collect();
        let is_read_only = pairs
            .iter()
            .any(|&(key, value)| matches!(key, "ro" | "readonly") && matches!(value, "true" | "1"));
        let kind = pairs
            .iter()
            .rev()
            .find(|(key, _)| *key == "type")
            .map_or("volume", |&(_, kind)| kind);
        let mut kept = Vec::new();
        for (key, value) in pairs {
            let value = match (kind, key) {
                ("bind", "source" | "src") => self.source(value, is_read_only, entry)?,
                ("volume", "source" | "src") if value.contains('/') => return Err(odd()),
                (
                    "bind" | "volume" | "tmpfs",
                    "type" | "target" | "destination" | "dst" | "ro" | "readonly" | "source"
                    | "src" | "tmpfs-size" | "tmpfs-mode",
                ) => value.to_owned(),
                _ => return Err(odd()),
            };
            kept.push(format!("{key}={value}"));
        }
        Ok(kept.join(","))
    }

    /// A path of the host, if a container may have it: where it leads, so that nobody puts a link in its place.
    fn source(
        &mut self,
        written: &str,
        is_read_only: bool,
        entry: Entry<'_>,
    ) -> Result<String, String> {
        let path = Path::new(written);
        if !path.is_absolute() {
            return Err(format!("`{written}` must be a whole path"));
        }
        let Some(found) = real(path) else {
            return Err(format!(
                "`{written}` does not exist; create it or correct the path"
            ));
        };
        let below = |places: &[&str]| places.iter().any(|place| found.starts_with(place));
        if below(&NEVER) {
            return Err(format!(
                "`{written}` is a part of the machine that no container gets; remove it, or say `jail: none`"
            ));
        }
        let is_system = below(&READ_ONLY) && !entry.protected.is_below_home(&found);
        if is_system && !is_read_only {
            return Err(format!(
                "`{written}` belongs to the machine; add `:ro` so that the container can only read it"
            ));
        }
        // A place inside cannot be covered in a container, so whatever holds one is refused, also for reading.
        let wanted = [(path.to_owned(), Origin::Write)];
        let weighed = Grants::weigh(wanted, entry.protected, entry.unprotected);
        if let Some(trouble) = weighed.troubles.first() {
            return Err(trouble.to_string());
        }
        if entry.protected.is_home(&found) {
            return Err(format!(
                "`{written}` is too much to show; name the directories it needs"
            ));
        }
        let text = found.to_str().filter(|text| !text.contains([':', ',']));
        let text =
            text.ok_or_else(|| format!("`{written}` has a name that cannot be passed on"))?;
        self.mounts.push(written.to_owned());
        Ok(text.to_owned())
    }
}

fn refused(what: &str) -> String {
    format!(
        "`{what}` is not known to leave the container's walls standing; remove it, or say `jail: none`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Yard {
        place: tempfile::TempDir,
        protected: Protected,
    }

    impl Yard {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let home = place.path().join("home");
            for name in [".ssh", "src", "docs/.ssh"] {
                std::fs::create_dir_all(home.join(name)).unwrap();
            }
            std::os::unix::fs::symlink(home.join(".ssh"), home.join("src/keys")).unwrap();
            let protected = Protected::new(Some(&home), &[place.path().join("gate")]);
            Self { place, protected }
        }

        fn at(&self, name: &str) -> String {
            let path = self.place.path().canonicalize().unwrap().join(name);
            path.to_str().unwrap().to_owned()
        }

        fn read(&self, args: &[&str]) -> Result<Container, String> {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let entry = Entry {
                id: "github",
                protected: &self.protected,
                unprotected: &[],
                memory: None,
                millicores: Some(250),
            };
            Container::read(&args, entry)
        }
    }

    #[test]
    fn what_people_write_is_kept_and_what_is_missing_is_added() {
        let yard = Yard::new();
        let src = yard.at("home/src");
        let mount = format!("{src}:/src:ro");
        let read = yard.read(&[
            "run",
            "-i",
            "--rm",
            "-e",
            "KEY",
            "-v",
            &mount,
            "an/image",
            "--privileged",
        ]);
        let read = read.unwrap();
        let all = read.args.join(" ");
        assert_eq!(
            all,
            format!(
                "run -i --rm -e KEY --volume {mount} --init --cap-drop ALL --security-opt no-new-privileges --pids-limit 512 \
                 --memory 2147483648 --cpus 0.250 --label portcullis.server=github an/image --privileged"
            )
        );
        assert_eq!(read.mounts, std::slice::from_ref(&src));
        let bind = format!("--mount=type=bind,source={src},target=/src,readonly");
        for args in [
            vec!["run", "-it", "--memory=1g", "image"],
            vec!["container", "run", "--network", "none", "image"],
            vec![
                "run",
                "--security-opt=no-new-privileges",
                "--net=bridge",
                "--",
                "image",
            ],
            vec![
                "run",
                "-v",
                "data:/data",
                "-v",
                "/data",
                "--tmpfs",
                "/tmp",
                "image",
            ],
            vec!["run", "-itw/src", "-eA=b", "image"],
            vec![
                "run",
                &bind,
                "--mount",
                "type=volume,src=data,dst=/data",
                "image",
            ],
        ] {
            let read = yard.read(&args);
            assert!(read.is_ok(), "{args:?}: {read:?}");
        }
        let own = yard
            .read(&["run", "-m", "1g", "--cpus=3", "image"])
            .unwrap();
        let all = own.args.join(" ");
        assert!(all.contains("-m 1g") && all.contains("--cpus 3") && !all.contains("2147483648"));
    }

    #[test]
    fn what_opens_a_container_to_the_host_is_refused() {
        let yard = Yard::new();
        let [home, ssh, link, docs, missing] = [
            "home",
            "home/.ssh",
            "home/src/keys",
            "home/docs",
            "home/none",
        ]
        .map(|name| yard.at(name));
        let source = |path: &str| format!("{path}:/x");
        let bind = |path: &str| format!("type=bind,source={path},target=/x");
        let mut wrong: Vec<Vec<String>> = Vec::new();
        for options in [
            "--privileged",
            "--privileged=true",
            "--pid=host",
            "--pid host",
            "--net host",
            "--network=host",
            "--ipc=host",
            "--uts host",
            "--userns=host",
            "--cgroupns=host",
            "--network container:x",
            "--device /dev/kvm",
            "--device=/dev/sda",
            "--cap-add ALL",
            "--cap-add=SYS_ADMIN",
            "--security-opt seccomp=unconfined",
            "--security-opt apparmor=unconfined",
            "--security-opt label=disable",
            "--volumes-from x",
            "--env-file /etc/passwd",
            "--cidfile /tmp/x",
            "--gpus all",
            "--runtime x",
            "--volume-driver local",
            "--group-add 0",
            "--cgroup-parent /",
            "--device-cgroup-rule a",
            "--sysctl a=b",
            "--ulimit core=-1",
            "--oom-kill-disable",
            "-d",
            "--detach",
            "-p 80:80",
            "-P",
            "--publish 80:80",
            "--rm=false",
            "--init=false",
            "--blkio-weight 10",
            "-itd",
            "--restart always",
            "--isolation x",
            "--link a",
            "--use-api-socket",
            "--label-file x",
            "--rootfs",
            "--pod x",
            "--secret x",
        ] {
            wrong.push(options.split(' ').map(str::to_owned).collect());
        }
        for path in [
            "/",
            "/etc",
            "/usr/bin",
            "/proc",
            "/sys/fs",
            "/dev",
            "/run",
            "/var/run/docker.sock",
            "a/b",
            "~/x",
            "../x",
            "./x",
            &home,
            &ssh,
            &link,
            &missing,
        ] {
            wrong.push(vec!["-v".to_owned(), source(path)]);
            wrong.push(vec![format!("--volume={}", source(path))]);
            wrong.push(vec![format!("-v{}", source(path))]);
            wrong.push(vec![format!("-iv{}", source(path))]);
            wrong.push(vec!["--mount".to_owned(), bind(path)]);
        }
        for mount in [
            "type=volume,dst=/x,volume-opt=device=/,volume-opt=o=bind,volume-opt=type=none",
            "type=volume,volume-driver=local,dst=/x",
            "type=image,source=a,target=/x",
            "\"type=bind\",source=/,target=/x",
            "type=volume,type=bind,source=/,target=/x",
            "type=bind,bind-propagation=shared,source=/,target=/x",
        ] {
            wrong.push(vec!["--mount".to_owned(), mount.to_owned()]);
        }
        wrong.push(vec![
            "-v".to_owned(),
            format!("{}:/x:rw,U", yard.at("home/src")),
        ]);
        for options in &wrong {
            let mut args = vec!["run"];
            args.extend(options.iter().map(String::as_str));
            args.push("image");
            let read = yard.read(&args);
            assert!(read.is_err(), "{args:?}: {read:?}");
        }
        assert!(wrong.len() > 100);
        // What lies in a place that a jail would cover.
        let docs_ssh = Protected::new(Some(Path::new(&docs)), &[]);
        let args = ["run", "-v", &format!("{docs}:/x:ro"), "image"].map(str::to_owned);
        let entry = Entry {
            id: "x",
            protected: &docs_ssh,
            unprotected: &[],
            memory: None,
            millicores: None,
        };
        assert!(Container::read(&args, entry).is_err());
        // Only `run`, at the socket that the gate names.
        for args in [
            &["-H", "tcp://x", "run", "image"][..],
            &["--host=unix:///x", "run", "image"],
            &["--context", "x", "run", "image"],
            &["--config", "x", "run", "image"],
            &["exec", "-it", "x", "sh"],
            &["compose", "run", "x"],
            &["run"],
            &["run", "-i"],
            &[],
            &["run", "--"],
            &["run", "-e"],
            &["start", "-ai", "x"],
            &["--remote", "run", "image"],
        ] {
            assert!(yard.read(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn runtimes_are_known_by_their_names() {
        assert!(is_runtime("docker") && is_runtime("/usr/bin/podman"));
        assert!(!is_runtime("docker-mcp") && !is_runtime("npx"));
    }
}
