use std::collections::BTreeSet;

use super::*;

#[test]
fn the_document_lists_the_steps_in_the_order_of_the_code() {
    let document = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/understand/privsep.md"
    );
    let text = std::fs::read_to_string(document).unwrap();
    let documented: Vec<&str> = text
        .lines()
        .filter(|line| {
            line.chars()
                .next()
                .is_some_and(|first| first.is_ascii_digit())
        })
        .filter_map(|line| line.split("**").nth(1))
        .collect();
    let coded: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
    assert_eq!(documented, coded);
}

#[test]
fn every_row_has_a_reason_and_no_call_has_two_rows() {
    let mut seen = BTreeSet::new();
    for row in ALLOWED {
        assert!(row.why.len() > 10, "{} has no reason", row.name);
        assert!(seen.insert(row.number), "{} is listed twice", row.name);
    }
}

#[test]
fn what_must_never_be_allowed_is_not_in_the_table() {
    let never = [
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_bpf,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_userfaultfd,
        libc::SYS_perf_event_open,
        libc::SYS_kcmp,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_memfd_create,
        libc::SYS_seccomp,
        libc::SYS_pkey_mprotect,
        libc::SYS_statx,
    ];
    for number in never {
        assert!(
            !ALLOWED.iter().any(|row| row.number == number),
            "call {number} must not be allowed"
        );
    }
}

#[test]
fn the_table_compiles_to_a_filter_the_kernel_would_take() {
    const BPF_MAXINSNS: usize = 4096;
    let program = seccomp::allowed_calls(std::process::id(), true).unwrap();
    assert!(
        program.len() < BPF_MAXINSNS,
        "{} instructions",
        program.len()
    );
}

#[test]
fn without_a_network_there_is_no_socket() {
    let tried = |has_network| {
        let filter = seccomp::allowed_calls(std::process::id(), has_network).unwrap();
        let tried = std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            seccompiler::apply_filter(&filter).unwrap();
            std::net::UdpSocket::bind("127.0.0.1:0").map(drop)
        });
        tried.join().unwrap().map_err(|error| error.kind())
    };
    assert_eq!(tried(true), Ok(()));
    assert_eq!(tried(false), Err(std::io::ErrorKind::PermissionDenied));
}

#[test]
fn a_refused_measure_is_visible_in_the_report() {
    let report = Report::new(vec![
        Measure::new("one", Ok("fine".to_owned())),
        Measure::new("two", Err("kernel too old".to_owned())),
    ]);
    assert_eq!(
        report.to_string(),
        "one: applied (fine)\ntwo: REFUSED (kernel too old)"
    );
    assert!(!report.is_complete() && report.applied("one") && !report.applied("two"));
    assert_eq!(report.refused().count(), 1);
}

#[test]
fn the_probe_names_every_capability_once() {
    let capabilities = probe();
    let names: BTreeSet<&str> = capabilities
        .iter()
        .map(|capability| capability.name)
        .collect();
    assert_eq!(names.len(), capabilities.len());
    let passing = capabilities
        .iter()
        .find(|capability| capability.name == "descriptor passing")
        .unwrap();
    assert!(passing.available, "{}", passing.detail);
}
