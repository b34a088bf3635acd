//! The number of processes in a PID namespace, where no control group limits it.
//!
//! Since Linux 6.14 each PID namespace has a `pid_max` of its own, and no process gets a number from there on. Before, the
//! same file is the machine's.

use std::io;

use super::plan::MAX_PROCESSES;

/// The numbers that a namespace gives only once.
const RESERVED: u64 = 300;
const FILE: &str = "/proc/sys/kernel/pid_max";

/// Returns whether each PID namespace of this kernel has a limit of its own.
pub(in crate::driver) fn process_numbers_are_own() -> bool {
    has_own_numbers(&rustix::system::uname().release().to_string_lossy())
}

fn has_own_numbers(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|it| it.parse::<u32>().ok());
    next().zip(next()).is_some_and(|version| version >= (6, 14))
}

/// Limits the number of processes in the PID namespace of this process. Must be called in one that is not the host's.
///
/// # Errors
/// If the kernel refuses.
pub(in crate::driver) fn limit_process_numbers() -> io::Result<()> {
    let limit = MAX_PROCESSES + RESERVED;
    std::fs::write(FILE, limit.to_string()).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot write `{limit}` to `{FILE}`: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kernel_whose_version_says_so_has_a_limit_in_each_namespace() {
        for release in ["6.14.0", "6.14-rc1", "6.18.5-cloud-amd64", "7.0.1", "10.1"] {
            assert!(has_own_numbers(release), "{release}");
        }
        for release in
            ["6.13.9", "6.1.0-56-cloud-amd64", "5.15.0", "4.4.0", "6", "", "x", "6.x", "-6.18"]
        {
            assert!(!has_own_numbers(release), "{release}");
        }
    }
}
