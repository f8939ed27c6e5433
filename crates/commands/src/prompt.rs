//! Asking for a secret at a terminal, without showing it.
//!
//! Whatever ends the question, the terminal shows what is typed afterwards: also an interrupt, or a signal from elsewhere.

use std::{
    io::{self, BufRead as _, Read as _, Write as _},
    sync::mpsc,
    thread,
};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use terminal::Exit;

/// One line, at most so many bytes.
pub(super) fn hidden_line(question: &str, most: u64) -> io::Result<String> {
    let stdin = io::stdin();
    let mut terminal = io::stderr();
    write!(terminal, "{question}")?;
    terminal.flush()?;
    let before = tcgetattr(&stdin)?;
    restore_on_signal(before.clone())?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
    let mut text = String::new();
    let read = stdin.lock().take(most).read_line(&mut text);
    tcsetattr(&stdin, OptionalActions::Flush, &before)?;
    writeln!(terminal)?;
    read.map(|_| text)
}

/// From here on a signal that would end the program restores the terminal first. Returns once that is so.
fn restore_on_signal(before: Termios) -> io::Result<()> {
    let (ready, is_ready) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let waited = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .and_then(|runtime| {
                runtime.block_on(async {
                    let [mut interrupt, mut quit, mut terminate, mut hangup] = [
                        SignalKind::interrupt(),
                        SignalKind::quit(),
                        SignalKind::terminate(),
                        SignalKind::hangup(),
                    ]
                    .map(signal);
                    let all = (
                        interrupt.as_mut(),
                        quit.as_mut(),
                        terminate.as_mut(),
                        hangup.as_mut(),
                    );
                    let (Ok(interrupt), Ok(quit), Ok(terminate), Ok(hangup)) = all else {
                        return Err(io::Error::other("signals cannot be caught"));
                    };
                    // The other side waits for this.
                    let _ = ready.send(Ok(()));
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = quit.recv() => {}
                        _ = terminate.recv() => {}
                        _ = hangup.recv() => {}
                    }
                    Ok(())
                })
            });
        match waited {
            Ok(()) => {
                // There is nobody left to tell if this fails.
                let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
                let _ = writeln!(io::stderr());
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    });
    is_ready
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("signals cannot be caught")))
}
