use super::fake::*;
use crate::record::Draft;
use crate::*;
use proptest::prelude::*;
use vocab::Stage;

/// Writes `text` into every text field and checks the line's bytes; returns what is read back.
fn round_trip(text: &str) -> Record {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    let draft = Draft {
        kind: Kind::Refusal,
        call: text,
        door: text,
        action: text,
        caller: text,
        session: text,
        server: text,
        tool: text,
        stage: Some(Stage::Admit),
        violation: text,
        detail: text,
        label: text,
        label_after: text,
        args: text,
        result: text,
        bundle: text,
        user: text,
        agent: text,
        target: text,
        definition: text,
        origins: text,
        after: text,
        approval: text,
        reason: text,
        body: text,
        policy: text,
        verdict: Some(Verdict::Refused),
        ..Draft::default()
    };
    ledger.record(&draft).unwrap();
    ledger.record(&Draft::default()).unwrap();
    let bytes = std::fs::read(first_segment(dir.path())).unwrap();
    assert_eq!(
        bytes.iter().filter(|b| **b == b'\n').count(),
        2,
        "one record is one line"
    );
    let line = std::str::from_utf8(&bytes).unwrap();
    assert!(line.lines().count() == 2 && line.chars().all(|c| c == '\n' || !c.is_control()));
    assert!(verify(dir.path()).unwrap().is_clean());
    let records = all(dir.path());
    for shown in [render_line(&records[0], false), printable(text)] {
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
    }
    for story in [
        render_story(&records, false),
        render_story(&records[..1], false),
        render_records(&records, false),
    ] {
        assert!(
            !story.chars().any(|c| c != '\n' && c.is_control()),
            "{story:?}"
        );
    }
    all(dir.path()).swap_remove(0)
}

fn assert_same(text: &str) {
    let record = round_trip(text);
    let fields = [
        &record.call,
        &record.door,
        &record.action,
        &record.caller,
        &record.session,
        &record.server,
        &record.tool,
        &record.violation,
        &record.detail,
        &record.label,
        &record.label_after,
        &record.args,
        &record.result,
        &record.bundle,
        &record.user,
        &record.agent,
        &record.target,
        &record.definition,
        &record.origins,
        &record.after,
        &record.approval,
        &record.reason,
        &record.body,
        &record.policy,
    ];
    assert!(
        fields.iter().all(|field| **field == text),
        "{text:?} became {record:?}"
    );
}

#[test]
fn every_byte_as_a_character_stays_on_its_line() {
    let all: String = (0..=255u8).map(char::from).collect();
    assert_same(&all);
    let bytes: Vec<u8> = (0..=255).collect();
    assert_same(&String::from_utf8_lossy(&bytes));
    for byte in 0..=255u8 {
        assert_same(&char::from(byte).to_string());
    }
}

#[test]
fn naughty_strings_stay_on_their_line() {
    for text in [
        "\u{1b}[2J\u{1b}[1;1Hall permitted\r\n{\"v\":1,\"seq\":0}",
        "\u{9b}31m\u{85}\u{2028}\u{2029}",
        "\u{202e}drowssap\u{202c}\u{2066}\u{2069}\u{200b}\u{feff}\u{e0041}\u{e007f}\u{fe0f}",
        "\",\"hash\":\"",
        "\\\"\\\\\u{0}\\u0000",
        "日本語 ñ é 🦀 ✓",
    ] {
        assert_same(text);
    }
}

#[test]
fn invisible_characters_are_escaped_in_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    let tool = "a\u{202e}b\u{200b}c\u{7f}d\u{e0041}";
    ledger
        .record(&Draft {
            tool,
            ..Draft::default()
        })
        .unwrap();
    let text = std::fs::read_to_string(first_segment(dir.path())).unwrap();
    assert!(
        text.contains(r"a\u202eb\u200bc\u007fd\udb40\udc41"),
        "{text}"
    );
}

#[test]
fn a_long_text_is_cut_at_a_character() {
    let record = round_trip(&"é".repeat(5_000));
    assert_eq!(record.tool.len(), 512 + "…".len());
    assert_eq!(record.detail.len(), 4096 + "…".len());
    assert!(record.tool.ends_with("é…"));
}

/// The golden bytes of `docs/integrate/ledger-format.md`: changing them is changing the format.
#[test]
fn the_bytes_are_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    let mut opened = ledger.open(facts("c-1"));
    let _ = ledger.intend(&mut opened).unwrap();
    let _ = ledger
        .conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb))
        .unwrap();
    let text = std::fs::read_to_string(first_segment(dir.path())).unwrap();
    let page = include_str!("../../../../docs/integrate/ledger-format.md");
    for line in text.lines() {
        assert!(
            page.contains(line),
            "docs/integrate/ledger-format.md lacks\n{line}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_text_round_trips(text in "\\PC{0,40}|(?s:.{0,40})") {
        assert_same(&text);
    }

    #[test]
    fn times_agree_with_the_calendar(days in 0u64..2_932_896, in_day in 0u64..86_400_000) {
        let text = rfc3339(days * 86_400_000 + in_day);
        let number = |at: std::ops::Range<usize>| text.get(at).unwrap().parse::<u64>().unwrap();
        let (year, month, day) = (number(0..4), number(5..7), number(8..10));
        // Counted the slow way, year by year.
        let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
        let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let counted = (1970..year).map(|y| 365 + u64::from(leap(y))).sum::<u64>()
            + lengths[..month as usize - 1].iter().sum::<u64>()
            + day - 1;
        prop_assert_eq!(counted, days);
        let ms = number(11..13) * 3_600_000 + number(14..16) * 60_000 + number(17..19) * 1000 + number(20..23);
        prop_assert_eq!(ms, in_day);
    }
}
