//! Files that are read and written where they are.

use std::{fs, sync::Mutex};

use super::*;

/// Says of each label that is kept whether the file had its new content already.
#[derive(Debug)]
struct Watching {
    file: std::path::PathBuf,
    was_new: Mutex<Vec<bool>>,
    fails: bool,
}

impl LabelRows for Watching {
    fn load(&self, _: &str) -> Result<Kept, String> {
        Ok(Kept::default())
    }
    fn settle(&self, _: &str, _: FileId) -> Result<(), String> {
        Ok(())
    }
    fn keep(&self, _: &str, _: RowId, _: &Label) -> Result<(), String> {
        let is_new = fs::read(&self.file).unwrap() != b"old";
        self.was_new.lock().unwrap().push(is_new);
        match self.fails {
            true => Err("the disk is full".to_owned()),
            false => Ok(()),
        }
    }
    fn forget(&self, _: &str, _: &[FileId]) -> Result<(), String> {
        Ok(())
    }
}

fn at<'a>(volume: &Volume, path: &'a VolumePath) -> Spot<'a> {
    let id = volume.node(clean(), path).result.unwrap().id;
    Spot { path, id }
}

#[test]
fn a_part_is_written_only_under_a_label_that_covers_it() {
    for fails in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("f");
        fs::write(&file, "old").unwrap();
        let rows = Arc::new(Watching {
            file: file.clone(),
            was_new: Mutex::default(),
            fails,
        });
        let kept = Arc::clone(&rows) as Arc<dyn LabelRows>;
        let volume = Volume::attach(spec(root.path()), kept).unwrap();
        let high = secret(Level::Confidential);
        let name = path("f");
        let spot = at(&volume, &name);
        let written = volume.write_part(by(&high), spot, 3, b"new", false);
        assert_eq!(written.result.is_err(), fails);
        assert_eq!(*rows.was_new.lock().unwrap(), [false]);
        let now = fs::read(&file).unwrap();
        assert_eq!(
            now,
            if fails {
                b"old".to_vec()
            } else {
                b"oldnew".to_vec()
            }
        );
        if !fails {
            let read = volume.read_part(clean(), spot, 2, 100);
            assert_eq!(read.result.unwrap().0, b"dnew");
            assert_eq!(read.label.mark.secrecy, Level::Confidential);
            // Nor is anything above what the volume may hold.
            let above = secret(Level::Restricted);
            let refused = volume.write_part(by(&above), spot, 0, b"x", false);
            assert_eq!(refused.result.unwrap_err().kind, ErrorKind::WriteDown);
            assert_eq!(fs::read(&file).unwrap(), b"oldnew");
        }
    }
}

#[test]
fn what_is_meant_is_the_file_and_not_its_name() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "f", "first");
    let name = path("f");
    let spot = at(&volume, &name);
    put(&volume, "f", "second");
    let kind = |result: Result<_, FileError>| result.map(|_: Stat| ()).unwrap_err().kind;
    let written = volume.write_part(clean(), spot, 0, b"X", false).result;
    assert_eq!(kind(written), ErrorKind::Conflict);
    let cut = Adjustment {
        size: Some(0),
        ..Adjustment::default()
    };
    assert_eq!(
        kind(volume.adjust(clean(), spot, cut).result),
        ErrorKind::Conflict
    );
    let read = volume.read_part(clean(), spot, 0, 10).result;
    assert_eq!(kind(read.map(|(_, stat)| stat)), ErrorKind::Conflict);
    assert_eq!(fs::read(root.path().join("f")).unwrap(), b"second");
    // A link in its place leads nowhere either.
    fs::remove_file(root.path().join("f")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.path().join("f")).unwrap();
    assert!(
        volume
            .write_part(clean(), spot, 0, b"X", false)
            .result
            .is_err()
    );
    assert!(volume.read_part(clean(), spot, 0, 10).result.is_err());
    let link = at(&volume, &name);
    let text = volume.link_text(clean(), link).result.unwrap();
    assert_eq!(text, b"/etc/passwd");
}

#[test]
fn what_grows_in_place_counts_and_what_is_cut_off_is_given_back() {
    let root = tempfile::tempdir().unwrap();
    let small = VolumeSpec {
        max_bytes: Some(64 << 10),
        ..spec(root.path())
    };
    let volume = Volume::attach(small, Arc::new(InMemory::default())).unwrap();
    put(&volume, "f", "");
    let name = path("f");
    let spot = at(&volume, &name);
    let before = volume.used();
    let part = vec![7; 16 << 10];
    for turn in 0..3_u64 {
        let written = volume.write_part(clean(), spot, turn << 14, &part, true);
        assert_eq!(written.result.unwrap().size, (turn + 1) << 14);
    }
    let large = vec![7; 32 << 10];
    let refused = volume.write_part(clean(), spot, 3 << 14, &large, true);
    let kind = refused.result.unwrap_err().kind;
    assert!(matches!(kind, ErrorKind::QuotaExceeded { .. }), "{kind:?}");
    let resize = |size| Adjustment {
        size: Some(size),
        ..Adjustment::default()
    };
    let refused = volume.adjust(clean(), spot, resize(1 << 20)).result;
    assert!(refused.is_err(), "a hole is bounded too");
    volume.adjust(clean(), spot, resize(0)).result.unwrap();
    assert_eq!(volume.used().bytes, before.bytes);
    let written = volume.write_part(clean(), spot, 0, b"after", true);
    assert_eq!(written.result.unwrap().size, 5);
    assert_eq!(fs::read(root.path().join("f")).unwrap(), b"after");
}

#[test]
fn an_index_finds_everything_again() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    for name in ["a/b/c", "a/d", "e"] {
        put(&volume, name, name);
    }
    let made = volume.make_link(clean(), &path("a/link"), b"../e");
    made.result.unwrap();
    let mut names: Vec<String> = volume
        .index()
        .unwrap()
        .into_iter()
        .map(|(_, _, name)| name)
        .collect();
    names.sort();
    assert_eq!(names, ["a", "b", "c", "d", "e", "link"]);
    let again = volume.make_link(clean(), &path("a/link"), b"x").result;
    assert_eq!(again.unwrap_err().kind, ErrorKind::AlreadyExists);
}
