//! Recorded calls as questions: the ledger, with what the configuration and the lock file say today.
//!
//! A record has who, what, when and the label; it does not have the server's level, which is the operator's and may have changed. So
//! the calls are put as they would be put today.

use std::{collections::HashMap, fs, path::Path};

use api::Problem;
use audit::{Body, BodyReader, Filter, Record};
use config::Resolved;
use policy::cedar::{Act, Ending, Recorded};
use vocab::{Effect, Integrity, Mark, Stage};
use wire::Json;

use crate::{
    Home,
    tokens::{Credential, Role, Tokens},
};

/// Which calls.
#[derive(Debug, Default)]
pub struct Wanted<'a> {
    /// A credential's id or name.
    pub caller: Option<&'a str>,
    pub since_ms: u64,
}

/// The calls that a bundle can be asked about, and how many it cannot.
#[derive(Debug, Default)]
pub struct Calls {
    pub calls: Vec<Recorded>,
    /// Stopped by a check before the policies, which no bundle changes.
    pub stopped_before: usize,
    /// Arguments were not kept, or the server is not in the configuration any more.
    pub unknown: usize,
}

impl Calls {
    /// What no bundle could be asked about, so that nobody takes silence for agreement.
    pub fn left_out(&self) -> String {
        let mut out = String::new();
        if self.stopped_before > 0 {
            out.push_str(&format!(
                "Not judged: {} that checks before the policies had stopped.\n",
                self.stopped_before
            ));
        }
        if self.unknown > 0 {
            out.push_str(&format!(
                "Not judged: {} whose arguments were not kept, or whose server is gone.\n",
                self.unknown
            ));
        }
        out
    }
}

pub fn read(home: &Home, resolved: &Resolved, wanted: &Wanted<'_>) -> Result<Calls, Problem> {
    let unreadable = |error: std::io::Error| {
        let text = format!(
            "cannot read the ledger in {}: {error}",
            home.ledger.display()
        );
        Problem::storage("ledger_unavailable", text)
    };
    let tokens = Tokens::load(&home.tokens_file()).map_err(Problem::broken)?;
    let caller = wanted
        .caller
        .map(|caller| caller_id(tokens.list(), caller))
        .transpose()?;
    let mut reader = Reader {
        resolved,
        tokens: &tokens,
        lock: Lock::read(&home.lock_file()),
        bodies: BodyReader::open(&home.ledger).map_err(unreadable)?,
        counts: HashMap::new(),
        found: Calls::default(),
    };
    for record in audit::read(&home.ledger, Filter::default()).map_err(unreadable)? {
        let record = record.map_err(unreadable)?;
        let is_wanted = record.ms >= wanted.since_ms
            && caller
                .as_ref()
                .is_none_or(|caller| *caller == record.caller);
        reader.take(record, is_wanted).map_err(unreadable)?;
    }
    Ok(reader.found)
}

fn caller_id(credentials: &[Credential], caller: &str) -> Result<String, Problem> {
    let named = |test: &dyn Fn(&Credential) -> bool| {
        credentials
            .iter()
            .filter(|one| test(one))
            .map(|one| one.id.clone())
            .collect::<Vec<_>>()
    };
    let ids = match named(&|one| one.id == caller) {
        ids if ids.is_empty() => named(&|one| one.name == caller),
        ids => ids,
    };
    match ids.as_slice() {
        [id] => Ok(id.clone()),
        [] if caller == "anonymous" => Ok(caller.to_owned()),
        [] => Err(Problem::invalid(format!(
            "there is no credential `{caller}`; `portcullis token list` shows them"
        ))),
        _ => Err(Problem::invalid(format!(
            "several credentials are called `{caller}`; name it by its id"
        ))),
    }
}

struct Reader<'a> {
    resolved: &'a Resolved,
    tokens: &'a Tokens,
    lock: Lock,
    bodies: BodyReader,
    /// Calls so far: of a caller's session, and of it to each target.
    counts: HashMap<(String, String), u64>,
    found: Calls,
}

impl Reader<'_> {
    fn take(&mut self, record: Record, is_wanted: bool) -> std::io::Result<()> {
        match (record.kind.as_str(), record.action.as_str()) {
            // Counts live in memory, and a reset begins a new session.
            ("change", "gate.opened") => self.counts.clear(),
            ("change", "session.reset") => self
                .counts
                .retain(|(caller, _), _| *caller != record.target),
            ("outcome" | "refusal", _) if !record.call.is_empty() => {
                let target = format!("{}/{}", record.server, record.tool);
                let session_calls = count(&mut self.counts, &record.caller, "");
                let target_calls = count(&mut self.counts, &record.caller, &target);
                if is_wanted {
                    self.keep(record, session_calls, target_calls)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn keep(
        &mut self,
        record: Record,
        session_calls: u64,
        target_calls: u64,
    ) -> std::io::Result<()> {
        let Some(act) = act(&record) else {
            return Ok(());
        };
        let ending = match (record.verdict.as_str(), record.approval.is_empty()) {
            ("refused", _) if reached_judge(&record.stage) => Ending::Refused,
            ("refused", _) => {
                self.found.stopped_before += 1;
                return Ok(());
            }
            (_, true) => Ending::Allowed,
            (_, false) => Ending::Approved,
        };
        let entry = self.resolved.server(&record.server);
        let arguments = self.arguments(&record)?;
        let (Some(level), Some(arguments)) =
            (entry.and_then(|entry| entry.classification), arguments)
        else {
            self.found.unknown += 1;
            return Ok(());
        };
        let credential = self
            .tokens
            .list()
            .iter()
            .find(|one| one.id == record.caller);
        let configured = entry.and_then(|entry| entry.rule(&record.tool).effect);
        self.found.calls.push(Recorded {
            act,
            level,
            arguments,
            ending,
            session_calls,
            target_calls,
            user: Some(record.user).filter(|user| !user.is_empty()),
            agent: Some(record.agent).filter(|agent| !agent.is_empty()),
            departments: credential
                .map(|one| one.departments.clone())
                .unwrap_or_default(),
            context: None,
            is_operator: credential.is_some_and(|one| one.role == Role::Operator),
            effect: configured
                .or_else(|| record.effect.parse().ok())
                .unwrap_or(Effect::Consequential),
            is_open_world: entry
                .and_then(|entry| entry.open_world)
                .unwrap_or_else(|| self.lock.is_open_world(&record.server)),
            label: mark(&record.label),
            now_ms: record.ms,
            door: record.door,
            id: record.call,
            caller: record.caller,
            server: record.server,
            target: record.tool,
        });
        Ok(())
    }

    /// The arguments, if they are whole. A call without any has none to keep.
    fn arguments(&self, record: &Record) -> std::io::Result<Option<Vec<u8>>> {
        Ok(match self.bodies.get(&record.call)? {
            Body::Kept { bytes, cut: false } => Some(bytes),
            Body::Absent if record.args_bytes == Some(0) => Some(Vec::new()),
            _ => None,
        })
    }
}

fn count(counts: &mut HashMap<(String, String), u64>, caller: &str, of: &str) -> u64 {
    let count = counts
        .entry((caller.to_owned(), of.to_owned()))
        .or_default();
    *count += 1;
    *count - 1
}

fn act(record: &Record) -> Option<Act> {
    Some(match record.action.as_str() {
        "tools/call" => Act::Call,
        "resources/read" => Act::Read,
        "prompts/get" => Act::Get,
        "completion/complete" if record.tool.contains("://") => Act::CompleteResource,
        "completion/complete" => Act::CompletePrompt,
        "resources/subscribe" => Act::Subscribe,
        _ => return None,
    })
}

/// Whether the policies had their say before the call was stopped.
fn reached_judge(stage: &str) -> bool {
    let place = |stage: &str| Stage::ALL.iter().position(|one| one.as_str() == stage);
    place(stage) >= place(Stage::Judge.as_str())
}

fn mark(label: &str) -> Mark {
    let (secrecy, integrity) = match label.strip_suffix("+untrusted") {
        Some(secrecy) => (secrecy, Integrity::Untrusted),
        None => (label, Integrity::Trusted),
    };
    secrecy
        .parse()
        .map_or_else(|_| Mark::default(), |secrecy| Mark { secrecy, integrity })
}

/// The approved definitions, for what is inferred from them.
#[derive(Debug, Default)]
struct Lock(serde_json::Value);

impl Lock {
    /// A file that is missing or broken says nothing here; the gate says what is wrong with it.
    fn read(file: &Path) -> Self {
        Self(
            fs::read(file)
                .ok()
                .and_then(|bytes| serde_json::from_slice(&bytes).ok())
                .unwrap_or_default(),
        )
    }

    fn is_open_world(&self, server: &str) -> bool {
        let tools = self
            .0
            .get("servers")
            .and_then(|servers| servers.get(server)?.get("tool")?.as_object());
        tools
            .into_iter()
            .flat_map(serde_json::Map::values)
            .filter_map(|pin| pin.get("definition"))
            .any(|definition| {
                let text = definition.to_string();
                shape::definition::takes_address(Json::checked_before(text.as_bytes()))
            })
    }
}
