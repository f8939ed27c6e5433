//! The converter: one process for one page. It reads what to do and the bytes from its input, writes one JSON object, and ends.
//!
//! It parses what strangers wrote for the purpose of being parsed, so it has nothing: no network, no files, little memory and little
//! time. Whoever started it kills it when it takes too long; what it says is read as strictly as every other line of a worker.
//!
//! **Invariant: a page costs its own process and no more.** Tests `without_a_network_there_is_no_socket`,
//! `a_page_that_takes_too_much_is_given_without_its_form`.

mod charset;
mod hits;
mod markdown;
mod scan;
mod strip;
mod trim;

use std::{
    io::{self, Read, Write},
    process::ExitCode,
};

use sandbox::jail::{self, Spec};
use wire::{Json, Limits, write::Object};

/// The most that is read: what the web role gives, and the line before it.
const MAX_INPUT: u64 = (10 << 20) + MAX_HEAD as u64;
const MAX_HEAD: usize = 64 << 10;
/// Text that is longer is cut; nobody reads on so far.
const MAX_TEXT: usize = 10 << 20;
const MEMORY: u64 = 512 << 20;
const SECONDS: u64 = 5;

pub(crate) fn run() -> Result<ExitCode, String> {
    // Nothing that is refused here keeps it from working; the gate asks the kernel for the same measures when it reports on its jails.
    let _report = jail::enter(&Spec {
        max_memory: Some(MEMORY),
        max_seconds: Some(SECONDS),
        has_network: false,
        ..Spec::new("portcullis-conv")
    });
    let mut input = Vec::new();
    let read = io::stdin().lock().take(MAX_INPUT).read_to_end(&mut input);
    read.map_err(|error| format!("standard input: {error}"))?;
    let answer = answer(&input)?;
    let mut out = io::stdout().lock();
    out.write_all(&answer)
        .and_then(|()| out.flush())
        .map_err(|error| format!("standard output: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

fn answer(input: &[u8]) -> Result<Vec<u8>, String> {
    let end = memchr::memchr(b'\n', input).ok_or("the first line says what to do")?;
    let (head, rest) = input.split_at_checked(end).unwrap_or((input, b""));
    let body = rest.get(1..).unwrap_or_default();
    let head = Json::parse(head, Limits::new(MAX_HEAD, 8)).map_err(|error| error.to_string())?;
    let text = |key: &str| head.get(key).and_then(Json::as_str).unwrap_or_default();
    let (page, charset) = charset::decode(body, &text("type"));
    let mut out = Object::new();
    out.str("charset", charset);
    match &*text("mode") {
        "text" => out.str("text", cut(&page)),
        "strip" => out.str("text", cut(&strip::text(&page))),
        "markdown" => {
            let converted = markdown::convert(&page, &text("address"))?;
            if let Some(title) = &converted.title {
                out.str("title", title);
            }
            out.str("text", cut(&converted.text))
        }
        "hits" => {
            let most = head.get("most").and_then(Json::as_u64).unwrap_or(10);
            let most = usize::try_from(most).unwrap_or(10);
            hits::write(&mut out, &text("engine"), &page, most)?;
            &mut out
        }
        mode => return Err(format!("there is no mode `{mode}`")),
    };
    Ok(out.finish())
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
