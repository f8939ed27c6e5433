//! Ways out of a volume, tried.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;

const CANARY: &str = "canary outside";

/// A volume beside a secret, with links that lead there.
fn yard() -> (tempfile::TempDir, Volume) {
    let yard = tempfile::tempdir().unwrap();
    let (inside, outside) = (yard.path().join("inside"), yard.path().join("outside"));
    fs::create_dir_all(inside.join("d/e")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret"), CANARY).unwrap();
    symlink(&outside, inside.join("absolute")).unwrap();
    symlink("../outside", inside.join("climbs")).unwrap();
    symlink("../../../outside", inside.join("d/e/climbs")).unwrap();
    symlink("d/../../outside", inside.join("winds")).unwrap();
    symlink("/proc/self/root", inside.join("magic")).unwrap();
    symlink("loop", inside.join("loop")).unwrap();
    symlink("climbs/secret", inside.join("second")).unwrap();
    symlink("e", inside.join("d/fine")).unwrap();
    let volume = volume(&inside);
    (yard, volume)
}

#[test]
fn paths_that_climb_or_hide_are_refused() {
    let kind = |text: &str| VolumePath::parse(text).map_err(|error| error.kind);
    assert_eq!(kind("a/../b"), Err(ErrorKind::Traversal));
    for text in [
        "/a",
        "a//b",
        "./a",
        "a/.",
        "a\0b",
        "a\nb",
        ".portcullis-0",
        ".PORTCULLIS-x",
        &"x".repeat(256),
    ] {
        assert_eq!(kind(text), Err(ErrorKind::Invalid), "{text:?}");
    }
    assert!(VolumePath::parse(&vec!["aa"; 2_000].join("/")).is_err());
    for text in ["a", "a.b/.c", "..a", "a..", "%2e%2e", "ümlaut/日本"] {
        assert!(VolumePath::parse(text).is_ok(), "{text:?}");
    }
}

/// Every operation on one path; whether any of them gave back the canary.
fn try_all(volume: &Volume, at: &VolumePath) -> bool {
    let mut shown = String::new();
    let mut note = |text: &str| shown.push_str(text);
    if let Ok(read) = volume.read(clean(), at, Part::Whole, As::Text).result {
        note(&text_of(read));
    }
    let found = volume.grep(clean(), at, "canary", &grep()).result;
    found
        .into_iter()
        .flat_map(|found| found.lines)
        .for_each(|line| note(&line.line));
    let listed = volume
        .list(
            clean(),
            at,
            &ListOptions {
                depth: 5,
                ..ListOptions::default()
            },
        )
        .result;
    let names = listed.into_iter().flat_map(|listed| listed.entries);
    let tells = names
        .map(|entry| entry.path)
        .any(|name| name.contains("secret"));
    let _ = volume.copy(clean(), at, &path("d/stolen"), true);
    let _ = volume.write(clean(), at, b"overwritten", WriteOptions::default());
    let _ = volume.edit(
        clean(),
        at,
        &[edit("canary", "bird")],
        EditOptions::default(),
    );
    let _ = volume.create_dir(clean(), at);
    let stolen = volume
        .read(clean(), &path("d/stolen"), Part::Whole, As::Text)
        .result;
    let stole = stolen.is_ok_and(|read| text_of(read).contains(CANARY));
    shown.contains(CANARY) || stole || tells
}

#[test]
fn no_payload_reaches_a_file_outside() {
    let (yard, volume) = yard();
    let prefixes = [
        "",
        "d/",
        "d/e/",
        "d/fine/",
        "absolute/",
        "climbs/",
        "d/e/climbs/",
        "winds/",
        "magic/",
        "loop/",
        "d/fine/climbs/",
    ];
    let ends = [
        "secret",
        "outside/secret",
        "../outside/secret",
        "..",
        "../secret",
        "x/../secret",
        "second",
        "etc/passwd",
        "climbs/secret",
        "absolute/secret",
    ];
    let mut tried = 0;
    for prefix in prefixes {
        for end in ends {
            let Ok(at) = VolumePath::parse(&format!("{prefix}{end}")) else {
                continue;
            };
            tried += 1;
            assert!(!try_all(&volume, &at), "{at}");
        }
    }
    for link in ["absolute", "climbs", "winds", "magic", "loop", "second"] {
        assert!(!try_all(&volume, &path(link)), "{link}");
        let read = volume.list(clean(), &path(link), &ListOptions::default());
        assert_eq!(
            read.result.unwrap_err().kind,
            ErrorKind::Traversal,
            "{link}"
        );
    }
    assert!(tried > 50);
    let outside = yard.path().join("outside");
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), CANARY);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // A link that stays inside works.
    put(&volume, "d/e/f", "here");
    assert_eq!(text(&volume, "d/fine/f"), "here");
}

#[test]
fn writing_through_a_link_replaces_what_it_leads_to() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "real", "1");
    symlink("real", root.path().join("link")).unwrap();
    put(&volume, "link", "2");
    assert_eq!(text(&volume, "real"), "2");
    assert!(
        fs::symlink_metadata(root.path().join("link"))
            .unwrap()
            .is_symlink()
    );
    // Deleting takes the link, not what it leads to.
    volume
        .delete(clean(), &path("link"), DeleteOptions::default())
        .result
        .unwrap();
    assert_eq!(text(&volume, "real"), "2");
}

#[test]
fn a_link_leads_nowhere_that_the_caller_may_not_go() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, ".env", "KEY=1");
    symlink(".env", root.path().join("x")).unwrap();
    let may = |place: &VolumePath| place.to_string() != ".env";
    let label = Label::default();
    let access = Access {
        label: &label,
        may: &may,
    };
    let read = volume.read(access, &path("x"), Part::Whole, As::Text);
    assert_eq!(read.result.unwrap_err().kind, ErrorKind::NotAllowed);
    let found = volume
        .grep(access, &path(""), "KEY", &grep())
        .result
        .unwrap();
    assert_eq!((found.count, found.walked.skipped.denied), (0, 1));
}

#[test]
fn a_directory_with_a_denied_place_in_it_is_neither_moved_nor_deleted() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "d/e/.env", "KEY=1");
    put(&volume, "d/x", "1");
    put(&volume, "free/locked", "1");
    let may = |place: &VolumePath| {
        let place = place.to_string();
        !place.contains(".env") && place != "taken/locked" && place != "d/e"
    };
    let label = Label::default();
    let access = Access {
        label: &label,
        may: &may,
    };
    let recursive = DeleteOptions {
        recursive: true,
        ..DeleteOptions::default()
    };
    let deleted = volume.delete(access, &path("d"), recursive).result;
    assert_eq!(deleted.unwrap_err().kind, ErrorKind::NotAllowed);
    for (from, to) in [("d", "m"), ("free", "taken")] {
        let moved = volume.rename(access, &path(from), &path(to), MoveOptions::default());
        let error = moved.result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotAllowed, "{from}");
    }
    assert_eq!(text(&volume, "d/e/.env"), "KEY=1");
    let options = ListOptions {
        depth: 5,
        ..ListOptions::default()
    };
    let listed = volume.list(access, &path(""), &options).result.unwrap();
    let names: Vec<&str> = listed.entries.iter().map(|entry| &*entry.path).collect();
    assert_eq!(names, ["d", "d/x", "free", "free/locked"]);
    let options = GlobOptions {
        dirs: true,
        ..glob()
    };
    let found = volume.glob(access, &path(""), "*", &options);
    let found = found.result.unwrap().paths;
    assert_eq!(found, ["d", "d/x", "free", "free/locked"]);
    volume
        .delete(access, &path("free"), recursive)
        .result
        .unwrap();
}

#[test]
fn no_path_is_deeper_than_can_be_walked_and_what_is_can_be_deleted() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    let names = |count: usize| vec!["d"; count].join("/");
    let error = VolumePath::parse(&names(101)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    for at in ["a", "b"] {
        let made = volume.create_dir(clean(), &path(&format!("{at}/{}", names(60))));
        assert!(made.result.unwrap());
    }
    let to = path(&format!("a/{}/b", names(60)));
    let moved = volume.rename(clean(), &path("b"), &to, MoveOptions::default());
    assert_eq!(moved.result.unwrap_err().kind, ErrorKind::Invalid);
    // A command, or another program, goes as deep as it likes.
    std::fs::create_dir_all(root.path().join("deep").join(names(300))).unwrap();
    let recursive = DeleteOptions {
        recursive: true,
        ..DeleteOptions::default()
    };
    let deleted = volume.delete(clean(), &path("deep"), recursive).result;
    assert_eq!(deleted.unwrap().entries, 301);
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2);
}

#[test]
fn on_a_disk_that_folds_case_only_its_own_spelling_counts() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "src/.env", "KEY");
    put(&volume, "Öl/grün", "x");
    volume.root.fold();
    assert_eq!(text(&volume, "src/.env"), "KEY");
    // A list that names `src/.env` says nothing of the other spellings, so they must not lead there.
    for other in ["src/.ENV", "src/.Env", "SRC/.env"] {
        let at = path(other);
        let options = WriteOptions::default();
        let kinds = [
            volume
                .read(clean(), &at, Part::Whole, As::Text)
                .result
                .map(drop),
            volume
                .write(clean(), &at, b"mine", options)
                .result
                .map(drop),
            volume
                .delete(clean(), &at, DeleteOptions::default())
                .result
                .map(drop),
            volume
                .rename(clean(), &at, &path("moved"), MoveOptions::default())
                .result
                .map(drop),
            volume
                .copy(clean(), &at, &path("copied"), false)
                .result
                .map(drop),
        ];
        for result in kinds {
            assert_eq!(result.unwrap_err().kind, ErrorKind::NotFound, "{other}");
        }
    }
    assert_eq!(text(&volume, "src/.env"), "KEY");
    assert_eq!(text(&volume, "Öl/grün"), "x");
}

#[test]
fn second_names_and_special_files_are_not_opened() {
    let yard = tempfile::tempdir().unwrap();
    let inside = yard.path().join("inside");
    fs::create_dir(&inside).unwrap();
    fs::write(yard.path().join("secret"), CANARY).unwrap();
    fs::hard_link(yard.path().join("secret"), inside.join("name")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        inside.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let volume = volume(&inside);
    let kind = |at: &str| {
        volume
            .read(clean(), &path(at), Part::Whole, As::Text)
            .result
            .unwrap_err()
            .kind
    };
    assert_eq!(
        (kind("name"), kind("pipe")),
        (ErrorKind::NotAllowed, ErrorKind::WrongType)
    );
    assert_eq!(
        volume
            .grep(clean(), &path(""), "canary", &grep())
            .result
            .unwrap()
            .count,
        0
    );
    // Writing breaks the link; the other name keeps its file.
    put(&volume, "name", "mine");
    assert_eq!(
        fs::read_to_string(yard.path().join("secret")).unwrap(),
        CANARY
    );
}

#[test]
fn a_foreign_hand_cannot_race_a_path_out_of_its_volume() {
    let (yard, volume) = yard();
    let inside = yard.path().join("inside");
    fs::create_dir(inside.join("good")).unwrap();
    fs::write(inside.join("good/secret"), "in here").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The directory on the way is a link outside half of the time.
            while !is_over.load(Ordering::Relaxed) {
                let _ = fs::rename(inside.join("good"), inside.join("aside"));
                let _ = symlink("../outside", inside.join("good"));
                let _ = fs::remove_file(inside.join("good"));
                // A write may have made a directory of that name meanwhile.
                let _ = fs::remove_dir_all(inside.join("good"));
                let _ = fs::rename(inside.join("aside"), inside.join("good"));
            }
        });
        let mut seen = 0;
        for round in 0..20_000 {
            let at = path("good/secret");
            if let Ok(read) = volume.read(clean(), &at, Part::Whole, As::Text).result {
                assert_ne!(text_of(read), CANARY);
                seen += 1;
            }
            if round % 16 == 0 {
                let _ = volume.edit(clean(), &at, &[edit("in", "in")], EditOptions::default());
                let _ = volume.write(clean(), &path("good/new"), b"mine", WriteOptions::default());
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(seen > 0, "the file was never there");
    });
    assert_eq!(
        fs::read_to_string(yard.path().join("outside/secret")).unwrap(),
        CANARY
    );
    assert_eq!(
        fs::read_dir(yard.path().join("outside")).unwrap().count(),
        1
    );
}

#[test]
fn without_openat2_the_walls_stand_too() {
    let (_yard, volume) = yard();
    volume.root.be_plain();
    for link in [
        "absolute/secret",
        "climbs/secret",
        "winds/secret",
        "second",
        "magic/etc/passwd",
    ] {
        assert!(!try_all(&volume, &path(link)), "{link}");
    }
    put(&volume, "d/e/f", "here");
    assert_eq!(text(&volume, "d/fine/f"), "here");
}
