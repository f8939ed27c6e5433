//! The worker's line protocol: lines out of a stream, and long messages in parts.

use bytes::Bytes;
use wire::{
    line::{Line, Lines},
    worker::{
        Assembler, LINE_LIMIT, PartError, Shared, push, push_attached, push_returned, salvage_id,
    },
};

/// Small, so that short inputs reach the limits.
const SHORT_LINE: usize = 300;
const SMALL_TOTAL: usize = 4096;

/// Lines do not depend on how the stream was cut, and parts come together or are refused within bounds.
pub fn worker_lines(data: &[u8]) {
    let (step, data) = data
        .split_first()
        .map_or((1, data), |(first, rest)| (usize::from(*first) + 1, rest));
    let lines = split(data, step);
    assert_eq!(lines, split(data, 1), "the cut at {step} shows");
    let mut assembler = Assembler::new(SMALL_TOTAL);
    for line in &lines {
        match line {
            Line::TooLong { prefix, bytes, .. } => {
                assert!(*bytes > SHORT_LINE && prefix.len() <= 256 && prefix.len() < *bytes);
                salvage(prefix);
            }
            Line::Whole(text) => {
                assert!(text.len() < SHORT_LINE && !text.contains(&b'\n'));
                salvage(text);
                shared(text);
                assemble(&mut assembler, text);
            }
        }
    }
}

/// What a line says about shared memory, written again, says the same.
fn shared(line: &Bytes) {
    let mut again = Vec::new();
    let read = Shared::read(line);
    match &read {
        Some(Shared::Attached(attached)) => {
            push_attached(
                &mut again,
                attached.offset,
                attached.length,
                &attached.message,
            );
        }
        Some(Shared::Returned(offset)) => push_returned(&mut again, *offset),
        Some(Shared::Malformed) | None => return,
    }
    again.pop();
    assert_eq!(
        Shared::read(&again.into()),
        read,
        "a line about shared memory that changes its meaning"
    );
}

/// An id that is read from a broken line is a number that stands in it.
fn salvage(text: &[u8]) {
    if let Some(id) = salvage_id(text) {
        let text = String::from_utf8_lossy(text);
        let digits = text
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse::<u64>().ok());
        assert!(
            digits.into_iter().any(|number| number == id),
            "an id that nobody wrote"
        );
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

fn assemble(assembler: &mut Assembler, text: &Bytes) {
    match assembler.take(text.clone()) {
        Ok(Some(whole)) => assert!(whole.len() <= SMALL_TOTAL, "a message larger than its cap"),
        Ok(None)
        | Err(PartError::TooLarge { .. } | PartError::TooMany { .. } | PartError::Malformed) => {}
    }
}

/// A message sent with [`push`] is what the other side takes, in one line or, when the first byte is odd, in parts.
pub fn worker_parts(data: &[u8]) {
    let in_parts = data.first().is_some_and(|first| first % 2 == 1);
    let text = String::from_utf8_lossy(data).replace('\n', " ");
    let mut message = wire::worker::request(7, "forward", b"{}");
    message.pop();
    let repeats = if in_parts {
        LINE_LIMIT / text.len().max(1) + 1
    } else {
        1
    };
    message.extend_from_slice(b",\"text\":");
    wire::write::quote(&mut message, &text.repeat(repeats));
    message.push(b'}');
    let mut stream = Vec::new();
    push(&mut stream, 7, &message);
    let (mut lines, mut assembler) = (Lines::new(LINE_LIMIT), Assembler::new(32 << 20));
    lines.feed(&stream);
    let mut arrived = Vec::new();
    while let Some(line) = lines.next_line() {
        let Line::Whole(line) = line else {
            return assert!(message.is_empty(), "a line we wrote is too long");
        };
        let taken = assembler.take(line);
        assert!(taken.is_ok(), "a line we wrote is refused: {taken:?}");
        arrived.extend(taken.ok().flatten());
    }
    assert_eq!(arrived, [message]);
}
