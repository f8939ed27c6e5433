//! Pages that were fetched a moment ago, so that whoever reads a long one in parts does not fetch it for each.
//!
//! **Invariant: nobody is given what another fetched.** A page belongs to a caller in its context. Test
//! `pages_are_kept_for_who_fetched_them_and_for_a_while`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long a page is kept, and how much of all pages together.
const AGE: Duration = Duration::from_secs(15 * 60);
const MOST_BYTES: usize = 64 << 20;
const MOST_PAGES: usize = 4096;

/// Whose page it is, of which address, and in which form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) tenant: Option<String>,
    pub(crate) caller: String,
    pub(crate) context: Option<String>,
    pub(crate) address: String,
    pub(crate) is_markdown: bool,
    pub(crate) follows: bool,
}

/// A page as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) text: String,
    /// `markdown`, `html` or `text`.
    pub(crate) form: &'static str,
    pub(crate) title: Option<String>,
    pub(crate) status: u16,
    pub(crate) content_type: String,
    /// Where it was in the end, if that is elsewhere, and how it came there.
    pub(crate) hops: Vec<String>,
    /// Whether no better text could be made of it.
    pub(crate) is_degraded: bool,
}

#[derive(Debug)]
struct Kept {
    page: Arc<Page>,
    since: Instant,
    used: u64,
}

#[derive(Debug, Default)]
struct Pages {
    kept: HashMap<Key, Kept>,
    bytes: usize,
    uses: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<Pages>);

impl Cache {
    pub(crate) fn get(&self, key: &Key, now: Instant) -> Option<Arc<Page>> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.uses += 1;
        let uses = pages.uses;
        let kept = pages.kept.get_mut(key)?;
        if now.duration_since(kept.since) >= AGE {
            pages.forget(key);
            return None;
        }
        kept.used = uses;
        Some(Arc::clone(&kept.page))
    }

    pub(crate) fn put(&self, key: Key, page: Arc<Page>, now: Instant) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.forget(&key);
        if page.text.len() > MOST_BYTES / 4 {
            return;
        }
        let old = |kept: &Kept| now.duration_since(kept.since) >= AGE;
        let gone: Vec<Key> = pages
            .kept
            .iter()
            .filter(|(_, kept)| old(kept))
            .map(|(key, _)| key.clone())
            .collect();
        gone.iter().for_each(|key| pages.forget(key));
        pages.bytes += page.text.len();
        pages.uses += 1;
        let used = pages.uses;
        let kept = Kept {
            page,
            since: now,
            used,
        };
        pages.kept.insert(key, kept);
        while pages.bytes > MOST_BYTES || pages.kept.len() > MOST_PAGES {
            let oldest = pages.kept.iter().min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            pages.forget(&oldest);
        }
    }
}

impl Pages {
    fn forget(&mut self, key: &Key) {
        if let Some(kept) = self.kept.remove(key) {
            self.bytes -= kept.page.text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(caller: &str, address: &str) -> Key {
        Key {
            tenant: None,
            caller: caller.to_owned(),
            context: None,
            address: address.to_owned(),
            is_markdown: true,
            follows: true,
        }
    }

    fn page(text: &str) -> Arc<Page> {
        Arc::new(Page {
            text: text.to_owned(),
            ..Page::default()
        })
    }

    #[test]
    fn pages_are_kept_for_who_fetched_them_and_for_a_while() {
        let (cache, now) = (Cache::default(), Instant::now());
        cache.put(key("a", "x"), page("text"), now);
        assert_eq!(cache.get(&key("a", "x"), now).unwrap().text, "text");
        let others = [
            key("b", "x"),
            key("a", "y"),
            Key {
                context: Some("c".to_owned()),
                ..key("a", "x")
            },
            Key {
                tenant: Some("t".to_owned()),
                ..key("a", "x")
            },
            Key {
                is_markdown: false,
                ..key("a", "x")
            },
        ];
        for other in others {
            assert!(cache.get(&other, now).is_none(), "{other:?}");
        }
        assert!(cache.get(&key("a", "x"), now + AGE).is_none());
        assert!(cache.get(&key("a", "x"), now).is_none(), "it is gone");
    }

    #[test]
    fn pages_have_a_bound_and_the_one_used_last_stays() {
        let (cache, now) = (Cache::default(), Instant::now());
        let long = "x".repeat(MOST_BYTES / 4);
        for number in 0..8 {
            cache.put(key("a", &number.to_string()), page(&long), now);
            assert!(cache.get(&key("a", "0"), now).is_some());
        }
        let pages = cache.0.lock().unwrap();
        assert_eq!((pages.kept.len(), pages.bytes), (4, MOST_BYTES));
        drop(pages);
        cache.put(key("a", "0"), page(&"x".repeat(MOST_BYTES)), now);
        assert!(cache.get(&key("a", "0"), now).is_none(), "too long to keep");
    }
}
