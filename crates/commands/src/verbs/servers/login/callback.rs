//! Waiting for a person to come back from the authorization server: on a port of this machine, or with what they paste.
//!
//! Whoever comes without the state of this login gets one constant answer and changes nothing. The page that is shown holds nothing of
//! what was brought.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use oauth::{Authorization, Flow, Problem, Returned, from_pasted};

use terminal::{Exit, Trouble};

use super::trouble;
use crate::args;

/// The head of a browser's request.
const MAX_HEAD: usize = 32 << 10;
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// Who may be listened to at the same time. Browsers open connections that they never use, so one alone would keep the others waiting.
const MAX_VISITORS: usize = 16;
/// The longest line that can be pasted.
const MAX_PASTED: u64 = 32 << 10;

/// What arrives.
enum Back {
    /// A browser, with its query.
    Came(TcpStream, String),
    Pasted(String),
}

#[derive(Debug)]
pub(super) struct Visit {
    listener: Option<TcpListener>,
    redirect: String,
}

impl Visit {
    /// Takes the port before anybody is sent anywhere: the authorization server knows this one and no other.
    pub(super) fn begin(how: &args::LoginOptions, redirect: String) -> Result<Self, Trouble> {
        if how.is_without_person() {
            return Ok(Self {
                listener: None,
                redirect,
            });
        }
        let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, how.port)) {
            Ok(listener) => Some(listener),
            Err(_) if how.paste => None,
            Err(error) => {
                return Err(Trouble::failed(format!(
                    "port {} of this machine is taken ({error}); end whoever has it, or say --paste and paste the address you end at",
                    how.port
                )));
            }
        };
        Ok(Self { listener, redirect })
    }

    /// Waits until the person is back with an answer of this login.
    pub(super) fn wait(
        &self,
        flow: &mut Flow,
        authorization: &Authorization,
        patience: Duration,
    ) -> Result<(), Trouble> {
        let (send, arrivals) = mpsc::channel();
        if let Some(listener) = &self.listener {
            let listener = listener.try_clone()?;
            let send = send.clone();
            thread::spawn(move || accept(&listener, &send));
        }
        thread::spawn(move || read_pasted(&send));
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(back) = arrivals.recv_timeout(left) else {
                return Err(Trouble::new(
                    Exit::Failed,
                    format!("nobody came back from {} in time", authorization.issuer),
                ));
            };
            if let Some(outcome) = self.take(flow, back) {
                return outcome;
            }
        }
    }

    /// `None`: it was not for this login.
    fn take(&self, flow: &mut Flow, back: Back) -> Option<Result<(), Trouble>> {
        match back {
            Back::Came(stream, query) => {
                let outcome = match Returned::parse(&query) {
                    Some(returned) => flow.returned(returned),
                    None => Err(Problem::OtherState),
                };
                let (status, text) = match &outcome {
                    Ok(()) => ("200 OK", "You are logged in. You can close this page."),
                    Err(Problem::OtherState) => (
                        "400 Bad Request",
                        "This is not an answer that is waited for.",
                    ),
                    Err(_) => (
                        "400 Bad Request",
                        "The login failed. The command line says why.",
                    ),
                };
                answer(stream, status, text);
                match outcome {
                    Err(Problem::OtherState) => None,
                    outcome => Some(outcome.map_err(|problem| trouble(&problem))),
                }
            }
            Back::Pasted(text) => {
                let returned = from_pasted(&text, std::slice::from_ref(&self.redirect));
                let outcome = returned.and_then(|returned| flow.returned(returned));
                Some(outcome.map_err(|problem| trouble(&problem)))
            }
        }
    }
}

fn accept(listener: &TcpListener, send: &mpsc::Sender<Back>) {
    let visitors = Arc::new(());
    for stream in listener.incoming() {
        // Each visitor holds one; who comes while there are too many is not listened to.
        let place = Arc::clone(&visitors);
        let (Ok(stream), 0..=MAX_VISITORS) = (stream, Arc::strong_count(&visitors) - 1) else {
            continue;
        };
        let send = send.clone();
        thread::spawn(move || {
            receive(stream, &send);
            drop(place);
        });
    }
}

fn receive(stream: TcpStream, send: &mpsc::Sender<Back>) {
    let Some((stream, target)) = read_target(stream) else {
        return;
    };
    match target.split_once('?') {
        // Nobody waits any more where it cannot be sent.
        Some(("/oauth/callback", query)) => {
            let _ = send.send(Back::Came(stream, query.to_owned()));
        }
        _ => answer(stream, "404 Not Found", "There is nothing here."),
    }
}

/// The target of a GET request.
fn read_target(mut stream: TcpStream) -> Option<(TcpStream, String)> {
    stream.set_read_timeout(Some(HEAD_PATIENCE)).ok()?;
    stream.set_write_timeout(Some(HEAD_PATIENCE)).ok()?;
    let end = Instant::now() + HEAD_PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if Instant::now() > end {
            return None;
        }
        let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
        head.extend_from_slice(piece.get(..read)?);
        if head.len() > MAX_HEAD {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    match (words.next(), words.next()) {
        (Some("GET"), Some(target)) => Some((stream, target.to_owned())),
        _ => {
            answer(stream, "405 Method Not Allowed", "There is nothing here.");
            None
        }
    }
}

/// A page of constant words: no script, nothing kept, nothing told to where the person goes next.
fn answer(mut stream: TcpStream, status: &str, text: &str) {
    let page =
        format!("<!doctype html><meta charset=\"utf-8\"><title>Portcullis</title><p>{text}</p>\n");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'\r\nconnection: close\r\n\r\n",
        page.len()
    );
    // A browser that has gone saw the page or did not; the login goes on either way.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(page.as_bytes()));
}

/// A line from standard input; none if nobody can type there.
fn read_pasted(send: &mpsc::Sender<Back>) {
    let stdin = io::stdin();
    let is_terminal = stdin.is_terminal();
    let mut line = String::new();
    loop {
        line.clear();
        let read = stdin.lock().take(MAX_PASTED).read_line(&mut line);
        match read {
            Ok(0) | Err(_) => {
                // The end of a pipe is no answer; the browser may still come.
                return;
            }
            Ok(_) if line.trim().is_empty() => {}
            Ok(_) => {
                let sent = send.send(Back::Pasted(line.clone()));
                if sent.is_err() || !is_terminal {
                    return;
                }
            }
        }
    }
}
