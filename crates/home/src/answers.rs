//! Answers from the files of a home: the ledger, the configuration, the policies. The running gate and the command line give the same ones.

use std::{
    io,
    time::{SystemTime, UNIX_EPOCH},
};

use api::{Kind, Operation, Problem};
use audit::Filter;
use config::{
    LoadError, Raw, Report, Resolved,
    bundle::{self, BundleError},
    manifests, named_files,
};
use policy::cedar::{self, Bundle, Changed, Decision};
use reports::{CallerNames, Calls, Found, Lost, Query};

use crate::{
    Home, layers,
    recorded::{self, Wanted},
    tokens,
    when::When,
};

/// Records that are given where nobody says how many, and the most that one answer holds.
const RECORDS: u32 = 100;
const MOST_RECORDS: u32 = 10_000;

/// Carries out an operation that the files are enough for.
pub fn answer(
    home: &Home,
    operation: Operation,
    name: &str,
    input: &[u8],
) -> Result<Vec<u8>, Problem> {
    Ok(match operation {
        Operation::Records => records(home, &api::read(input)?)?,
        Operation::Report => api::text(&report(home, &api::read(input)?)?),
        Operation::Lineage => {
            let direction: api::Direction = api::read(input)?;
            api::text(&lineage(home, name, direction.forward)?)
        }
        Operation::CheckConfig => api::text(&check_config(layers::load(home))?.0),
        Operation::Connectors => api::text(&connectors(home)?),
        Operation::ExplainConfig => api::text(&explain_config(home)?),
        Operation::CheckPolicy => {
            let given: api::BundleText = api::read(input)?;
            let bundle = match given.policies {
                Some(text) => sent(&text),
                None => bundle::load(&configured(home)?.bundle),
            };
            api::text(&check_policy(bundle)?)
        }
        Operation::DiffPolicy => {
            let query: api::PolicyDiffQuery = api::read(input)?;
            let candidate = sent(&query.policies).map_err(|error| invalid(&error))?;
            let calls = calls(home, query.caller.as_deref(), query.since.as_deref())?;
            api::text(&diff_policy(home, &candidate, &calls)?.0)
        }
        Operation::SuggestPolicy => {
            let query: api::PolicySuggestQuery = api::read(input)?;
            let calls = calls(home, query.caller.as_deref(), query.since.as_deref())?;
            api::text(&suggest_policy(&calls)?)
        }
        Operation::Status
        | Operation::Servers
        | Operation::Tools
        | Operation::Jails
        | Operation::EndJail
        | Operation::Executions
        | Operation::BeginExecution
        | Operation::EndExecution
        | Operation::RetryServer
        | Operation::ReinstallServer
        | Operation::ClassifyServer
        | Operation::BlockServer
        | Operation::UnblockServer
        | Operation::Definitions
        | Operation::ApproveDefinitions
        | Operation::Reload
        | Operation::Sessions
        | Operation::ResetSession
        | Operation::BeginTask
        | Operation::Approvals
        | Operation::ShowApproval
        | Operation::ConsoleCode
        | Operation::Visits
        | Operation::EndVisit
        | Operation::Approve
        | Operation::Deny
        | Operation::Lasting
        | Operation::Revoke
        | Operation::Explain
        | Operation::Events
        | Operation::Volumes
        | Operation::VolumeEntries
        | Operation::VolumeContent
        | Operation::PutOnVolume
        | Operation::RemoveFromVolume
        | Operation::LabelOnVolume
        | Operation::ReloadConfig
        | Operation::AddConnector
        | Operation::RemoveConnector
        | Operation::AttachVolume
        | Operation::DetachVolume
        | Operation::Sinks => return Err(Problem::broken("only a running gate knows this")),
    })
}

pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

fn invalid(error: &impl ToString) -> Problem {
    Problem::invalid(error.to_string())
}

fn unreadable(home: &Home, error: &io::Error) -> Problem {
    let text = format!(
        "cannot read the ledger in {}: {error}",
        home.ledger.display()
    );
    Problem::storage("ledger_unavailable", text)
}

/// A time as people write it, in milliseconds since 1970.
fn time(text: Option<&str>, now_ms: u64) -> Result<Option<u64>, Problem> {
    let when = text
        .map(When::parse)
        .transpose()
        .map_err(Problem::invalid)?;
    Ok(when.map(|when| when.ms(now_ms)))
}

/// The text of an [`api::Records`], with the ledger's own records in it.
fn records(home: &Home, wanted: &api::RecordsQuery) -> Result<Vec<u8>, Problem> {
    #[derive(serde::Serialize)]
    struct Records<'a> {
        records: &'a [audit::Record],
        more: bool,
    }
    let (found, _) = find(home, &question(home, wanted)?)?;
    Ok(api::text(&Records {
        records: &found.records,
        more: found.more,
    }))
}

/// The question that an operator asks of the index.
pub fn question(home: &Home, wanted: &api::RecordsQuery) -> Result<Query, Problem> {
    let now = now_ms();
    let names = tokens::caller_names(home);
    Ok(Query {
        filter: Filter {
            since_ms: time(wanted.since.as_deref(), now)?.unwrap_or_default(),
            until_ms: time(wanted.until.as_deref(), now)?.unwrap_or_default(),
            ..filter(wanted, &names)?
        },
        lineage: wanted.lineage.clone().unwrap_or_default(),
        // Whoever asks for a kind or an action says by it whether changes are wanted.
        calls_only: !wanted.all && wanted.kind.is_none() && wanted.action.is_none(),
        all: wanted.all,
        limit: wanted.limit.unwrap_or(RECORDS).clamp(1, MOST_RECORDS),
    })
}

/// The conditions on columns.
pub fn filter(wanted: &api::RecordsQuery, names: &CallerNames) -> Result<Filter, Problem> {
    let mut filter = Filter::default();
    for (name, text) in wanted.columns() {
        filter.set(name, &condition(name, text).map_err(Problem::invalid)?);
    }
    filter.caller = names.id(&filter.caller).to_owned();
    Ok(filter)
}

/// The records that match, and how many rows the index had lost.
pub fn find(home: &Home, query: &Query) -> Result<(Found, Lost), Problem> {
    let runtime = runtime().map_err(|error| unreadable(home, &error))?;
    let found = runtime.block_on(reports::find(&home.index_file(), &home.ledger, query));
    found.map_err(|error| Problem::storage("index_unavailable", error.to_string()))
}

pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// What happened in a period.
pub fn report(home: &Home, period: &api::Period) -> Result<api::Report, Problem> {
    let now = now_ms();
    let since = time(period.since.as_deref(), now)?;
    let until = time(period.until.as_deref(), now)?.unwrap_or(now);
    if since.is_some_and(|since| since > until) {
        return Err(Problem::invalid("the period ends before it begins"));
    }
    let names = tokens::caller_names(home);
    let report = reports::report(&home.ledger, since, until, now, names);
    report.map_err(|error| unreadable(home, &error))
}

/// What may have influenced a call, or what its result may have.
pub fn lineage(home: &Home, call: &str, forward: bool) -> Result<api::Lineage, Problem> {
    let missing = || {
        let text = format!("no call `{call}`; `portcullis audit tail --json` names the latest");
        Problem::new(Kind::NotFound, "no_such_call", text)
    };
    let around = Calls::around(&home.ledger, call).map_err(|error| unreadable(home, &error))?;
    let calls = around.ok_or_else(missing)?;
    let of = calls.get(call).ok_or_else(missing)?;
    let walk = match forward {
        true => calls.forward(call),
        false => calls.back(call),
    };
    Ok(api::Lineage {
        call: of.clone(),
        forward,
        calls: walk.calls,
        whole: walk.whole,
    })
}

/// All findings of a configuration file, also as they are printed.
pub fn check_config(
    loaded: Result<(Raw, Resolved), LoadError>,
) -> Result<(api::ConfigCheck, Report), Problem> {
    let (report, servers) = match loaded {
        Ok((raw, resolved)) => {
            let mut named = named_files::mistakes(&resolved);
            named.extend(manifests::idle(&resolved));
            let servers = resolved.servers.len();
            let findings = resolved.warnings.into_iter().chain(named).collect();
            (raw.report(findings), servers)
        }
        Err(LoadError::Invalid(report)) => (report, 0),
        Err(error @ LoadError::Read { .. }) => return Err(invalid(&error)),
    };
    let findings = report.findings.iter().map(|finding| api::Finding {
        severity: match finding.severity {
            config::Severity::Error => "error",
            config::Severity::Warning => "warning",
        }
        .to_owned(),
        file: finding.file.clone().unwrap_or_default(),
        line: finding.place.line as u64,
        column: finding.place.column as u64,
        what: finding.what.to_string(),
        fix: finding.fix.to_string(),
        excerpt: finding.excerpt.clone(),
    });
    let check = api::ConfigCheck {
        ok: !report.has_errors(),
        file: report.file.clone(),
        servers: servers as u64,
        findings: findings.collect(),
    };
    Ok((check, report))
}

/// Every value of a file that can be used, and where it came from.
fn explain_config(home: &Home) -> Result<Vec<api::ConfigValue>, Problem> {
    let (raw, _) = layers::load(home).map_err(|error| invalid(&error))?;
    Ok(config::explain(&raw, &[]))
}

/// The servers of every layer, by id.
pub fn connectors(home: &Home) -> Result<api::Connectors, Problem> {
    let (raw, _) = layers::load(home).map_err(|error| invalid(&error))?;
    let mut servers: Vec<api::Connector> = raw
        .server_ids()
        .filter_map(|id| connector(&raw, id))
        .collect();
    servers.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(api::Connectors {
        mode: api::MODE.to_owned(),
        profile_id: api::PROFILE.to_owned(),
        servers,
    })
}

/// One of them.
#[must_use]
pub fn connector(raw: &Raw, id: &str) -> Option<api::Connector> {
    let (place, node) = raw.server(id)?;
    let direct = place.layer == config::layers::USER;
    Some(api::Connector {
        id: id.to_owned(),
        source_profile: api::PROFILE.to_owned(),
        source: config::layers::name(place.layer).to_owned(),
        direct,
        editable: direct && raw.layers.lock(&["mcp_servers", id]).is_none(),
        server: node.json(),
    })
}

fn configured(home: &Home) -> Result<Resolved, Problem> {
    let loaded = layers::load(home);
    loaded
        .map(|(_, resolved)| resolved)
        .map_err(|error| invalid(&error))
}

/// Policies that came with the question.
fn sent(text: &str) -> Result<Bundle, BundleError> {
    let files = [("sent.cedar".to_owned(), text.to_owned())];
    Bundle::load("sent", &files).map_err(BundleError::Wrong)
}

/// Whether a bundle can be used; its mistakes are the answer.
pub fn check_policy(bundle: Result<Bundle, BundleError>) -> Result<api::BundleCheck, Problem> {
    match bundle {
        Ok(bundle) => Ok(api::BundleCheck {
            ok: true,
            bundle: Some(bundle.version().to_owned()),
            policies: Some(bundle.policy_count() as u64),
            problems: Vec::new(),
        }),
        Err(BundleError::Wrong(problems)) => Ok(api::BundleCheck {
            ok: false,
            bundle: None,
            policies: None,
            problems: problems.into_iter().map(mistake).collect(),
        }),
        Err(error) => Err(invalid(&error)),
    }
}

fn mistake(problem: cedar::Problem) -> api::BundleMistake {
    let cedar::Problem {
        file,
        line,
        column,
        message,
        fix,
    } = problem;
    api::BundleMistake {
        file,
        line,
        column,
        message,
        fix,
    }
}

/// The recorded calls of a caller, or of all, since a time.
fn calls(
    home: &Home,
    caller: Option<&str>,
    since: Option<&str>,
) -> Result<recorded::Calls, Problem> {
    let wanted = Wanted {
        caller,
        since_ms: time(since, now_ms())?.unwrap_or_default(),
    };
    recorded::read(home, &configured(home)?, &wanted)
}

/// The calls that `candidate` would decide otherwise than the bundle of the configuration, also as they are printed.
pub fn diff_policy(
    home: &Home,
    candidate: &Bundle,
    calls: &recorded::Calls,
) -> Result<(api::PolicyDiff, Vec<Changed>), Problem> {
    let now = bundle::load(&configured(home)?.bundle).map_err(|error| invalid(&error))?;
    let changed = cedar::diff(&calls.calls, &now, candidate);
    let diff = api::PolicyDiff {
        before: now.version().to_owned(),
        after: candidate.version().to_owned(),
        calls: calls.calls.len() as u64,
        changed: changed
            .iter()
            .map(|change| described(change, calls))
            .collect(),
        stopped_before: calls.stopped_before as u64,
        unknown: calls.unknown as u64,
    };
    Ok((diff, changed))
}

fn described(change: &Changed, calls: &recorded::Calls) -> api::PolicyChange {
    let call = calls.calls.iter().find(|call| call.id == change.id);
    let decided = |decision: &Decision| api::Decided {
        decision: decision.as_str().to_owned(),
        policies: decision
            .notes()
            .iter()
            .map(|note| note.policy.clone())
            .collect(),
    };
    api::PolicyChange {
        call: change.id.clone(),
        caller: call.map(|call| call.caller.clone()),
        server: call.map(|call| call.server.clone()),
        target: call.map(|call| call.target.clone()),
        before: decided(&change.before),
        after: decided(&change.after),
    }
}

/// Policies that allow what recorded calls did.
pub fn suggest_policy(calls: &recorded::Calls) -> Result<api::Suggestion, Problem> {
    if calls.calls.is_empty() {
        let left_out = calls.left_out();
        let text = format!("there are no recorded calls to write a bundle from\n{left_out}");
        return Err(Problem::new(Kind::Conflict, "no_calls", text.trim_end()));
    }
    let comments: String = calls
        .left_out()
        .lines()
        .map(|line| format!("// {line}\n"))
        .collect();
    Ok(api::Suggestion {
        calls: calls.calls.len() as u64,
        unknown: calls.unknown as u64,
        bundle: cedar::suggest(&calls.calls) + &comments,
    })
}

/// A word out of those that there are.
pub fn one_of(text: &str, known: &[&str]) -> Result<String, String> {
    if known.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!("it is one of {}", known.join(", ")))
    }
}

/// What a condition may be, where only some words can hold, in the spelling of records.
pub fn condition(name: &str, text: &str) -> Result<String, String> {
    match name {
        "kind" => one_of(text, &["intent", "outcome", "refusal", "change"]),
        "verdict" => {
            const VERDICTS: [&str; 6] = [
                "permitted",
                "refused",
                "failed",
                "cancelled",
                "indeterminate",
                "abandoned",
            ];
            one_of(text, &VERDICTS)
        }
        "effect" => one_of(text, &["read", "consequential"]),
        "level" => level(text).map(|level| level.to_string()),
        _ => Ok(text.to_owned()),
    }
}

pub fn level(text: &str) -> Result<vocab::Level, String> {
    text.to_ascii_uppercase()
        .parse()
        .map_err(|error: vocab::UnknownLevel| error.to_string())
}

#[cfg(test)]
mod tests {
    use api::{Needs, Operation};

    use crate::Home;

    #[test]
    fn the_files_answer_what_the_table_says_they_do() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        for operation in Operation::ALL {
            let answered = super::answer(&home, *operation, "a", b"{}");
            let is_gates = answered.is_err_and(|problem| problem.sentence.contains("running gate"));
            let row = operation.row();
            assert_eq!(is_gates, row.needs == Needs::Gate, "{}", row.name);
        }
    }
}
