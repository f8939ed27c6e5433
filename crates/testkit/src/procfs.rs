//! What the kernel says about processes, read from `/proc`.

use std::path::Path;

/// Resident memory of a process in bytes; zero when it is gone.
pub fn resident_bytes(pid: u32) -> u64 {
    status_field(pid, "VmRSS:").map_or(0, |kib| kib * 1024)
}

/// The most memory a process ever had resident, in bytes; zero when it is gone.
pub fn peak_resident_bytes(pid: u32) -> u64 {
    status_field(pid, "VmHWM:").map_or(0, |kib| kib * 1024)
}

/// Whether a process exists and is not merely waiting to be reaped.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// Living processes with this text in their command line or environment, as far as we may look.
pub fn mentioning(text: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let own = std::process::id();
    pids.filter(|pid| *pid != own && is_alive(*pid) && mentions(*pid, text))
        .collect()
}

fn mentions(pid: u32, text: &str) -> bool {
    ["cmdline", "environ"].iter().any(|file| {
        let bytes =
            std::fs::read(Path::new("/proc").join(pid.to_string()).join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(text)
    })
}

fn status_field(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
