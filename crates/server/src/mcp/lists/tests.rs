use bytes::Bytes;
use gateway::{Catalog, Era, Listed, Seal};
use proptest::prelude::*;
use vocab::{ServerId, View};
use wire::{Json, Limits};

use super::{Key, Kind, PAGE_BYTES, PAGE_ITEMS, Pages, cursor, cut, page_object};

fn key(kind: Kind, era: Era) -> Key {
    Key { kind, mount: None, view: View::Double, era, tenant: None, bounds: None }
}

fn item(raw: &'static str) -> Listed {
    Listed { name: "n".into(), raw: Bytes::from_static(raw.as_bytes()), server: ServerId::parse("demo").unwrap(), tenant: None }
}

#[test]
fn a_page_holds_items_verbatim_and_in_order() {
    let own = [item(r#"{"name":"b","x":1.10}"#), item(r#"{ "name":"a" }"#)];
    let items = [&own[0], &own[1]];
    let legacy = page_object(&key(Kind::Tools, Era::Legacy), &items, None);
    assert_eq!(legacy, &br#"{"tools":[{"name":"b","x":1.10},{ "name":"a" }]}"#[..]);
    let modern = page_object(&key(Kind::Templates, Era::Modern), &items[..1], Some("c\"".to_owned()));
    let json = Json::parse(&modern, Limits::default()).unwrap();
    assert_eq!(json.get("resultType").unwrap().as_str().unwrap(), "complete");
    assert_eq!(json.get("cacheScope").unwrap().as_str().unwrap(), "private");
    assert!(json.get("ttlMs").unwrap().as_u64().is_some());
    assert_eq!(json.get("nextCursor").unwrap().as_str().unwrap(), "c\"");
    assert_eq!(json.get("resourceTemplates").unwrap().items().count(), 1);
}

#[test]
fn an_empty_list_is_one_empty_page() {
    let pages = Pages::write(&Catalog::default(), &Seal::new(&[7; 32]), &key(Kind::Resources, Era::Legacy));
    assert_eq!(pages.pages, [(0, Bytes::from_static(br#"{"resources":[]}"#))]);
    assert!(pages.declared, "a gate offers lists before any server is there");
}

#[test]
fn cursors_are_ours_for_one_list_only() {
    let seal = Seal::new(&[7; 32]);
    let tools = key(Kind::Tools, Era::Legacy).name();
    let given = cursor::write(&seal, &tools, 500);
    assert_eq!(cursor::read(&seal, &tools, &given), Some(500));
    let prompts = key(Kind::Prompts, Era::Legacy).name();
    let mounted = Key { mount: Some(ServerId::parse("demo").unwrap()), ..key(Kind::Tools, Era::Legacy) }.name();
    let theirs = Key { tenant: Some("acme".to_owned()), ..key(Kind::Tools, Era::Legacy) }.name();
    for other in [prompts, mounted, theirs] {
        assert_eq!(cursor::read(&seal, &other, &given), None);
    }
    assert_eq!(cursor::read(&Seal::new(&[8; 32]), &tools, &given), None);
    assert_eq!(cursor::read(&seal, &tools, ""), None);
    for at in 0..given.len() {
        let mut tampered = given.clone().into_bytes();
        tampered[at] = if tampered[at] == b'A' { b'B' } else { b'A' };
        assert_eq!(cursor::read(&seal, &tools, std::str::from_utf8(&tampered).unwrap()), None, "byte {at}");
    }
}

proptest! {
    /// Pages cover every item once, in order, and keep both limits unless a single item breaks one.
    #[test]
    fn cuts_cover_everything_within_limits(sizes in prop::collection::vec(1usize..PAGE_BYTES, 0..40), small in 0usize..2000) {
        let sizes: Vec<usize> = sizes.into_iter().chain(std::iter::repeat_n(10, small)).collect();
        let starts = cut(sizes.iter().copied());
        prop_assert_eq!(starts[0], 0);
        prop_assert!(starts.windows(2).all(|pair| pair[0] < pair[1]));
        for (index, &start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(sizes.len());
            let bytes: usize = sizes[start..end].iter().sum();
            prop_assert!(end - start <= PAGE_ITEMS);
            prop_assert!(bytes <= PAGE_BYTES || end - start == 1);
        }
    }
}
