//! Writing to where a person said with `--out`.
//!
//! A file is replaced whole or not at all. Anything else that has a name (a device, a pipe, standard output) is written to, and
//! never replaced. A link leads to what it points at.

use std::{
    fs::{self, OpenOptions},
    io::{self, BufWriter, Write},
    path::Path,
};

use home::private_file;
use terminal::Trouble;

/// Whether what is written goes where answers go, so that nothing else should.
pub(crate) fn is_stdout(path: &Path) -> bool {
    ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"]
        .iter()
        .any(|name| path == Path::new(name))
}

pub(crate) fn write<T>(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let unwritable =
        |error: io::Error| Trouble::failed(format!("cannot write {}: {error}", path.display()));
    if is_stdout(path) {
        let mut out = io::stdout().lock();
        let made = fill(&mut out)?;
        return out.flush().map(|()| made).map_err(unwritable);
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err(Trouble::usage(format!("{} is a directory", path.display())))
        }
        Ok(found) if !found.is_file() => {
            let mut out = BufWriter::new(
                OpenOptions::new()
                    .write(true)
                    .open(path)
                    .map_err(unwritable)?,
            );
            let made = fill(&mut out)?;
            out.flush().map(|()| made).map_err(unwritable)
        }
        _ => private_file::replace_with(path, fill, unwritable),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{FileTypeExt as _, symlink},
    };

    use super::write;
    use terminal::Trouble;

    fn put(path: &std::path::Path, text: &str) -> Result<(), Trouble> {
        write(path, |out| Ok(out.write_all(text.as_bytes())?))
    }

    #[test]
    fn a_link_is_followed_also_where_it_leads_to_nothing_yet() {
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join("link"), dir.path().join("target"));
        symlink("target", &link).unwrap();
        put(&link, "one").unwrap();
        put(&link, "two").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(target).unwrap(), "two");
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            2,
            "nothing is left beside it"
        );
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("report");
        put(&file, "whole").unwrap();
        let failed = write(&file, |out| {
            out.write_all(b"half")?;
            Err::<(), _>(Trouble::failed("broke off"))
        });
        assert_eq!(failed.unwrap_err().message, "broke off");
        assert_eq!(fs::read_to_string(&file).unwrap(), "whole");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_is_written_to_and_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        // Through a link, so that a mistake replaces the link and not this machine's device.
        let link = dir.path().join("full");
        symlink("/dev/full", &link).unwrap();
        let failed = put(&link, "text").unwrap_err();
        assert!(
            failed.message.contains("full") && failed.message.contains("No space left"),
            "{}",
            failed.message
        );
        assert!(fs::metadata(&link).unwrap().file_type().is_char_device());
        assert_eq!(
            put(dir.path(), "text").unwrap_err().exit,
            terminal::Exit::Usage
        );
    }

    #[test]
    fn a_pipe_is_written_to_and_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        put(&pipe, "through it").unwrap();
        assert_eq!(reader.join().unwrap(), "through it");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    }
}
