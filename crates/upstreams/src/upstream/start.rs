//! Starting a stdio server: in the jail its entry asks for, with the files it was granted, or not at all.
//!
//! **Invariant: a stdio server runs in a jail unless its entry says `none`.** Tests `a_poisoned_server_reaches_nothing_outside`,
//! `servers_are_contained_unless_told_otherwise`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, atomic::Ordering},
    time::{Duration, Instant},
};

use sandbox::{
    Command, Spawned,
    jailer::{
        Container, Entry, Grants, Jailer, Origin, Probe, Program, Protected, Rung, Server,
        paths_in, probe,
    },
};

use super::{Hub, Upstream};
use crate::settings::{JailSpec, Jails, Text, Transport};

/// What a gate builds jails with. Which walls this machine has is found out once, when the first is needed.
#[derive(Debug)]
pub(crate) struct Jailing {
    settings: Jails,
    probed: OnceLock<Probe>,
}

impl Jailing {
    pub(super) fn new(settings: Jails) -> Self {
        Self {
            settings,
            probed: OnceLock::new(),
        }
    }

    pub(crate) fn jailer(&self) -> Jailer {
        Jailer::worker(&self.settings.program)
    }

    /// Which walls this machine has. Takes a few milliseconds the first time.
    pub(crate) fn probe(&self) -> &Probe {
        self.probed
            .get_or_init(|| probe(&self.jailer(), &["--role", "idle"]))
    }

    /// The home of a server's own.
    pub(super) fn home(&self, id: &str) -> PathBuf {
        self.settings.homes.join(id).join("home")
    }
}

/// What is in force around a running server, in words for its operator.
#[derive(Debug, Clone, Default)]
pub(super) struct Walls {
    /// Profile, rung and grants.
    pub(super) confined: String,
    pub(super) is_jail: bool,
    /// What was not granted, with the line that would; what this machine refused.
    pub(super) remarks: Vec<String>,
}

/// A server's entry, with its secrets revealed.
struct Launch {
    command: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// What of `env` an operator wrote in clear, and so may name files.
    plain: Vec<(String, String)>,
    cwd: Option<PathBuf>,
    path: String,
}

/// Starts the program of a stdio server. Waits for the kernel, so not on a thread that serves.
pub(super) async fn start(hub: &Arc<Hub>, upstream: &Arc<Upstream>) -> Result<Spawned, String> {
    let spec = upstream.spec();
    let Transport::Stdio {
        command,
        args,
        env,
        cwd,
        jail,
    } = &spec.transport
    else {
        return Err("not a stdio server".into());
    };
    let mut launch = Launch {
        command: command.clone(),
        args: args.clone(),
        env: Vec::new(),
        plain: Vec::new(),
        cwd: cwd.clone(),
        path: hub.host_path().to_owned(),
    };
    for (name, value) in env {
        if let Text::Literal(text) = value {
            launch.plain.push((name.clone(), text.clone()));
        }
        let value = hub.reveal(value).await?;
        launch.env.push((name.clone(), value.expose().clone()));
    }
    tracing::info!(server = %spec.id, command, "starting a stdio server");
    let (hub, upstream, jail) = (Arc::clone(hub), Arc::clone(upstream), jail.clone());
    tokio::task::spawn_blocking(move || match jail {
        Some(jail) => launch.in_jail(hub.jailing(), &upstream, &jail),
        None => {
            upstream.set_walls(Walls {
                confined: "own process group, cleared environment; no jail".to_owned(),
                is_jail: false,
                remarks: Vec::new(),
            });
            launch.without_jail()
        }
    })
    .await
    .map_err(|error| error.to_string())?
}

impl Launch {
    fn without_jail(self) -> Result<Spawned, String> {
        let mut command = Command::new(&self.command)
            .args(&self.args)
            .path(&self.path);
        for (name, value) in &self.env {
            command = command.env(name, value);
        }
        if let Some(cwd) = &self.cwd {
            command = command.directory(cwd);
        }
        command.spawn().map_err(|error| error.to_string())
    }

    fn in_jail(
        self,
        jailing: &Jailing,
        upstream: &Upstream,
        jail: &JailSpec,
    ) -> Result<Spawned, String> {
        let spec = upstream.spec();
        let id = spec.id.as_str();
        let rung = rung(jailing.probe(), jail)?;
        let args: Vec<OsString> = self.args.iter().map(Into::into).collect();
        let program = Program::find(
            self.command.as_ref(),
            &args,
            self.path.as_ref(),
            self.cwd.as_deref(),
        )
        .map_err(|error| error.to_string())?;
        let container = match jail.is_container() {
            true => Some(self.contain(jail, id, jailing)?),
            false => None,
        };
        let grants = self.weigh(jail, &program, &jailing.settings.protected);
        if let Some(trouble) = grants.troubles.iter().find(|trouble| trouble.is_error) {
            return Err(format!("it is not started: {trouble}"));
        }
        let home = jailing.home(id);
        if upstream.reinstall.swap(false, Ordering::AcqRel)
            && let Err(error) = Server::empty_home(&home)
        {
            upstream.reinstall.store(true, Ordering::Release);
            return Err(format!("cannot empty its home {}: {error}", home.display()));
        }
        Server::make_home(&home)
            .map_err(|error| format!("cannot make its home {}: {error}", home.display()))?;
        room_in(&home, jail.home_bytes, id)?;
        let mut confined = confined(jail, rung, &grants);
        if let Some((container, socket)) = &container {
            confined.push_str(&format!("; runtime {}", socket.display()));
            for mount in &container.mounts {
                confined.push_str(&format!("; mounts {} (args)", audit::printable(mount)));
            }
        }
        let mut walls = Walls {
            confined,
            is_jail: true,
            remarks: grants.troubles.iter().map(ToString::to_string).collect(),
        };
        let certificates = jailing.settings.certificates.iter();
        // In a container its runtime bounds what the server uses; the runtime's own program is small.
        let (args, socket, memory, millicores) = match container {
            Some((container, socket)) => {
                let args = container.args.iter().map(Into::into).collect();
                (args, Some(socket), None, None)
            }
            None => (args, None, jail.memory, jail.millicores),
        };
        let started = Server {
            profile: jail.profile,
            rung,
            command: self.command.into(),
            program,
            args,
            path: self.path.into(),
            env: certificates
                .chain(&self.env)
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            directory: self.cwd.filter(|_| socket.is_none()),
            home,
            grants,
            ports: jail.ports.clone(),
            listen: jail.listen,
            namespaces: jail.namespaces,
            memory,
            millicores,
            offline_packages: jail.offline_packages,
            socket,
        }
        .jail()
        .start(&jailing.jailer())
        .map_err(|error| error.to_string());
        if let Ok(jailed) = &started {
            walls
                .remarks
                .extend(jailed.report.refused().map(ToString::to_string));
        }
        upstream.set_walls(walls);
        started.map(|jailed| jailed.spawned)
    }

    /// What the runtime is called with for a server in a container, and where it listens.
    fn contain(
        &self,
        jail: &JailSpec,
        id: &str,
        jailing: &Jailing,
    ) -> Result<(Container, PathBuf), String> {
        use std::os::unix::fs::FileTypeExt as _;
        let entry = Entry {
            id,
            protected: &jailing.settings.protected,
            unprotected: &jail.unprotect,
            memory: jail.memory,
            millicores: jail.millicores,
        };
        let container = Container::read(&self.args, entry)
            .map_err(|why| format!("its container is not started: {why}"))?;
        let is_socket = |path: &PathBuf| {
            path.metadata()
                .is_ok_and(|found| found.file_type().is_socket())
        };
        let places: Vec<PathBuf> = match &jail.container_socket {
            Some(named) => vec![named.clone()],
            None => jailing.settings.container_sockets.clone(),
        };
        let found = places.iter().find(|path| is_socket(path));
        let socket = found.and_then(|path| path.canonicalize().ok());
        let socket = socket.ok_or_else(|| {
            let places: Vec<String> = places
                .iter()
                .map(|place| place.display().to_string())
                .collect();
            format!(
                "no container runtime listens at {}; start one (`systemctl --user start podman.socket`), or name its socket under `jails.container_socket`",
                places.join(", ")
            )
        })?;
        Ok((container, socket))
    }

    /// Every path that the entry names, granted or refused.
    fn weigh(&self, jail: &JailSpec, program: &Program, protected: &Protected) -> Grants {
        let own = |path: &PathBuf, origin| (path.clone(), origin);
        let mut wanted: Vec<(PathBuf, Origin)> = Vec::new();
        wanted.extend(jail.read.iter().map(|path| own(path, Origin::Read)));
        wanted.extend(jail.write.iter().map(|path| own(path, Origin::Write)));
        if jail.implies_grants() {
            // The program's own files are for reading, although it is named among the arguments.
            let projects = &program.projects;
            let is_own = |path: &Path| {
                path == program.file || projects.iter().any(|top| path.starts_with(top))
            };
            wanted.extend(projects.iter().map(|path| own(path, Origin::Project)));
            let named = self.args.iter().flat_map(|text| paths_in(text));
            wanted.extend(
                named
                    .filter(|path| !is_own(path) || path.is_dir())
                    .map(|path| (path, Origin::Argument)),
            );
            for (name, value) in self.plain.iter().filter(|(name, _)| name != "PATH") {
                wanted.extend(
                    paths_in(value)
                        .into_iter()
                        .map(|path| (path, Origin::Variable(name.clone()))),
                );
            }
            wanted.extend(self.cwd.iter().map(|path| own(path, Origin::Directory)));
        }
        Grants::weigh(wanted, protected, &jail.unprotect).with_program(
            program,
            protected,
            &jail.unprotect,
        )
    }
}

/// How often the home of a server that runs is measured. Looking takes at most a tenth of the time.
const LOOK: Duration = Duration::from_secs(5);

/// Returns what is wrong once the home of a server holds more than it may.
pub(super) async fn overflows(hub: &Arc<Hub>, upstream: &Arc<Upstream>) -> String {
    let spec = upstream.spec();
    let Transport::Stdio {
        jail: Some(jail), ..
    } = &spec.transport
    else {
        return std::future::pending().await;
    };
    let (most, mut pause) = (jail.home_bytes, LOOK);
    loop {
        tokio::time::sleep(pause).await;
        let (home, id) = (hub.jailing().home(spec.id.as_str()), spec.id.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            (room_in(&home, most, id.as_str()), begun.elapsed())
        });
        match looked.await {
            Ok((Ok(()), took)) => pause = LOOK.max(took * 10),
            Ok((Err(why), _)) => return why,
            Err(error) => return error.to_string(),
        }
    }
}

/// Whether the home of a server holds no more than it may. What cannot be measured counts as full.
fn room_in(home: &Path, most: u64, id: &str) -> Result<(), String> {
    let instead =
        format!("`portcullis servers reinstall {id}` empties it, `jail.home_mb` bounds it");
    match sandbox::disk_use(home) {
        Ok(held) if held > most => Err(format!(
            "its home holds {} MiB and may hold {}; {instead}",
            held >> 20,
            most >> 20
        )),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("its home cannot be measured: {error}; {instead}")),
    }
}

/// The walls to build, if this machine has those that the profile needs.
fn rung(probe: &Probe, jail: &JailSpec) -> Result<Rung, String> {
    let repair = || probe.repair().unwrap_or_default();
    match probe.rung() {
        Some(Rung::Reduced) if jail.is_strict() || jail.is_container() => Err(format!(
            "`jail: {}` needs namespaces, which this machine refuses ({})",
            jail.profile,
            repair()
        )),
        Some(rung) => Ok(rung),
        None => Err(format!(
            "this machine offers no walls for stdio servers ({}); `jail: none` runs it without any",
            repair()
        )),
    }
}

fn confined(jail: &JailSpec, rung: Rung, grants: &Grants) -> String {
    let mut text = format!("{} ({})", jail.profile, rung.as_str());
    for grant in &grants.granted {
        let use_ = if grant.writable { "writes" } else { "reads" };
        text.push_str(&format!(
            "; {use_} {} ({})",
            audit::printable(&grant.path.display().to_string()),
            grant.origin
        ));
    }
    text
}
