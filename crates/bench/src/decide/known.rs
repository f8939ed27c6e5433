//! A conversation that knows ten thousand values of reads, and a call that is held against them.

use std::hint::black_box;

use anyhow::{Result, ensure};
use provenance::{Call, Conversation, Key, Read, Roles, Ruling, Trust, weigh};
use wire::Json;

/// Values that the conversation knows before the call comes.
const VALUES: usize = 10_000;
/// Reads that brought them.
const READS: usize = 20;

/// See the [module](self).
pub(super) struct Known {
    conversation: Conversation,
    roles: Roles,
    sent: Vec<u8>,
}

impl Known {
    pub(super) fn new() -> Result<Self> {
        let mut conversation = Conversation::new(Key::new([7; 32]), 0);
        conversation.say("Send the minutes to ann@example.com and bob@example.com");
        for read in 0..READS {
            let each = VALUES / READS;
            let fields: Vec<String> = (0..each)
                .map(|value| format!("\"https://r{read}.example/{value}\""))
                .collect();
            let text = format!(
                r#"{{"structuredContent":{{"links":[{}]}}}}"#,
                fields.join(",")
            );
            let from = Read::new(
                "web",
                "read_page",
                &format!("call-{read}"),
                Trust::Untrusted,
            );
            conversation.read(from, Json::checked_before(text.as_bytes()));
        }
        let known = conversation.index().values();
        ensure!(known >= VALUES * 9 / 10, "only {known} values are known");
        let body = "Everybody agreed on the second draft. ".repeat(24);
        let sent = format!(
            r#"{{"to":["ann@example.com","bob@example.com"],"subject":"the minutes","body":"{body}"}}"#
        );
        Ok(Self {
            conversation,
            roles: Roles::default(),
            sent: sent.into_bytes(),
        })
    }

    /// What a call that acts costs where the session has read a stranger's words.
    pub(super) fn weigh(&self) -> Result<()> {
        let call = Call {
            server: "mail",
            tool: "send",
            roles: &self.roles,
            sent: Json::checked_before(black_box(&self.sent)),
        };
        let ruling = black_box(weigh(self.conversation.index(), call));
        ensure!(
            matches!(ruling, Ruling::Vouched(_)),
            "the person's own call did not pass"
        );
        Ok(())
    }
}
