//! What a jail costs: how long one takes to start, how much memory it has besides its program, and how soon it is gone.
//!
//! The figures are printed always and held to their bounds where `JAIL_FIGURES` is set, because a busy machine would break them.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use sandbox::inspect;
use sandbox::jailer::Profile;

use crate::support::{home, jailer, shell};

pub(crate) const TESTS: &[(&str, fn())] = &[("jails_cost_little", jails_cost_little)];

/// Of a start, half of them and all but one in a hundred.
const STARTS: [Duration; 2] = [Duration::from_millis(8), Duration::from_millis(40)];
/// Of the two processes that are not the program.
const MEMORY: u64 = 1 << 20;
/// From the kill until nothing is left.
const GONE: Duration = Duration::from_millis(250);

fn jails_cost_little() {
    let is_held = std::env::var_os("JAIL_FIGURES").is_some();
    let rounds = if is_held { 300 } else { 10 };
    let (_kept, home) = home();
    let (mut starts, mut ends, mut memory) = (Vec::new(), Vec::new(), 0);
    for _ in 0..rounds {
        let script = "(setsid sleep 3600 >/dev/null 2>&1 &); echo ready; read line; sleep 3600";
        let jail = shell(Profile::Contained, &home, script).jail();
        let begun = Instant::now();
        let jailed = jail.start(&jailer()).unwrap();
        starts.push(begun.elapsed());
        let mut line = String::new();
        BufReader::new(std::fs::File::from(jailed.spawned.stdout))
            .read_line(&mut line)
            .unwrap();
        let outer = jailed.spawned.child.pid();
        let inside = inspect::descendants_of(outer).unwrap();
        let first = *inside.first().unwrap();
        memory = memory.max(own_memory(outer) + own_memory(first));
        let begun = Instant::now();
        jailed.spawned.child.kill().unwrap();
        while inside
            .iter()
            .any(|&pid| inspect::exists(pid) && !inspect::is_zombie(pid))
        {
            assert!(begun.elapsed() < Duration::from_secs(10), "{inside:?}");
            std::thread::sleep(Duration::from_micros(200));
        }
        ends.push(begun.elapsed());
    }
    starts.sort();
    ends.sort();
    let of = |times: &[Duration], percent: usize| {
        times[(times.len() * percent / 100).min(times.len() - 1)]
    };
    let (half, most, last) = (of(&starts, 50), of(&starts, 99), of(&ends, 99));
    println!(
        "start: p50 {half:?}, p99 {most:?}; gone after a kill: p99 {last:?}; memory besides the program: {memory} bytes"
    );
    if is_held {
        assert!(half <= STARTS[0] && most <= STARTS[1], "{half:?} {most:?}");
        assert!(last <= GONE, "{last:?}");
        assert!(memory <= MEMORY, "{memory}");
    }
}

/// What a process has for itself alone, in bytes.
fn own_memory(pid: u32) -> u64 {
    let table = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    table
        .lines()
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok())
        .sum::<u64>()
        * 1024
}
