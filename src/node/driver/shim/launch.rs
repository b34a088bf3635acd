//! `launch`: starts the shim as PID 1 of a new PID namespace, and ends.
//!
//! The agent is not the parent of the shim, so an agent that started a task and one that found it are equal. The
//! agent cannot do this itself: `unshare(NEWPID)` would apply to all its later children. Without root, a user
//! namespace comes first, in which the agent's user is root.

use std::io;
use std::process::Stdio;

use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

use super::action_error::about;
use super::role::Role;
use super::run_files::RunFiles;

/// Starts the shim of a run.
///
/// # Errors
/// If the kernel allows no such namespace, or the shim cannot be started.
pub(super) fn launch_shim(run: &RunFiles) -> io::Result<()> {
    enter_namespaces()?;
    // On a full disk the errors of the shim have no file; the agent still gets the first one.
    let log = run.open_shim_log().map_or_else(|_| Stdio::null(), Stdio::from);
    let shim = Role::Shim.command(run).stdin(Stdio::null()).stderr(log).spawn()?;
    // The shim outlives this process.
    drop(shim);
    Ok(())
}

fn enter_namespaces() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        return unshare(UnshareFlags::NEWPID)
            .map_err(|error| about("create a PID namespace, which needs CAP_SYS_ADMIN", &error));
    }
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWPID).map_err(|error| {
        about("create a user namespace; run the agent as root, or allow user namespaces", &error)
    })?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
    std::fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))
}

/// Moves this process, which has one thread, or its later children into new namespaces.
#[expect(
    deprecated,
    reason = "rustix warns about threads that share file descriptors; no flag used here unshares those"
)]
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    Ok(rustix::thread::unshare(flags)?)
}
