//! Tools that take something away, by their names. Who names a file to have it read has not named it to be deleted, so such a tool needs a
//! word for it among the person's own.

use wire::letters;

use crate::{
    flaw::{Flaw, has},
    index::Index,
};

/// Words for taking something away, in names of tools and in what people say.
const TAKING_AWAY: [&str; 37] = [
    "delete",
    "deletes",
    "deleted",
    "deleting",
    "deletion",
    "del",
    "remove",
    "removes",
    "removed",
    "removing",
    "removal",
    "rm",
    "erase",
    "erased",
    "erasing",
    "destroy",
    "destroyed",
    "destroying",
    "purge",
    "purged",
    "purging",
    "wipe",
    "wiped",
    "wiping",
    "trash",
    "trashed",
    "trashing",
    "discard",
    "discarded",
    "discarding",
    "cancel",
    "cancels",
    "canceled",
    "cancelled",
    "canceling",
    "cancelling",
    "cancellation",
];
/// Words that people use for other things, too: a tool of that name needs the very word, or one of the others.
const PERHAPS: [&str; 16] = [
    "drop",
    "clear",
    "revoke",
    "terminate",
    "kill",
    "uninstall",
    "unshare",
    "unpublish",
    "deactivate",
    "disable",
    "ban",
    "kick",
    "expel",
    "truncate",
    "unsubscribe",
    "reset",
];

/// Whether the tool takes something away.
pub(crate) fn takes_away(tool: &str) -> bool {
    let words = letters::name_words(tool);
    words
        .iter()
        .any(|word| TAKING_AWAY.contains(&word.as_str()) || PERHAPS.contains(&word.as_str()))
}

/// Whether the tool takes nothing away, or the person said to.
pub(crate) fn is_said(index: &Index, tool: &str) -> bool {
    if has(Flaw::DeletingPasses) || !takes_away(tool) {
        return true;
    }
    let words = letters::name_words(tool);
    let own: Vec<&str> = PERHAPS
        .into_iter()
        .filter(|word| words.iter().any(|own| own == word))
        .collect();
    let said = |list: &[&str]| index.said().has_any(index.key(), list);
    said(&TAKING_AWAY) || said(&own)
}
