//! `portcullis audit export` and `portcullis audit retain`: what leaves the ledger, as a proof or for good.

use std::{fs, io, path::Path};

use audit::{Change, Exported, Filter, Trimmed};
use home::{
    Home,
    answers::now_ms,
    holding::{self, Taken},
    retention,
};
use serde_json::json;
use terminal::{Exit, Screen, Trouble};

use crate::{
    args, files, out_file, record,
    verbs::audit::{proofs, unreadable},
};

pub(super) fn export(
    args: &args::AuditExport,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let now = now_ms();
    let (since_ms, until_ms) = (
        args.since.map_or(0, |when| when.ms(now)),
        args.until.map_or(0, |when| when.ms(now)),
    );
    let run = run_of(home, since_ms, until_ms).map_err(|error| unreadable(home, &error))?;
    let run = run.ok_or_else(|| Trouble::failed("there are no records of that time"))?;
    let made = out_file::write(&args.out, |mut out| {
        audit::export(&home.ledger, run, &mut out).map_err(Trouble::failed)
    })?;
    if out_file::is_stdout(&args.out) {
        return Ok(Exit::Done);
    }
    let Exported {
        first,
        records,
        since,
        until,
        head,
        ..
    } = &made;
    let said = format!(
        "{records} records, {first} to {}, from {since} to {until}, are in {}\nThey are covered by the signed head over {} records. \
         Check it anywhere: portcullis audit verify --export {} --key KEY\n",
        first + records - 1,
        args.out.display(),
        head.size,
        args.out.display()
    );
    let document = json!({ "file": args.out, "first": first, "records": records, "since": since, "until": until, "checkpoint": head.size });
    screen.show(&document, &said)?;
    Ok(Exit::Done)
}

/// From the first record of the time to the last.
fn run_of(home: &Home, since_ms: u64, until_ms: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    let mut run: Option<std::ops::Range<u64>> = None;
    for record in audit::read(
        &home.ledger,
        Filter {
            since_ms,
            until_ms,
            ..Filter::default()
        },
    )? {
        let seq = record?.seq;
        let start = run.map_or(seq, |run| run.start);
        run = Some(start..seq + 1);
    }
    Ok(run)
}

/// Exit 6 when the export does not hold, 1 when the checkpoint it is held against says nothing about it.
pub(super) fn verify_export(
    file: &Path,
    args: &args::AuditVerify,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let against = args.against.as_deref().map(proofs::text_of).transpose()?;
    let key = args
        .key
        .as_deref()
        .map(|key| proofs::key(Some(key), home))
        .transpose()?;
    let input = fs::File::open(file)
        .map_err(|error| Trouble::usage(format!("cannot read {}: {error}", file.display())))?;
    match audit::check_export(
        io::BufReader::with_capacity(1 << 18, input),
        key.as_deref(),
        against.as_deref(),
    ) {
        Ok(found) => {
            let Exported {
                first,
                records,
                since,
                until,
                unproven,
                ..
            } = &found;
            let mut said = format!(
                "The export holds: records {first} to {}, from {since} to {until}.\n",
                first + records - 1
            );
            if key.is_none() {
                said.push_str(&format!(
                    "It is signed by the key it names itself, {}: compare that with the one you know, or give it with --key.\n",
                    found.key
                ));
            }
            if let Some(unproven) = unproven {
                said.push_str(&format!("NOT SHOWN: {unproven}.\n"));
            }
            let document = json!({
                "holds": true, "first": first, "records": records, "since": since, "until": until, "checkpoint": found.head.size,
                "key": found.key, "key_given": key.is_some(), "unproven": unproven,
            });
            screen.show(&document, &said)?;
            Ok(if unproven.is_some() {
                Exit::Failed
            } else {
                Exit::Done
            })
        }
        Err(error) => {
            let document = json!({ "holds": false, "why": error.to_string() });
            screen.show(&document, &format!("THE EXPORT DOES NOT HOLD: {error}\n"))?;
            Ok(Exit::Altered)
        }
    }
}

/// Only without a gate: it holds the ledger, and does this by itself.
pub(super) fn retain(
    args: &args::AuditRetain,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let (keep, why) = match args.before {
        Some(when) => (
            audit::Keep {
                since_ms: Some(when.ms(now_ms())),
                ..audit::Keep::default()
            },
            String::new(),
        ),
        None => {
            let (_, resolved) = files::of_home(home)?;
            if resolved.retention == config::Retention::default() {
                let said = "the configuration says to keep everything: set `audit.retention` or `audit.max_bytes`, or say --before TIME";
                return Err(Trouble::usage(said));
            }
            {
                let needed = retention::read_from(home, &resolved.sinks);
                (
                    retention::keep_of(resolved.retention, needed, now_ms()),
                    retention::describe(resolved.retention),
                )
            }
        }
    };
    let gone = if args.dry_run {
        audit::removable(&home.ledger, &keep).map_err(Trouble::failed)?
    } else {
        let ledger = holding::open_ledger(home).map_err(|taken| match taken {
            Taken::ByGate(_) => Trouble::failed(
                "a gate is running in this home, and removes what the configuration says by itself; --dry-run shows what would go",
            ),
            taken => Trouble::because(&taken),
        })?;
        let user = record::os_user();
        let reason = args.reason.as_deref().unwrap_or(&why);
        let change = Change {
            user: &user,
            reason,
            door: "cli",
            ..Change::default()
        };
        ledger.retain(&keep, &change).map_err(Trouble::failed)?
    };
    let document = gone.map(|gone| {
        json!({ "records": gone.records, "segments": gone.segments, "bytes": gone.bytes, "first_kept": gone.first_kept, "removed": !args.dry_run })
    });
    screen.show(&document, &told(gone, args.dry_run))?;
    Ok(Exit::Done)
}

fn told(gone: Option<Trimmed>, dry_run: bool) -> String {
    let Some(Trimmed {
        first_kept,
        records,
        segments,
        bytes,
    }) = gone
    else {
        return "Nothing is to be removed: only whole segments go, and the last one never.\n"
            .to_owned();
    };
    let what = format!("{records} records in {segments} segments, {bytes} bytes");
    match dry_run {
        true => format!("{what} would go; the oldest record kept would be {first_kept}.\n"),
        false => format!(
            "{what} are gone; the oldest record is now {first_kept}. The ledger says so, and still verifies.\n"
        ),
    }
}
