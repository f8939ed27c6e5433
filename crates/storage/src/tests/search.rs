//! What reading, editing and searching say to an agent.

use std::fs;

use super::*;

fn edit_error(content: &str, target: &str) -> String {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "f", content);
    let edits = [edit(target, "new")];
    let error = volume
        .edit(clean(), &path("f"), &edits, EditOptions::default())
        .result
        .unwrap_err();
    assert_eq!(text(&volume, "f"), content);
    error.says
}

#[test]
fn an_edit_that_finds_nothing_says_where_the_file_differs() {
    let code = "fn a() {\n\tlet x = 1;\n}\n\nfn b() {\n    let y = 2;\n}\n";
    let says = edit_error(code, "fn a() {\n    let x = 1;\n}");
    assert!(
        says.contains("Lines 1–3 differ only in whitespace"),
        "{says}"
    );
    let says = edit_error(code, "fn b() {\n    let z = 3;\n}");
    assert!(says.contains("A line of it is at line 5"), "{says}");
    let says = edit_error(code, "\tlet x = 9;");
    assert!(says.contains("Nearest to it are lines 2–2"), "{says}");
    let says = edit_error(code, "let");
    assert!(says.contains("2 matches in `f`, at lines 2, 6"), "{says}");
    let says = edit_error(code, "new");
    assert!(says.contains("nothing to change"), "{says}");
    assert!(edit_error(&"long ".repeat(10_000), "long long\nx").len() < 4 << 10);
}

#[test]
fn encodings_and_line_ends_stay() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    let sixteen: Vec<u8> = std::iter::once(0xfeff_u16)
        .chain("grün\n".encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    fs::write(root.path().join("utf16"), &sixteen).unwrap();
    fs::write(root.path().join("latin"), b"gr\xfcn \x80\n").unwrap();
    fs::write(root.path().join("crlf"), "one\r\ntwo\r\n").unwrap();
    let change = |at: &str, from: &str, to: &str| {
        volume
            .edit(
                clean(),
                &path(at),
                &[edit(from, to)],
                EditOptions::default(),
            )
            .result
    };
    assert_eq!(text(&volume, "utf16"), "grün\n");
    change("utf16", "grün", "blau").unwrap();
    assert_eq!(
        fs::read(root.path().join("utf16")).unwrap(),
        b"\xff\xfeb\0l\0a\0u\0\n\0"
    );
    assert_eq!(text(&volume, "latin"), "grün €\n");
    change("latin", "grün", "größer").unwrap();
    assert_eq!(
        fs::read(root.path().join("latin")).unwrap(),
        b"gr\xf6\xdfer \x80\n"
    );
    assert_eq!(
        change("latin", "größer", "日本").unwrap_err().kind,
        ErrorKind::Invalid
    );
    change("crlf", "one\ntwo", "1\n2").unwrap();
    assert_eq!(fs::read(root.path().join("crlf")).unwrap(), b"1\r\n2\r\n");
}

#[test]
fn what_is_no_text_says_what_it_is() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    let png = b"\x89PNG\r\n\x1a\n\0\0\0";
    fs::write(root.path().join("logo.png"), png).unwrap();
    let read = |wanted| {
        volume
            .read(clean(), &path("logo.png"), Part::Whole, wanted)
            .result
    };
    assert_eq!(
        read(As::Text).unwrap_err().says,
        "`logo.png` is PNG, 11 bytes; read it with `as: image` or `as: base64`"
    );
    assert_eq!(
        read(As::Picture).unwrap().content,
        Content::Picture(png.to_vec(), "image/png")
    );
    assert_eq!(
        read(As::Bytes).unwrap().content,
        Content::Bytes(png.to_vec())
    );
}

#[test]
fn a_file_longer_than_memory_is_read_in_parts() {
    use std::io::{Seek, Write};
    let root = tempfile::tempdir().unwrap();
    let mut file = fs::File::create(root.path().join("long")).unwrap();
    for line in 0..200_000 {
        writeln!(file, "{line:0>200}").unwrap();
    }
    file.seek(std::io::SeekFrom::Start(5 << 30)).unwrap();
    file.write_all(b"\nthe end\n").unwrap();
    let volume = volume(root.path());
    let read = |part| {
        volume
            .read(clean(), &path("long"), part, As::Text)
            .result
            .unwrap()
    };
    let lines = read(Part::Lines {
        first: 150_001,
        most: Some(1),
    });
    assert_eq!(lines.next_offset, Some(150_002));
    assert_eq!(text_of(lines), format!("{:0>200}\n", 150_000));
    let end = read(Part::Bytes {
        offset: 5 << 30,
        most: None,
    });
    assert_eq!(
        (text_of(end.clone()), end.next_offset),
        ("\nthe end\n".to_owned(), None)
    );
    assert_eq!(read(Part::Whole).lines, Some(1..2_001));
    // Behind the hole: to count lines up to there would take as long as the file is said to be.
    let part = Part::Lines {
        first: 200_002,
        most: None,
    };
    let far = volume.read(clean(), &path("long"), part, As::Text).result;
    assert_eq!(far.unwrap_err().kind, ErrorKind::TooLarge);
}

#[test]
fn a_search_leaves_out_what_git_does_and_says_how_much() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    for at in [
        "a.rs",
        "target/b.rs",
        "sub/gen/c.rs",
        "sub/keep.log",
        "x.log",
        ".hidden/d.rs",
    ] {
        put(&volume, at, "word\n");
    }
    fs::create_dir(root.path().join(".git")).unwrap();
    fs::write(root.path().join(".git/config"), "word\n").unwrap();
    put(&volume, ".gitignore", "/target\n*.log\n");
    put(&volume, "sub/.gitignore", "gen/\n!keep.log\n");
    let files = |options: &GrepOptions| {
        let found = volume
            .grep(clean(), &path(""), "word", options)
            .result
            .unwrap();
        let files: Vec<String> = found.lines.into_iter().map(|line| line.file).collect();
        (files, found.walked.skipped.ignored)
    };
    assert_eq!(
        files(&grep()),
        (
            [".hidden/d.rs", "a.rs", "sub/keep.log"]
                .map(str::to_owned)
                .to_vec(),
            3
        )
    );
    let mut all = grep();
    all.walk.no_ignore = true;
    assert_eq!(files(&all).0.len(), 6);
}

#[test]
fn a_search_shows_lines_around_counts_and_ends_where_it_is_told() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "f", "one\ntwo\nthree\nfour\ntwo\n");
    put(&volume, "g", "two\n");
    let found = |options: GrepOptions| {
        volume
            .grep(clean(), &path(""), "two", &options)
            .result
            .unwrap()
    };
    let around = found(GrepOptions {
        before: 1,
        after: 1,
        max_results: 1,
        ..grep()
    });
    let lines: Vec<(u64, bool)> = around
        .lines
        .iter()
        .map(|line| (line.line_number, line.is_match))
        .collect();
    assert_eq!(
        (lines.get(..2).unwrap(), around.walked.why.is_some()),
        (&[(1, false), (2, true)][..], true)
    );
    let files = found(GrepOptions {
        output: Output::Count,
        ..grep()
    })
    .files;
    assert_eq!(files, [("f".to_owned(), 2), ("g".to_owned(), 1)]);
    let rest = found(GrepOptions {
        offset: 2,
        ..grep()
    });
    assert_eq!(rest.lines.first().unwrap().file, "g");
    let insensitive = GrepOptions {
        case: super::Case::Insensitive,
        ..grep()
    };
    assert_eq!(
        volume
            .grep(clean(), &path(""), "TWO", &insensitive)
            .result
            .unwrap()
            .count,
        3
    );
    let across = GrepOptions {
        multiline: true,
        ..grep()
    };
    assert_eq!(
        volume
            .grep(clean(), &path("f"), "two\nthree", &across)
            .result
            .unwrap()
            .count,
        1
    );
    let mut short = grep();
    short.walk.budget.files = 1;
    assert_eq!(
        found(short).walked.why,
        Some("it looked at as many files as it may")
    );
}

#[test]
fn hostile_patterns_end_in_time() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "f", &"a".repeat(200_000));
    for pattern in [
        "(a+)+$",
        "(a|aa)+b",
        "(.*)(.*)(.*)(.*)x",
        "a{1,1000}{1,1000}",
        "((a{0,100}){0,100}){0,100}",
        "(?:a?){500}a{500}",
        "[^\\x00-\\x{10FFFF}]",
    ] {
        let begun = Instant::now();
        let _ = volume.grep(clean(), &path(""), pattern, &grep());
        assert!(begun.elapsed() < Duration::from_secs(5), "{pattern}");
    }
}

#[test]
fn patterns_for_names_that_nest_are_refused_and_in_lists_left_out() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "f", "word");
    put(&volume, "ignored", "word");
    for pattern in [
        format!("{}a{}", "{a,".repeat(1_000), "}".repeat(1_000)),
        // What is closed in a class or by an escape is closed for a counter only.
        "{[}]".repeat(1_000),
        "{\\}".repeat(1_000),
        "a".repeat(5_000),
    ] {
        let found = volume.glob(clean(), &path(""), &pattern, &glob()).result;
        assert_eq!(found.unwrap_err().kind, ErrorKind::Invalid);
        let options = GrepOptions {
            glob: Some(pattern.clone()),
            ..grep()
        };
        let found = volume.grep(clean(), &path(""), "word", &options).result;
        assert_eq!(found.unwrap_err().kind, ErrorKind::Invalid);
        put(&volume, ".gitignore", &format!("{pattern}\nignored\n"));
        let found = volume.glob(clean(), &path(""), "*", &glob()).result;
        assert_eq!(found.unwrap().paths, [".gitignore", "f"]);
    }
}

#[test]
fn an_edit_never_holds_more_than_a_file_may() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "f", &"a".repeat(1 << 20));
    let everywhere = |from: &str, to: &str| Edit {
        replace_all: true,
        ..edit(from, to)
    };
    let edits = [everywhere("a", &"b".repeat(100)), everywhere("b", "")];
    let edited = volume.edit(clean(), &path("f"), &edits, EditOptions::default());
    assert_eq!(edited.result.unwrap_err().kind, ErrorKind::TooLarge);
    // Each line is counted once, and the place that was meant is not looked for in a file of a million lines.
    put(&volume, "lines", &"a\n".repeat(1 << 20));
    let begun = Instant::now();
    let edited = volume.edit(
        clean(),
        &path("lines"),
        &[everywhere("a", "b")],
        EditOptions::default(),
    );
    assert_eq!(edited.result.unwrap().replacements, 1 << 20);
    let target = format!("{}c", "b\n ".repeat(1_000));
    let edited = volume.edit(
        clean(),
        &path("lines"),
        &[edit(&target, "")],
        EditOptions::default(),
    );
    assert_eq!(edited.result.unwrap_err().kind, ErrorKind::NoMatch);
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_search_ends_where_its_results_are_long() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "f", &"word\n".repeat(200_000));
    for (pattern, multiline) in [("word", false), ("(?s)word.*word", true)] {
        let options = GrepOptions {
            max_results: 1_000_000,
            multiline,
            ..grep()
        };
        let found = volume.grep(clean(), &path(""), pattern, &options).result;
        let found = found.unwrap();
        assert!(found.lines.len() < 100_000, "{pattern}");
        assert_eq!(
            found.walked.why,
            Some("its results are as long as they may be")
        );
    }
}

#[test]
fn a_listing_in_pages_leaves_nothing_out() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    for at in ["a/x", "a-b", "b"] {
        put(&volume, at, "");
    }
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let options = ListOptions {
            depth: 2,
            limit: 1,
            after,
            ..ListOptions::default()
        };
        let listed = volume.list(clean(), &path(""), &options).result.unwrap();
        all.extend(listed.entries.into_iter().map(|entry| entry.path));
        after = listed.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(all, ["a", "a/x", "a-b", "b"]);
}
