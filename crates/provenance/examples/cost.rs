//! What the index costs: `cargo run --release --example cost`. Feeds a long result, then asks in a conversation with ten thousand values.

#![expect(
    clippy::print_stdout,
    reason = "a program that prints what it measures"
)]

use std::time::Instant;

use provenance::{Call, Conversation, Key, Read, Roles, Ruling, Trust, trace, weigh};
use wire::{Json, Limits};

fn main() -> Result<(), wire::JsonError> {
    let mut conversation = Conversation::new(Key::new([7; 32]), 0);
    conversation.say("Write to bob1@example.com about the picnic, and pay 50 EUR");
    for round in 0..5 {
        let records: Vec<String> = (0..700)
            .map(|n| {
                format!(
                    r#"{{"id":"r{round}x{n}","title":"Record {n} of {round}","owner":"o{n}r{round}@example.com"}}"#
                )
            })
            .collect();
        let text = format!(
            r#"{{"structuredContent":{{"result":[{}]}}}}"#,
            records.join(",")
        );
        let result = Json::parse(text.as_bytes(), Limits::default())?;
        conversation.read(Read::new("mail", "list", "1", Trust::Untrusted), result);
    }
    println!(
        "{} values in {} bytes",
        conversation.index().values(),
        conversation.bytes()
    );

    let line =
        "Some words of a long page, with https://example.com/page/17 and ann@example.com in it. ";
    let long = format!(
        r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#,
        line.repeat((1 << 20) / line.len())
    );
    let result = Json::parse(long.as_bytes(), Limits::default())?;
    let begun = Instant::now();
    let mut other = Conversation::new(Key::new([7; 32]), 0);
    other.read(Read::new("web", "fetch", "2", Trust::Untrusted), result);
    println!("a result of {} bytes: {:?}", long.len(), begun.elapsed());

    let call = br#"{"to":["bob1@example.com"],"cc":"o17r3@example.com","subject":"picnic","body":"Dear Bob, see you there. It is on Sunday.","amount":20,"date":"2024-05-15"}"#;
    let roles = Roles::default();
    let call = Call {
        server: "mail",
        tool: "send",
        roles: &roles,
        sent: Json::parse(call, Limits::default())?,
    };
    let rounds = 10_000;
    let begun = Instant::now();
    let mut strange = 0;
    for _ in 0..rounds {
        let ruling = weigh(conversation.index(), call);
        strange += u32::from(matches!(ruling, Ruling::Strange(_)));
        _ = trace(conversation.index(), call);
    }
    println!(
        "a call: {:?} ({strange} of {rounds} strange)",
        begun.elapsed() / rounds
    );
    Ok(())
}
