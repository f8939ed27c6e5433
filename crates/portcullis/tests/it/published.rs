//! Servers as their makers publish them, in their jails: the six reference servers in every profile; as a campaign sixteen, started as people
//! start them, from empty caches, and how much later than without a jail they are there.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::Era;

use crate::foreign::{Node, python, text};
use crate::support::{await_state, client, config, gate, stdio};

/// Foreign servers may take a while to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A published server and a call of it.
struct Server {
    id: &'static str,
    program: String,
    args: Vec<String>,
    env: &'static str,
    tool: &'static str,
    arguments: Value,
    /// What its answer holds; `None` where it has nothing to reach the network with.
    says: [Option<&'static str>; 3],
}

impl Server {
    /// Its entry under this profile, which sees `read` besides what the entry names, and may connect to `port`.
    fn entry(&self, profile: &str, read: &[&str], port: u16) -> String {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let jail = match profile {
            "none" => "none".to_owned(),
            // What an entry names is granted by itself, but in `strict`.
            "strict" => format!("{{ profile: strict, read: {} }}", json!(read)),
            profile => format!("{{ profile: {profile}, ports: [{port}] }}"),
        };
        let more = format!(
            "jail: {jail}, env: {{ {} }}, classification: PUBLIC",
            self.env
        );
        stdio(&self.program, &args, &more)
    }
}

const PROFILES: [&str; 3] = ["contained", "offline", "strict"];

/// A page that says what a page says.
fn page() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\nConnection: close\r\n\r\nthe page's own");
        }
    });
    port
}

fn six(node: &Node, python: &Path, place: &Path, port: u16) -> Vec<Server> {
    let script = |package: &str, program: &str| node.script(package, program);
    let python = |name: &str| text(&python.join(name));
    let everywhere = |says| [Some(says); 3];
    let files = text(&place.join("files"));
    vec![
        Server {
            id: "files",
            program: node.program.clone(),
            args: vec![
                script(
                    "@modelcontextprotocol/server-filesystem",
                    "mcp-server-filesystem",
                ),
                files.clone(),
            ],
            env: "",
            tool: "list_directory",
            arguments: json!({"path": files}),
            says: everywhere("hello.txt"),
        },
        Server {
            id: "memory",
            program: node.program.clone(),
            args: vec![script(
                "@modelcontextprotocol/server-memory",
                "mcp-server-memory",
            )],
            env: "MEMORY_FILE_PATH: /tmp/memory.jsonl",
            tool: "create_entities",
            arguments: json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["wrote"]}]}),
            says: everywhere("Ada"),
        },
        Server {
            id: "everything",
            program: node.program.clone(),
            args: vec![
                script(
                    "@modelcontextprotocol/server-everything",
                    "mcp-server-everything",
                ),
                "stdio".into(),
            ],
            env: "",
            tool: "echo",
            arguments: json!({"message": "as it was said"}),
            says: everywhere("as it was said"),
        },
        Server {
            id: "time",
            program: python("mcp-server-time"),
            args: vec!["--local-timezone".into(), "UTC".into()],
            env: "",
            tool: "convert_time",
            arguments: json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
            says: everywhere("21:00"),
        },
        Server {
            id: "git",
            program: python("mcp-server-git"),
            args: vec!["--repository".into(), text(&place.join("repository"))],
            env: "",
            tool: "git_status",
            arguments: json!({"repo_path": text(&place.join("repository"))}),
            says: everywhere("branch"),
        },
        Server {
            id: "fetch",
            program: python("mcp-server-fetch"),
            args: vec!["--ignore-robots-txt".into(), "--allow-private-ips".into()],
            env: "",
            tool: "fetch",
            arguments: json!({"url": format!("http://127.0.0.1:{port}/")}),
            says: [Some("the page's own"), None, None],
        },
    ]
}

/// A directory with a file, and a repository.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("files")).unwrap();
    std::fs::write(place.path().join("files/hello.txt"), "hello").unwrap();
    let made = std::process::Command::new("git")
        .args(["init", "--quiet"])
        .arg(place.path().join("repository"))
        .status();
    assert!(made.unwrap().success());
    place
}

/// Each lists its tools and answers a call in every profile; what it reaches is what the profile lets it reach.
#[tokio::test]
async fn the_reference_servers_work_in_every_profile() {
    let (node, python, place, port) = (Node::get(), python(), place(), page());
    let own = place.path().canonicalize().unwrap();
    let tools = crate::support::workspace().join("target/tools");
    let tools = text(&tools.canonicalize().unwrap());
    for (at, profile) in PROFILES.into_iter().enumerate() {
        let servers = six(&node, &python, &own, port);
        let read = [text(&own), tools.clone()];
        let read: Vec<&str> = read.iter().map(String::as_str).collect();
        let entries: Vec<(&str, String)> = servers
            .iter()
            .map(|server| (server.id, server.entry(profile, &read, port)))
            .collect();
        let gate = gate(&config(&entries)).await;
        for server in &servers {
            await_state(&gate, server.id, "connected", PATIENCE).await;
        }
        let client = client(&gate, Era::Modern).await;
        let listed = client.tools().await.unwrap();
        for server in servers {
            let name = format!("{}__{}", server.id, server.tool);
            assert!(
                listed.iter().any(|tool| tool["name"] == *name),
                "{profile}: {name}"
            );
            let called = client.call(&name, server.arguments).await.unwrap();
            match server.says[at] {
                Some(says) => assert!(
                    !called.is_error && called.text.contains(says),
                    "{profile}, {name}: {}",
                    called.answer
                ),
                None => assert!(called.is_error, "{profile}, {name}: {}", called.answer),
            }
        }
    }
}

#[cfg(feature = "campaign")]
mod campaign {
    use std::time::Instant;

    use testkit::gate::{Gate, Setup};

    use super::*;
    use crate::foreign::uv;
    use crate::support::{portcullis, until};

    /// From nothing: what has to be fetched is fetched.
    const FIRST_START: Duration = Duration::from_secs(400);
    /// How much later a server may be there in a jail than without.
    const LATER: Duration = Duration::from_millis(150);

    /// The name of an entry, the runner, what it runs, and the variables without which it does not start.
    const SIXTEEN: [(&str, &str, &[&str], &str); 16] = [
        (
            "everything",
            "npx",
            &["@modelcontextprotocol/server-everything"],
            "",
        ),
        (
            "files",
            "npx",
            &["@modelcontextprotocol/server-filesystem", "/tmp"],
            "",
        ),
        (
            "memory",
            "npx",
            &["@modelcontextprotocol/server-memory"],
            "",
        ),
        (
            "thinking",
            "npx",
            &["@modelcontextprotocol/server-sequential-thinking"],
            "",
        ),
        (
            "github",
            "npx",
            &["@modelcontextprotocol/server-github"],
            "",
        ),
        ("context7", "npx", &["@upstash/context7-mcp"], ""),
        ("playwright", "npx", &["@playwright/mcp"], ""),
        ("devtools", "npx", &["chrome-devtools-mcp"], ""),
        (
            "notion",
            "npx",
            &["@notionhq/notion-mcp-server"],
            "NOTION_TOKEN: 'env:SOME_KEY'",
        ),
        (
            "tavily",
            "npx",
            &["tavily-mcp"],
            "TAVILY_API_KEY: 'env:SOME_KEY'",
        ),
        ("time", "uvx", &["mcp-server-time"], ""),
        ("fetch", "uvx", &["mcp-server-fetch"], ""),
        ("git", "uvx", &["mcp-server-git"], ""),
        ("duckduckgo", "uvx", &["duckduckgo-mcp-server"], ""),
        ("aws", "uvx", &["awslabs.aws-documentation-mcp-server"], ""),
        ("markitdown", "uvx", &["markitdown-mcp"], ""),
    ];

    /// They start one after the other, each with a home of its own that is empty, and list their tools.
    #[tokio::test]
    async fn sixteen_published_servers_start_from_empty_caches() {
        let uvx = text(&uv().join("uvx"));
        let mut wrong = Vec::new();
        for (id, runner, args, env) in SIXTEEN {
            let (program, args): (&str, Vec<&str>) = match runner {
                "npx" => ("npx", [&["-y"], args].concat()),
                _ => (&uvx, args.to_vec()),
            };
            let more = format!(
                "env: {{ {env} }}, connect_timeout: 6m, classification: PUBLIC, new_definitions: accept"
            );
            let yaml = config(&[(id, stdio(program, &args, &more))]);
            let gate = Setup::new(portcullis(), yaml).env("SOME_KEY", "x1y2");
            let gate = gate.start().await.unwrap();
            let begun = Instant::now();
            let ended = until(id, FIRST_START, || async {
                let server = crate::support::server(&gate, id).await;
                match server["state"].as_str() {
                    Some("connected") => Ok(server),
                    _ => Err(format!("{server}\n{}", gate.output())),
                }
            })
            .await;
            let client = client(&gate, Era::Modern).await;
            let tools = client.tools().await.unwrap();
            let own = tools
                .iter()
                .filter(|tool| {
                    tool["name"]
                        .as_str()
                        .is_some_and(|name| name.starts_with(id))
                })
                .count();
            println!("{id}: {own} tools after {:?}", begun.elapsed());
            if let Err(why) = ended {
                wrong.push(format!("{id}: {why:#}"));
            } else if own == 0 {
                wrong.push(format!("{id}: it has no tool"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    }

    async fn took(gate: &Gate, id: &str) -> Duration {
        let off = gate.cli(&["servers", "disable", id]).await.unwrap();
        assert_eq!(off.code, Some(0), "{off:?}");
        await_state(gate, id, "disabled", PATIENCE).await;
        let begun = Instant::now();
        let on = gate.cli(&["servers", "enable", id]).await.unwrap();
        assert_eq!(on.code, Some(0), "{on:?}");
        await_state(gate, id, "connected", PATIENCE).await;
        begun.elapsed()
    }

    /// The same servers with and without a jail, turn by turn. Held to the bound where `JAIL_FIGURES` is set: a busy machine would break it.
    #[tokio::test]
    async fn a_jail_makes_a_server_start_little_later() {
        let _alone = crate::support::alone().await;
        let is_held = std::env::var_os("JAIL_FIGURES").is_some();
        let (node, python, place, port) = (Node::get(), python(), place(), page());
        for server in six(&node, &python, &place.path().canonicalize().unwrap(), port) {
            let gate = gate(&config(&[
                ("inside", server.entry("contained", &[], port)),
                ("outside", server.entry("none", &[], port)),
            ]))
            .await;
            let (mut inside, mut outside) = (Vec::new(), Vec::new());
            for _ in 0..if is_held { 9 } else { 2 } {
                inside.push(took(&gate, "inside").await);
                outside.push(took(&gate, "outside").await);
            }
            let half = |times: &mut Vec<Duration>| crate::support::percentile(times, 50);
            let (inside, outside) = (half(&mut inside), half(&mut outside));
            println!("{}: {inside:?} in a jail, {outside:?} without", server.id);
            if is_held {
                assert!(inside.saturating_sub(outside) <= LATER, "{}", server.id);
            }
        }
    }
}
