//! Decides if the lock of a set is taken over, because the process that holds it has ended.
//!
//! Only a process of this machine can be looked for: one of the same boot, in the same PID namespace. A
//! process with its ID that started at another time is not the holder. A holder that cannot be looked for
//! may run, so its lock is waited for.

use crate::ports::{LockHolder, ProcessState, ProcessTable};

/// Returns whether the holder of a lock has certainly ended.
pub(super) fn has_ended(holder: &LockHolder, processes: &dyn ProcessTable) -> bool {
    let (Some(theirs), Some(own)) = (&holder.process, processes.own()) else {
        return false;
    };
    if theirs.boot_id != own.boot_id || theirs.pid_namespace != own.pid_namespace {
        return false;
    }
    match processes.state(holder.by.process) {
        ProcessState::Absent => true,
        ProcessState::Running(start_time) => start_time != theirs.start_time,
        ProcessState::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::ProcessIdentity;
    use nomad_csi_plan::Actor;

    struct Machine(Option<ProcessIdentity>, ProcessState);

    impl ProcessTable for Machine {
        fn own(&self) -> Option<ProcessIdentity> {
            self.0.clone()
        }

        fn state(&self, process_id: u32) -> ProcessState {
            assert_eq!(process_id, 4711);
            self.1
        }
    }

    fn identity(boot_id: &str, pid_namespace: &str) -> Option<ProcessIdentity> {
        Some(ProcessIdentity {
            boot_id: boot_id.into(),
            pid_namespace: pid_namespace.into(),
            start_time: 7,
        })
    }

    #[test]
    fn only_a_process_of_this_machine_that_has_ended_loses_its_lock() {
        use ProcessState::{Absent, Running, Unknown};
        let holder = |process| LockHolder {
            by: Actor {
                user: "ada".into(),
                host: "build-7".into(),
                process: 4711,
                command: "apply".into(),
            },
            since: 0,
            process,
        };
        for (recorded, own, state, expected) in [
            (identity("a", "1"), identity("a", "1"), Absent, true),
            (identity("a", "1"), identity("a", "1"), Running(8), true),
            (identity("a", "1"), identity("a", "1"), Running(7), false),
            (identity("a", "1"), identity("a", "1"), Unknown, false),
            (identity("b", "1"), identity("a", "1"), Absent, false),
            (identity("a", "2"), identity("a", "1"), Absent, false),
            (None, identity("a", "1"), Absent, false),
            (identity("a", "1"), None, Absent, false),
        ] {
            let machine = Machine(own.clone(), state);
            let ended = has_ended(&holder(recorded.clone()), &machine);
            assert_eq!(ended, expected, "{recorded:?} {own:?} {state:?}");
        }
    }
}
