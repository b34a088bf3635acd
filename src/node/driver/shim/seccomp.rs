//! The system calls of a task in a root of its own.
//!
//! A task may use the calls that Docker leaves a container. Every other one fails, also one that a later kernel adds.
//! Three need more than their number:
//!
//! - `ioctl` without the requests of loop devices. They need no capability: a task that detaches the device of its
//!   volume would have the next one that gets this number.
//! - `clone` without new namespaces. `clone3` has its flags in memory, where a filter cannot look, so it is reported as
//!   missing, and programs use `clone`.
//! - `prlimit64` of the calling process. To lower the limits of another one it is enough to have its user: root in a task
//!   would take from the supervisor what it needs to record the end of the run, which would then never end.
//!
//! The kernel ends a program of another architecture, such as a 32-bit one: its numbers mean other calls.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::system_calls::{ALLOWED, OF_ARCHITECTURE};

/// The requests of loop devices and of their control device are below these, and those of no other device.
const LOOP_REQUESTS: (u64, u64) = (0x4C00, 0x4CFF);
/// The flags of new namespaces: cgroup, UTS, IPC, user, PID, network and mounts.
const NAMESPACES: u64 = 0x7E02_0000;
/// The family of sockets to the hypervisor.
const AF_VSOCK: u64 = 40;
/// The execution domains of Linux programs, and the question for the present one.
const PERSONALITIES: [u64; 5] = [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// Restricts this process and every program that it executes.
///
/// # Errors
/// If the kernel has no filters, or the program was built for another architecture.
pub(super) fn restrict_system_calls() -> io::Result<()> {
    for filter in [missing_calls(), allowed_calls()] {
        let program = filter.and_then(BpfProgram::try_from).map_err(io::Error::other)?;
        seccompiler::apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

type Filter = Result<SeccompFilter, seccompiler::BackendError>;

fn allowed_calls() -> Filter {
    let all = ALLOWED.iter().chain(OF_ARCHITECTURE);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = all.map(|call| (*call, vec![])).collect();
    let (first, last) = LOOP_REQUESTS;
    rules.insert(
        libc::SYS_ioctl,
        vec![rule(1, SeccompCmpOp::Lt, first)?, rule(1, SeccompCmpOp::Gt, last)?],
    );
    let no_namespace = rule(0, SeccompCmpOp::MaskedEq(NAMESPACES), 0)?;
    rules.insert(libc::SYS_clone, vec![no_namespace]);
    rules.insert(libc::SYS_prlimit64, vec![rule(0, SeccompCmpOp::Eq, 0)?]);
    rules.insert(libc::SYS_socket, vec![rule(0, SeccompCmpOp::Ne, AF_VSOCK)?]);
    let personalities = PERSONALITIES.iter();
    let personalities = personalities.map(|domain| rule(0, SeccompCmpOp::Eq, *domain));
    rules.insert(libc::SYS_personality, personalities.collect::<Result<_, _>>()?);
    // EPERM, as programs expect it in a container.
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture()?)
}

fn missing_calls() -> Filter {
    let rules = [(libc::SYS_clone3, vec![])].into();
    let missing = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, missing, architecture()?)
}

/// Returns a rule for the lower half of an argument: the kernel reads no more of these.
fn rule(
    argument: u8,
    operation: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    let length = SeccompCmpArgLen::Dword;
    SeccompRule::new(vec![SeccompCondition::new(argument, length, operation, value)?])
}

fn architecture() -> Result<TargetArch, seccompiler::BackendError> {
    let name = if cfg!(target_arch = "x86_64") {
        "x86_64"
    } else if cfg!(target_arch = "aarch64") {
        "aarch64"
    } else if cfg!(target_arch = "riscv64") {
        "riscv64"
    } else {
        "unknown"
    };
    TargetArch::try_from(name)
}
