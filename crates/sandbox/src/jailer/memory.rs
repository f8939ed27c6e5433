//! How much memory the processes of a jail have together, as its first process sees them.
//!
//! What a process has to itself counts, and so does memory that is shared between processes, each page once. Files in memory, such as those in
//! `/tmp`, have bounds of their own and count while they are mapped. A file in memory without a name that no process maps is not seen here.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether all processes together have more than this.
pub(super) fn is_above(most: u64) -> bool {
    // Sums of whole processes are cheap, and count what they share once for each: only above them is a closer look worth its price.
    sum(&whole) > most && sum(&share) > most
}

/// What a process has to itself and its share of what it shares; all of both where the kernel does not tell the shares.
fn share(process: &Path) -> Option<u64> {
    let shares = counted(process, "smaps_rollup", &["Pss_Anon:", "Pss_Shmem:"]);
    shares.or_else(|| whole(process))
}

/// What a process has, with all that it shares.
fn whole(process: &Path) -> Option<u64> {
    counted(process, "status", &["RssAnon:", "RssShmem:"])
}

fn sum(count: &dyn Fn(&Path) -> Option<u64>) -> u64 {
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            name.as_bytes().first().is_some_and(u8::is_ascii_digit)
        })
        .filter_map(|entry| count(&entry.path()))
        .fold(0, u64::saturating_add)
}

fn counted(process: &Path, file: &str, names: &[&str]) -> Option<u64> {
    bytes_of(&fs::read_to_string(process.join(file)).ok()?, names)
}

/// The sum of these lines of a table in kilobytes; nothing if the table has none of them.
fn bytes_of(table: &str, names: &[&str]) -> Option<u64> {
    let mut found = names.iter().filter_map(|name| {
        let line = table.lines().find_map(|line| line.strip_prefix(name))?;
        let number: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        Some(number.saturating_mul(1024))
    });
    let first = found.next()?;
    Some(found.fold(first, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_table_are_added_up() {
        let table = "Name:\tx\nRssAnon:\t    12 kB\nRssFile:\t  99 kB\nRssShmem:\t  3 kB\n";
        assert_eq!(bytes_of(table, &["RssAnon:", "RssShmem:"]), Some(15 << 10));
        assert_eq!(bytes_of(table, &["Pss_Anon:"]), None);
    }

    /// A process whose shares the kernel does not tell counts with everything, also with what it shares.
    #[test]
    fn shared_memory_counts_where_shares_are_not_told() {
        let process = tempfile::tempdir().unwrap();
        let status = "Name:\tx\nRssAnon:\t    12 kB\nRssShmem:\t  3 kB\n";
        fs::write(process.path().join("status"), status).unwrap();
        assert_eq!(share(process.path()), Some(15 << 10));
        let shares = "Pss_Anon:\t  4 kB\nPss_Shmem:\t  1 kB\n";
        fs::write(process.path().join("smaps_rollup"), shares).unwrap();
        assert_eq!(share(process.path()), Some(5 << 10));
    }

    #[test]
    fn this_process_has_some_and_no_more_than_there_is() {
        let own = Path::new("/proc/self");
        let plain = whole(own).unwrap();
        assert!(plain > 0 && plain < 1 << 40, "{plain}");
        assert!(!is_above(1 << 50));
    }
}
