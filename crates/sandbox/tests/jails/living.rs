//! What a program in a jail has: its pipes, its home, its grants, its limits, and an end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use sandbox::SpawnError;
use sandbox::inspect;
use sandbox::jailer::{
    Access, Grants, Mount, Origin, Profile, Protected, Rung, Server, What, probe,
};

use crate::support::{end, granted, home, jailer, run, server, shell, this_binary};

pub(crate) const TESTS: &[(&str, fn())] = &[
    // First, while this process has no keeper yet: it would sweep up the orphans this looks for.
    (
        "a_jail_that_is_killed_leaves_nothing",
        a_jail_that_is_killed_leaves_nothing,
    ),
    ("a_program_ends_as_it_ended", a_program_ends_as_it_ended),
    (
        "the_environment_is_the_golden_list",
        the_environment_is_the_golden_list,
    ),
    (
        "a_home_is_kept_and_a_strict_one_forgets",
        a_home_is_kept_and_a_strict_one_forgets,
    ),
    ("grants_are_what_they_say", grants_are_what_they_say),
    (
        "a_granted_home_shows_neither_the_gate_nor_other_jails",
        a_granted_home_shows_neither_the_gate_nor_other_jails,
    ),
    (
        "the_host_is_as_it_was_whatever_is_granted",
        the_host_is_as_it_was_whatever_is_granted,
    ),
    (
        "shared_memory_counts_to_the_limit_once",
        shared_memory_counts_to_the_limit_once,
    ),
    ("daemons_end_with_their_jail", daemons_end_with_their_jail),
    ("limits_hold", limits_hold),
    (
        "a_share_of_the_processor_holds",
        a_share_of_the_processor_holds,
    ),
    (
        "a_program_that_cannot_be_executed_is_explained",
        a_program_that_cannot_be_executed_is_explained,
    ),
    (
        "many_starts_and_kills_leave_nothing",
        many_starts_and_kills_leave_nothing,
    ),
    ("the_probe_finds_a_rung", the_probe_finds_a_rung),
];

fn a_program_ends_as_it_ended() {
    let (_kept, home) = home();
    for profile in Profile::ALL {
        let ended = run(&shell(profile, &home, "read line; echo got $line; exit 7").jail());
        assert_eq!(ended.status.code(), Some(7), "{}", ended.complaints);
        assert_eq!(ended.output, "got\n");
        let ended = run(&shell(profile, &home, "kill -9 $$").jail());
        assert_eq!(ended.status.signal(), Some(9), "{}", ended.status);
    }
}

fn the_environment_is_the_golden_list() {
    let (_kept, home) = home();
    let mut server = shell(
        Profile::Contained,
        &home,
        "env | sort | cut -d= -f1; id -un; pwd",
    );
    server.env = vec![("DECLARED".into(), "x".into())];
    let ended = run(&server.jail());
    let expected = format!(
        "DECLARED\nHOME\nLANG\nPATH\nPWD\nSHELL\nTMPDIR\nUSER\nnpm_config_audit\nnpm_config_fund\n\
         npm_config_update_notifier\nuser\n{}\n",
        home.display()
    );
    assert_eq!(ended.output, expected, "{}", ended.complaints);
}

fn a_home_is_kept_and_a_strict_one_forgets() {
    let (_kept, home) = home();
    let script = "cat $HOME/note 2>/dev/null; echo $0 >> $HOME/note";
    for (profile, seen, kept) in [
        (Profile::Contained, "", "sh\n"),
        (Profile::Strict, "sh\n", "sh\n"),
        (Profile::Offline, "sh\n", "sh\nsh\n"),
    ] {
        let ended = run(&shell(profile, &home, script).jail());
        assert_eq!(ended.output, seen, "{profile} {}", ended.complaints);
        assert_eq!(
            std::fs::read_to_string(home.join("note")).unwrap(),
            kept,
            "{profile}"
        );
    }
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(home.join("note")).unwrap());
    assert_eq!(
        owner,
        rustix::process::geteuid().as_raw(),
        "what a jail writes belongs to the gate's user"
    );
}

fn grants_are_what_they_say() {
    let (kept, home) = home();
    let user = kept.path().canonicalize().unwrap();
    for file in ["read/file", "write/file", "mixed/.ssh/key", "mixed/file"] {
        let file = user.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "text\n").unwrap();
    }
    let mut server = shell(
        Profile::Contained,
        &home,
        "cd $ROOT; cat read/file; echo x >> read/file || echo read-only; echo more >> write/file; cat mixed/file; \
         cat mixed/.ssh/key || echo covered; mv mixed/.ssh mixed/x || echo fixed; ls $ROOT",
    );
    server.env = vec![("ROOT".into(), user.clone().into())];
    server.grants = granted(
        &[
            (&user.join("read"), Origin::Read),
            (&user.join("write"), Origin::Argument),
            (&user.join("mixed"), Origin::Read),
        ],
        &user.join("mixed"),
    );
    assert!(server.grants.troubles.is_empty(), "{:?}", server.grants);
    let ended = run(&server.jail());
    assert_eq!(
        ended.output, "text\nread-only\ntext\ncovered\nfixed\nhome\nmixed\nread\nwrite\n",
        "{}",
        ended.complaints
    );
    assert_eq!(
        std::fs::read_to_string(user.join("write/file")).unwrap(),
        "text\nmore\n"
    );
}

/// The server's own home lies in the gate's, which is covered, in the user's, which is granted.
fn a_granted_home_shows_neither_the_gate_nor_other_jails() {
    let kept = tempfile::tempdir().unwrap();
    let user = kept.path().canonicalize().unwrap();
    let gate = user.join(".local/state/gate");
    let own = gate.join("jails/own/home");
    Server::make_home(&own).unwrap();
    for file in [
        "letter",
        ".local/state/gate/vault",
        ".local/state/gate/jails/other/home/code",
    ] {
        let file = user.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "text\n").unwrap();
    }
    for profile in Profile::ALL {
        let mut server = shell(
            profile,
            &own,
            "cat $USERS/letter; ls $GATE 2>/dev/null || echo covered; cat $GATE/vault 2>/dev/null || echo no vault; ls $GATE/jails; \
             touch $GATE/jails/x 2>/dev/null || echo sealed; echo mine > $HOME/note && cat $HOME/note",
        );
        server.env = vec![
            ("USERS".into(), user.clone().into()),
            ("GATE".into(), gate.clone().into()),
        ];
        let protected = Protected::new(Some(&user), std::slice::from_ref(&gate));
        server.grants = Grants::weigh([(user.clone(), Origin::Read)], &protected, &[]);
        let ended = run(&server.jail());
        assert_eq!(
            ended.output, "text\ncovered\nno vault\nown\nsealed\nmine\n",
            "{profile} {}",
            ended.complaints
        );
    }
}

/// Files that a jail makes for itself are never written through what it is shown of the host.
fn the_host_is_as_it_was_whatever_is_granted() {
    let (kept, home) = home();
    let host = kept.path().canonicalize().unwrap().join("etc");
    std::fs::create_dir_all(&host).unwrap();
    std::fs::write(host.join("passwd"), "of the host\n").unwrap();
    let mut jail = shell(
        Profile::Contained,
        &home,
        "cut -d: -f1 /etc/passwd; cat /etc/group 2>/dev/null; ls /etc",
    )
    .jail();
    jail.view.retain(|mount| {
        !mount.target.starts_with("/etc") || matches!(mount.what, What::File { .. })
    });
    jail.view.push(Mount::new(
        "/etc",
        What::Bind {
            source: host.clone(),
            access: Access::Writable,
            optional: false,
            owned: true,
        },
    ));
    let ended = run(&jail);
    assert_eq!(ended.output, "user\npasswd\n", "{}", ended.complaints);
    let passwd = std::fs::read_to_string(host.join("passwd")).unwrap();
    assert_eq!(passwd, "of the host\n");
    assert_eq!(std::fs::read_dir(&host).unwrap().count(), 1);
    // A place that is to be seen in the host's directory and is not there is not made there.
    jail.view.push(Mount::new(
        "/etc/made/here",
        What::File { text: "x".into() },
    ));
    let refused = jail.start(&jailer()).unwrap_err().to_string();
    assert!(refused.contains("not made on the host"), "{refused}");
    assert_eq!(std::fs::read_dir(&host).unwrap().count(), 1);
}

/// A prisoner that has this much memory which others could share.
pub(crate) fn share(bytes: usize) -> ExitCode {
    let region = sandbox::shared::Region::new(bytes).unwrap();
    let arena = sandbox::shared::Arena::over(&region).unwrap();
    let mut block = arena.block(bytes / 2).unwrap();
    while block.push(&[1; 4096]) {}
    std::thread::sleep(Duration::from_secs(2));
    println!("survived");
    ExitCode::SUCCESS
}

fn shared_memory_counts_to_the_limit_once() {
    let (_kept, home) = home();
    let program = this_binary();
    for (shared, most, survives) in [(400 << 20, 120 << 20, false), (40 << 20, 120 << 20, true)] {
        let mut server = server(Profile::Contained, &home, program.to_str().unwrap(), &[]);
        server.args = vec!["role:share".into(), (shared as usize).to_string().into()];
        server.memory = Some(most);
        let ended = run(&server.jail());
        assert_eq!(
            ended.output.contains("survived"),
            survives,
            "{} {}",
            ended.output,
            ended.complaints
        );
    }
}

fn daemons_end_with_their_jail() {
    let (_kept, home) = home();
    let script = "for n in 1 2 3; do (setsid sleep 3600 >/dev/null 2>&1 &); done; trap '' TERM; echo ready; read line; sleep 3600";
    let jailed = shell(Profile::Contained, &home, script)
        .jail()
        .start(&jailer())
        .unwrap();
    let mut line = String::new();
    BufReader::new(std::fs::File::from(jailed.spawned.stdout))
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    let pid = jailed.spawned.child.pid();
    let inside = inspect::descendants_of(pid).unwrap();
    assert!(inside.len() >= 5, "{inside:?}");
    let before = Instant::now();
    jailed
        .spawned
        .child
        .terminate(Duration::from_millis(50))
        .unwrap();
    await_gone(&inside, Duration::from_millis(500));
    assert!(
        before.elapsed() < Duration::from_secs(1),
        "{:?}",
        before.elapsed()
    );
}

fn await_gone(pids: &[u32], patience: Duration) {
    let deadline = Instant::now() + patience;
    while pids
        .iter()
        .any(|&pid| inspect::exists(pid) && !inspect::is_zombie(pid))
    {
        assert!(Instant::now() < deadline, "something outlived its jail");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A gate in a process of its own, killed the hard way with a jail running.
fn a_jail_that_is_killed_leaves_nothing() {
    let (_kept, home) = home();
    let mut gate = Command::new(this_binary())
        .args(["role:gate", home.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(gate.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let mut inside = inspect::descendants_of(gate.id()).unwrap();
    inside.retain(|&pid| pid != gate.id());
    assert!(inside.len() >= 4, "{inside:?}");
    gate.kill().unwrap();
    gate.wait().unwrap();
    await_gone(&inside, Duration::from_secs(5));
}

pub(crate) fn play_gate(home: &str) -> ExitCode {
    let script = "(setsid sleep 3600 >/dev/null 2>&1 &); echo ready; trap '' TERM HUP; sleep 3600; sleep 3600";
    let jailed = shell(Profile::Contained, home.as_ref(), script)
        .jail()
        .start(&jailer())
        .unwrap();
    let mut line = String::new();
    BufReader::new(std::fs::File::from(jailed.spawned.stdout))
        .read_line(&mut line)
        .unwrap();
    print!("{line}");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    ExitCode::SUCCESS
}

fn limits_hold() {
    let (_kept, home) = home();
    // Processes: as many as allowed, no more, and the jail still ends.
    let mut jail = shell(
        Profile::Strict,
        &home,
        "n=0; while [ $n -lt 400 ]; do sleep 60 & n=$((n+1)); done; echo all",
    )
    .jail();
    jail.limits.processes = 64;
    let ended = run(&jail);
    assert!(!ended.output.contains("all"), "{}", ended.output);
    // Memory of many processes together: each is below the limit.
    let eat = "head -c 60000000 /dev/zero | tail -c 60000000 | sleep 5";
    // Orphans that end all the time keep nobody from adding it up.
    for beside in ["", "(while :; do (true &); done) &"] {
        let mut server = shell(
            Profile::Contained,
            &home,
            &format!("{beside} ({eat}) & ({eat}) & ({eat}) & sleep 6; echo survived"),
        );
        server.memory = Some(100 << 20);
        let before = Instant::now();
        let ended = run(&server.jail());
        assert!(!ended.output.contains("survived"), "{}", ended.output);
        assert!(before.elapsed() < Duration::from_secs(10));
    }
    // What is in memory is bounded too.
    let ended = run(&shell(
        Profile::Contained,
        &home,
        "head -c 400000000 /dev/zero > /tmp/x || echo full",
    )
    .jail());
    assert_eq!(ended.output, "full\n");
}

/// Two that want a core each have a quarter of one together, and what was stopped goes on and ends as ever.
fn a_share_of_the_processor_holds() {
    let (_kept, home) = home();
    let script = "(while :; do :; done) & a=$!; (while :; do :; done) & b=$!; sleep 4; kill -9 $a $b; wait $a $b; times; exit 5";
    let mut server = shell(Profile::Contained, &home, script);
    server.millicores = Some(250);
    let begun = Instant::now();
    let ended = run(&server.jail());
    let took = begun.elapsed().as_secs_f64();
    assert_eq!(ended.status.code(), Some(5), "{}", ended.output);
    // The shell's own times, then those of what it waited for.
    let times = ended.output.lines().nth(1).unwrap();
    let used: f64 = times
        .split_ascii_whitespace()
        .map(|time| {
            let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
            minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
        })
        .sum();
    assert!(used > 0.2, "they run: {times}");
    assert!(used < took / 4.0 + 1.0, "{used} seconds in {took}");
    // A limit of the processor does not keep anybody from ending a jail.
    let mut server = shell(Profile::Contained, &home, "while :; do :; done");
    server.millicores = Some(1);
    let jailed = server.jail().start(&jailer()).unwrap();
    let is_stopped = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(") T ")
    };
    let outer = jailed.spawned.child.pid();
    while !inspect::descendants_of(outer)
        .unwrap()
        .iter()
        .any(is_stopped)
    {
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "it is never stopped"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let begun = Instant::now();
    let _ = jailed
        .spawned
        .child
        .terminate(Duration::from_secs(20))
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15), "it hears TERM");
}

fn a_program_that_cannot_be_executed_is_explained() {
    let (_kept, home) = home();
    let mut jail = shell(Profile::Contained, &home, "true").jail();
    jail.program = "no-such-program".into();
    let error = jail.start(&jailer()).unwrap_err().to_string();
    assert!(
        error.starts_with("command `no-such-program` was not found on the PATH"),
        "{error}"
    );
    jail.program = "sh".into();
    jail.directory = "/no/such/directory".into();
    let error = jail.start(&jailer()).unwrap_err();
    assert!(matches!(error, SpawnError::Directory { .. }), "{error}");
    assert!(error.to_string().contains("/no/such/directory"), "{error}");
    // What lies on the host and not in the jail is as if it were nowhere.
    jail.directory = "/".into();
    for (program, text) in [
        (this_binary(), "does not exist"),
        (home.join("script"), "the interpreter"),
        (home.join("text"), "executes"),
    ] {
        use std::os::unix::fs::PermissionsExt;
        if program.starts_with(&home) {
            let text = if text == "executes" {
                "neither"
            } else {
                "#!/no/such/interpreter\n"
            };
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        }
        jail.program = program.into();
        let error = jail.start(&jailer()).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

fn many_starts_and_kills_leave_nothing() {
    let (_kept, home) = home();
    let mounts = || {
        std::fs::read_to_string("/proc/self/mountinfo")
            .unwrap()
            .lines()
            .count()
    };
    let before = (
        mounts(),
        inspect::descendants_of(std::process::id()).unwrap().len(),
    );
    let mut times = Vec::new();
    let cycles = std::env::var("JAIL_CYCLES").map_or(100, |text| text.parse().unwrap());
    for round in 0..cycles {
        let jail = shell(Profile::Contained, &home, "sleep 60 & sleep 60").jail();
        let begun = Instant::now();
        let jailed = jail.start(&jailer()).unwrap();
        times.push(begun.elapsed());
        if round % 2 == 0 {
            drop(jailed);
        } else {
            jailed.spawned.child.kill().unwrap();
        }
    }
    times.sort();
    println!(
        "start: median {:?}, slowest {:?}",
        times[times.len() / 2],
        times.last()
    );
    sandbox::reap_orphans();
    let after = (
        mounts(),
        inspect::descendants_of(std::process::id()).unwrap().len(),
    );
    assert_eq!(before, after);
}

fn the_probe_finds_a_rung() {
    let probe = probe(&jailer(), &["role:idle"]);
    assert_eq!(probe.rung(), Some(Rung::Namespaces), "{probe:?}");
    assert_eq!(probe.repair(), None);
    assert!(
        probe.tried[0].1.as_ref().unwrap().is_complete(),
        "{probe:?}"
    );
    let (_kept, home) = home();
    let ended = end(shell(Profile::Contained, &home, "echo up")
        .jail()
        .start(&jailer())
        .unwrap());
    assert_eq!(ended.output, "up\n");
}
