//! The executor: runs inside an agent's container, asks the gate for commands and answers with results.
//!
//! It runs what it was sent and nothing else, each dispatch once, and keeps the last results so that an answer which was lost on the way
//! is posted again. It decides nothing: what may run was decided before it was sent. It must never link policies, a ledger or a key.
//!
//! **Invariant: a dispatch runs once.** Test `an_executor_runs_a_dispatch_once` of the contract suite, which `bootstrap.py` beside this crate
//! passes too.

mod http;
mod run;

use std::{
    collections::VecDeque,
    env, fs,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    thread::sleep,
    time::Duration,
};

use wire::dispatch::{FromExecutor, Posted, ToExecutor, WORKSPACE};

use http::{Gate, Said};

/// Results that are kept for posting again. The gate has one dispatch of an execution under way, so one would do.
const KEPT: usize = 8;
/// How long an executor waits after it could not reach the gate; twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The least time between two questions, whatever the gate says.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

const UNAUTHORIZED: u16 = 401;
const CONFLICT: u16 = 409;
const TOO_LARGE: u16 = 413;
/// Stands where the gate does not take what a command printed. How it ended stays.
const REFUSED: &str = "[portcullis] the gate refused what the command printed as too large";

fn main() -> ExitCode {
    match Settings::read().and_then(|settings| serve(&settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Whoever started us reads it, or nobody does.
            let _ = writeln!(io::stderr(), "portcullis-executor: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What it is told by its environment.
struct Settings {
    execution: String,
    gate: Gate,
    /// The directory that stands for `/workspace`.
    workspace: PathBuf,
    path: String,
    home: String,
    instance: Option<String>,
}

impl Settings {
    fn read() -> Result<Self, String> {
        let given = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let needed = |name: &str| given(name).ok_or_else(|| format!("{name} is not set"));
        let token = match given("AEGIS_DISPATCH_TOKEN_FILE") {
            Some(file) => {
                let text = fs::read_to_string(&file)
                    .map_err(|error| format!("cannot read the token in {file}: {error}"))?;
                // Commands share this place; what they cannot find they cannot use.
                let _ = fs::remove_file(&file);
                text.trim().to_owned()
            }
            None => needed("AEGIS_DISPATCH_TOKEN")?,
        };
        Ok(Self {
            execution: needed("AEGIS_EXECUTION_ID")?,
            gate: Gate::new(&needed("AEGIS_ORCHESTRATOR_URL")?, token)?,
            workspace: given("AEGIS_WORKSPACE")
                .unwrap_or_else(|| WORKSPACE.to_owned())
                .into(),
            path: given("PATH").unwrap_or_else(|| run::PATH.to_owned()),
            home: given("HOME").unwrap_or_else(|| "/tmp".to_owned()),
            instance: fs::read_to_string("/proc/sys/kernel/random/uuid")
                .ok()
                .map(|text| text.trim().to_owned()),
        })
    }

    fn attach(&self) -> FromExecutor {
        FromExecutor::Attach {
            execution: self.execution.clone(),
            instance: self.instance.clone(),
        }
    }

    fn result(&self, posted: Posted) -> FromExecutor {
        FromExecutor::Result {
            execution: self.execution.clone(),
            posted,
        }
    }
}

/// Asks and answers until the gate says that the execution is over.
fn serve(settings: &Settings) -> Result<(), String> {
    let mut kept: VecDeque<Posted> = VecDeque::new();
    let mut message = settings.attach();
    let mut pause = FIRST_PAUSE;
    loop {
        let Said { status, answer } = match settings.gate.post(&message.write()) {
            Ok(said) if said.status < 500 || said.status == 501 => said,
            // The same message again: the gate knows what it has heard before.
            _ => {
                sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        pause = FIRST_PAUSE;
        message = match (status, answer) {
            (200, ToExecutor::Final { .. }) => return Ok(()),
            (200, ToExecutor::Idle { retry_after_ms }) => {
                let wait = Duration::from_millis(retry_after_ms);
                sleep(wait.clamp(LEAST_PAUSE, LONGEST_PAUSE));
                settings.attach()
            }
            (200, ToExecutor::Dispatch(dispatch)) => {
                let before = kept.iter().find(|posted| posted.dispatch_id == dispatch.id);
                let posted = match before {
                    Some(posted) => posted.clone(),
                    None => {
                        let posted = run::run(&dispatch, settings);
                        if kept.len() >= KEPT {
                            kept.pop_front();
                        }
                        kept.push_back(posted.clone());
                        posted
                    }
                };
                settings.result(posted)
            }
            (UNAUTHORIZED, _) => {
                return Err("the gate does not know this execution, or it is over".to_owned());
            }
            // The gate has nothing to conclude with it any more.
            (CONFLICT, _) => settings.attach(),
            (TOO_LARGE, _) => match message {
                FromExecutor::Result { posted, .. } if posted.stderr != REFUSED => {
                    let shorter = Posted {
                        stdout: String::new(),
                        stderr: REFUSED.to_owned(),
                        truncated: true,
                        ..posted
                    };
                    // The gate may ask for it again.
                    kept.retain(|before| before.dispatch_id != shorter.dispatch_id);
                    kept.push_back(shorter.clone());
                    settings.result(shorter)
                }
                _ => {
                    sleep(LONGEST_PAUSE);
                    settings.attach()
                }
            },
            (_, ToExecutor::Error { error, message }) => {
                return Err(format!("the gate answered {status}: {error}: {message}"));
            }
            (_, _) => return Err(format!("the gate answered {status}")),
        };
    }
}
