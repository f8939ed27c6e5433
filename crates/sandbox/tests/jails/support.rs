//! A home to steal from, a gate to attack, and jails to do it from.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandbox::escape::programs::{self, Prey};
use sandbox::jailer::{
    Grants, Jail, Jailed, Jailer, Origin, Profile, Program, Protected, Rung, Server,
};

pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn this_binary() -> PathBuf {
    std::env::current_exe().unwrap().canonicalize().unwrap()
}

pub(crate) fn jailer() -> Jailer {
    Jailer {
        program: this_binary(),
        args: vec!["role:jailer".into()],
    }
}

/// Everything a prisoner would like to reach, and that this user can reach.
pub(crate) struct Temptation {
    _directory: tempfile::TempDir,
    pub(crate) prey: Prey,
    _listeners: (TcpListener, UnixListener, UnixListener),
    done: Arc<AtomicBool>,
}

impl Temptation {
    pub(crate) fn new() -> Self {
        // As a gate does.
        sandbox::jail::hide_memory().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for place in Prey::PLACES {
            let file = root.join(place);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "canary\n").unwrap();
        }
        std::fs::create_dir_all(root.join("gate/run")).unwrap();
        let _ = std::fs::write("/dev/shm/portcullis-probe-prey", "canary");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let name = format!("portcullis-prey-{}-{port}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let watched = free_port();
        let done = Arc::new(AtomicBool::new(false));
        look_from_outside(port, watched, Arc::clone(&done));
        let prey = Prey {
            gate: std::process::id(),
            port,
            watched,
            socket_name: name,
            segment: segment(),
            own: root.join("own"),
            root: root.clone(),
        };
        Server::make_home(&prey.own).unwrap();
        Self {
            _listeners: (
                tcp,
                UnixListener::bind(root.join(Prey::SOCKET)).unwrap(),
                UnixListener::bind_addr(&address).unwrap(),
            ),
            _directory: directory,
            prey,
            done,
        }
    }

    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let prey = &self.prey;
        vec![
            "role:try".into(),
            prey.root.clone().into(),
            prey.gate.to_string().into(),
            prey.port.to_string().into(),
            prey.watched.to_string().into(),
            prey.socket_name.clone().into(),
            prey.segment.to_string().into(),
            prey.own.clone().into(),
        ]
    }

    /// Whether anything outside is not as it was.
    pub(crate) fn assert_untouched(&self) {
        for place in Prey::PLACES {
            let text = std::fs::read_to_string(self.prey.root.join(place)).unwrap();
            assert_eq!(text, "canary\n", "{place} was changed");
        }
    }
}

/// A System V segment, made by a program that every machine has: no safe call makes one.
fn segment() -> i32 {
    let made = std::process::Command::new("ipcmk")
        .args(["--shmem", "4096"])
        .output();
    let text = made.map_or_else(
        |_| String::new(),
        |made| String::from_utf8_lossy(&made.stdout).into_owned(),
    );
    text.split_whitespace()
        .last()
        .and_then(|id| id.parse().ok())
        .unwrap_or(-1)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Answers whoever sends, and connects to whoever listens.
fn look_from_outside(port: u16, watched: u16, done: Arc<AtomicBool>) {
    let udp = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    std::thread::spawn(move || {
        while !done.load(Ordering::Relaxed) {
            let mut bytes = [0; 8];
            if let Ok((read, from)) = udp.recv_from(&mut bytes) {
                let _ = udp.send_to(&bytes[..read], from);
            }
            let _ = TcpStream::connect(("127.0.0.1", watched));
        }
    });
}

impl Drop for Temptation {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if self.prey.segment >= 0 {
            let _ = std::process::Command::new("ipcrm")
                .args(["--shmem-id", &self.prey.segment.to_string()])
                .output();
        }
    }
}

/// The prisoner: tries everything, and says what went through.
pub(crate) fn try_everything(prey: &[&str]) -> ExitCode {
    let [root, gate, port, watched, socket_name, segment, own] = prey else {
        panic!("seven aims: {prey:?}")
    };
    let prey = Prey {
        root: root.into(),
        gate: gate.parse().unwrap(),
        port: port.parse().unwrap(),
        watched: watched.parse().unwrap(),
        socket_name: (*socket_name).to_owned(),
        segment: segment.parse().unwrap(),
        own: own.into(),
    };
    let (through, tried) = programs::try_everything(&prey);
    println!("tried {tried}");
    for name in through {
        println!("through {name}");
    }
    ExitCode::SUCCESS
}

/// A server of this profile with this home, which runs `command`.
pub(crate) fn server(profile: Profile, home: &Path, command: &str, args: &[&str]) -> Server {
    let args: Vec<OsString> = args.iter().map(Into::into).collect();
    let path: OsString = "/usr/local/bin:/usr/bin:/bin".into();
    let program = Program::find(command.as_ref(), &[], &path, None).unwrap();
    let grants = Grants::default().with_program(&program, &Protected::default(), &[]);
    Server {
        profile,
        rung: Rung::Namespaces,
        program,
        command: command.into(),
        args,
        path,
        env: Vec::new(),
        directory: None,
        home: home.to_owned(),
        grants,
        ports: Vec::new(),
        listen: false,
        namespaces: false,
        memory: None,
        millicores: None,
        offline_packages: false,
        socket: None,
    }
}

pub(crate) fn shell(profile: Profile, home: &Path, script: &str) -> Server {
    server(profile, home, "sh", &["-c", script])
}

pub(crate) fn granted(paths: &[(&Path, Origin)], home: &Path) -> Grants {
    let protected = Protected::new(Some(home), &[]);
    let wanted = paths
        .iter()
        .map(|(path, origin)| (path.to_path_buf(), origin.clone()));
    Grants::weigh(wanted, &protected, &[])
}

pub(crate) struct Ended {
    pub(crate) output: String,
    pub(crate) complaints: String,
    pub(crate) status: ExitStatus,
}

/// Starts a jail and reads it to its end.
pub(crate) fn run(jail: &Jail) -> Ended {
    let jailed = jail
        .start(&jailer())
        .unwrap_or_else(|error| panic!("{error}"));
    end(jailed)
}

pub(crate) fn end(jailed: Jailed) -> Ended {
    let spawned = jailed.spawned;
    drop(spawned.stdin);
    let complaints = std::thread::spawn(move || text_of(spawned.stderr));
    let output = text_of(spawned.stdout);
    let mut child = spawned.child;
    let status = child
        .wait_timeout(LONG)
        .unwrap()
        .expect("the program ends in time");
    Ended {
        output,
        complaints: complaints.join().unwrap(),
        status,
    }
}

pub(crate) fn text_of(fd: OwnedFd) -> String {
    let mut bytes = Vec::new();
    File::from(fd).read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn home() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().canonicalize().unwrap().join("home");
    Server::make_home(&home).unwrap();
    (directory, home)
}
