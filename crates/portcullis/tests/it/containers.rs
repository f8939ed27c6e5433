//! Servers in containers of their own, with a runtime that really starts them: Podman, as Debian has it, with storage and a socket of the
//! test's own. Podman is large and needs root here, so this is a campaign: `cargo xtask campaign jails`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::Era;
use testkit::gate::Gate;

use crate::support::{await_state, client, config, eventually, gate, program, server, stdio};

const SOON: Duration = Duration::from_secs(60);
const IMAGE: &str = "localhost/everything:1";

/// A runtime of the test's own, ended when dropped with all that it started.
struct Runtime {
    place: tempfile::TempDir,
    service: Child,
}

impl Runtime {
    fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        // Containers get limits of their own: those of this process may be lower than Podman's.
        let limits = "[containers]\ndefault_ulimits=[\"nofile=1024:1024\",\"nproc=1024:1024\"]\n";
        fs::write(place.path().join("containers.conf"), limits).unwrap();
        let image = place.path().join("image");
        make_image(&image);
        let tar = Command::new("tar")
            .arg("-C")
            .arg(&image)
            .args(["-cf"])
            .arg(place.path().join("image.tar"))
            .arg(".")
            .status();
        assert!(tar.unwrap().success());
        let socket = place.path().join("runtime.sock");
        let podman = podman(place.path());
        let service = script(
            place.path(),
            &format!(
                "exec {podman} system service --time 0 unix://{}",
                socket.display()
            ),
        )
        .spawn()
        .expect("podman is installed: apt-get install podman crun");
        let runtime = Self { place, service };
        let tar = runtime.place.path().join("image.tar");
        runtime.podman(&["import", tar.to_str().unwrap(), IMAGE]);
        let begun = std::time::Instant::now();
        while !socket.exists() {
            assert!(begun.elapsed() < SOON, "podman does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        runtime
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("runtime.sock")
    }

    /// Runs Podman beside the service; what it said.
    fn podman(&self, args: &[&str]) -> String {
        let podman = podman(self.place.path());
        let args: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
        let mut command = script(
            self.place.path(),
            &format!("exec {podman} {}", args.join(" ")),
        );
        let output = command.stdout(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "podman {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Every container there is, by its id.
    fn ids(&self) -> Vec<String> {
        let ids = self.podman(&["ps", "--all", "--quiet", "--no-trunc"]);
        ids.lines().map(str::to_owned).collect()
    }

    /// The one container there is, as `inspect` describes it.
    fn container(&self) -> Value {
        let ids = self.ids();
        let [id] = &ids[..] else {
            panic!("{ids:?}");
        };
        let told = self.podman(&["container", "inspect", id]);
        serde_json::from_str::<Value>(&told).unwrap()[0].clone()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.podman(&["rm", "--all", "--force", "--time", "0"]);
        }
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

fn podman(place: &Path) -> String {
    let place = place.display();
    format!(
        "podman --root {place}/root --runroot {place}/run --storage-driver vfs --cgroup-manager cgroupfs --log-level error"
    )
}

/// In mounts of its own: Podman's runtime refuses a machine that has both kinds of control groups.
fn script(place: &Path, script: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = format!("umount /sys/fs/cgroup/unified 2>/dev/null; {script}");
    command
        .args(["--mount", "sh", "-c", &script])
        .env("CONTAINERS_CONF", place.join("containers.conf"))
        .stdin(Stdio::null());
    command
}

/// A root directory with the everything server and the libraries that it is linked with.
fn make_image(root: &Path) {
    for name in ["tmp", "proc", "sys", "dev", "etc", "run", "mnt"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let own = program("everything");
    fs::copy(&own, root.join("everything")).unwrap();
    let told = Command::new("ldd").arg(&own).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    for library in told
        .split_ascii_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        let target = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(library, target).unwrap();
    }
}

fn entry(command: &str, options: &[&str]) -> String {
    let args = [
        &["run"],
        options,
        &[IMAGE, "/everything", "--stdio", "--era", "legacy"],
    ]
    .concat();
    stdio(command, &args, "classification: PUBLIC")
}

fn yaml(runtime: &Runtime, servers: &[(&str, String)]) -> String {
    let socket = runtime.socket();
    format!(
        "jails: {{ container_socket: {} }}\n{}",
        json!(socket.to_str().unwrap()),
        config(servers)
    )
}

/// The programs of runtimes that this machine has.
fn runtimes() -> Vec<&'static str> {
    let has = |name: &&str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .any(|directory| directory.join(name).exists())
    };
    let found: Vec<_> = ["podman", "docker"].into_iter().filter(has).collect();
    assert!(!found.is_empty());
    found
}

async fn none_left(gate: &Gate, runtime: &Runtime) {
    eventually("the container to be gone", SOON, || async {
        match runtime.ids() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}\n{}", gate.output())),
        }
    })
    .await;
}

/// A server that an entry starts with `docker run` works, in a container that has what it always has, and ends with its server.
#[tokio::test]
async fn a_server_in_a_container_has_its_walls_and_works() {
    let runtime = Runtime::start();
    let shared = tempfile::tempdir().unwrap();
    fs::write(shared.path().join("note"), "shared").unwrap();
    for command in runtimes() {
        let mount = format!("{}:/mnt:ro", shared.path().display());
        let entry = entry(command, &["-i", "--rm", "--network", "none", "-v", &mount]);
        let gate = gate(&yaml(&runtime, &[("up", entry)])).await;
        await_state(&gate, "up", "connected", SOON).await;
        let called = client(&gate, Era::Modern)
            .await
            .call("up__echo", json!({"text": "out of a container"}))
            .await
            .unwrap();
        assert!(
            called.text.contains("out of a container"),
            "{command}: {}",
            called.answer
        );
        let container = runtime.container();
        let host = &container["HostConfig"];
        assert_eq!(host["Privileged"], false);
        assert_eq!(host["PidsLimit"], 512, "{host}");
        assert_eq!(host["Memory"], 2_u64 << 30, "{host}");
        assert_eq!(host["NetworkMode"], "none", "{host}");
        assert_eq!(container["EffectiveCaps"], Value::Null, "{container}");
        let options = host["SecurityOpt"].to_string();
        assert!(options.contains("no-new-privileges"), "{host}");
        assert_eq!(container["Config"]["Labels"]["portcullis.server"], "up");
        let told = server(&gate, "up").await;
        let confined = told["confined"].as_str().unwrap();
        assert!(
            confined.starts_with("container") && confined.contains(shared.path().to_str().unwrap()),
            "{confined}"
        );
        let off = gate.cli(&["servers", "disable", "up"]).await.unwrap();
        assert_eq!(off.code, Some(0), "{off:?}");
        none_left(&gate, &runtime).await;
    }
}

/// What would open the host starts no container at all, and its operator is told why.
#[tokio::test]
async fn an_entry_that_opens_the_host_starts_no_container() {
    let runtime = Runtime::start();
    for (options, named) in [
        (&["--privileged"][..], "--privileged"),
        (&["-v", "/:/host"], "too much"),
        (&["--pid", "host"], "--pid host"),
        (&["-v", "/run:/x"], "/run"),
    ] {
        let entry = entry(runtimes()[0], options);
        let gate = gate(&yaml(&runtime, &[("up", entry)])).await;
        let told = eventually("the refusal", SOON, || async {
            let told = server(&gate, "up").await;
            match told.to_string().contains(named) {
                true => Ok(told),
                false => Err(told.to_string()),
            }
        })
        .await;
        assert_ne!(told["state"], "connected");
        assert_eq!(runtime.ids(), Vec::<String>::new(), "{options:?}");
    }
}
