//! Labels stick to what was written, whatever becomes of it.

use std::{fs, process::Command, sync::Mutex};

use super::*;

fn level(labelled: &Label) -> Level {
    labelled.mark.secrecy
}

fn read_label(volume: &Volume, at: &str) -> Label {
    volume.read(clean(), &path(at), Part::Whole, As::Text).label
}

#[test]
fn a_label_follows_a_file_through_rename_copy_edit_and_restart() {
    let root = tempfile::tempdir().unwrap();
    let rows: Arc<dyn LabelRows> = Arc::new(InMemory::default());
    let high = secret(Level::Confidential);
    {
        let volume = Volume::attach(spec(root.path()), Arc::clone(&rows)).unwrap();
        put(&volume, "d/clean", "nothing");
        volume
            .write(
                by(&high),
                &path("s/secret"),
                b"plans",
                WriteOptions::default(),
            )
            .result
            .unwrap();
        // A clean session moves and copies what it could not read.
        volume
            .rename(
                clean(),
                &path("s/secret"),
                &path("m/moved"),
                MoveOptions::default(),
            )
            .result
            .unwrap();
        volume
            .copy(clean(), &path("m/moved"), &path("c/copied"), false)
            .result
            .unwrap();
        volume
            .edit(
                clean(),
                &path("c/copied"),
                &[edit("plans", "plan B")],
                EditOptions::default(),
            )
            .result
            .unwrap();
    }
    fs::rename(root.path().join("m/moved"), root.path().join("m/foreign")).unwrap();
    let volume = Volume::attach(spec(root.path()), rows).unwrap();
    assert_eq!(
        level(&read_label(&volume, "m/foreign")),
        Level::Confidential
    );
    assert_eq!(level(&read_label(&volume, "c/copied")), Level::Confidential);
    assert_eq!(level(&read_label(&volume, "d/clean")), Level::Public);
}

#[test]
fn a_foreign_replacement_has_the_floor_and_nothing_is_below_it() {
    let root = tempfile::tempdir().unwrap();
    let mut spec = spec(root.path());
    spec.floor = secret(Level::Internal);
    let volume = Volume::attach(spec, Arc::new(InMemory::default())).unwrap();
    put(&volume, "a", "public words");
    assert_eq!(level(&read_label(&volume, "a")), Level::Internal);
    volume
        .write(
            by(&secret(Level::Confidential)),
            &path("a"),
            b"x",
            WriteOptions::default(),
        )
        .result
        .unwrap();
    assert_eq!(level(&read_label(&volume, "a")), Level::Confidential);
    fs::write(root.path().join("fresh"), "foreign").unwrap();
    fs::rename(root.path().join("fresh"), root.path().join("a")).unwrap();
    assert_eq!(level(&read_label(&volume, "a")), Level::Internal);
}

#[test]
fn a_file_with_a_second_name_keeps_its_label_when_one_name_goes() {
    let root = tempfile::tempdir().unwrap();
    let mut spec = spec(root.path());
    spec.allows_hardlinks = true;
    spec.durability = Durability::Full;
    let volume = Volume::attach(spec, Arc::new(InMemory::default())).unwrap();
    let high = secret(Level::Confidential);
    for first in ["deleted", "replaced", "moved-over"] {
        let written = volume.write(by(&high), &path(first), b"plans", WriteOptions::default());
        written.result.unwrap();
        let second = root.path().join(format!("{first}-too"));
        fs::hard_link(root.path().join(first), second).unwrap();
    }
    volume
        .delete(clean(), &path("deleted"), DeleteOptions::default())
        .result
        .unwrap();
    put(&volume, "replaced", "nothing");
    put(&volume, "other", "nothing");
    let overwrite = MoveOptions {
        overwrite: true,
        ..MoveOptions::default()
    };
    volume
        .rename(clean(), &path("other"), &path("moved-over"), overwrite)
        .result
        .unwrap();
    for second in ["deleted-too", "replaced-too", "moved-over-too"] {
        let label = level(&read_label(&volume, second));
        assert_eq!(label, Level::Confidential, "{second}");
    }
}

#[test]
fn a_label_ends_with_its_file_only_where_that_survives_a_power_cut() {
    for (durability, stays) in [(Durability::Full, false), (Durability::Relaxed, true)] {
        let root = tempfile::tempdir().unwrap();
        let rows: Arc<dyn LabelRows> = Arc::new(InMemory::default());
        let spec = VolumeSpec {
            durability,
            ..spec(root.path())
        };
        let volume = Volume::attach(spec, Arc::clone(&rows)).unwrap();
        let high = secret(Level::Confidential);
        for at in ["deleted", "replaced"] {
            let written = volume.write(by(&high), &path(at), b"plans", WriteOptions::default());
            written.result.unwrap();
        }
        let deleted = volume.delete(clean(), &path("deleted"), DeleteOptions::default());
        deleted.result.unwrap();
        put(&volume, "replaced", "nothing");
        let kept = rows.load("work").unwrap().rows;
        let is_left = kept
            .iter()
            .any(|(id, label)| !id.is_names && level(label) == Level::Confidential);
        assert_eq!(is_left, stays, "{durability:?}");
    }
}

#[test]
fn what_is_read_while_a_command_begins_has_its_label() {
    let root = tempfile::tempdir().unwrap();
    let spec = VolumeSpec {
        runs_commands: true,
        ..spec(root.path())
    };
    let volume = Volume::attach(spec, Arc::new(InMemory::default())).unwrap();
    let high = secret(Level::Internal);
    let read = volume.labelled(|_| volume.begin_command(&high));
    assert_eq!(level(&read.label), Level::Internal);
}

#[test]
fn a_volume_that_commands_run_in_has_one_label_that_only_rises() {
    let root = tempfile::tempdir().unwrap();
    let rows: Arc<dyn LabelRows> = Arc::new(InMemory::default());
    let high = secret(Level::Internal);
    let attach = |runs_commands| {
        let spec = VolumeSpec {
            runs_commands,
            ..spec(root.path())
        };
        Volume::attach(spec, Arc::clone(&rows)).unwrap()
    };
    let volume = attach(false);
    put(&volume, "plain", "nothing");
    let written = volume.write(by(&high), &path("d/note"), b"x", WriteOptions::default());
    written.result.unwrap();
    assert_eq!(level(&read_label(&volume, "plain")), Level::Public);
    drop(volume);
    // A command could have read the one and written the other.
    let volume = attach(true);
    assert_eq!(level(&read_label(&volume, "plain")), Level::Internal);
    assert_eq!(
        level(&volume.begin_command(&Label::default()).unwrap()),
        Level::Internal
    );
    let seen = volume.begin_command(&untrusted()).unwrap();
    assert_eq!(seen.mark.integrity, Integrity::Untrusted);
    let written = volume.write(
        by(&secret(Level::Confidential)),
        &path("d/more"),
        b"x",
        WriteOptions::default(),
    );
    written.result.unwrap();
    volume
        .delete(clean(), &path("d/more"), DeleteOptions::default())
        .result
        .unwrap();
    assert_eq!(level(&read_label(&volume, "plain")), Level::Confidential);
    assert_eq!(
        volume
            .begin_command(&secret(Level::Restricted))
            .unwrap_err()
            .kind,
        ErrorKind::WriteDown
    );
    drop(volume);
    // It stays, whoever runs commands there from now on.
    let label = read_label(&attach(false), "plain");
    assert_eq!(
        (level(&label), label.mark.integrity),
        (Level::Confidential, Integrity::Untrusted)
    );
}

#[test]
fn names_are_data() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "open/x", "x");
    let high = secret(Level::Confidential);
    volume
        .write(
            by(&high),
            &path("shut/the-merger"),
            b"",
            WriteOptions::default(),
        )
        .result
        .unwrap();
    let label = |at: &str| {
        level(
            &volume
                .list(clean(), &path(at), &ListOptions::default())
                .label,
        )
    };
    assert_eq!(
        (label("open"), label("shut")),
        (Level::Public, Level::Confidential)
    );
    // That something is not there is told by the same names.
    assert_eq!(
        level(&read_label(&volume, "shut/other")),
        Level::Confidential
    );
    assert_eq!(level(&read_label(&volume, "open/other")), Level::Public);
    // Deleting tells as well.
    volume
        .delete(by(&high), &path("open/x"), DeleteOptions::default())
        .result
        .unwrap();
    assert_eq!(label("open"), Level::Confidential);
}

#[test]
fn a_search_brings_the_label_of_everything_it_searched() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "d/a", "word");
    // Its name is as public as the file before it; only the content is not.
    put(&volume, "d/b", "other");
    volume
        .write(
            by(&untrusted()),
            &path("d/b"),
            b"nothing of it",
            WriteOptions::default(),
        )
        .result
        .unwrap();
    let found = volume.grep(clean(), &path("d"), "word", &grep());
    assert_eq!(found.label.mark.integrity, Integrity::Untrusted);
    let mut careful = grep();
    careful.walk.no_rise = true;
    let found = volume.grep(clean(), &path("d"), "word", &careful);
    assert_eq!(found.label, Label::default());
    assert_eq!(found.result.unwrap().walked.skipped.label, 1);
    assert_eq!(
        volume.glob(clean(), &path("d"), "*", &glob()).label,
        Label::default()
    );
}

#[test]
fn nothing_above_its_ceiling_rests_in_a_volume() {
    let root = tempfile::tempdir().unwrap();
    let volume = volume(root.path());
    put(&volume, "f", "x");
    let top = secret(Level::Restricted);
    let kinds = [
        volume
            .write(by(&top), &path("a"), b"x", WriteOptions::default())
            .result
            .unwrap_err()
            .kind,
        volume
            .edit(
                by(&top),
                &path("f"),
                &[edit("x", "y")],
                EditOptions::default(),
            )
            .result
            .unwrap_err()
            .kind,
        volume
            .create_dir(by(&top), &path("d"))
            .result
            .unwrap_err()
            .kind,
        volume
            .delete(by(&top), &path("f"), DeleteOptions::default())
            .result
            .unwrap_err()
            .kind,
        volume
            .rename(by(&top), &path("f"), &path("g"), MoveOptions::default())
            .result
            .unwrap_err()
            .kind,
        volume
            .copy(by(&top), &path("f"), &path("g"), false)
            .result
            .unwrap_err()
            .kind,
    ];
    assert_eq!(kinds, [ErrorKind::WriteDown; 6]);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn a_directory_that_is_not_the_one_labels_were_kept_for_has_the_highest_of_them() {
    let yard = tempfile::tempdir().unwrap();
    let (one, two) = (yard.path().join("one"), yard.path().join("two"));
    fs::create_dir(&one).unwrap();
    let rows: Arc<dyn LabelRows> = Arc::new(InMemory::default());
    let volume = Volume::attach(spec(&one), Arc::clone(&rows)).unwrap();
    volume
        .write(
            by(&secret(Level::Confidential)),
            &path("f"),
            b"x",
            WriteOptions::default(),
        )
        .result
        .unwrap();
    Command::new("cp")
        .arg("-a")
        .args([&one, &two])
        .status()
        .unwrap();
    let copy = Volume::attach(spec(&two), rows).unwrap();
    assert_eq!(level(&read_label(&copy, "f")), Level::Confidential);
}

/// Rows that look at the directory whenever one is written.
#[derive(Debug)]
struct Watching {
    root: std::path::PathBuf,
    seen: Mutex<Vec<bool>>,
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
        let content = fs::read_to_string(self.root.join("f")).unwrap_or_default();
        self.seen.lock().unwrap().push(content == "new");
        if self.fails {
            Err("the disk is full".to_owned())
        } else {
            Ok(())
        }
    }
    fn forget(&self, _: &str, _: &[FileId]) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn a_label_is_durable_before_its_file_has_a_name() {
    for fails in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let rows = Arc::new(Watching {
            root: root.path().to_owned(),
            seen: Mutex::default(),
            fails,
        });
        fs::write(root.path().join("f"), "old").unwrap();
        let volume =
            Volume::attach(spec(root.path()), Arc::clone(&rows) as Arc<dyn LabelRows>).unwrap();
        let high = secret(Level::Confidential);
        let written = volume.write(by(&high), &path("f"), b"new", WriteOptions::default());
        assert_eq!(written.result.is_err(), fails);
        assert_eq!(*rows.seen.lock().unwrap(), [false]);
        let now = fs::read_to_string(root.path().join("f")).unwrap();
        assert_eq!(now, if fails { "old" } else { "new" });
        assert_eq!(
            fs::read_dir(root.path()).unwrap().count(),
            1,
            "nothing is left beside"
        );
    }
}

/// Rows in a file: one line each, on the disk before it counts.
#[derive(Debug)]
struct Journal(Mutex<fs::File>);

impl LabelRows for Journal {
    fn load(&self, _: &str) -> Result<Kept, String> {
        Ok(Kept::default())
    }
    fn settle(&self, _: &str, _: FileId) -> Result<(), String> {
        Ok(())
    }
    fn keep(&self, _: &str, id: RowId, label: &Label) -> Result<(), String> {
        use std::io::Write;
        let FileId { inode, birth } = id.file;
        let line = format!("{inode} {birth} {}\n", label.mark.secrecy as u8);
        self.0
            .lock()
            .unwrap()
            .write_all(line.as_bytes())
            .map_err(|error| error.to_string())
    }
    fn forget(&self, _: &str, _: &[FileId]) -> Result<(), String> {
        Ok(())
    }
}

/// Not a test by itself: what the next one starts and kills.
#[test]
fn writes_until_it_is_killed() {
    let Some(home) = std::env::var_os("STORAGE_KILLED") else {
        return;
    };
    let home = std::path::PathBuf::from(home);
    let journal = fs::File::options()
        .append(true)
        .create(true)
        .open(home.join("journal"))
        .unwrap();
    let volume = Volume::attach(
        spec(&home.join("volume")),
        Arc::new(Journal(Mutex::new(journal))),
    )
    .unwrap();
    let high = secret(Level::Confidential);
    for round in 0_u64.. {
        let at = path(&format!("d{}/f{}", round % 3, round % 7));
        let _ = volume.write(
            by(&high),
            &at,
            format!("secret {round} end").as_bytes(),
            WriteOptions::default(),
        );
        let _ = volume.edit(
            clean(),
            &at,
            &[edit("secret", "secret, still")],
            EditOptions::default(),
        );
        let _ = volume.copy(clean(), &at, &path("copy"), true);
        let _ = volume.rename(
            clean(),
            &path("copy"),
            &path("moved"),
            MoveOptions {
                overwrite: true,
                ..MoveOptions::default()
            },
        );
        let all = DeleteOptions {
            recursive: true,
            ..DeleteOptions::default()
        };
        let _ = volume.delete(clean(), &path(&format!("d{}", (round + 1) % 3)), all);
    }
}

#[test]
fn a_kill_at_any_moment_leaves_no_file_below_its_label() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("volume")).unwrap();
    let mut looked_at = 0;
    for round in 0..25 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::labels::writes_until_it_is_killed"])
            .env("STORAGE_KILLED", home.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while fs::metadata(home.path().join("journal")).map_or(0, |file| file.len())
            < 200 * (round + 1)
        {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let journal = fs::read_to_string(home.path().join("journal")).unwrap();
        let rows: std::collections::HashSet<&str> = journal
            .lines()
            .filter_map(|line| line.strip_suffix(" 2"))
            .collect();
        let volume = volume(&home.path().join("volume"));
        let deep = ListOptions {
            depth: 3,
            ..ListOptions::default()
        };
        for entry in volume
            .list(clean(), &path(""), &deep)
            .result
            .unwrap()
            .entries
        {
            if entry.stat.kind != Kind::File {
                continue;
            }
            let content = text(&volume, &entry.path);
            assert!(
                content.starts_with("secret") && content.ends_with("end"),
                "{content:?}"
            );
            let FileId { inode, birth } = entry.stat.id;
            assert!(
                rows.contains(format!("{inode} {birth}").as_str()),
                "{} has no label",
                entry.path
            );
            looked_at += 1;
        }
    }
    assert!(looked_at > 25);
}
