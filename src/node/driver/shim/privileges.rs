//! Takes rights from a task in a root of its own.
//!
//! Root in the task keeps the capabilities that Docker leaves a container, except three: with CAP_MKNOD it could make a
//! node of any disk of the host and write to it, because no cgroup restricts its devices; with CAP_NET_RAW it could read
//! every secret that crosses the host's loopback, whose network it shares; with CAP_AUDIT_WRITE it could forge records of
//! the host. Without CAP_SYS_ADMIN it cannot undo the read-only mounts, and without CAP_SYS_PTRACE it cannot enter the
//! host through `/proc/1/root` of its shim.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::action_error::about;

/// The capabilities that a task may keep.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SETFCAP);

/// Returns whether this process may create namespaces without being root of one of its own.
pub fn may_create_namespaces() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Gives this process a session keyring of its own, which has none of the agent's keys. A kernel without keys has none
/// to share. A user that has used up its number of keys keeps the session, whose keys the filter of system calls keeps
/// from the task.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn join_session_keyring() -> io::Result<()> {
    match keyutils::Keyring::join_anonymous_session() {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.0, libc::ENOSYS | libc::EDQUOT) => Ok(()),
        Err(error) => {
            let error = io::Error::from_raw_os_error(error.0);
            Err(about("create a session keyring for the task", &error))
        }
    }
}

/// Takes all other capabilities from this process and from every program that it executes.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn drop_privileges() -> io::Result<()> {
    for capability in CapabilitySet::all().difference(KEPT).iter() {
        // The kernel may be older than the newest capability.
        if capability_is_in_bounding_set(capability).unwrap_or(false) {
            remove_capability_from_bounding_set(capability)?;
        }
    }
    let kept = KEPT.intersection(capabilities(None)?.permitted);
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)?;
    set_no_new_privs(true)?;
    Ok(())
}
