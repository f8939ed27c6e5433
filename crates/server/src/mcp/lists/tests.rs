use bytes::Bytes;
use gateway::{Era, SightKey, Wrapper};
use proptest::prelude::*;
use vocab::{ServerId, View};
use wire::{Json, Limits};

use super::{Key, Kind, PAGE_BYTES, PAGE_ITEMS, cursor, cut, page_object, pages};

fn key(kind: Kind, era: Era) -> Key {
    Key {
        kind,
        mount: None,
        view: View::Double,
        era,
        sight: SightKey::default(),
        bounds: None,
        plans: false,
        seals: false,
        own: 0,
    }
}

#[test]
fn a_page_holds_items_verbatim_and_in_order() {
    let items = [&br#"{"name":"b","x":1.10}"#[..], br#"{ "name":"a" }"#];
    let legacy = page_object(&key(Kind::Tools, Era::Legacy), &items, &[], None);
    assert_eq!(
        legacy,
        &br#"{"tools":[{"name":"b","x":1.10},{ "name":"a" }]}"#[..]
    );
    let modern = page_object(
        &key(Kind::Templates, Era::Modern),
        &items[..1],
        &[],
        Some("c\"".to_owned()),
    );
    let json = Json::parse(&modern, Limits::default()).unwrap();
    assert_eq!(
        json.get("resultType").unwrap().as_str().unwrap(),
        "complete"
    );
    assert_eq!(json.get("cacheScope").unwrap().as_str().unwrap(), "private");
    assert!(json.get("ttlMs").unwrap().as_u64().is_some());
    assert_eq!(json.get("nextCursor").unwrap().as_str().unwrap(), "c\"");
    assert_eq!(json.get("resourceTemplates").unwrap().items().count(), 1);
}

#[test]
fn an_empty_list_is_one_empty_page() {
    let empty = pages(
        &key(Kind::Resources, Era::Legacy),
        &[],
        &[],
        |_| unreachable!(),
    );
    assert_eq!(empty, [(0, Bytes::from_static(br#"{"resources":[]}"#))]);
}

#[test]
fn a_list_says_whose_resources_it_leaves_out() {
    let above = ServerId::parse("sec").unwrap();
    let page = page_object(&key(Kind::Resources, Era::Legacy), &[], &[&above], None);
    assert_eq!(
        page,
        &br#"{"resources":[],"_meta":{"portcullis/unlisted":["sec"]}}"#[..]
    );
}

#[test]
fn cursors_are_ours_for_one_list_only() {
    let wrapper = Wrapper::new(&[7; 32]);
    let tools = key(Kind::Tools, Era::Legacy).name();
    let given = cursor::write(&wrapper, &tools, 500);
    assert_eq!(cursor::read(&wrapper, &tools, &given), Some(500));
    let prompts = key(Kind::Prompts, Era::Legacy).name();
    let mounted = Key {
        mount: Some(ServerId::parse("demo").unwrap()),
        ..key(Kind::Tools, Era::Legacy)
    }
    .name();
    let bounded = Key {
        bounds: Some("ctx agent".to_owned()),
        ..key(Kind::Tools, Era::Legacy)
    }
    .name();
    for other in [prompts, mounted, bounded] {
        assert_eq!(cursor::read(&wrapper, &other, &given), None);
    }
    assert_eq!(cursor::read(&Wrapper::new(&[8; 32]), &tools, &given), None);
    assert_eq!(cursor::read(&wrapper, &tools, ""), None);
    for at in 0..given.len() {
        let mut tampered = given.clone().into_bytes();
        tampered[at] = if tampered[at] == b'A' { b'B' } else { b'A' };
        assert_eq!(
            cursor::read(&wrapper, &tools, std::str::from_utf8(&tampered).unwrap()),
            None,
            "byte {at}"
        );
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
