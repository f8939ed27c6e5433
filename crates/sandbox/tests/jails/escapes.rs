//! What a captured program reaches: in each profile, on each rung, as root and as an ordinary user, and without a jail.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use sandbox::escape::programs::TRIES;
use sandbox::jailer::{CommandLine, Jail, Profile, Rung, WORKSPACE};

use crate::support::{Temptation, home, jailer, run, server, shell, this_binary};

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "every_escape_is_refused_in_every_profile",
        every_escape_is_refused_in_every_profile,
    ),
    (
        "every_escape_is_refused_to_commands",
        every_escape_is_refused_to_commands,
    ),
    (
        "the_reduced_jail_leaves_open_what_its_page_says",
        the_reduced_jail_leaves_open_what_its_page_says,
    ),
    (
        "the_reduced_jail_without_network_has_none",
        the_reduced_jail_without_network_has_none,
    ),
    ("root_has_no_reduced_jail", root_has_no_reduced_jail),
    (
        "the_same_attempts_come_out_differently_without_a_jail",
        the_same_attempts_come_out_differently_without_a_jail,
    ),
    (
        "all_of_it_holds_for_an_ordinary_user",
        all_of_it_holds_for_an_ordinary_user,
    ),
];

/// What sharing the host's network leaves open; `docs/understand/jails.md` has the same list.
const BY_THE_NETWORK: [&str; 4] = [
    "send to the host's loopback",
    "find a way to link-local addresses",
    "read the host's connections",
    "ask for the host's addresses",
];

/// What the reduced jail leaves open besides; the page has the same list.
const WITHOUT_NAMESPACES: [&str; 8] = [
    "learn that a key exists",
    "watch the gate's home",
    "change the mode of a key",
    "change the mode of the ledger",
    "change the time of the ledger",
    "set an attribute of the ledger",
    "read the gate's command line",
    "see other processes",
];

/// What a program in this jail reached.
fn reached(profile: Profile, rung: Rung) -> Vec<String> {
    let temptation = Temptation::new();
    let program = this_binary();
    let mut server = server(
        profile,
        &temptation.prey.own,
        program.to_str().unwrap(),
        &[],
    );
    server.rung = rung;
    server.args = temptation.arguments();
    judge(&temptation, &server.jail())
}

/// Runs a jail whose program tries everything.
fn judge(temptation: &Temptation, jail: &Jail) -> Vec<String> {
    let ended = run(jail);
    assert!(
        ended.status.success(),
        "{} {} {}",
        ended.status,
        ended.output,
        ended.complaints
    );
    let tried = format!("tried {}", TRIES.len());
    assert!(
        TRIES.len() >= 95 && ended.output.contains(&tried),
        "{}",
        ended.output
    );
    temptation.assert_untouched();
    through(&ended.output)
}

fn through(output: &str) -> Vec<String> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("through "))
        .map(str::to_owned)
        .collect()
}

fn every_escape_is_refused_in_every_profile() {
    for profile in [Profile::Offline, Profile::Strict] {
        let reached = reached(profile, Rung::Namespaces);
        assert!(reached.is_empty(), "{profile}: {reached:?}");
    }
    let reached = reached(Profile::Contained, Rung::Namespaces);
    assert!(
        reached
            .iter()
            .all(|name| BY_THE_NETWORK.contains(&name.as_str())),
        "{reached:?}"
    );
}

fn every_escape_is_refused_to_commands() {
    let mut temptation = Temptation::new();
    let workspace = std::mem::replace(&mut temptation.prey.own, WORKSPACE.into());
    let jail = CommandLine {
        command: this_binary().into(),
        args: temptation.arguments(),
        env: Vec::new(),
        directory: WORKSPACE.into(),
        workspace,
        tools: vec![this_binary()],
        time: Duration::from_secs(60),
        may_write: true,
    }
    .jail();
    let reached = judge(&temptation, &jail);
    assert!(reached.is_empty(), "{reached:?}");
}

/// Everything below root; there is no such jail for root.
fn the_reduced_jail_leaves_open_what_its_page_says() {
    if rustix::process::getuid().is_root() {
        return;
    }
    let reached = reached(Profile::Contained, Rung::Reduced);
    let known = |name: &String| {
        BY_THE_NETWORK.contains(&name.as_str()) || WITHOUT_NAMESPACES.contains(&name.as_str())
    };
    assert!(reached.iter().all(known), "{reached:?}");
    assert!(reached.len() <= 13, "{reached:?}");
}

fn the_reduced_jail_without_network_has_none() {
    if rustix::process::getuid().is_root() {
        return;
    }
    let reached = reached(Profile::Offline, Rung::Reduced);
    // The tables of `/proc` are there to be read; nothing can be sent.
    let known = |name: &String| {
        BY_THE_NETWORK[2..].contains(&name.as_str()) || WITHOUT_NAMESPACES.contains(&name.as_str())
    };
    assert!(reached.iter().all(known), "{reached:?}");
}

fn root_has_no_reduced_jail() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let (_kept, home) = home();
    for profile in Profile::ALL {
        let mut server = shell(profile, &home, "id");
        server.rung = Rung::Reduced;
        let refused = server.jail().start(&jailer()).unwrap_err().to_string();
        assert!(refused.contains("as an ordinary user"), "{refused}");
    }
}

fn the_same_attempts_come_out_differently_without_a_jail() {
    let temptation = Temptation::new();
    let output = Command::new(this_binary())
        .args(temptation.arguments())
        .output()
        .unwrap();
    let reached = through(&String::from_utf8_lossy(&output.stdout));
    assert!(
        reached.len() >= 60,
        "{} of {}: {reached:?} {}",
        reached.len(),
        TRIES.len(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The whole binary again, run by a user without privileges. Where the tests already are, nothing is left to do.
fn all_of_it_holds_for_an_ordinary_user() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("jails");
    std::fs::copy(this_binary(), &copy).unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(&copy)
        .args(["role:user"])
        .uid(12_345)
        .gid(12_345)
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
