//! Page cursors: where a list goes on, wrapped so that only we can have written it.

use gateway::Wrapper;

const PURPOSE: &str = "cursor";

/// `list` says which list, mount and view the place belongs to, so a cursor cannot be used on another.
pub(crate) fn write(wrapper: &Wrapper, list: &str, place: usize) -> String {
    wrapper.wrap(PURPOSE, format!("{place} {list}").as_bytes())
}

/// The place a cursor of ours points to; `None` if it is not ours, was changed, or is of another list.
pub(crate) fn read(wrapper: &Wrapper, list: &str, cursor: &str) -> Option<usize> {
    let text = String::from_utf8(wrapper.open(PURPOSE, cursor)?).ok()?;
    let (place, of) = text.split_once(' ')?;
    (of == list).then(|| place.parse().ok()).flatten()
}
