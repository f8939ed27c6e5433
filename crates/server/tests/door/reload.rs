//! A reload is one swap: whole or not at all, and no call sees parts of two configurations.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use audit::{Disk, Lock, Options, RealDisk, SegmentFile};
use gateway::settings::{Configuration, ServerSpec, TargetSpec};
use policy::{Budget, Bundle};
use vocab::ServerId;

use crate::yard::{ALICE, BOB, Yard, configuration};

const VERSION: &str = "2026-07-28";
/// Reloads under load.
const RELOADS: usize = 200;

/// Two configurations that differ in policies, credentials, servers and limits.
#[derive(Clone)]
struct Two {
    balanced: Arc<Bundle>,
    observe: Arc<Bundle>,
}

impl Two {
    fn new() -> Self {
        let starter = |name| Arc::new(Bundle::starter(name).unwrap());
        Self {
            balanced: starter("balanced"),
            observe: starter("observe"),
        }
    }

    /// Ann may call, and there is a server that nobody has classified.
    fn first(&self) -> Configuration {
        let mut first = named("ann");
        first.rules.bundle = Arc::clone(&self.balanced);
        let budget = Budget {
            time: Duration::from_secs(5),
            result_bytes: 1 << 20,
        };
        let demo = TargetSpec::new(ServerId::parse("demo").unwrap(), budget);
        first.servers = vec![ServerSpec::new(demo)];
        first
    }

    /// Ben may have no call in flight, there is no server, and Bob is gone.
    fn second(&self) -> Configuration {
        let mut second = named("ben");
        second.rules.bundle = Arc::clone(&self.observe);
        second.servers = Vec::new();
        second.terms.max_calls_per_caller = 0;
        second.credentials.retain(|credential| credential.id != BOB);
        second
    }
}

fn named(user: &str) -> Configuration {
    let mut configuration = configuration();
    for credential in &mut configuration.credentials {
        credential.user = Some(user.to_owned());
    }
    configuration
}

async fn call(yard: &Yard, tool: &str) -> String {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"q1","method":"tools/call","params":{{"name":"{tool}","arguments":{{}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"{VERSION}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    let request = yard
        .post(&body)
        .with("MCP-Protocol-Version", VERSION)
        .with("Mcp-Method", "tools/call")
        .with("Mcp-Name", tool);
    request.send().await.body
}

/// Policies, user, tool and end of every call on record, and how often each came together.
fn ends(yard: &Yard) -> BTreeMap<(String, String, String, String), usize> {
    let mut found = BTreeMap::new();
    for record in yard.records() {
        if !matches!(record.kind.as_str(), "outcome" | "refusal") {
            continue;
        }
        let bundle = record.bundle.split('@').next().unwrap_or_default();
        let end = match record.violation.as_str() {
            "" => record.verdict.clone(),
            violation => violation.to_owned(),
        };
        let about = (bundle.to_owned(), record.user, record.tool, end);
        *found.entry(about).or_default() += 1;
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_sees_parts_of_two_configurations() {
    let yard = Arc::new(Yard::open().await);
    let two = Two::new();
    let is_first = AtomicBool::new(true);
    let next = two.clone();
    yard.shelf.put(move || {
        Ok(match is_first.fetch_xor(true, Ordering::SeqCst) {
            true => next.first(),
            false => next.second(),
        })
    });
    yard.gate.admin().reload().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (yard, stop) = (Arc::clone(&yard), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    call(&yard, "portcullis.status").await;
                    call(&yard, "demo__x").await;
                }
            })
        })
        .collect();
    let gate = yard.gate.clone();
    let reloading = tokio::spawn(async move {
        for _ in 0..RELOADS {
            gate.admin().reload().await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    reloading.await.unwrap();
    stop.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    let ends = ends(&yard);
    let wanted = [
        ("balanced", "ann", "portcullis.status", "permitted"),
        ("balanced", "ann", "demo__x", "ServerNotApproved"),
        ("observe", "ben", "portcullis.status", "RateLimitExceeded"),
        ("observe", "ben", "demo__x", "ToolNotFound"),
    ]
    .map(|(bundle, user, tool, end)| {
        (
            bundle.to_owned(),
            user.to_owned(),
            tool.to_owned(),
            end.to_owned(),
        )
    });
    for about in ends.keys() {
        assert!(wanted.contains(about), "{about:?} of {ends:#?}");
    }
    for about in &wanted {
        assert!(ends.contains_key(about), "{about:?} of {ends:#?}");
    }
}

/// A disk that takes so many bytes and then no more.
#[derive(Debug)]
struct FullDisk(Arc<AtomicI64>);

#[derive(Debug)]
struct FullFile(Arc<dyn SegmentFile>, Arc<AtomicI64>);

impl Disk for FullDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir(dir)
    }
    fn lock(&self, dir: &Path) -> io::Result<Lock> {
        RealDisk.lock(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        RealDisk.read(path)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn SegmentFile>> {
        let file = RealDisk.open(path)?;
        Ok(Arc::new(FullFile(file, Arc::clone(&self.0))))
    }
    fn overwrite(&self, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
        RealDisk.overwrite(path, at, bytes)
    }
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.0.load(Ordering::SeqCst) <= 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        RealDisk.replace(path, bytes)
    }
    fn size(&self, path: &Path) -> io::Result<u64> {
        RealDisk.size(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
}

impl SegmentFile for FullFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.1.load(Ordering::SeqCst);
        if room <= 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let taken = self.0.append(bytes.get(..taken).unwrap_or_default())?;
        let taken_now = i64::try_from(taken).unwrap_or(i64::MAX);
        self.1.fetch_sub(taken_now, Ordering::SeqCst);
        Ok(taken)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }
}

/// Waits until calls are recorded again, and says how one ends.
async fn recovered(yard: &Yard) -> String {
    for _ in 0..200 {
        let body = call(yard, "portcullis.status").await;
        if !body.contains("LedgerUnavailable") {
            return body;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the ledger did not come back");
}

fn actions(yard: &Yard, wanted: &[&str]) -> usize {
    let records = yard.records();
    let of = records
        .iter()
        .filter(|record| wanted.contains(&record.action.as_str()));
    of.count()
}

/// What each configuration says, seen from outside.
async fn is_first(yard: &Yard) -> bool {
    let demo = ServerId::parse("demo").unwrap();
    let status = call(yard, "portcullis.status").await;
    let signs = [
        yard.gate.catalog().has_server(&demo),
        yard.gate.identify(BOB).is_some_and(|bob| bob.is_active()),
        yard.gate.identify(ALICE).unwrap().user() == Some("ann"),
        status.contains("structuredContent"),
    ];
    assert!(
        signs.iter().all(|sign| *sign == signs[0]),
        "parts of two configurations: {signs:?}"
    );
    signs[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_cannot_record_keeps_the_configuration_before() {
    let home = tempfile::tempdir().unwrap();
    let room = Arc::new(AtomicI64::new(i64::MAX));
    let disk = Box::new(FullDisk(Arc::clone(&room)));
    let dir = home.path().join("ledger");
    let clock = audit::system_clock();
    let ledger = audit::Ledger::with(dir, disk, clock.clone(), Options::default()).unwrap();
    let yard = Yard::open_with(home, clock, ledger).await;
    let two = Two::new();
    let first = two.clone();
    yard.shelf.put(move || Ok(first.first()));
    yard.gate.admin().reload().await.unwrap();
    assert!(is_first(&yard).await);
    let came = actions(&yard, &["config.applied"]);
    yard.shelf.put(move || Ok(two.second()));
    // Nothing of what is recorded fits, or more and more of it does.
    for bytes in [0, 1, 40, 200, 400, 700] {
        room.store(bytes, Ordering::SeqCst);
        let problem = yard.gate.admin().reload().await.unwrap_err();
        assert!(
            problem
                .sentence
                .contains("recording it in the ledger failed")
                && problem.sentence.contains("before stays in force"),
            "{problem}"
        );
        room.store(i64::MAX, Ordering::SeqCst);
        recovered(&yard).await;
        assert!(is_first(&yard).await, "{bytes} bytes");
        let gone = ["credential.revoked", "server.removed"];
        assert_eq!(actions(&yard, &gone), 0, "{bytes} bytes");
        assert_eq!(actions(&yard, &["config.applied"]), came, "{bytes} bytes");
        assert_eq!(yard.shelf.followed.load(Ordering::SeqCst), 1);
    }
    yard.gate.admin().reload().await.unwrap();
    assert!(!is_first(&yard).await);
    assert_eq!(actions(&yard, &["config.applied"]), came + 1);
    let gone = ["credential.revoked", "server.removed"];
    assert_eq!(actions(&yard, &gone), 2);
    assert_eq!(yard.shelf.followed.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_lock_file_that_cannot_be_read_keeps_the_configuration_before() {
    let yard = Yard::open().await;
    let two = Two::new();
    let first = two.clone();
    yard.shelf.put(move || Ok(first.first()));
    yard.gate.admin().reload().await.unwrap();
    yard.shelf.put(move || Ok(two.second()));
    let lock = yard.home().join("portcullis.lock");
    std::fs::write(&lock, "{ nonsense").unwrap();
    let problem = yard.gate.admin().reload().await.unwrap_err();
    assert!(
        problem
            .sentence
            .contains("reading `portcullis.lock` failed")
            && problem.sentence.contains("before stays in force"),
        "{problem}"
    );
    assert!(is_first(&yard).await);
    std::fs::remove_file(&lock).unwrap();
    yard.gate.admin().reload().await.unwrap();
    assert!(!is_first(&yard).await);
}
