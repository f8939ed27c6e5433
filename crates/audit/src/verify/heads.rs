//! The signed heads that the records must lead to: the ledger's own, and any that was kept outside.

use super::files::read_if_there;
use super::{Check, Expected, Files, Head};
use std::io;

impl Check {
    /// The ledger's own signed head must be signed with the key beside it, and with the one that was kept outside, if there is one.
    pub(super) fn own_head(
        &mut self,
        files: &dyn Files,
        expected: &mut Vec<Expected>,
        outside: Option<&str>,
    ) -> io::Result<()> {
        let (place, key_place) = (files.place("checkpoint"), files.place("checkpoint.pub"));
        let (Some(note), key) = (
            read_if_there(files, &place)?,
            read_if_there(files, &key_place)?,
        ) else {
            return Ok(());
        };
        self.file.clone_from(&place);
        let Some(key) = key else {
            self.found("its public key, checkpoint.pub, is missing", false);
            return Ok(());
        };
        if let Some(Err(bad)) = outside.map(|outside| Head::verified(&note, outside)) {
            self.found(format!("it is not signed with the given key: {bad}"), false);
            return Ok(());
        }
        match Head::verified(&note, key.trim_end()) {
            Ok(head) => {
                self.report.checkpoint = Some(head.size);
                expected.push(Expected { head, place });
            }
            Err(bad) => self.found(bad.to_string(), false),
        }
        Ok(())
    }

    /// Compares the root with every head that covers exactly the records read so far.
    pub(super) fn compare_heads(&mut self) {
        while let Some(expected) = self
            .expected
            .pop_if(|expected| expected.head.size == self.report.records)
        {
            if self.front.waits_for_tree {
                self.defer(expected);
                continue;
            }
            if expected.head.root != self.levels.root() {
                self.file = expected.place;
                self.line = 0;
                let size = expected.head.size;
                let reason = format!(
                    "forked: the first {size} records are not those that this checkpoint covers"
                );
                return self.found(reason, false);
            }
        }
    }

    pub(super) fn unreached_heads(&mut self) {
        if self
            .report
            .finding
            .as_ref()
            .is_some_and(|finding| !finding.incomplete_tail)
        {
            return;
        }
        if let Some(expected) = self.expected.pop() {
            self.file = expected.place;
            self.line = 0;
            let (size, records) = (expected.head.size, self.report.records);
            self.found(
                format!("rolled back: it covers {size} records, and the ledger holds {records}"),
                false,
            );
        }
    }

    /// Without the ledger's own head nobody knows how many records there were.
    pub(super) fn unsigned_end(&mut self, key_given: bool, heads_given: bool) {
        let report = &mut self.report;
        if report.checkpoint.is_some()
            || report.finding.is_some()
            || (report.records == 0 && !key_given)
        {
            return;
        }
        let which = if heads_given {
            "records after those that the given one covers"
        } else {
            "records"
        };
        let mut text = format!(
            "the ledger has no checkpoint: whether {which} are missing from the end, or were written anew, cannot be told from what is here"
        );
        if key_given && !heads_given {
            text.push_str(", and nothing here is signed with the given key");
        }
        report.unproven.push(text);
    }
}
