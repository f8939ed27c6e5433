//! What happened in a period, counted from the ledger's records and nothing else.
//!
//! A [`Collector`] takes records and gives a [`Report`]. It must never hold more than so many rows of anything, however long the period
//! and whatever callers make up: what is beyond is counted as "others".

mod tally;

use std::{collections::HashMap, io, path::Path, thread, time::Duration};

use api::{ApprovalCounts, Item, LedgerState, Listed, Party, Report, Step};
use audit::{Filter, Record, rfc3339};

use crate::CallerNames;
use tally::Tally;

/// The newest changes of each sort that are listed one by one.
const LISTED: usize = 500;
/// A running gate may be in the middle of its last line; so much later it is not.
const LAST_LINE: Duration = Duration::from_millis(200);

const HOUR_MS: u64 = 3_600_000;
/// The widths a step may have: the first that gives at most so many steps is taken.
const WIDTHS_MS: [u64; 6] = [
    60_000,
    10 * 60_000,
    HOUR_MS,
    6 * HOUR_MS,
    24 * HOUR_MS,
    7 * 24 * HOUR_MS,
];
const MOST_STEPS: u64 = 62;
/// Open intents that are remembered, to say whose they were should their end never be known.
const OPEN_LIMIT: usize = 200_000;

/// The longest list of names of definitions that changed together.
const MOST_NAMES: usize = 400;

#[derive(Debug, Default)]
struct Sums {
    also: Vec<String>,
    permitted: u64,
    refused: u64,
    other: u64,
    level: u8,
    us: u64,
    timed: u64,
}

/// Takes records in order.
#[derive(Debug)]
pub struct Collector {
    summary: Report,
    since_ms: u64,
    width_ms: u64,
    refusals_by_rule: Tally<u64>,
    refusals_by_tool: Tally<u64>,
    failures: Tally<u64>,
    rises: Tally<u64>,
    write_downs: Tally<u64>,
    strangers: Tally<u64>,
    people: Tally<u64>,
    changes: Tally<u64>,
    callers: Tally<Sums>,
    servers: Tally<Sums>,
    /// Intents without an outcome so far, and when each was written.
    open: HashMap<u64, (u64, Item)>,
    names: CallerNames,
    /// The server whose definitions the newest item is about, and how many they are.
    together: (String, u64),
}

impl Collector {
    /// For the period from `since_ms` to before `until_ms`.
    #[must_use]
    pub fn new(since_ms: u64, until_ms: u64, ledger: LedgerState, names: CallerNames) -> Self {
        let span = until_ms.saturating_sub(since_ms).max(1);
        let width_ms = WIDTHS_MS
            .into_iter()
            .find(|width| span.div_ceil(*width) <= MOST_STEPS)
            .unwrap_or(span.div_ceil(MOST_STEPS));
        // Steps begin where a clock would: at whole hours or days.
        let start = since_ms - since_ms % width_ms;
        let steps = (0..(until_ms.saturating_sub(start)).div_ceil(width_ms).max(1))
            .map(|step| Step {
                from: rfc3339(start + step * width_ms),
                ..Step::default()
            })
            .collect();
        let summary = Report {
            since: rfc3339(since_ms),
            until: rfc3339(until_ms),
            ledger,
            steps,
            ..Report::default()
        };
        Self {
            summary,
            since_ms: start,
            width_ms,
            refusals_by_rule: Tally::default(),
            refusals_by_tool: Tally::default(),
            failures: Tally::default(),
            rises: Tally::default(),
            write_downs: Tally::default(),
            strangers: Tally::default(),
            people: Tally::default(),
            changes: Tally::default(),
            callers: Tally::default(),
            servers: Tally::default(),
            open: HashMap::new(),
            names,
            together: Default::default(),
        }
    }

    pub fn take(&mut self, record: &Record) {
        self.summary.records += 1;
        match record.kind.as_str() {
            "intent" => {
                if self.open.len() < OPEN_LIMIT {
                    self.open.insert(record.seq, (record.ms, self.item(record)));
                }
            }
            "outcome" | "refusal" => self.call(record),
            _ => self.change(record),
        }
    }

    fn call(&mut self, record: &Record) {
        let begun = record.intent.and_then(|intent| self.open.remove(&intent));
        // The intent is written when a person has answered: from there on it is the tool's time.
        let approved_ms = begun
            .as_ref()
            .filter(|_| !record.approval.is_empty())
            .map(|(ms, _)| record.ms.saturating_sub(*ms));
        let us = approved_ms
            .map(|ms| ms * 1000)
            .or(record.us)
            .filter(|_| record.kind == "outcome");
        self.summary.calls.total += 1;
        *self
            .summary
            .calls
            .by_verdict
            .entry(record.verdict.clone())
            .or_default() += 1;
        let step = usize::try_from(record.ms.saturating_sub(self.since_ms) / self.width_ms)
            .unwrap_or(usize::MAX);
        if let Some(step) = self.summary.steps.get_mut(step) {
            *match record.verdict.as_str() {
                "permitted" => &mut step.permitted,
                "refused" => &mut step.refused,
                _ => &mut step.other,
            } += 1;
        }
        match record.verdict.as_str() {
            "refused" => self.refusal(record),
            "indeterminate" => {
                let item = match begun {
                    Some((_, begun)) => Item {
                        seq: record.seq,
                        detail: record.detail.clone(),
                        ..begun
                    },
                    None => self.item(record),
                };
                push(&mut self.summary.indeterminate, item);
            }
            "permitted" => {}
            verdict => self.failures.add(
                if record.violation.is_empty() {
                    verdict
                } else {
                    &record.violation
                },
                1,
            ),
        }
        if !record.label_after.is_empty() && record.label_after != record.label {
            self.rises.add(
                &format!("{} → {}", or_dash(&record.label), record.label_after),
                1,
            );
        }
        if !record.caller.is_empty() {
            sum(
                self.callers.of(&record.caller),
                record,
                us,
                [&record.user, &record.agent],
            );
        }
        if !record.server.is_empty() {
            sum(self.servers.of(&record.server), record, us, ["", ""]);
        }
    }

    fn refusal(&mut self, record: &Record) {
        let tool = tool_of(record);
        self.refusals_by_rule.add(or_dash(&record.violation), 1);
        self.refusals_by_tool
            .add(&format!("{tool}: {}", or_dash(&record.violation)), 1);
        if record.violation == "WouldViolateWriteDown" {
            self.write_downs
                .add(&format!("{} → {tool}", or_dash(&record.label)), 1);
        }
    }

    fn change(&mut self, record: &Record) {
        let who = self.who(record);
        let who = or_dash(&who);
        let approvals = &mut self.summary.approvals;
        match record.action.as_str() {
            "approval.asked" => approvals.asked += 1,
            "approval.expired" => approvals.expired += 1,
            "approval.approved" => {
                approvals.approved += 1;
                self.people.add(&format!("{who}: approved"), 1);
            }
            "approval.denied" => {
                approvals.denied += 1;
                self.people.add(&format!("{who}: denied"), 1);
            }
            "strangers.refused" => {
                let name = format!("{}: {}", or_dash(&record.door), or_dash(&record.violation));
                self.strangers.add(&name, record.count.unwrap_or(1));
            }
            action if action.starts_with("definition.") => self.definition(record),
            action if is_configuration(action) => {
                let item = self.item(record);
                push(&mut self.summary.configuration_changes, item);
            }
            action => self.changes.add(action, 1),
        }
    }

    /// Definitions of one server that change together are one item: a new server pins dozens at once.
    fn definition(&mut self, record: &Record) {
        let item = self.item(record);
        let list = &mut self.summary.definition_changes;
        let (server, count) = &mut self.together;
        let same = list.newest.last_mut().filter(|last| {
            last.what == item.what && last.by == item.by && *server == record.server
        });
        let Some(last) = same else {
            self.together = (record.server.clone(), 1);
            return push(list, item);
        };
        list.count += 1;
        *count += 1;
        match last.about.len() {
            0..MOST_NAMES => last.about.push_str(&format!(", {}", record.tool)),
            _ if !last.about.ends_with('…') => last.about.push_str(", …"),
            _ => {}
        }
        let detail = format!("{count} definitions");
        (last.seq, last.time, last.detail) = (item.seq, item.time, detail);
    }

    /// Who did it: a person where one is known, else the credential by its name.
    fn who(&self, record: &Record) -> String {
        if record.user.is_empty() {
            self.names.name(&record.caller).to_owned()
        } else {
            record.user.clone()
        }
    }

    fn item(&self, record: &Record) -> Item {
        let session = self.names.name(&record.session);
        let about = [
            &record.server,
            &record.tool,
            session,
            &record.target,
            &record.approval,
            &record.call,
        ];
        let about: Vec<&str> = about.into_iter().filter(|text| !text.is_empty()).collect();
        let detail = [&record.detail, &record.reason]
            .into_iter()
            .filter(|text| !text.is_empty())
            .cloned()
            .collect::<Vec<_>>();
        Item {
            seq: record.seq,
            time: record.time.clone(),
            what: record.action.clone(),
            about: about.join(" "),
            by: self.who(record),
            detail: detail.join(" · "),
        }
    }

    #[must_use]
    pub fn finish(self, made_at_ms: u64) -> Report {
        let mut summary = self.summary;
        summary.made_at = rfc3339(made_at_ms);
        summary.calls.under_way = self.open.len() as u64;
        summary.refusals_by_rule = self.refusals_by_rule.into_rows();
        summary.refusals_by_tool = self.refusals_by_tool.into_rows();
        summary.failures_by_code = self.failures.into_rows();
        summary.label_rises = self.rises.into_rows();
        summary.write_down_refusals = self.write_downs.into_rows();
        summary.authentication_failures = self.strangers.into_rows();
        summary.approvals = ApprovalCounts {
            by_person: self.people.into_rows(),
            ..summary.approvals
        };
        summary.other_changes = self.changes.into_rows();
        summary.callers = parties(self.callers, |id| self.names.name(id).to_owned());
        summary.servers = parties(self.servers, str::to_owned);
        summary
    }
}

fn is_configuration(action: &str) -> bool {
    [
        "config.",
        "server.",
        "credential.",
        "account.",
        "policy.",
        "bundle.",
        "session.",
        "body.",
        "ledger.trimmed",
        "gate.",
    ]
    .iter()
    .any(|prefix| action.starts_with(prefix))
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn tool_of(record: &Record) -> String {
    match (record.server.as_str(), record.tool.as_str()) {
        ("", "") => or_dash(&record.action).to_owned(),
        ("", tool) => tool.to_owned(),
        (server, "") => format!("{server} {}", record.action),
        (server, tool) => format!("{server}/{tool}"),
    }
}

fn sum(sums: &mut Sums, record: &Record, us: Option<u64>, also: [&str; 2]) {
    match record.verdict.as_str() {
        "permitted" => sums.permitted += 1,
        "refused" => sums.refused += 1,
        _ => sums.other += 1,
    }
    if let Some(us) = us {
        sums.us += us;
        sums.timed += 1;
    }
    let label = if record.label_after.is_empty() {
        &record.label
    } else {
        &record.label_after
    };
    let level = label
        .split('+')
        .next()
        .and_then(|level| level.parse::<vocab::Level>().ok());
    sums.level = sums.level.max(level.map_or(0, |level| level as u8 + 1));
    for name in also {
        if !name.is_empty() && sums.also.len() < 8 && !sums.also.iter().any(|known| known == name) {
            sums.also.push(name.to_owned());
        }
    }
}

/// The busiest first.
fn parties(tally: Tally<Sums>, name: impl Fn(&str) -> String) -> Vec<Party> {
    let mut parties: Vec<Party> = tally
        .into_entries()
        .map(|(id, sums)| Party {
            name: name(&id),
            id,
            also: sums.also,
            calls: sums.permitted + sums.refused + sums.other,
            permitted: sums.permitted,
            refused: sums.refused,
            other: sums.other,
            highest_level: sums
                .level
                .checked_sub(1)
                .and_then(vocab::Level::from_rank)
                .map(|level| level.to_string())
                .unwrap_or_default(),
            mean_ms: if sums.timed == 0 {
                0.0
            } else {
                (sums.us as f64 / sums.timed as f64).round() / 1000.0
            },
        })
        .collect();
    parties.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.id.cmp(&b.id)));
    parties.truncate(200);
    parties
}

fn push(list: &mut Listed, item: Item) {
    list.count += 1;
    if list.newest.len() == LISTED {
        list.newest.remove(0);
    }
    list.newest.push(item);
}

/// What happened from `since_ms`, or from the beginning, to before `until_ms`, and whether the whole ledger verifies.
pub fn report(
    ledger: &Path,
    since_ms: Option<u64>,
    until_ms: u64,
    now_ms: u64,
    names: CallerNames,
) -> io::Result<Report> {
    let since_ms = match since_ms {
        Some(since_ms) => since_ms,
        None => oldest_ms(ledger)?.unwrap_or(until_ms),
    };
    let mut collector = Collector::new(since_ms, until_ms, state_of(ledger)?, names);
    let filter = Filter {
        since_ms,
        until_ms,
        ..Filter::default()
    };
    for record in audit::read(ledger, filter)? {
        collector.take(&record?);
    }
    Ok(collector.finish(now_ms))
}

fn oldest_ms(ledger: &Path) -> io::Result<Option<u64>> {
    let first = audit::read(ledger, Filter::default())?.next();
    Ok(first.transpose()?.map(|record| record.ms))
}

fn state_of(ledger: &Path) -> io::Result<LedgerState> {
    let mut found = audit::verify(ledger)?;
    if !found.is_clean() {
        thread::sleep(LAST_LINE);
        found = audit::verify(ledger)?;
    }
    Ok(LedgerState {
        verifies: found.is_clean(),
        finding: found.finding.as_ref().map(ToString::to_string),
        first_record: found.first,
        records: found.records,
        head: found.head.to_string(),
        root: found.root.to_string(),
        checkpoint_covers: found.checkpoint,
        checkpoint: audit::read_checkpoint(ledger)?,
        public_key: audit::read_public_key(ledger)?,
    })
}
