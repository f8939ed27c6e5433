//! What every driver of volumes must do, whatever it keeps files in. A driver gives a fresh volume to each case.

use super::*;

type Case = (&'static str, fn(&Volume));

const CASES: &[Case] = &[
    ("a file is read as it was written", |v| {
        let written = put(v, "a/b/c.txt", "one\ntwo\n");
        assert!(written.created && written.bytes_written == 8);
        assert_eq!(text(v, "a/b/c.txt"), "one\ntwo\n");
        assert!(!put(v, "a/b/c.txt", "").created);
        assert_eq!(text(v, "a/b/c.txt"), "");
    }),
    ("what is not there is not found", |v| {
        for at in ["x", "x/y", "x/y/z"] {
            let read = v.read(clean(), &path(at), Part::Whole, As::Text);
            assert_eq!(read.result.unwrap_err().kind, ErrorKind::NotFound);
            let deleted = v.delete(clean(), &path(at), DeleteOptions::default());
            assert_eq!(deleted.result.unwrap_err().kind, ErrorKind::NotFound);
        }
    }),
    ("create makes a file once", |v| {
        let options = WriteOptions {
            create_only: true,
            ..WriteOptions::default()
        };
        assert!(v.write(clean(), &path("f"), b"1", options).result.is_ok());
        let again = v.write(clean(), &path("f"), b"2", options);
        assert_eq!(again.result.unwrap_err().kind, ErrorKind::AlreadyExists);
        assert_eq!(text(v, "f"), "1");
    }),
    ("a version is of one state", |v| {
        let first = put(v, "f", "1").version;
        let second = put(v, "f", "2").version;
        assert_ne!(first, second);
        let stale = WriteOptions {
            if_version: Some(first),
            ..WriteOptions::default()
        };
        let refused = v
            .write(clean(), &path("f"), b"3", stale)
            .result
            .unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict);
        assert!(refused.says.contains(&second.to_string()), "{refused}");
        let fresh = WriteOptions {
            if_version: Some(second),
            ..WriteOptions::default()
        };
        let third = v.write(clean(), &path("f"), b"3", fresh).result.unwrap();
        assert_eq!(
            v.read(clean(), &path("f"), Part::Whole, As::Text)
                .result
                .unwrap()
                .version,
            third.version
        );
        let gone = DeleteOptions {
            if_version: Some(first),
            ..DeleteOptions::default()
        };
        assert_eq!(
            v.delete(clean(), &path("f"), gone).result.unwrap_err().kind,
            ErrorKind::Conflict
        );
        assert_eq!(text(v, "f"), "3");
    }),
    (
        "directories are made once and deleted with what is in them if said",
        |v| {
            assert!(v.create_dir(clean(), &path("a/b")).result.unwrap());
            assert!(!v.create_dir(clean(), &path("a/b")).result.unwrap());
            put(v, "a/b/f", "1");
            let deleted = v.delete(clean(), &path("a"), DeleteOptions::default());
            assert_eq!(deleted.result.unwrap_err().kind, ErrorKind::NotEmpty);
            let all = DeleteOptions {
                recursive: true,
                ..DeleteOptions::default()
            };
            assert_eq!(
                v.delete(clean(), &path("a"), all).result.unwrap().entries,
                3
            );
            assert!(
                v.list(clean(), &path(""), &ListOptions::default())
                    .result
                    .unwrap()
                    .entries
                    .is_empty()
            );
            assert!(v.delete(clean(), &path(""), all).result.is_err());
        },
    ),
    ("a list is in order and says what is a directory", |v| {
        for at in ["b/x", "a", "c/y/z"] {
            put(v, at, "");
        }
        let names = |options: &ListOptions| {
            let listed = v.list(clean(), &path(""), options).result.unwrap();
            let names: Vec<String> = listed
                .entries
                .iter()
                .map(|entry| entry.path.clone())
                .collect();
            (names, listed.next)
        };
        assert_eq!(names(&ListOptions::default()).0, ["a", "b", "c"]);
        let deep = ListOptions {
            depth: 3,
            ..ListOptions::default()
        };
        assert_eq!(names(&deep).0, ["a", "b", "b/x", "c", "c/y", "c/y/z"]);
        let (page, next) = names(&ListOptions {
            limit: 2,
            ..ListOptions::default()
        });
        assert_eq!((page.len(), next.as_deref()), (2, Some("b")));
        assert_eq!(
            names(&ListOptions {
                after: next,
                ..ListOptions::default()
            })
            .0,
            ["c"]
        );
    }),
    ("edits are all made or none", |v| {
        put(v, "f", "one\ntwo\ntwo\n");
        let run = |edits: &[Edit]| {
            v.edit(clean(), &path("f"), edits, EditOptions::default())
                .result
        };
        let edited = run(&[edit("one", "1")]).unwrap();
        assert_eq!((edited.replacements, edited.first_line), (1, 1));
        assert_eq!(edited.diff, "@@ line 1 @@\n-one\n+1\n");
        let refused = run(&[edit("1", "eins"), edit("two", "2")]).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::NoMatch);
        assert!(refused.says.contains("edit 2 of 2: 2 matches"), "{refused}");
        assert_eq!(text(v, "f"), "1\ntwo\ntwo\n");
        let all = Edit {
            replace_all: true,
            ..edit("two", "2")
        };
        assert_eq!(run(&[edit("1", "eins"), all]).unwrap().replacements, 3);
        assert_eq!(text(v, "f"), "eins\n2\n2\n");
        // A shorter text leaves nothing of the longer one.
        run(&[edit("eins\n2\n2\n", "x")]).unwrap();
        assert_eq!(text(v, "f"), "x");
    }),
    ("a move takes the file and refuses to cover another", |v| {
        put(v, "a", "1");
        put(v, "b", "2");
        let refused = v.rename(clean(), &path("a"), &path("b"), MoveOptions::default());
        assert_eq!(refused.result.unwrap_err().kind, ErrorKind::AlreadyExists);
        v.rename(clean(), &path("a"), &path("d/e"), MoveOptions::default())
            .result
            .unwrap();
        assert_eq!(text(v, "d/e"), "1");
        let over = MoveOptions {
            overwrite: true,
            ..MoveOptions::default()
        };
        v.rename(clean(), &path("d/e"), &path("b"), over)
            .result
            .unwrap();
        assert_eq!(text(v, "b"), "1");
        assert!(
            v.rename(clean(), &path("d"), &path("d/inside"), over)
                .result
                .is_err()
        );
        v.copy(clean(), &path("b"), &path("c"), false)
            .result
            .unwrap();
        assert_eq!(
            (text(v, "b"), text(v, "c")),
            ("1".to_owned(), "1".to_owned())
        );
    }),
    ("what is read is the part that was asked for", |v| {
        let long: String = (1..=5_000).map(|line| format!("line {line}\n")).collect();
        put(v, "f", &long);
        let read = |part| v.read(clean(), &path("f"), part, As::Text).result;
        let lines = read(Part::Lines {
            first: 10,
            most: Some(2),
        })
        .unwrap();
        assert_eq!(
            (lines.lines.clone(), lines.next_offset, lines.total_lines),
            (Some(10..12), Some(12), Some(5_000))
        );
        assert_eq!(text_of(lines), "line 10\nline 11\n");
        assert_eq!(text_of(read(Part::Tail(1)).unwrap()), "line 5000\n");
        assert_eq!(
            text_of(
                read(Part::Bytes {
                    offset: 5,
                    most: Some(3)
                })
                .unwrap()
            ),
            "1\nl"
        );
        assert_eq!(text_of(read(Part::Whole).unwrap()), long);
        assert_eq!(
            read(Part::Lines {
                first: 5_001,
                most: None
            })
            .unwrap_err()
            .kind,
            ErrorKind::Invalid
        );
    }),
    ("a search finds lines and names", |v| {
        put(v, "src/a.rs", "fn main() {}\n// todo\n");
        put(v, "src/deep/b.rs", "fn other() {}\n");
        put(v, "c.txt", "fn no\n");
        let rust = GrepOptions {
            glob: Some("*.rs".to_owned()),
            ..grep()
        };
        let found = v
            .grep(clean(), &path(""), "^fn (\\w+)", &rust)
            .result
            .unwrap();
        let places: Vec<(&str, u64)> = found
            .lines
            .iter()
            .map(|line| (line.file.as_str(), line.line_number))
            .collect();
        assert_eq!(places, [("src/a.rs", 1), ("src/deep/b.rs", 1)]);
        let names = |pattern: &str| {
            v.glob(clean(), &path(""), pattern, &glob())
                .result
                .unwrap()
                .paths
        };
        assert_eq!(names("*.rs"), ["src/a.rs", "src/deep/b.rs"]);
        assert_eq!(names("src/*.rs"), ["src/a.rs"]);
        assert_eq!(
            names("**/*.{rs,txt}"),
            ["c.txt", "src/a.rs", "src/deep/b.rs"]
        );
        assert_eq!(names("*.py"), Vec::<String>::new());
        assert_eq!(
            v.grep(clean(), &path(""), "(", &grep())
                .result
                .unwrap_err()
                .kind,
            ErrorKind::Invalid
        );
    }),
    ("what a session writes brings its label back", |v| {
        let label = secret(Level::Confidential);
        v.write(by(&label), &path("f"), b"x", WriteOptions::default())
            .result
            .unwrap();
        let read = v.read(clean(), &path("f"), Part::Whole, As::Text);
        assert_eq!(read.label.mark.secrecy, Level::Confidential);
        assert_eq!(
            v.list(clean(), &path(""), &ListOptions::default())
                .label
                .mark
                .secrecy,
            Level::Confidential
        );
    }),
];

#[test]
fn the_local_driver_does_what_every_driver_must() {
    for (name, case) in CASES {
        let root = tempfile::tempdir().unwrap();
        let volume = volume(root.path());
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&volume)));
        assert!(result.is_ok(), "{name}");
        let counted = volume.used();
        volume.recount().unwrap();
        assert_eq!(
            volume.used(),
            counted,
            "{name}: what was counted along is what is there"
        );
    }
}
