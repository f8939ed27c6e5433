//! Signed heads, proofs that leave the house, and arguments that must go.

use std::{fs, io, path::Path};

use audit::{Body, Change, Head};
use home::{
    Home,
    holding::{self, Taken},
};
use serde_json::json;
use terminal::{Exit, Screen, Trouble};

use crate::{args, verbs::audit::unreadable};

/// Larger than any checkpoint or proof.
const MAX_TEXT: u64 = 4 << 20;

pub(super) fn text_of(file: &Path) -> Result<String, Trouble> {
    let wrong =
        |error: io::Error| Trouble::usage(format!("cannot read {}: {error}", file.display()));
    if fs::metadata(file).map_err(wrong)?.len() > MAX_TEXT {
        return Err(Trouble::usage(format!(
            "{} is too large to be what is wanted here",
            file.display()
        )));
    }
    fs::read_to_string(file).map_err(wrong)
}

/// The public key: as it was given, or in a file, or the ledger's own.
pub(super) fn key(given: Option<&str>, home: &Home) -> Result<String, Trouble> {
    let a_key = |key: String, wrong: &str| match Head::check_key(&key) {
        Ok(()) => Ok(key),
        Err(_) => Err(Trouble::usage(format!(
            "--key: {wrong}; one is `name+id+key`, as in `checkpoint.pub` beside the ledger"
        ))),
    };
    match given {
        Some(given) if Path::new(given).is_file() => a_key(
            text_of(Path::new(given))?.trim().to_owned(),
            &format!("the file {given} holds no public key"),
        ),
        Some(given) => a_key(
            given.trim().to_owned(),
            "this is neither a file nor a public key",
        ),
        None => audit::read_public_key(&home.ledger)
            .map_err(|error| unreadable(home, &error))?
            .ok_or_else(|| {
                Trouble::failed(
                    "this ledger has no public key yet; it gets one when a gate first runs",
                )
            }),
    }
}

pub(super) fn checkpoint(home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let note = audit::read_checkpoint(&home.ledger).map_err(|error| unreadable(home, &error))?;
    let note = note.ok_or_else(|| {
        Trouble::failed("there is no signed head yet; a gate signs one every second while it runs")
    })?;
    screen.show(
        &json!({ "checkpoint": note, "public_key": key(None, home)? }),
        &note,
    )?;
    Ok(Exit::Done)
}

pub(super) fn prove(seq: u64, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let proof = audit::prove(&home.ledger, seq).map_err(Trouble::failed)?;
    screen.show(
        &json!({ "seq": seq, "proof": proof, "public_key": key(None, home)? }),
        &proof,
    )?;
    Ok(Exit::Done)
}

/// Exit 6 when the proof proves nothing.
pub(super) fn check(
    args: &args::AuditCheckProof,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let (text, key) = (text_of(&args.file)?, key(args.key.as_deref(), home)?);
    match audit::check_proof(&text, &key) {
        Ok(proven) => {
            let record = audit::render_line(&proven.record, screen.style.color);
            let said = format!(
                "The proof holds: this is record {} of the signed ledger.\n{record}\n",
                proven.record.seq
            );
            screen.show(&json!({ "holds": true, "record": proven.record }), &said)?;
            Ok(Exit::Done)
        }
        Err(error) => {
            screen.show(
                &json!({ "holds": false, "why": error.to_string() }),
                &format!("THE PROOF DOES NOT HOLD: {error}\n"),
            )?;
            Ok(Exit::Altered)
        }
    }
}

/// Only without a gate: it holds the ledger, and the keys of what it keeps.
pub(super) fn erase(
    args: &args::AuditErase,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let ledger = holding::open_ledger(home).map_err(|taken| match taken {
        Taken::ByGate(_) => {
            Trouble::failed("a gate is running in this home; stop it, erase, and start it again")
        }
        taken => Trouble::because(&taken),
    })?;
    match audit::body(&home.ledger, &args.call).map_err(|error| unreadable(home, &error))? {
        Body::Kept { .. } => {}
        Body::Erased => {
            let said = format!(
                "The arguments of {} were erased before; nothing was done.\n",
                args.call
            );
            screen.show(
                &json!({ "call": args.call, "erased": true, "before": true }),
                &said,
            )?;
            return Ok(Exit::Done);
        }
        Body::Absent => {
            return Err(Trouble::usage(format!(
                "no arguments of a call `{}` are kept",
                args.call
            )));
        }
    }
    let user = crate::record::os_user();
    let change = Change {
        call: &args.call,
        user: &user,
        reason: &args.reason,
        door: "cli",
        ..Change::default()
    };
    ledger.erase_body(&change).map_err(Trouble::failed)?;
    screen.show(
        &json!({ "call": args.call, "erased": true }),
        &format!("The arguments of {} are gone for good.\n", args.call),
    )?;
    Ok(Exit::Done)
}
