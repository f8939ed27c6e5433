use std::io::{self, Write as _};

use proptest::prelude::*;

use crate::sheet::{Out, REDRAW, escaped, harmless};

#[test]
fn only_colours_of_ours_reach_a_terminal() {
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31mred\u{202e}\r\u{1b}[31mred\u{1b}[0m\n\tend";
    assert_eq!(
        harmless(hostile, false),
        "�]0;owned��[2J�31mred���[31mred�[0m\n\tend"
    );
    assert_eq!(
        harmless(hostile, true),
        "�]0;owned��[2J�31mred��\u{1b}[31mred\u{1b}[0m\n\tend"
    );
    assert_eq!(harmless("\u{1b}[1;", true), "�[1;");
    let drawn = |redraws: bool| {
        let mut screen = Vec::new();
        Out::new(&mut screen, false, false)
            .redrawing(redraws)
            .write_all(format!("{REDRAW}a{REDRAW}").as_bytes())
            .unwrap();
        String::from_utf8(screen).unwrap()
    };
    assert_eq!(drawn(true), format!("{REDRAW}a�[H�[J"));
    assert_eq!(drawn(false), "�[H�[Ja�[H�[J");
}

#[test]
fn a_reader_that_leaves_is_noted_and_a_gate_goes_on() {
    struct Gone;
    impl io::Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut out = Out::new(Gone, false, false);
    assert!(!out.is_closed() && out.write_all(b"x").is_err() && out.is_closed());
    let mut gate = Out::new(Gone, false, false).outliving_its_reader();
    assert!(gate.write_all(b"x").is_ok() && gate.is_closed());
}

proptest! {
    #[test]
    fn escaping_changes_no_meaning_and_leaves_nothing_to_obey(text in any::<String>()) {
        let json = serde_json::to_string(&text).unwrap();
        let clean = escaped(&json);
        prop_assert!(!clean.chars().any(|c| c.is_control() || super::is_hidden(c)), "{clean:?}");
        prop_assert_eq!(serde_json::from_str::<String>(&clean).unwrap(), text);
    }

    #[test]
    fn without_colours_nothing_is_left_to_obey(text in any::<String>()) {
        let clean = harmless(&text, false).into_owned();
        prop_assert!(!clean.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || super::is_hidden(c)), "{clean:?}");
    }
}
