//! The proof that an edit did what it says and nothing else.

use super::{EditError, Raw, Report, Source, entries};
use crate::finding::Severity;

/// What is wrong with an edit that was not made: its lines are in no file, so they are not named.
fn in_words(report: &Report) -> String {
    let mistakes = report
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    mistakes
        .map(|finding| format!("{}; {}", finding.what, finding.fix))
        .collect::<Vec<_>>()
        .join("\n")
}

/// `edited` must resolve, and differ from the source in the entry `id` only.
pub(super) fn only_entry_changed(source: &Source, edited: &str, id: &str) -> Result<(), EditError> {
    let refused = |report| EditError::Refused(in_words(&report));
    let after = Raw::parse(&source.raw.file, edited).map_err(refused)?;
    after.resolve().map_err(refused)?;
    let (before, after) = (&source.raw.root, &after.root);

    let keys = |root: &super::Node| -> Vec<String> {
        let names = root
            .entries()
            .unwrap_or_default()
            .iter()
            .map(|(key, _)| key.name.clone());
        names.filter(|name| name != "mcp_servers").collect()
    };
    let same_keys = keys(before) == keys(after);
    let same_values = keys(before)
        .iter()
        .all(|name| match (before.get(name), after.get(name)) {
            (Some(a), Some(b)) => a.same_content(b),
            _ => false,
        });
    let mut others_before = entries(before);
    let mut others_after = entries(after);
    others_before.retain(|(name, ..)| *name != id);
    others_after.retain(|(name, ..)| *name != id);
    let same_servers = others_before.len() == others_after.len()
        && others_before
            .iter()
            .zip(&others_after)
            .all(|((a, _, x), (b, _, y))| a == b && x.same_content(y));

    if same_keys && same_values && same_servers {
        return Ok(());
    }
    let place = entries(before)
        .iter()
        .find(|(name, ..)| *name == id)
        .map(|(_, place, _)| *place);
    let line = place
        .or(source.servers().map(|node| node.place))
        .map_or(1, |place| place.line);
    Err(EditError::Style { line })
}
