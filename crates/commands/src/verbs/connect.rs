//! `portcullis connect`: MCP on standard input and output, for clients that start a command. Lines pass unread both ways.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use home::Home;
use terminal::{Exit, Trouble};

use crate::{args, chosen_credential, line::Line};

pub fn run(args: &args::Connect, home: &Home) -> Result<Exit, Trouble> {
    let token = chosen_credential::chosen(&args.who, home)?;
    let (mut from_gate, to_gate) =
        Line::with_token(home, token, args.server.as_deref())?.into_parts();
    let mut gate = to_gate.try_clone()?;
    // The client closing its end is how it leaves; the gate then finishes what is in flight and closes the other one.
    let client_left = Arc::new(AtomicBool::new(false));
    let leaving = Arc::clone(&client_left);
    thread::spawn(move || {
        // A gate that is gone is noticed below.
        let _ = pump(&mut io::stdin().lock(), &mut gate);
        leaving.store(true, Ordering::Release);
        let _ = gate.shutdown(Shutdown::Write);
    });
    let received = pump(&mut from_gate, &mut io::stdout().lock());
    let _ = to_gate.shutdown(Shutdown::Both);
    received.map_err(Trouble::failed)?;
    if client_left.load(Ordering::Acquire) {
        return Ok(Exit::Done);
    }
    Err(Trouble::failed(
        "the gate closed the connection; was it stopped?",
    ))
}

/// Copies bytes as they come, each piece at once.
fn pump(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 64 << 10];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(buffer.get(..read).unwrap_or_default())?;
        to.flush()?;
    }
}
