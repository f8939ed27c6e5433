//! The gate's log: lines on standard error, without secrets and without anything a terminal would obey.
//!
//! Every line goes through here as a whole, whatever part of the program wrote it, so that no message can forget to leave a secret out.
//!
//! **Invariant: no secret is in any byte written.** Every line of the log passes here, every record the closure of
//! `Ledger::scrub_with`. Test `no_canary_is_in_any_byte_written`.

use std::{
    io::{self, Write},
    sync::{PoisonError, RwLock},
};

use gateway::Gate;
use shape::secrets::{Held, redact_text};
use tracing_subscriber::fmt::MakeWriter;

use terminal::{
    sheet::harmless,
    style::{ColorChoice, wants_color},
};

/// Knows which secrets it holds. Without one, only those of well-known shapes are found.
static GATE: RwLock<Option<Gate>> = RwLock::new(None);

/// What is logged where nobody chose: warnings, and that a server has connected, which ends the warnings that it had not.
const STANDARD: &str = "warn,portcullis::servers=info";

/// `PORTCULLIS_LOG` chooses what is logged, such as `debug` or `gateway=debug`.
pub(crate) fn to_stderr(choice: ColorChoice) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PORTCULLIS_LOG")
        .unwrap_or_else(|_| STANDARD.into());
    let colored = wants_color(choice, &io::stderr());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colored)
        .with_writer(Lines { colored });
    // Where the log cannot be written, as on a disk that is full, complaining about it on the same stream would panic in the middle of a call.
    let _ = log.log_internal_errors(false).try_init();
}

/// From now on what this gate holds is left out too; `None` lets go of it.
pub(crate) fn know(gate: Option<&Gate>) {
    let before = std::mem::replace(
        &mut *GATE.write().unwrap_or_else(PoisonError::into_inner),
        gate.cloned(),
    );
    // Only now, without the lock: whatever goes with it may still want to say something.
    drop(before);
}

fn without_secrets(line: &str) -> Option<String> {
    let gate = GATE.read().unwrap_or_else(PoisonError::into_inner).clone();
    gate.map_or_else(
        || redact_text(line, &Held::default()),
        |gate| gate.without_secrets(line),
    )
}

struct Lines {
    colored: bool,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line {
            colored: self.colored,
        }
    }
}

/// One event is written with one call, so it is looked at as a whole.
struct Line {
    colored: bool,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        let clean = without_secrets(&line);
        io::stderr()
            .write_all(harmless(clean.as_deref().unwrap_or(&line), self.colored).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
