//! The worker's line protocol: lines out of a stream, and long messages in parts.

use wire::{
    Json, Limits,
    line::{Line, Lines},
    worker::{Assembler, DEPTH, LINE_LIMIT, LineError, push, salvage_id},
};

/// Small, so that short inputs reach the limits.
const SHORT_LINE: usize = 300;
const SMALL_TOTAL: usize = 4096;
/// The cut that also asks for a message too long for one line; few inputs do, because it is slow.
const LONG: usize = 256;

/// Lines do not depend on how the stream was cut; parts come together or are refused within bounds; what we send arrives.
pub fn worker_lines(data: &[u8]) {
    let (step, data) = data.split_first().map_or((1, data), |(first, rest)| (usize::from(*first) + 1, rest));
    let lines = split(data, step);
    assert_eq!(lines, split(data, 1), "the cut at {step} shows");
    let mut assembler = Assembler::new(SMALL_TOTAL);
    for line in &lines {
        match line {
            Line::TooLong { prefix, bytes } => {
                assert!(*bytes > SHORT_LINE && prefix.len() <= 256 && prefix.len() < *bytes);
                salvage(prefix);
            }
            Line::Whole(text) => {
                assert!(text.len() < SHORT_LINE && !text.contains(&b'\n'));
                salvage(text);
                assemble(&mut assembler, text);
            }
        }
    }
    travels(data, step == LONG);
}

/// An id that is read from a broken line is a number that stands in it.
fn salvage(text: &[u8]) {
    if let Some(id) = salvage_id(text) {
        let text = String::from_utf8_lossy(text);
        let digits = text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok());
        assert!(digits.into_iter().any(|number| number == id), "an id that nobody wrote");
    }
}

fn split(data: &[u8], step: usize) -> Vec<Line> {
    let (mut lines, mut all) = (Lines::new(SHORT_LINE), Vec::new());
    for chunk in data.chunks(step) {
        lines.feed(chunk);
        all.extend(std::iter::from_fn(|| lines.next_line()));
    }
    all
}

fn assemble(assembler: &mut Assembler, text: &[u8]) {
    let Ok(json) = Json::parse(text, Limits::new(SHORT_LINE, DEPTH)) else { return };
    match assembler.take(json) {
        Ok(Some(Some(whole))) => assert!(whole.len() <= SMALL_TOTAL, "a message larger than its cap"),
        Ok(_) | Err(LineError::TooLarge { .. } | LineError::TooManyParts { .. } | LineError::Json(_)) => {}
    }
}

/// A message sent with [`push`] is what the other side takes, in one line or in parts.
fn travels(data: &[u8], in_parts: bool) {
    let text = String::from_utf8_lossy(data).replace('\n', " ");
    let mut message = wire::worker::request(7, "forward", b"{}");
    message.pop();
    let repeats = if in_parts { LINE_LIMIT / text.len().max(1) + 1 } else { 1 };
    message.extend_from_slice(b",\"text\":");
    wire::write::quote(&mut message, &text.repeat(repeats));
    message.push(b'}');
    let mut stream = Vec::new();
    push(&mut stream, 7, &message);
    let (mut lines, mut assembler) = (Lines::new(LINE_LIMIT), Assembler::new(32 << 20));
    lines.feed(&stream);
    let mut arrived = Vec::new();
    while let Some(line) = lines.next_line() {
        let Line::Whole(line) = line else { return assert!(message.is_empty(), "a line we wrote is too long") };
        let json = Json::parse(&line, Limits::new(LINE_LIMIT, DEPTH));
        let taken = json.map(|json| assembler.take(json));
        assert!(matches!(taken, Ok(Ok(_))), "a line we wrote is refused: {taken:?}");
        match taken {
            Ok(Ok(Some(Some(whole)))) => arrived.push(whole),
            Ok(Ok(Some(None))) => arrived.push(line.to_vec()),
            _ => {}
        }
    }
    assert_eq!(arrived, [message]);
}
