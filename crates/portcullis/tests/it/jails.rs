//! Stdio servers in their jails, from outside: what a poisoned one reaches, what an honest one has, what its operator is told.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::Era;
use testkit::gate::{Gate, Setup};
use testkit::procfs;

use crate::foreign::Node;
use crate::support::{
    await_state, client, config, eventually, gate, portcullis, program, server, stdio,
    stdio_everything, workspace,
};

const PUBLIC: &str = "classification: PUBLIC";
const SOON: Duration = Duration::from_secs(20);

/// Files of a user that hold what a thief wants.
const PROTECTED: [&str; 12] = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".docker/config.json",
    ".kube/config",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".config/gh/hosts.yml",
    ".mozilla/firefox/logins.json",
    ".config/chromium/Cookies",
    ".bash_history",
    ".local/share/keyrings/login.keyring",
];

/// Files of the machine that nobody in a jail can make.
const SYSTEM: &[&str] = &[
    "/usr/local/bin/portcullis-poison",
    "/etc/cron.d/portcullis-poison",
];
/// How many files are looked at: more than a jail shows, and without one only those that are aimed at.
const ALL_FILES: usize = 20_000;

/// A user's home, a project with a poisoned server, and listeners that count who came.
struct Scene {
    place: tempfile::TempDir,
    tcp: Arc<AtomicUsize>,
    udp: Arc<AtomicUsize>,
    ports: (u16, u16),
}

impl Scene {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let (tcp, udp) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ports = (
            listener.local_addr().unwrap().port(),
            socket.local_addr().unwrap().port(),
        );
        let count = Arc::clone(&tcp);
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.read(&mut [0; 64]);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let count = Arc::clone(&udp);
        std::thread::spawn(move || {
            while socket.recv(&mut [0; 64]).is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let scene = Self {
            place,
            tcp,
            udp,
            ports,
        };
        for (number, file) in PROTECTED.iter().enumerate() {
            scene.write(&format!("home/{file}"), &format!("CANARY-HOME-{number}\n"));
        }
        scene.write("home/.bashrc", "CANARY-BASHRC\n");
        scene.write("home/Documents/letter.txt", "CANARY-LETTER\n");
        scene.write(
            "project/package.json",
            r#"{"name":"poison","type":"module"}"#,
        );
        let script = workspace().join("crates/portcullis/tests/foreign/poisoned.mjs");
        scene.write(
            "project/poison.mjs",
            &std::fs::read_to_string(script).unwrap(),
        );
        scene
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.at(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    /// What the server is to try, besides walking through all it sees.
    fn aim(&self, gate: &Gate, system: &[&str]) {
        let home = gate.home();
        let mut read: Vec<PathBuf> = PROTECTED
            .iter()
            .map(|file| self.at(&format!("home/{file}")))
            .collect();
        read.extend([
            self.at("home/Documents/letter.txt"),
            home.join("portcullis.yaml"),
            home.join("state/operator.token"),
            home.join("state/client.token"),
            home.join("state/jails/other/home/secret"),
        ]);
        let mut write = vec![
            self.at("home/.bashrc"),
            self.at("home/.ssh/authorized_keys"),
            home.join("portcullis.lock"),
            home.join("state/jails/other/home/code.js"),
            self.at("outside"),
        ];
        write.extend(system.iter().map(PathBuf::from));
        let door = gate.url().trim_end_matches("/mcp");
        let door: u16 = door.rsplit(':').next().unwrap().parse().unwrap();
        let targets = json!({
            "read": read,
            "write": write,
            "tcp": [self.ports.0, door],
            "udp": [self.ports.1],
            "sockets": [home.join("run/portcullis.sock"), home.join("run/operator.sock"), "/run/docker.sock", "/var/run/docker.sock"],
            "pids": [gate.pid()],
            "most": if system.is_empty() { 0 } else { ALL_FILES },
        });
        self.write("project/targets.json", &targets.to_string());
    }

    /// A gate whose operator has this home, with one server that is not connected before it is aimed.
    async fn gate(&self, entry: String) -> Gate {
        self.gate_trying(entry, SYSTEM).await
    }

    /// The same, which writes to these files of the machine if it can.
    async fn gate_trying(&self, entry: String, system: &[&str]) -> Gate {
        self.write("project/targets.json", "{}");
        let entry = entry.replacen('{', "{ enabled: false, ", 1);
        let gate = Setup::new(portcullis(), config(&[("up", entry)]))
            .env("HOME", self.at("home").to_str().unwrap())
            .env("CANARY_TOKEN", "CANARY-ENVIRONMENT")
            .start()
            .await
            .unwrap();
        let other = gate.home().join("state/jails/other/home");
        std::fs::create_dir_all(&other).unwrap();
        for file in ["secret", "code.js"] {
            std::fs::write(other.join(file), "CANARY-OTHER-JAIL\n").unwrap();
        }
        self.aim(&gate, system);
        let said = gate.cli(&["servers", "enable", "up"]).await.unwrap();
        assert_eq!(said.code, Some(0), "{said:?}");
        await_state(&gate, "up", "connected", SOON).await;
        gate
    }

    fn assert_nothing_changed(&self) {
        let bashrc = std::fs::read_to_string(self.at("home/.bashrc")).unwrap();
        assert_eq!(bashrc, "CANARY-BASHRC\n");
        for file in ["outside", "home/.ssh/authorized_keys"] {
            assert!(!self.at(file).exists(), "{file} was written");
        }
        for file in SYSTEM {
            assert!(!Path::new(file).exists(), "{file} was written");
        }
    }
}

/// What the server says that it got.
async fn report(gate: &Gate) -> Value {
    let called = client(gate, Era::Modern)
        .await
        .call("up__report", json!({}))
        .await
        .unwrap();
    assert!(!called.is_error, "{}", called.answer);
    serde_json::from_str(&called.text).expect("the server reports")
}

/// Reads, writes, connections, daemons and kills: nothing of it reaches the outside, in any profile.
#[tokio::test]
async fn a_poisoned_server_reaches_nothing_outside() {
    let node = Node::get();
    for profile in ["contained", "offline", "strict"] {
        let scene = Scene::new();
        let mark = format!("poison-{profile}-{}", std::process::id());
        let (project, script) = (scene.at("project"), scene.at("project/poison.mjs"));
        let jail = format!("{{ profile: {profile}, read: [{}] }}", project.display());
        let more =
            format!("env: {{ MARK: {mark} }}, jail: {jail}, redact_results: false, {PUBLIC}");
        let entry = stdio(&node.program, &[script.to_str().unwrap()], &more);
        let gate = scene.gate(entry).await;
        let got = report(&gate).await;
        assert_eq!(got["seen"], json!([]), "{profile}");
        assert_eq!(got["wrote"], json!([]), "{profile}");
        assert_eq!(got["reached"], json!([]), "{profile}");
        assert!(
            got["files"].as_u64().unwrap() > 20,
            "it looked at nothing: {got}"
        );
        assert_eq!(scene.tcp.load(Ordering::SeqCst), 0, "{profile}");
        if profile != "contained" {
            assert_eq!(scene.udp.load(Ordering::SeqCst), 0, "{profile}");
        }
        eventually("its daemons to run", SOON, || async {
            match procfs::mentioning(&mark) {
                found if found.len() >= 4 => Ok(()),
                found => Err(format!("{found:?}")),
            }
        })
        .await;
        let gate_pid = gate.pid();
        let killed = client(&gate, Era::Modern)
            .await
            .call("up__kill", json!({}))
            .await;
        drop(killed);
        assert!(procfs::is_alive(gate_pid), "{profile}: the gate was killed");
        let said = gate.cli(&["servers", "disable", "up"]).await.unwrap();
        assert_eq!(said.code, Some(0), "{said:?}");
        eventually("every process to be gone", SOON, || async {
            match procfs::mentioning(&mark) {
                left if left.is_empty() => Ok(()),
                left => Err(format!("{left:?} are left")),
            }
        })
        .await;
        scene.assert_nothing_changed();
    }
}

/// A server that fills its home is ended and not started again until a person has emptied it.
#[tokio::test]
async fn a_server_that_fills_its_home_is_ended() {
    let script = format!(
        "[ -e $HOME/calm ] || head -c 4000000 /dev/zero > $HOME/big; exec {} --stdio --era legacy",
        program("everything")
    );
    let more = format!("jail: {{ home_mb: 1 }}, {PUBLIC}");
    let gate = gate(&config(&[("up", stdio("sh", &["-c", &script], &more))])).await;
    let home = gate.home().join("state/jails/up/home");
    let full = || async {
        let told = server(&gate, "up").await;
        match told["state"] != "connected" && told.to_string().contains("its home holds") {
            true => Ok(()),
            false => Err(format!("{told}\n{}", gate.output())),
        }
    };
    eventually("the server to be ended", SOON * 3, full).await;
    assert!(home.join("big").exists());
    // Emptied, with a word to the script that it is enough.
    let said = gate.cli(&["servers", "disable", "up"]).await.unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    std::fs::remove_file(home.join("big")).unwrap();
    std::fs::write(home.join("calm"), "").unwrap();
    let said = gate.cli(&["servers", "enable", "up"]).await.unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    await_state(&gate, "up", "connected", SOON).await;
}

/// The same server without a jail gets nearly all of it: the test has teeth.
#[tokio::test]
async fn without_a_jail_the_same_server_reaches_the_outside() {
    let node = Node::get();
    let scene = Scene::new();
    let script = scene.at("project/poison.mjs");
    let more = format!("jail: none, redact_results: false, {PUBLIC}");
    // Here it would succeed, so nothing of the machine is among what it tries.
    let entry = stdio(&node.program, &[script.to_str().unwrap()], &more);
    let gate = scene.gate_trying(entry, &[]).await;
    let got = report(&gate).await;
    let seen = got["seen"].to_string();
    for number in 0..PROTECTED.len() {
        assert!(seen.contains(&format!("CANARY-HOME-{number}")), "{number}");
    }
    assert!(seen.contains("CANARY-OTHER-JAIL"), "{seen}");
    assert!(got["wrote"].to_string().contains(".bashrc"), "{got}");
    assert!(scene.tcp.load(Ordering::SeqCst) > 0);
}

/// As people start servers: `npx` in the directory of a project.
#[tokio::test]
async fn a_poisoned_package_started_by_npx_reaches_nothing_outside() {
    let scene = Scene::new();
    scene.write(
        "project/node_modules/poison/package.json",
        r#"{"name":"poison","version":"1.0.0","type":"module","bin":"poison.mjs"}"#,
    );
    std::fs::copy(
        scene.at("project/poison.mjs"),
        scene.at("project/node_modules/poison/poison.mjs"),
    )
    .unwrap();
    std::fs::create_dir_all(scene.at("project/node_modules/.bin")).unwrap();
    let link = scene.at("project/node_modules/.bin/poison");
    std::os::unix::fs::symlink("../poison/poison.mjs", &link).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(scene.at("project/node_modules/poison/poison.mjs"), mode).unwrap();
    std::os::unix::fs::symlink(
        scene.at("project/targets.json"),
        scene.at("project/node_modules/poison/targets.json"),
    )
    .unwrap();
    let more = format!(
        "cwd: {}, redact_results: false, {PUBLIC}",
        scene.at("project").display()
    );
    let entry = stdio("npx", &["--no-install", "poison"], &more);
    let gate = scene.gate(entry).await;
    let got = report(&gate).await;
    for what in ["seen", "wrote", "reached"] {
        assert_eq!(got[what], json!([]), "{got}");
    }
    assert_eq!(scene.tcp.load(Ordering::SeqCst), 0);
    scene.assert_nothing_changed();
}

/// The default, the way out of it, and what an operator is told of either.
#[tokio::test]
async fn servers_are_contained_unless_told_otherwise() {
    let granted = tempfile::tempdir().unwrap();
    let path = granted.path().canonicalize().unwrap();
    let gate = Setup::new(
        portcullis(),
        config(&[
            (
                "usual",
                stdio_everything(
                    "both",
                    &format!("env: {{ WHERE: {} }}, {PUBLIC}", path.display()),
                ),
            ),
            (
                "free",
                stdio_everything("both", &format!("jail: none, {PUBLIC}")),
            ),
            (
                "wrong",
                stdio_everything("both", &format!("jail: {{ write: [/] }}, {PUBLIC}")),
            ),
            (
                "home",
                stdio_everything(
                    "both",
                    &format!("env: {{ WHERE: {} }}, {PUBLIC}", "/etc/shadow"),
                ),
            ),
        ]),
    )
    .start()
    .await
    .unwrap();
    for id in ["usual", "free", "home"] {
        await_state(&gate, id, "connected", SOON).await;
    }
    let confined = |server: &Value| server["confined"].as_str().unwrap_or_default().to_owned();
    let usual = confined(&server(&gate, "usual").await);
    let grant = format!("writes {} (env WHERE)", path.display());
    assert!(
        usual.starts_with("contained (namespaces)") && usual.contains(&grant),
        "{usual}"
    );
    let free = confined(&server(&gate, "free").await);
    assert!(free.contains("no jail"), "{free}");
    let home = server(&gate, "home").await.to_string();
    assert!(
        home.contains("is protected (/etc/shadow)") && home.contains("unprotect: [/etc/shadow]"),
        "{home}"
    );
    let wrong = eventually("the wrong one to be refused", SOON, || async {
        let wrong = server(&gate, "wrong").await.to_string();
        if wrong.contains("is too much to show") {
            Ok(wrong)
        } else {
            Err(wrong)
        }
    })
    .await;
    assert!(wrong.contains("it is not started"), "{wrong}");
}

/// What a package runner fetched, and what a server that was taken over left there, is gone with the home.
#[tokio::test]
async fn a_server_that_is_installed_anew_has_an_empty_home() {
    let gate = Setup::new(
        portcullis(),
        config(&[
            ("usual", stdio_everything("both", PUBLIC)),
            (
                "free",
                stdio_everything("both", &format!("jail: none, {PUBLIC}")),
            ),
        ]),
    )
    .start()
    .await
    .unwrap();
    for id in ["usual", "free"] {
        await_state(&gate, id, "connected", SOON).await;
    }
    let home = gate.home().join("state/jails/usual/home");
    std::fs::create_dir_all(home.join(".npm/_npx")).unwrap();
    std::fs::write(home.join(".npm/_npx/code.js"), "taken over").unwrap();
    let before = server(&gate, "usual").await["pid"].clone();
    let said = gate
        .cli(&["servers", "reinstall", "usual", "--reason", "x"])
        .await
        .unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    eventually("the home to be empty and the server back", SOON, || async {
        let now = server(&gate, "usual").await;
        let is_back = now["state"] == "connected" && (now["pid"] != before || before.is_null());
        match (is_back, home.join(".npm").exists()) {
            (true, false) => Ok(()),
            found => Err(format!("{found:?} {now}")),
        }
    })
    .await;
    assert!(home.is_dir() && !home.with_extension("old").exists());
    let said = gate
        .cli(&["servers", "reinstall", "free", "--reason", "x"])
        .await
        .unwrap();
    assert_ne!(said.code, Some(0), "{said:?}");
}
