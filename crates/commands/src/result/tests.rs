use std::io;

use serde_json::{Value, json};
use terminal::sheet::{Out, Sheet};

use crate::result::Outcome;

const CODE: &str = "def f(x):\n    if x:\n\treturn  1\r\n\n  # \u{e9}\u{200d}end";

fn written(result: &Value, to_a_program: bool) -> String {
    let outcome = Outcome::new(result.to_string()).unwrap();
    let mut bytes = Vec::new();
    outcome
        .write(&mut Out::new(&mut bytes, false, false).read_by_a_program(to_a_program))
        .unwrap();
    String::from_utf8(bytes).unwrap()
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

#[test]
fn a_program_gets_every_byte_and_a_person_every_blank() {
    for given in [CODE, "", "\n", "no end", "a\nb\n", "\u{1b}[2J\u{0}\u{202e}"] {
        assert_eq!(written(&text(given), true), given);
    }
    assert_eq!(
        written(&text(CODE), false),
        "def f(x):\n    if x:\n\treturn  1\r\n\n  # \u{e9}\\u{200d}end\n"
    );
    assert_eq!(
        written(&text("a\u{1b}[2J\rb\n"), false),
        "a\\u{1b}[2J\\u{d}b\n"
    );
    assert_eq!(
        (written(&text(""), false), written(&text(""), true)),
        ("(no content)\n".to_owned(), String::new())
    );
}

#[test]
fn parts_stand_apart_and_what_is_no_text_is_described() {
    let content = json!([
        { "type": "text", "text": "one" },
        { "type": "text", "text": "two\n" },
        { "type": "image", "mimeType": "image/png", "data": "AAAA" },
        { "type": "resource_link", "name": "report", "uri": "demo://r/1", "mimeType": "text/plain", "size": 120 },
        { "type": "resource", "resource": { "uri": "demo://r/2", "mimeType": "text/plain", "text": "  inside" } },
        { "type": "resource", "resource": { "uri": "demo://r/\u{1b}[2J3", "blob": "AA==" } },
        { "type": "audio" },
    ]);
    let expected = "one\ntwo\n[3: image, image/png, 3 bytes]\n[4: resource_link, report, demo://r/1, text/plain, 120 bytes]\n  \
                    inside\n[6: resource, demo://r/ [2J3, 1 byte]\n[7: audio]\n";
    for to_a_program in [true, false] {
        assert_eq!(
            written(&json!({ "content": content }), to_a_program),
            expected
        );
    }
    let only = json!({ "content": [], "structuredContent": { "n": 1 } });
    assert_eq!(
        (written(&only, true), written(&only, false)),
        (
            "{\n  \"n\": 1\n}".to_owned(),
            "{\n  \"n\": 1\n}\n".to_owned()
        )
    );
}

#[test]
fn binary_content_is_saved_as_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("picture");
    let outcome = |content: Value| Outcome::new(json!({ "content": content }).to_string()).unwrap();
    let (words, image) = (
        json!({ "type": "text", "text": " a\n" }),
        json!({ "type": "image", "data": "iVBORw==" }),
    );
    let both = outcome(json!([words, image]));
    assert_eq!(both.save(&file, None).unwrap(), 4);
    assert_eq!(std::fs::read(&file).unwrap(), b"\x89PNG");
    both.save(&file, Some(1)).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b" a\n");
    assert!(
        outcome(json!([image, image]))
            .save(&file, None)
            .unwrap_err()
            .message
            .contains("--part N:\n  1: image, 4 bytes")
    );
    assert!(both.save(&file, Some(3)).is_err() && both.save(&file, Some(0)).is_err());
    assert!(
        outcome(json!([{ "type": "image", "data": "?" }]))
            .save(&file, None)
            .unwrap_err()
            .message
            .contains("not base64")
    );
}

#[test]
fn numbers_come_out_as_the_server_wrote_them() {
    let written = r#"{"content":[],"structuredContent":{"n":12345678901234567890123,"x":1e400}}"#;
    let mut out: Vec<u8> = Vec::new();
    let mut screen = terminal::Screen {
        out: &mut out,
        style: terminal::Style::PLAIN,
        json: true,
    };
    Outcome::new(written.to_owned())
        .unwrap()
        .show(&mut screen)
        .unwrap();
    assert_eq!(
        String::from_utf8(out)
            .unwrap()
            .replace(char::is_whitespace, ""),
        written
    );
}

/// A reader that leaves is noticed on this road, too.
#[test]
fn data_that_nobody_reads_is_an_error_like_any_other() {
    struct Gone;
    impl io::Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut out = Out::new(Gone, false, false).read_by_a_program(true);
    assert!(out.data(b"x").is_err() && out.is_closed());
}
