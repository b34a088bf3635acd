//! The processes of this machine, as Linux shows them in `/proc`.

use nomad_csi_client::ports::{ProcessIdentity, ProcessState, ProcessTable};

/// The processes of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemProcesses;

#[cfg(target_os = "linux")]
impl ProcessTable for SystemProcesses {
    fn own(&self) -> Option<ProcessIdentity> {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        Some(ProcessIdentity {
            boot_id: boot_id.trim().to_owned(),
            pid_namespace: namespace.to_string_lossy().into_owned(),
            start_time: start_time(&stat)?,
        })
    }

    /// `/proc` may hide the processes of other users, so only the kernel's answer to a signal shows that
    /// there is none.
    fn state(&self, process_id: u32) -> ProcessState {
        use rustix::process::{Pid, test_kill_process};
        let raw = i32::try_from(process_id).ok();
        let Some(pid) = raw.and_then(Pid::from_raw) else {
            return ProcessState::Unknown;
        };
        if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
            return ProcessState::Absent;
        }
        let stat = std::fs::read_to_string(format!("/proc/{process_id}/stat"));
        match stat.ok().as_deref().and_then(start_time) {
            Some(start_time) => ProcessState::Running(start_time),
            None => ProcessState::Unknown,
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl ProcessTable for SystemProcesses {
    fn own(&self) -> Option<ProcessIdentity> {
        None
    }

    fn state(&self, _: u32) -> ProcessState {
        ProcessState::Unknown
    }
}

/// Returns field 22 of `/proc/PID/stat`. The second field is the program's name in parentheses, which may
/// contain spaces and parentheses.
#[cfg(target_os = "linux")]
fn start_time(stat: &str) -> Option<u64> {
    let (_, from_third) = stat.rsplit_once(')')?;
    from_third.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_until_it_has_ended() {
        let own = SystemProcesses.own().unwrap();
        let found = SystemProcesses.state(std::process::id());
        assert_eq!(found, ProcessState::Running(own.start_time));
        assert!(own.start_time > 0 && own.boot_id.len() == 36);
        assert!(own.pid_namespace.starts_with("pid:["));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let running = SystemProcesses.state(ended.id());
        assert!(matches!(running, ProcessState::Running(_)), "{running:?}");
        ended.wait().unwrap();
        assert_eq!(SystemProcesses.state(ended.id()), ProcessState::Absent);
        assert_eq!(SystemProcesses.state(0), ProcessState::Unknown);
    }

    #[test]
    fn the_start_time_is_read_after_any_program_name() {
        let fields: Vec<String> = (3..30).map(|number| number.to_string()).collect();
        for name in ["sh", "a b", "a) R (b"] {
            let stat = format!("1 ({name}) {}", fields.join(" "));
            assert_eq!(start_time(&stat), Some(22), "{name}");
        }
        assert_eq!(start_time("1 (sh) S 2"), None);
    }
}
