//! The kill signal and the user of a task: from names to numbers.

use rustix::process::Signal;

use crate::task_run::TaskUser;

/// Nomad's signal for a task that names none.
const DEFAULT: Signal = Signal::INT;

const SIGNALS: &[(&str, Signal)] = &[
    ("ABRT", Signal::ABORT),
    ("ALRM", Signal::ALARM),
    ("BUS", Signal::BUS),
    ("CHLD", Signal::CHILD),
    ("CONT", Signal::CONT),
    ("FPE", Signal::FPE),
    ("HUP", Signal::HUP),
    ("ILL", Signal::ILL),
    ("INT", Signal::INT),
    ("IO", Signal::IO),
    ("KILL", Signal::KILL),
    ("PIPE", Signal::PIPE),
    ("PROF", Signal::PROF),
    ("QUIT", Signal::QUIT),
    ("SEGV", Signal::SEGV),
    ("STOP", Signal::STOP),
    ("SYS", Signal::SYS),
    ("TERM", Signal::TERM),
    ("TRAP", Signal::TRAP),
    ("TSTP", Signal::TSTP),
    ("TTIN", Signal::TTIN),
    ("TTOU", Signal::TTOU),
    ("URG", Signal::URG),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("WINCH", Signal::WINCH),
    ("XCPU", Signal::XCPU),
    ("XFSZ", Signal::XFSZ),
];

/// Returns the number of a kill signal: `SIGTERM`, `TERM` or empty for the default, SIGINT.
///
/// # Errors
/// If there is no such signal.
pub(super) fn signal_number(name: &str) -> Result<i32, String> {
    if name.is_empty() {
        return Ok(DEFAULT.as_raw());
    }
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = SIGNALS.iter().find(|(known, _)| *known == short);
    found
        .map(|(_, signal)| signal.as_raw())
        .ok_or_else(|| format!("`{name}` is not a signal; use a name such as `SIGTERM`"))
}

/// Returns the user of a name or a number, as `passwd` (the content of `/etc/passwd`) has it.
///
/// # Errors
/// If `passwd` has no such user.
pub(super) fn find_user(passwd: &str, name: &str) -> Result<TaskUser, String> {
    let fields_of = |line: &str| {
        let mut fields = line.split(':');
        let found = fields.next()?;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        let is_found = found == name || name.parse() == Ok(uid);
        is_found.then_some(TaskUser { uid, gid })
    };
    let found = passwd.lines().find_map(fields_of);
    found.ok_or_else(|| format!("user `{name}` is not in `/etc/passwd` of this node"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_with_and_without_their_prefix() {
        for (name, expected) in
            [("", 2), ("SIGTERM", 15), ("term", 15), ("SIGINT", 2), ("SIGUSR1", 10), ("KILL", 9)]
        {
            assert_eq!(signal_number(name), Ok(expected), "{name}");
        }
        let unknown = "`SIGSOON` is not a signal; use a name such as `SIGTERM`";
        assert_eq!(signal_number("SIGSOON"), Err(unknown.to_owned()));
    }

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\n#broken\nweb:x:33:34::/:/bin/false\n";
        let web = Ok(TaskUser { uid: 33, gid: 34 });
        assert_eq!(find_user(passwd, "web"), web);
        assert_eq!(find_user(passwd, "33"), web);
        assert_eq!(find_user(passwd, "root"), Ok(TaskUser { uid: 0, gid: 0 }));
        let unknown = "user `db` is not in `/etc/passwd` of this node";
        assert_eq!(find_user(passwd, "db"), Err(unknown.to_owned()));
    }
}
