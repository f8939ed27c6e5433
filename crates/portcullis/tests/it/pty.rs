//! The program on a terminal: what a person sees, and what a person types.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::portcullis;

/// How long a person waits for the program: far more than it needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a verb on a terminal and types each answer when its question is on the screen. Returns the exit code and the whole screen.
pub(crate) fn on_terminal(
    home: &Path,
    args: &[&str],
    dialogue: &[(&str, &str)],
) -> (Option<i32>, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(name)
        .unwrap();
    let mut child = Command::new(portcullis())
        .arg("--home")
        .arg(home)
        .args(args)
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .stdin(Stdio::from(terminal.try_clone().unwrap()))
        .stdout(Stdio::from(terminal.try_clone().unwrap()))
        .stderr(Stdio::from(terminal))
        .spawn()
        .unwrap();
    let mut keyboard = File::from(master);
    let mut screen = keyboard.try_clone().unwrap();
    let (shown, pieces) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        // The terminal of a program that has ended gives an error.
        while let Ok(read @ 1..) = screen.read(&mut buffer) {
            if shown.send(buffer[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut seen = Vec::new();
    let mut dialogue = dialogue.iter();
    let mut next = dialogue.next();
    let mut from = 0;
    let deadline = Instant::now() + PATIENCE;
    while let Ok(piece) = pieces.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        seen.extend(piece);
        let text = String::from_utf8_lossy(&seen).into_owned();
        while let Some((question, answer)) = next {
            if !text.get(from..).unwrap_or_default().contains(question) {
                break;
            }
            from = text.len();
            keyboard
                .write_all(format!("{answer}\n").as_bytes())
                .unwrap();
            next = dialogue.next();
        }
    }
    let screen = String::from_utf8_lossy(&seen).into_owned();
    if child.try_wait().unwrap().is_none() && Instant::now() >= deadline {
        child.kill().unwrap();
        panic!("{args:?} did not end:\n{screen}");
    }
    let code = child.wait().unwrap().code();
    assert!(next.is_none(), "{args:?} never asked {next:?}:\n{screen}");
    (code, screen)
}
