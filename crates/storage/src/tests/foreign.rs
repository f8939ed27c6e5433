//! Others who write in the same directory and know nothing of the gate.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::*;

#[test]
fn of_edits_beside_a_foreign_hand_none_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "f", "0 gate:");
    let file = root.path().join("f");
    let number = || -> u64 {
        let now = fs::read_to_string(&file).unwrap();
        now.split(' ').next().unwrap().parse().unwrap()
    };
    let (done, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut edits, mut conflicts) = (0, 0);
    std::thread::scope(|scope| {
        let foreign = scope.spawn(|| {
            // Replaces the whole file without looking, as others do. Once the edit that was under way has ended, its number must stand.
            for next in 1..1_000 {
                fs::write(root.path().join("beside"), format!("{next} gate:")).unwrap();
                fs::rename(root.path().join("beside"), &file).unwrap();
                if next % 8 == 0 {
                    let before = done.load(Ordering::SeqCst);
                    while done.load(Ordering::SeqCst) < before + 2 {
                        std::thread::yield_now();
                    }
                    assert_eq!(number(), next, "an edit dropped a foreign change");
                }
            }
            is_over.store(true, Ordering::SeqCst);
        });
        while !foreign.is_finished() {
            let change = [edit("gate:", "gate: g")];
            match volume
                .edit(clean(), &path("f"), &change, EditOptions::default())
                .result
            {
                Ok(_) => edits += 1,
                Err(error) if error.kind == ErrorKind::Conflict => conflicts += 1,
                Err(error) => panic!("{error}"),
            }
            // While the foreign hand looks, nothing is half exchanged.
            done.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_micros(200));
        }
        assert!(foreign.join().is_ok() && is_over.load(Ordering::SeqCst));
    });
    assert_eq!(number(), 999);
    assert!(edits > 20, "{edits} edits, {conflicts} conflicts");
    let left: Vec<_> = fs::read_dir(root.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["f"]);
}

#[test]
fn a_change_in_place_is_seen_even_within_one_tick_of_the_clock() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "f", "aaaa");
    let stat = volume.stat(clean(), &path("f")).result.unwrap().stat;
    let found = volume
        .find(clean(), &path("f"), true, &mut Label::default())
        .unwrap();
    // The same length and the same time, but not the same content.
    fs::write(root.path().join("f"), "bbbb").unwrap();
    let then = fs::FileTimes::new()
        .set_modified(std::time::UNIX_EPOCH + Duration::from_nanos(stat.modified_ns));
    fs::File::options()
        .write(true)
        .open(root.path().join("f"))
        .unwrap()
        .set_times(then)
        .unwrap();
    let change = crate::replace::Change {
        content: b"cccc",
        label: &Label::default(),
        base: crate::replace::Base::Content(&stat, b"aaaa"),
        executable: false,
    };
    let refused = volume.put(&path("f"), &found, change).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert_eq!(text(&volume, "f"), "bbbb");
}

#[test]
fn what_a_killed_gate_left_is_swept() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join(".portcullis-0000000000000007"), "half").unwrap();
    fs::create_dir_all(root.path().join("d/.portcullis-0000000000000001/x")).unwrap();
    let volume = volume(root.path());
    assert_eq!(volume.used().files, 1);
    assert!(!root.path().join(".portcullis-0000000000000007").exists());
    assert_eq!(fs::read_dir(root.path().join("d")).unwrap().count(), 0);
}

/// The gate takes the volume as it finds it; how much a command hides there is another matter.
#[test]
fn what_cannot_be_looked_at_is_no_count_and_no_reason_not_to_attach() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("d/".repeat(crate::dirs::MAX_DEPTH + 5));
    fs::create_dir_all(deep).unwrap();
    let volume = volume(root.path());
    let counted = volume.used();
    assert!(counted.files > 0);
    assert!(volume.is_overfull().is_err());
    assert_eq!(volume.used(), counted);
    fs::remove_dir_all(root.path().join("d")).unwrap();
    assert_eq!(volume.is_overfull(), Ok(false));
}

#[test]
fn names_that_are_no_text_are_shown_and_survive() {
    use std::os::unix::ffi::OsStrExt;
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("d")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(root.path().join("d").join(odd), "x").unwrap();
    let volume = volume(root.path());
    let listed = volume
        .list(clean(), &path("d"), &ListOptions::default())
        .result
        .unwrap();
    assert!(
        listed
            .entries
            .iter()
            .any(|entry| entry.path == "caf\u{fffd}" && !entry.is_addressable)
    );
    volume
        .rename(clean(), &path("d"), &path("e"), MoveOptions::default())
        .result
        .unwrap();
    assert!(root.path().join("e").join(odd).exists());
}

#[test]
fn a_read_only_volume_is_never_changed() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f"), "x").unwrap();
    let mut spec = spec(root.path());
    spec.is_writable = false;
    let volume = Volume::attach(spec, Arc::new(InMemory::default())).unwrap();
    let kinds = [
        volume
            .write(clean(), &path("f"), b"y", WriteOptions::default())
            .result
            .unwrap_err()
            .kind,
        volume
            .create_dir(clean(), &path("d"))
            .result
            .unwrap_err()
            .kind,
        volume
            .delete(clean(), &path("f"), DeleteOptions::default())
            .result
            .unwrap_err()
            .kind,
        volume
            .edit(
                clean(),
                &path("f"),
                &[edit("x", "y")],
                EditOptions::default(),
            )
            .result
            .unwrap_err()
            .kind,
        volume
            .rename(clean(), &path("f"), &path("g"), MoveOptions::default())
            .result
            .unwrap_err()
            .kind,
    ];
    assert_eq!(kinds, [ErrorKind::ReadOnly; 5]);
    assert_eq!(text(&volume, "f"), "x");
}
