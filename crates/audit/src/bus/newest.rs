//! The last events, without reading the whole ledger.

use super::{Event, Place};
use crate::filter::Filter;
use crate::read::{Records, segments};
use std::collections::VecDeque;
use std::io;
use std::path::Path;

/// The newest `limit` events that pass `filter`, oldest first, and the place behind everything that was read. Reads no more
/// segments than it must.
pub fn newest_events(dir: &Path, filter: &Filter, limit: usize) -> io::Result<(Vec<Event>, Place)> {
    let mut found: VecDeque<Event> = VecDeque::new();
    let mut end = Place::default();
    for (_, path) in segments(dir)?.into_iter().rev() {
        let wanted = limit - found.len().min(limit);
        let mut newest = VecDeque::new();
        for record in Records::of_segment(path) {
            let record = record?;
            end = end.max(Place::start_of(record.seq.saturating_add(1)));
            for event in filter.events(&record) {
                newest.push_back(event);
                if newest.len() > wanted {
                    newest.pop_front();
                }
            }
        }
        newest.extend(found);
        found = newest;
        if found.len() >= limit {
            break;
        }
    }
    Ok((found.into(), end))
}
