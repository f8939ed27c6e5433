use proptest::prelude::*;

use super::*;
use wire::vector::Vectors;

/// Every kind of vector instructions this processor has.
fn levels() -> [Level; 4] {
    Vectors::ALL.map(Vectors::level)
}

fn cores_in(sieve: &Sieve, level: Level, text: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let stopped: Option<()> = sieve.sift_with(level, text, |seen| {
        if let Seen::Core(at, core) = seen {
            found.push((at, core.needle));
        }
        ControlFlow::Continue(())
    });
    assert!(stopped.is_none());
    found
}

/// What [`Sieve::sift`] must report, found the slow way.
fn by_hand(
    sieve: &Sieve,
    needles: &[Vec<u8>],
    text: &[u8],
    same: impl Fn(u8, u8) -> bool,
) -> Vec<(usize, usize)> {
    let core = |core: &Core| &needles[core.needle][core.offset..core.offset + core.len];
    let stands = |at: usize, bytes: &[u8]| {
        text.get(at..at + bytes.len()).is_some_and(|there| {
            there
                .iter()
                .zip(bytes)
                .all(|(one, other)| same(*one, *other))
        })
    };
    let all = (0..text.len()).flat_map(|at| sieve.cores.iter().map(move |entry| (at, &entry.core)));
    let mut found: Vec<_> = all
        .filter(|(at, found)| stands(*at, core(found)))
        .map(|(at, core)| (at, core.needle))
        .collect();
    found.sort_unstable();
    found
}

/// A sieve that got half of its needles later.
fn sieve_of(needles: &[Vec<u8>], spelling: Spelling) -> Sieve {
    let all: Vec<&[u8]> = needles.iter().map(Vec::as_slice).collect();
    let (first, later) = all.split_at(all.len() / 2);
    Sieve::new(first, spelling).with(first.len(), later)
}

fn check(sieve: &Sieve, needles: &[Vec<u8>], text: &[u8]) {
    let any_case = sieve.spelling == Spelling::AnyCase;
    let expected = by_hand(sieve, needles, text, |a, b| {
        a == b || any_case && a.eq_ignore_ascii_case(&b)
    });
    for level in levels() {
        let mut found = cores_in(sieve, level, text);
        assert!(
            found.is_sorted_by_key(|(at, _)| *at),
            "out of order with {level:?}"
        );
        found.sort_unstable();
        assert_eq!(found, expected, "with {level:?}");
    }
}

#[test]
fn a_needle_is_found_at_every_place() {
    let needles = [
        b"ab".to_vec(),
        b"needle".to_vec(),
        b"\\/".to_vec(),
        "\u{fc}ber".as_bytes().to_vec(),
        b"x".to_vec(),
    ];
    let sieve = sieve_of(&needles, Spelling::Exact);
    for length in [
        0, 1, 3, 4, 63, 64, 65, 66, 67, 68, 130, 131, 132, 4098, 4099, 4100,
    ] {
        for needle in &needles {
            for at in (0..length).filter(|at| *at < 4 || at % 64 > 58 || at + 8 > length) {
                let mut text = vec![b'.'; length];
                text.iter_mut()
                    .skip(at)
                    .zip(needle)
                    .for_each(|(to, from)| *to = *from);
                let whole = text.get(at..at + needle.len()) == Some(needle);
                for level in levels() {
                    let found = cores_in(&sieve, level, &text);
                    let begin = |(core_at, which): &(usize, usize)| {
                        let entry = sieve
                            .cores
                            .iter()
                            .find(|entry| entry.core.needle == *which)
                            .unwrap();
                        (core_at - entry.core.offset, &needles[*which])
                    };
                    assert!(
                        !whole || found.iter().map(begin).any(|found| found == (at, needle)),
                        "{needle:?} at {at} of {length}"
                    );
                }
            }
        }
    }
}

#[test]
fn stretches_that_are_not_ascii_are_reported_and_a_search_can_be_stopped() {
    let sieve = Sieve::new(&[b"stop"], Spelling::AnyCase);
    for at in [0, 5, 63, 64, 66, 70, 4095, 4096, 9000] {
        let mut text = vec![b'.'; 9001];
        text[at] = 0xc3;
        let range = sieve.sift(&text, |seen| {
            if let Seen::NotAscii(range) = seen {
                ControlFlow::Break(range)
            } else {
                ControlFlow::Continue(())
            }
        });
        assert!(range.is_some_and(|range| range.contains(&at)), "{at}");
    }
    let mut seen_cores = 0;
    let stopped = sieve.sift("STOP stop ".repeat(100).as_bytes(), |_| {
        seen_cores += 1;
        if seen_cores == 3 {
            ControlFlow::Break("enough")
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!((stopped, seen_cores), (Some("enough"), 3));
}

#[test]
fn every_part_of_a_needle_can_be_its_core() {
    let cores = |needle: &[u8]| {
        Core::all(7, needle)
            .map(|core| (core.offset, core.len))
            .collect::<Vec<_>>()
    };
    assert_eq!(cores(b""), []);
    assert_eq!(cores(b"ab"), [(0, 2)]);
    assert_eq!(cores(b"abcdef"), [(0, 4), (1, 4), (2, 4)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn finds_what_is_found_by_hand(
        needles in prop::collection::vec("[a-dé |/]{1,7}", 1..40),
        text in "[a-dA-Dé |/\\\\]{0,400}",
        loose: bool,
    ) {
        let needles: Vec<Vec<u8>> = needles.into_iter().map(String::into_bytes).collect();
        let sieve = sieve_of(&needles, if loose { Spelling::AnyCase } else { Spelling::Exact });
        check(&sieve, &needles, text.as_bytes());
    }

    #[test]
    fn finds_bytes_of_any_value(needles in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..300), noise in prop::collection::vec(any::<u8>(), 0..600)) {
        let text: Vec<u8> = needles.iter().flatten().copied().chain(noise).collect();
        check(&sieve_of(&needles, Spelling::Exact), &needles, &text);
    }
}
