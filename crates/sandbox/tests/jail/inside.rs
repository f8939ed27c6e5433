//! The roles: what the process under test does.

use std::io::{BufRead, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use sandbox::escape::{Aims, probe_escape};
use sandbox::handover::Receiver;
use sandbox::jail::{STEPS, Spec, enter};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::outside::{self, first_line, start};

pub(crate) fn play(role: &str, aims: &[&str]) -> ExitCode {
    match (role, aims) {
        ("role:escape", [ledger, directory, socket]) => {
            println!("{}", enter(&Spec::new("probe-worker")));
            try_to_escape(ledger, directory, socket);
        }
        ("role:unconfined", [ledger, directory, socket]) => {
            try_to_escape(ledger, directory, socket)
        }
        ("role:works", [tcp, udp]) => {
            let report = enter(&Spec::new("probe-worker"));
            assert!(report.is_complete(), "{report}");
            what_must_work(tcp, udp);
        }
        ("role:runtime", [tcp]) => {
            let report = enter(&Spec::new("probe-worker"));
            assert!(report.is_complete(), "{report}");
            a_runtime_must_work(tcp);
        }
        ("role:without", [step, aims @ ..]) => {
            for measure in STEPS
                .iter()
                .filter(|other| other.name != *step)
                .map(|other| other.take(&Spec::new("probe")))
            {
                assert!(measure.is_applied(), "{measure}");
            }
            let [ledger, directory, socket] = aims else {
                panic!("three aims: {aims:?}")
            };
            try_to_escape(ledger, directory, socket);
        }
        ("role:abort", []) => {
            let _ = enter(&Spec::new("probe-worker"));
            std::process::abort();
        }
        ("role:threads", []) => {
            let idle = std::thread::spawn(std::thread::park);
            println!("{}", enter(&Spec::new("probe-worker")));
            idle.thread().unpark();
        }
        ("role:wait", []) => {
            let _ = enter(&Spec::new("probe-worker"));
            println!("ready");
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        ("role:linger", []) => {
            let _ = enter(&Spec::new("probe-worker"));
            println!("ready");
            std::thread::sleep(Duration::from_secs(300));
        }
        ("role:gate-of-worker", []) => {
            let worker = start("role:linger").spawn().unwrap();
            assert_eq!(first_line(&mut std::fs::File::from(worker.stdout)), "ready");
            println!("{}", worker.child.pid());
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        ("role:gate", [program, arguments @ ..]) => {
            let server = sandbox::Command::new(program)
                .args(arguments)
                .path("/usr/bin:/bin")
                .spawn()
                .unwrap();
            println!("{}", server.child.pid());
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        ("role:hide", []) => a_gate_must_work_with_its_memory_hidden(),
        ("role:user", []) => {
            outside::every_escape_is_refused();
            outside::a_gate_can_hide_its_memory();
        }
        _ => panic!("no such role: {role} {aims:?}"),
    }
    ExitCode::SUCCESS
}

/// The table of the library, then the same through the standard library, as real code would do it.
fn try_to_escape(ledger: &str, directory: &str, socket: &str) {
    let aims = Aims {
        parent: std::os::unix::process::parent_id(),
        ledger: ledger.into(),
        directory: directory.into(),
        socket: socket.into(),
    };
    for finding in probe_escape(&aims) {
        println!(
            "{} {finding}",
            if finding.held() { "held" } else { "BROKEN" }
        );
    }
    let by_name: [(&str, std::io::Result<()>); 6] = [
        ("std: read the ledger", std::fs::read(ledger).map(drop)),
        (
            "std: write a file",
            std::fs::write(format!("{directory}/new"), "x"),
        ),
        (
            "std: list a directory",
            std::fs::read_dir(directory).map(drop),
        ),
        (
            "std: connect a unix socket",
            std::os::unix::net::UnixStream::connect(socket).map(drop),
        ),
        (
            "std: run a program",
            Command::new("/bin/true").status().map(drop),
        ),
        (
            "std: listen",
            std::net::TcpListener::bind("127.0.0.1:0").map(drop),
        ),
    ];
    for (name, outcome) in by_name {
        match outcome {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                println!("held {name}: {error}")
            }
            other => println!("BROKEN {name}: {other:?}"),
        }
    }
    std::io::stdout().flush().unwrap();
    // Last, because outside of a jail it succeeds and this program is gone.
    let error = Command::new("/bin/true").exec();
    println!("held std: become a program: {error}");
}

/// What a worker does all day.
fn what_must_work(tcp: &str, udp: &str) {
    let mut stream = TcpStream::connect(tcp).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    stream.write_all(b"hello").unwrap();
    let mut reply = [0; 5];
    stream.read_exact(&mut reply).unwrap();
    println!("tcp {}", String::from_utf8_lossy(&reply));

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.send_to(b"question", udp).unwrap();
    println!(
        "udp sent from a port of its own: {}",
        socket.local_addr().unwrap().port() > 0
    );

    let threads: Vec<_> = (0..8)
        .map(|n| {
            std::thread::Builder::new()
                .name(format!("thread-{n}"))
                .spawn(move || vec![n; 1 << 20].len())
                .unwrap()
        })
        .collect();
    println!(
        "threads {}",
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum::<usize>()
    );

    let started = Instant::now();
    std::thread::sleep(Duration::from_millis(20));
    println!("timer {}", started.elapsed() >= Duration::from_millis(20));
    println!(
        "parallelism known {}",
        std::thread::available_parallelism().is_ok()
    );
    // Fresh hash seeds come from the kernel's random numbers.
    println!("random {}", std::collections::HashMap::from([(1, 2)]).len());

    let panicked = std::thread::spawn(|| panic!("a panic inside the jail")).join();
    println!("panic caught {}", panicked.is_err());

    let receiver = Receiver::inherited().unwrap();
    assert!(
        Receiver::inherited().is_err(),
        "the socket can be taken twice"
    );
    let packet = receiver.receive().unwrap().unwrap();
    let mut pipe = std::fs::File::from(packet.fds.into_iter().next().unwrap());
    let mut text = String::new();
    pipe.read_to_string(&mut text).unwrap();
    println!("handed over {} {text}", packet.tag);
    assert!(
        receiver.receive().unwrap().is_none(),
        "the sender is gone, so the next packet is the end"
    );

    let line = std::io::stdin().lock().lines().next();
    println!("stdin ended {}", line.is_none());
}

/// A runtime built inside the jail, on the pipes and the socket the worker has.
fn a_runtime_must_work(tcp: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let receiver = Receiver::inherited().unwrap();
    runtime.block_on(async {
        let mut stream = tokio::net::TcpStream::connect(tcp).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).await.unwrap();
        println!("tcp {}", String::from_utf8_lossy(&reply));

        let packet = tokio::task::spawn_blocking(move || receiver.receive())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let pipe = packet.fds.into_iter().next().unwrap();
        sandbox::set_nonblocking(&pipe).unwrap();
        let mut pipe = tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(pipe).unwrap();
        let mut text = String::new();
        pipe.read_to_string(&mut text).await.unwrap();
        println!("handed over {} {text}", packet.tag);

        tokio::time::sleep(Duration::from_millis(5)).await;
        let interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
        println!("signals {}", interrupt.is_ok());
        println!(
            "blocking {}",
            tokio::task::spawn_blocking(|| 7).await.unwrap()
        );
    });
}

/// A server that is not confined, run by the same user, tries to read the gate; the gate still finds what it started.
fn a_gate_must_work_with_its_memory_hidden() {
    sandbox::jail::hide_memory().unwrap();
    let me = std::process::id();
    let script = format!(
        "cat /proc/{me}/environ >/dev/null 2>&1; echo $?; (setsid sleep 300 >/dev/null 2>&1 &); exec cat"
    );
    let server = sandbox::Command::new("sh")
        .arg("-c")
        .arg(script)
        .path("/usr/bin:/bin")
        .spawn()
        .unwrap();
    let answer = first_line(&mut std::fs::File::from(server.stdout));
    println!("environment read by a server: exit code {answer}");
    server.child.kill().unwrap();
    println!(
        "left behind: {:?}",
        sandbox::inspect::descendants_of(me).unwrap()
    );
}
