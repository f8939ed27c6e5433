//! The filter over system calls for programs that are not ours: a list of what they have no use for.
//!
//! The worker's filter allows a list; this one refuses a list, because nobody knows what a stranger's program needs. What is on it either
//! reaches other processes, builds or leaves walls, or is a large piece of kernel that attacks start from. Refused calls answer `EPERM`,
//! `clone3` and `openat2` answer `ENOSYS`, because their flags are out of a filter's sight. Calls by the numbers of another architecture kill.
//!
//! **Invariant: nothing in a jail makes a program that runs as its owner.** A set-user-ID file in a granted directory would be one, for every
//! other user of the machine. Test `every_escape_is_refused_in_every_profile`.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::spec::{Jail, Network, Rung};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Failed = seccompiler::BackendError;

/// Refused whatever the arguments, in every jail.
const REFUSED: &[i64] = &[
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_personality,
    libc::SYS_fanotify_init,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// Building and leaving walls. A program that builds its own, as browsers do, may be let to.
const WALLS: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
];

/// The same numbers on every architecture; newer than the names that `libc` has on all of them.
const OPEN_TREE_ATTR: i64 = 467;
const FCHMODAT2: i64 = 452;

/// What sets the mode of a file, and which argument that is.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
];

/// What opens a file with a mode if its flags, in the argument before, say that it is made.
const MODES_IF_MADE: &[(i64, u8)] = &[
    (libc::SYS_openat, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
];

/// The bits of a mode that let a program run as its owner or group.
const RAISING: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];
/// The flags of `open` by which a file is made, the second without a name.
const MAKING: [u64; 2] = [
    libc::O_CREAT as u64,
    (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64,
];

/// Their arguments lie in memory, which a filter cannot read. Programs fall back to the older call.
const UNSEEN: [i64; 2] = [libc::SYS_clone3, libc::SYS_openat2];

/// The flags of `clone` that make a namespace.
const NAMESPACE_FLAGS: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// What changes the limits and the share of time of another process, by the number in its first argument.
const OF_OTHERS: &[i64] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
];

/// Memory, messages and locks that all processes of a user share by number; a namespace keeps them apart where there is one.
const SHARED_BY_NUMBER: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_semget,
];

/// Locks the calling process, and what it starts, to this filter.
pub(super) fn lock_calls(jail: &Jail) -> Result<String, String> {
    let said = |error: Failed| error.to_string();
    let unseen = Rules::from(UNSEEN.map(|number| (number, Vec::new())));
    let mut programs = vec![compile(unseen, libc::ENOSYS).map_err(said)?];
    let rules = rules(jail).map_err(said)?;
    let count = rules.len();
    programs.push(compile(rules, libc::EPERM).map_err(said)?);
    #[cfg(target_arch = "x86_64")]
    programs.push(kill_x32());
    for program in &programs {
        seccompiler::apply_filter(program).map_err(|error| error.to_string())?;
    }
    Ok(format!("{count} system calls refused"))
}

fn compile(rules: Rules, errno: i32) -> Result<BpfProgram, Failed> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.unsigned_abs()),
        arch,
    )?
    .try_into()
}

fn rules(jail: &Jail) -> Result<Rules, Failed> {
    let mut rules = Rules::new();
    let mut refuse = |number: i64| rules.insert(number, Vec::new());
    for &number in REFUSED {
        refuse(number);
    }
    if !jail.calls.namespaces {
        for &number in WALLS {
            refuse(number);
        }
    }
    if !jail.calls.tracing {
        refuse(libc::SYS_ptrace);
    }
    if !jail.calls.namespaces {
        let flags = NAMESPACE_FLAGS
            .iter()
            .map(|flag| {
                let bit = u64::from(flag.unsigned_abs());
                all(&[(0, SeccompCmpOp::MaskedEq(bit), bit)])
            })
            .collect::<Result<_, _>>()?;
        rules.insert(libc::SYS_clone, flags);
    }
    rules.insert(
        libc::SYS_ioctl,
        vec![
            all(&[(1, SeccompCmpOp::Eq, TYPE_INTO_TERMINAL)])?,
            all(&[(1, SeccompCmpOp::Eq, CONSOLE)])?,
        ],
    );
    rules.insert(libc::SYS_socket, other_families(jail)?);
    for &(number, mode) in MODES {
        let bits = RAISING.map(|bit| all(&[(mode, SeccompCmpOp::MaskedEq(bit), bit)]));
        rules.insert(number, bits.into_iter().collect::<Result<_, _>>()?);
    }
    for &(number, mode) in MODES_IF_MADE {
        let mut made = Vec::new();
        for bit in RAISING {
            for flag in MAKING {
                made.push(all(&[
                    (mode - 1, SeccompCmpOp::MaskedEq(flag), flag),
                    (mode, SeccompCmpOp::MaskedEq(bit), bit),
                ])?);
            }
        }
        rules.insert(number, made);
    }
    if jail.rung == Rung::Reduced {
        for &number in SHARED_BY_NUMBER {
            rules.insert(number, Vec::new());
        }
        for &number in OF_OTHERS {
            rules.insert(number, vec![all(&[(0, SeccompCmpOp::Ne, 0)])?]);
        }
        rules.insert(
            libc::SYS_setpriority,
            vec![
                all(&[(0, SeccompCmpOp::Ne, 0)])?,
                all(&[(1, SeccompCmpOp::Ne, 0)])?,
            ],
        );
    }
    Ok(rules)
}

const TYPE_INTO_TERMINAL: u64 = 0x5412;
const CONSOLE: u64 = 0x541C;

/// Every family of sockets but those that programs have a use for. No rule at all refuses every family.
fn other_families(jail: &Jail) -> Result<Vec<SeccompRule>, Failed> {
    // Without namespaces there is no network of its own: without the host's there is none.
    if jail.rung == Rung::Reduced && jail.network == Network::Own {
        return Ok(Vec::new());
    }
    let mut families = vec![libc::AF_INET, libc::AF_INET6];
    // In the reduced jail nothing else keeps named sockets of the host out of reach.
    if !jail.calls.fewer_sockets && jail.rung == Rung::Namespaces {
        families.push(libc::AF_UNIX);
    }
    if !jail.calls.fewer_sockets {
        families.push(libc::AF_NETLINK);
    }
    let tests: Vec<_> = families
        .iter()
        .map(|family| (0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())))
        .collect();
    Ok(vec![all(&tests)?])
}

/// A rule that holds if all tests do; every argument it looks at has 32 bits.
fn all(tests: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, Failed> {
    SeccompRule::new(
        tests
            .iter()
            .map(|(argument, operator, value)| {
                SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
            })
            .collect::<Result<_, _>>()?,
    )
}

/// The same architecture has a second set of numbers, from this bit on, which the list above does not name.
#[cfg(target_arch = "x86_64")]
fn kill_x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let instruction = |code, jt, jf, k| seccompiler::sock_filter { code, jt, jf, k };
    vec![
        // Load the number of the call; if it is that large, kill, else allow.
        instruction(0x20, 0, 0, 0),
        instruction(0x35, 0, 1, X32_BIT),
        instruction(0x06, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
