//! A gate with its doors open on loopback, and the smallest client there is.

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use api::Problem;
use gateway::{
    Credential, DoorSettings, Edit, Gate, Pins, Program, Reading, Role,
    settings::{
        ApprovalSettings, CommandSettings, Configuration, ExecutionSettings, Jails, LoginStore,
        Proofs, Rules, Seal, SealTerms, ServerSpec, Settings, Signing, Standing, TargetSpec, Terms,
        WebSettings, WorkerSettings,
    },
};
use identity::{Bounds, Entry, Journal, Replay, TokenKeys};
use policy::{
    Budget, Bundle, Contexts, Influence, SecurityContext,
    context::{
        AgentTool, AgentTools, Capability, Ceilings, Denial, DomainPattern, PathPattern, RateLimit,
        Subcommands, ToolPattern,
    },
};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::watch,
    task::JoinHandle,
};
use vocab::{Level, ServerId, View};

pub(crate) const ALICE: &str = "pct_alice";
pub(crate) const BOB: &str = "pct_bob";
pub(crate) const OPERATOR: &str = "pct_operator";
/// An operator of tenant `t1`.
pub(crate) const TENANT_OPERATOR: &str = "pct_operator_t1";
/// Clients of tenants, by token.
pub(crate) const TENANTS: [(&str, &str); 4] = [
    ("pct_t0", "t0"),
    ("pct_t1", "t1"),
    ("pct_t2", "t2"),
    ("pct_t3", "t3"),
];
pub(crate) const MAX_BODY: usize = 64 << 10;

pub(crate) struct Yard {
    pub(crate) gate: Gate,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) address: SocketAddr,
    home: tempfile::TempDir,
    close: watch::Sender<bool>,
    serving: JoinHandle<std::io::Result<()>>,
}

/// Names, sizes and times of the files in a directory.
fn files(directory: &Path) -> Vec<(OsString, u64, SystemTime)> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let known = entries.filter_map(|entry| {
        entry
            .metadata()
            .ok()
            .map(|about| (entry.file_name(), about))
    });
    let mut files: Vec<_> = known
        .filter(|(_, about)| about.is_file())
        .map(|(name, about)| (name, about.len(), about.modified().unwrap()))
        .collect();
    files.sort();
    files
}

impl Yard {
    pub(crate) async fn open() -> Self {
        Self::open_in(tempfile::tempdir().unwrap(), audit::system_clock()).await
    }

    /// A gate that finds what an earlier one left in its home, and reads this clock.
    pub(crate) async fn open_in(home: tempfile::TempDir, clock: audit::Clock) -> Self {
        let ledger = audit::Ledger::at(home.path().join("ledger")).unwrap();
        Self::open_with(home, clock, ledger).await
    }

    /// The same, with this ledger.
    pub(crate) async fn open_with(
        home: tempfile::TempDir,
        clock: audit::Clock,
        ledger: audit::Ledger,
    ) -> Self {
        let shelf = Arc::<Shelf>::default();
        let state = state::State::open(&home.path().join("state.db"))
            .await
            .unwrap();
        let signing = signing(home.path(), &state, clock().unix_ms).await;
        let gate = Gate::open(
            settings(home.path(), state, signing, &shelf),
            Vec::new(),
            ledger,
            clock,
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let lines = UnixListener::bind(home.path().join("sock")).unwrap();
        let (close, closing) = watch::channel(false);
        let closed = |mut closing: watch::Receiver<bool>| async move {
            let _ = closing.wait_for(|closing| *closing).await;
            std::time::Duration::from_secs(15)
        };
        tokio::spawn(server::serve_lines(
            gate.clone(),
            lines,
            closed(closing.clone()),
        ));
        let spec = doors::DoorSpec::plain(address);
        let entrance = Arc::new(doors::Entrance::open(&spec).unwrap());
        let serving = tokio::spawn(server::serve(
            gate.clone(),
            vec![(listener, entrance)],
            Arc::default(),
            65_536,
            closed(closing),
        ));
        Self {
            gate,
            shelf,
            address,
            home,
            close,
            serving,
        }
    }

    /// Closes the doors; how long that took is the caller's to judge.
    pub(crate) async fn close(self) {
        self.close.send(true).unwrap();
        self.serving.await.unwrap().unwrap();
    }

    /// What a gate that is killed now leaves behind, in a home of its own; the ledger stays with the dead.
    pub(crate) async fn abandon(self) -> tempfile::TempDir {
        self.close.send(true).unwrap();
        self.serving.await.unwrap().unwrap();
        drop(self.gate);
        // The database may still be closing: what was copied counts only if nothing changed meanwhile.
        loop {
            let (before, left) = (files(self.home.path()), tempfile::tempdir().unwrap());
            let copied = before.iter().try_for_each(|(name, ..)| {
                std::fs::copy(self.home.path().join(name), left.path().join(name)).map(drop)
            });
            if copied.is_ok() && files(self.home.path()) == before {
                break left;
            }
        }
    }

    /// Sends bytes as they are and reads until the door closes the connection.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut read = Vec::new();
        // Some payloads leave the door waiting for more; what it said until then is what counts.
        let _ = tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut read)).await;
        String::from_utf8_lossy(&read).into_owned()
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> Request<'_> {
        let headers = vec![
            ("Host".to_owned(), self.address.to_string()),
            ("Authorization".to_owned(), format!("Bearer {ALICE}")),
            (
                "Accept".to_owned(),
                "application/json, text/event-stream".to_owned(),
            ),
            ("Content-Type".to_owned(), "application/json".to_owned()),
        ];
        Request {
            yard: self,
            method: method.to_owned(),
            path: path.to_owned(),
            headers,
            body: String::new(),
        }
    }

    pub(crate) fn post(&self, body: &str) -> Request<'_> {
        Request {
            body: body.to_owned(),
            ..self.request("POST", "/mcp")
        }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// What the ledger holds so far.
    pub(crate) fn records(&self) -> Vec<audit::Record> {
        let records =
            audit::read(&self.home.path().join("ledger"), audit::Filter::default()).unwrap();
        records.map(Result::unwrap).collect()
    }

    pub(crate) async fn line_stream(&self) -> UnixStream {
        UnixStream::connect(self.home.path().join("sock"))
            .await
            .unwrap()
    }
}

pub(crate) struct Request<'a> {
    yard: &'a Yard,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| {
            line.split(':')
                .next()
                .is_some_and(|key| key.eq_ignore_ascii_case(name))
        })?;
        line.split_once(':').map(|(_, value)| value.trim())
    }

    /// The code of a JSON-RPC error.
    pub(crate) fn code(&self) -> Option<i64> {
        let json = wire::Json::parse(self.body.as_bytes(), wire::Limits::default()).ok()?;
        json.path(&["error", "code"])?.as_i64()
    }
}

impl Request<'_> {
    /// Sets a header; an empty value removes it.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers
            .retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        if !value.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub(crate) fn with_body(self, body: &str) -> Self {
        Self {
            body: body.to_owned(),
            ..self
        }
    }

    pub(crate) fn at(self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..self
        }
    }

    pub(crate) fn by(self, token: &str) -> Self {
        self.with("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{} {} HTTP/1.1\r\nConnection: close\r\n",
            self.method, self.path
        );
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!(
            "Content-Length: {}\r\n\r\n{}",
            self.body.len(),
            self.body
        ));
        text
    }

    pub(crate) async fn send(self) -> Response {
        let text = self.yard.raw(self.text().as_bytes()).await;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or(0);
        Response {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }
}

/// Wins of the replay window, in a file.
struct Wins(std::fs::File);

impl Journal for Wins {
    fn append(&self, entry: &[u8; Entry::LEN]) -> std::io::Result<()> {
        std::io::Write::write_all(&mut &self.0, entry)
    }
}

/// For proofs, which these tests have none of.
struct Nowhere;

impl Journal for Nowhere {
    fn append(&self, _: &[u8; Entry::LEN]) -> std::io::Result<()> {
        Ok(())
    }
}

async fn signing(home: &std::path::Path, state: &state::State, now_ms: u64) -> Signing {
    let path = home.join("replay.log");
    let before = std::fs::read(&path).unwrap_or_default();
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    let replay = Replay::new(
        Box::new(Wins(file)),
        Bounds {
            spent_per_session: 1 << 20,
            ..Bounds::default()
        },
    );
    replay.restore(before.as_chunks().0.iter().copied(), now_ms);
    Signing {
        replay: Arc::new(replay),
        tidy: Box::new(|_| Ok(())),
        random: secrets::os_entropy(),
        sessions: state.signed_sessions().await.unwrap(),
        used: state.used_calls().await.unwrap(),
        workloads: state.workloads(now_ms).await.unwrap(),
    }
}

fn contexts() -> Contexts {
    let capability = |pattern: &str| Capability {
        tool_pattern: ToolPattern::parse(pattern).unwrap(),
        ..Capability::default()
    };
    let context = |name: &str, capabilities, deny: &[&str]| SecurityContext {
        name: name.to_owned(),
        description: String::new(),
        capabilities,
        deny_list: deny
            .iter()
            .map(|text| Denial::parse(text).unwrap())
            .collect(),
        tenant: SecurityContext::tenant_of(name).map(str::to_owned),
    };
    let files = Capability {
        path_allowlist: Some(vec![PathPattern::parse("/workspace").unwrap()]),
        ..capability("fs.*")
    };
    let cargo = Subcommands::ByCommand(
        [(
            "cargo".to_owned(),
            vec!["build".to_owned(), "test".to_owned()],
        )]
        .into(),
    );
    let build = Capability {
        subcommand_allowlist: Some(cargo),
        ..capability("cmd.run")
    };
    let web = Capability {
        domain_allowlist: Some(vec![DomainPattern::parse("example.com").unwrap()]),
        rate_limit: Some(RateLimit {
            calls: 3,
            per_seconds: 60,
        }),
        ..capability("web.*")
    };
    let contexts = [
        context(
            "bounded",
            vec![files, build, web],
            &["fs.delete", "fs.read:/workspace/private/*"],
        ),
        context("everything", vec![capability("*")], &[]),
        context("nothing", Vec::new(), &[]),
        context("tenant-t1-own", vec![capability("*")], &[]),
    ];
    let tools = AgentTools {
        name: "reader".to_owned(),
        tools: vec![AgentTool {
            pattern: ToolPattern::parse("fs.read").unwrap(),
            ..AgentTool::default()
        }],
        max_calls_per_execution: Some(3),
        ..AgentTools::default()
    };
    let coder = AgentTools {
        name: "coder".to_owned(),
        tools: vec![AgentTool {
            pattern: ToolPattern::Any,
            ..AgentTool::default()
        }],
        security_context: Some("bounded".to_owned()),
        tenant: None,
        ..AgentTools::default()
    };
    let writer = AgentTools {
        name: "writer".to_owned(),
        tools: vec![AgentTool {
            pattern: ToolPattern::parse("fs.*").unwrap(),
            max_calls_per_execution: Some(2),
            ..AgentTool::default()
        }],
        ..AgentTools::default()
    };
    let theirs = AgentTools {
        name: "t1-bot".to_owned(),
        security_context: Some("tenant-t1-own".to_owned()),
        ..AgentTools::default()
    };
    Contexts::new(
        contexts,
        [tools, coder, writer, theirs],
        Ceilings::default(),
    )
}

fn credential(token: &str, role: Role) -> Credential {
    Credential {
        id: token.to_owned(),
        name: token.to_owned(),
        role,
        view: View::Double,
        grants: Vec::new(),
        user: None,
        departments: Vec::new(),
        agent: None,
        tenant: None,
        context: None,
        digest: Sha256::digest(token.as_bytes()).into(),
    }
}

pub(crate) fn terms() -> Terms {
    Terms {
        door: Arc::new(DoorSettings {
            name: "portcullis",
            version: "0",
            max_body_bytes: MAX_BODY,
            max_depth: 32,
            max_header_bytes: 8 << 10,
            max_sessions: 8,
            allowed_origins: vec!["https://app.example".to_owned()],
            allowed_hosts: vec!["gate.example".to_owned()],
            requires_credential: true,
            write_timeout: Duration::from_secs(30),
            question_timeout: Duration::from_secs(600),
        }),
        ceiling: Budget {
            time: Duration::from_secs(5),
            result_bytes: 1 << 20,
        },
        max_concurrent_calls: 16,
        max_calls_per_caller: 16,
        attempts: 1,
    }
}

fn seal() -> Seal {
    Seal {
        keys: TokenKeys::generate(&[7; 32]).unwrap(),
        terms: SealTerms {
            issuer: "portcullis".to_owned(),
            audiences: vec!["agents".to_owned()],
            ttl: Duration::from_secs(3600),
            max_sessions_per_workload: 4,
        },
    }
}

/// A configuration as these gates begin with.
pub(crate) fn configuration() -> Configuration {
    let budget = Budget {
        time: Duration::from_secs(5),
        result_bytes: 1 << 20,
    };
    let mut credentials = vec![
        credential(ALICE, Role::Client),
        credential(BOB, Role::Client),
        credential(OPERATOR, Role::Operator),
    ];
    credentials.push(Credential {
        tenant: Some("t1".to_owned()),
        ..credential(TENANT_OPERATOR, Role::Operator)
    });
    for (token, tenant) in TENANTS {
        credentials.push(Credential {
            tenant: Some(tenant.to_owned()),
            ..credential(token, Role::Client)
        });
    }
    Configuration {
        servers: vec![ServerSpec::new(TargetSpec {
            classification: Some(Level::Public),
            standing: Standing::Skipped("for tests".to_owned()),
            ..TargetSpec::new(ServerId::parse("demo").unwrap(), budget)
        })],
        volumes: Vec::new(),
        web: None,
        credentials,
        rules: Rules {
            bundle: Arc::new(Bundle::starter("balanced").unwrap()),
            untrusted_influence: Influence::Ask,
            approvals: ApprovalSettings {
                expiry: Duration::from_secs(60),
                in_client: false,
            },
            contexts: Arc::new(contexts()),
            oauth: None,
        },
        terms: terms(),
        seal: Arc::new(seal()),
        awaiting_restart: Vec::new(),
    }
}

type Next = Arc<dyn Fn() -> Result<Configuration, Problem> + Send + Sync>;

/// A program without files: what it reads next is what a test put there.
#[derive(Default)]
pub(crate) struct Shelf {
    next: Mutex<Option<Next>>,
    /// How often what was read came into force.
    pub(crate) followed: AtomicU64,
}

impl Shelf {
    pub(crate) fn put(
        &self,
        next: impl Fn() -> Result<Configuration, Problem> + Send + Sync + 'static,
    ) {
        *self.next.lock().unwrap() = Some(Arc::new(next));
    }
}

/// What the program says whose files cannot be read.
pub(crate) fn cannot_reload() -> Result<Configuration, Problem> {
    let sentence = "there is nothing to read again";
    Err(Problem::new(api::Kind::Conflict, "cannot_reload", sentence))
}

pub(crate) struct ShelfProgram(pub(crate) Arc<Shelf>);

impl Program for ShelfProgram {
    fn read(&self) -> Result<Reading, Problem> {
        let next = self.0.next.lock().unwrap().clone();
        let configuration = next.map_or_else(|| Ok(configuration()), |next| next())?;
        let shelf = Arc::clone(&self.0);
        Ok(Reading {
            configuration,
            then: Box::new(move || {
                shelf.followed.fetch_add(1, Ordering::SeqCst);
            }),
        })
    }

    fn edit(&self, _: &Edit) -> Result<(), Problem> {
        Err(Problem::invalid("there is no file"))
    }

    fn answer(&self, _: api::Operation, _: &str, _: &[u8]) -> Result<Vec<u8>, Problem> {
        Err(Problem::invalid("there are no files"))
    }

    fn sinks(&self) -> Vec<api::Sink> {
        Vec::new()
    }
}

fn settings(
    home: &std::path::Path,
    state: state::State,
    signing: Signing,
    shelf: &Arc<Shelf>,
) -> Settings {
    Settings {
        configuration: configuration(),
        program: Arc::new(ShelfProgram(Arc::clone(shelf))),
        url: String::new(),
        // Nothing is there to run: these tests are about the doors.
        worker: WorkerSettings {
            program: home.join("no-worker"),
            args: Vec::new(),
            path: String::new(),
            total_bytes: 1 << 20,
        },
        commands: CommandSettings {
            workspaces: home.join("workspaces"),
            tools: Vec::new(),
        },
        web: WebSettings {
            fetcher: WorkerSettings {
                program: home.join("no-worker"),
                args: Vec::new(),
                path: String::new(),
                total_bytes: 1 << 20,
            },
            converter: home.join("no-worker"),
        },
        executions: ExecutionSettings {
            saved: Vec::new(),
            random: secrets::os_entropy(),
        },
        jails: Jails {
            program: home.join("no-worker"),
            homes: home.join("jails"),
            protected: Default::default(),
            certificates: Vec::new(),
            container_sockets: Vec::new(),
        },
        protected: Vec::new(),
        own_volumes: home.join("volumes"),
        snapshots: home.join("catalog"),
        said: home.join("said"),
        wrapper_key: [7; 32],
        secrets: Arc::new(NoSecrets),
        logins: LoginStore::none(),
        accounts: Arc::new(|_, _, _| Ok(None)),
        state,
        pins: Pins::open(home.join("portcullis.lock")).unwrap(),
        signing,
        proofs: Proofs {
            replay: Arc::new(Replay::new(Box::new(Nowhere), Bounds::default())),
            tidy: Box::new(|_| Ok(())),
        },
    }
}

/// A store without secrets.
#[derive(Debug)]
struct NoSecrets;

impl secrets::Store for NoSecrets {
    fn lease<'a>(&'a self, reference: &'a secrets::SecretRef) -> secrets::Leasing<'a> {
        let reference = reference.to_string();
        Box::pin(async { Err(secrets::SecretError::EngineNotConfigured { reference }) })
    }
}
