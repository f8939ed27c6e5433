//! What is true of all children together. One test, because it counts every child of this process.
#![cfg(test)]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use sandbox::{Command, Spawned, inspect};

const HOST_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

#[test]
fn no_process_is_left() {
    a_failed_start_leaves_no_process();
    a_thousand_start_and_kill_cycles_leave_no_process();
    kill_all_leaves_no_process();
}

fn assert_no_process_is_left() {
    // As subreaper this process is the parent of everything it ever started that still exists, zombies included.
    assert_eq!(
        inspect::descendants_of(std::process::id()).unwrap(),
        Vec::<u32>::new()
    );
}

fn shell(script: &str) -> Spawned {
    Command::new("sh")
        .arg("-c")
        .arg(script)
        .path(HOST_PATH)
        .spawn()
        .unwrap()
}

/// A server that puts a daemon out of reach (two forks, its own session) and says so before it goes on.
fn daemonising_server(then: &str) -> Spawned {
    let server = shell(&format!(
        "(setsid sh -c 'echo $$; exec sleep 300 >/dev/null 2>&1 </dev/null' &); {then}"
    ));
    let mut line = String::new();
    BufReader::new(File::from(server.stdout.try_clone().unwrap()))
        .read_line(&mut line)
        .unwrap();
    assert!(inspect::exists(line.trim().parse().unwrap()));
    server
}

fn a_failed_start_leaves_no_process() {
    for _ in 0..50 {
        Command::new("/no/such/server").spawn().unwrap_err();
        Command::new("no-such-server")
            .path(HOST_PATH)
            .spawn()
            .unwrap_err();
    }
    assert_no_process_is_left();
}

/// Every way to end a server, in turn: kill, drop, end of input, and a polite stop of one that left a daemon.
fn a_thousand_start_and_kill_cycles_leave_no_process() {
    for cycle in 0..1000 {
        let Spawned {
            mut child, stdin, ..
        } = match cycle % 10 {
            0 => daemonising_server("exec cat"),
            1 => shell("cat & cat & cat & wait"),
            _ => Command::new("cat").path(HOST_PATH).spawn().unwrap(),
        };
        match cycle % 4 {
            0 => drop(child.terminate(Duration::from_secs(5)).unwrap().to_string()),
            1 => drop(child.kill().unwrap().to_string()),
            2 => drop(child),
            _ => {
                drop(stdin);
                assert!(
                    child
                        .wait_timeout(Duration::from_secs(10))
                        .unwrap()
                        .is_some()
                );
            }
        }
    }
    assert_no_process_is_left();
}

fn kill_all_leaves_no_process() {
    let servers: Vec<Spawned> = (0..20)
        .map(|_| daemonising_server("trap '' TERM; sleep 300"))
        .collect();
    assert!(inspect::descendants_of(std::process::id()).unwrap().len() >= 40);
    assert_eq!(sandbox::kill_all(), 0);
    assert_no_process_is_left();
    for mut server in servers {
        assert!(
            server.child.try_wait().unwrap().is_some(),
            "its owner learns of the end"
        );
    }
}
