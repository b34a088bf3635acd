//! Shims that live, found as processes of the machine and not by files.
//!
//! Missing files do not say that nothing runs: a person may have removed them, or an earlier state of the data directory
//! came back from a backup. A shim names its run on its command line as long as it lives. So it is asked for whenever the
//! files of a run say nothing, and its state is written again: from then on it is waited for and stopped like any other.
//!
//! The path on a command line is one of the shim's mount namespace. The same path in another one can be the data
//! directory of another agent, so it is looked up where the shim is.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::super::process_id::{ProcessId, is_no_such_process};
use super::role::{COMMAND, Role};
use super::run_files::RunFiles;
use super::run_state::RunState;

/// A shim that lives.
#[derive(Debug)]
struct LivingShim {
    process: ProcessId,
    run: PathBuf,
}

/// Writes the state of every run below this directory again whose shim lives although its files do not say so. Returns
/// those whose request is missing: more than their state is lost. Blocks.
///
/// # Errors
/// If the processes of the machine cannot be seen, a state cannot be read or written, or the directory is a copy of one
/// whose tasks run.
pub(super) fn recover_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut without_request = vec![];
    let mut latest = None;
    for shim in living_shims()? {
        let Some(path) = shim.path_below(directory)? else {
            shim.check_not_copied_to(directory)?;
            continue;
        };
        // The one that was started first has the lock. Another one of the same run ends by itself.
        if latest.as_ref() == Some(&path) {
            continue;
        }
        let run = RunFiles::new(&path);
        if is_unknown(&run, &shim.process)? {
            run.recover(shim.process)?;
        }
        if !run.is_requested()? {
            without_request.push(path.clone());
        }
        latest = Some(path);
    }
    Ok(without_request)
}

/// Returns the shim of a run, if it lives. Blocks.
///
/// # Errors
/// If the processes of the machine cannot be seen.
pub(super) fn living_shim_of(run: &RunFiles) -> io::Result<Option<ProcessId>> {
    let mut ancestors = run.directory().ancestors();
    let existing = ancestors.find(|ancestor| ancestor.exists());
    let existing = existing.unwrap_or(Path::new("/"));
    for shim in living_shims()? {
        if shim.run == run.directory() && shim.path_below(existing)?.is_some() {
            return Ok(Some(shim.process));
        }
    }
    Ok(None)
}

/// Returns whether the files of a run name no shim that lives, and no end. One that was found and ends in the meantime is known. A file
/// that cannot be read is not missing: who waits for the run says so.
fn is_unknown(run: &RunFiles, found: &ProcessId) -> io::Result<bool> {
    match run.read_state() {
        Ok(None) => Ok(true),
        Ok(Some(state)) => match state.shim() {
            Some(shim) if shim == found => Ok(false),
            Some(shim) => Ok(shim.open()?.is_none()),
            None => Ok(false),
        },
        Err(error) => Ok(error.kind() == io::ErrorKind::InvalidData),
    }
}

/// Returns the shims of this user, sorted by their run, and the one that was started first before the others of it.
fn living_shims() -> io::Result<Vec<LivingShim>> {
    let own = rustix::process::geteuid().as_raw();
    let mut found = vec![];
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(pid) = pid else {
            continue;
        };
        if let Some(shim) = shim_at(pid, own)? {
            found.push(shim);
        }
    }
    found.sort_by(|one, other| {
        let key = |shim: &LivingShim| (shim.run.clone(), shim.process.start_time, shim.process.pid);
        key(one).cmp(&key(other))
    });
    Ok(found)
}

/// Returns the shim with this process ID, if it is one of this user.
fn shim_at(pid: i32, own: u32) -> io::Result<Option<LivingShim>> {
    let Some(status) = read_of_process(pid, "status")? else {
        return Ok(None);
    };
    if !is_shim_of(own, &String::from_utf8_lossy(&status)) {
        return Ok(None);
    }
    // The command line of a process that waits for its memory cannot be read in the meantime, so it comes second.
    let Some(line) = read_of_process(pid, "cmdline")? else {
        return Ok(None);
    };
    let Some(run) = run_in(&line) else {
        return Ok(None);
    };
    let process = ProcessId::current(pid)?;
    Ok(process.map(|process| LivingShim { process, run }))
}

/// Returns the run that a command line of a shim names.
fn run_in(line: &[u8]) -> Option<PathBuf> {
    let words: Vec<_> = line.strip_suffix(b"\0")?.split(|byte| *byte == 0).collect();
    match words.as_slice() {
        [_, command, role, run]
            if *command == COMMAND.as_bytes() && *role == Role::Shim.as_str().as_bytes() =>
        {
            Some(PathBuf::from(OsStr::from_bytes(run)))
        }
        _ => None,
    }
}

/// Returns whether a process with this `/proc/PID/status` belongs to this user and is PID 1 of a namespace, as a shim is. A process
/// of a task cannot be.
fn is_shim_of(own: u32, status: &str) -> bool {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
    };
    let users = field("Uid:").unwrap_or_default();
    let numbers = field("NSpid:").unwrap_or_default();
    users.first() == Some(&own.to_string().as_str())
        && numbers.len() > 1
        && numbers.last() == Some(&"1")
}

fn read_of_process(pid: i32, name: &str) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(format!("/proc/{pid}/{name}")) {
        Ok(text) => Ok(Some(text)),
        // It has ended, or is of another user and hidden.
        Err(error)
            if is_no_such_process(&error)
                || matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl LivingShim {
    /// Returns the path of its run below a directory that exists, also if it reached the directory by another path.
    fn path_below(&self, directory: &Path) -> io::Result<Option<PathBuf>> {
        path_below(&self.view(), &self.run, directory)
    }

    /// The root of the mount namespace in which its run is named. Where that is hidden, it is taken for this one: one shim
    /// too many is waited for.
    fn view(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.process.pid));
        match std::fs::metadata(&root) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => PathBuf::from("/"),
            Ok(_) | Err(_) => root,
        }
    }

    /// Refuses a directory that was copied while the shim ran: the copy would take over tasks of the original.
    fn check_not_copied_to(&self, directory: &Path) -> io::Result<()> {
        let parts: Vec<_> = self.run.components().collect();
        let of_data = parts.len().saturating_sub(PARTS_OF_RUN);
        let copy = RunFiles::new(&directory.join(parts[of_data..].iter().collect::<PathBuf>()));
        let names_it = match copy.read_state() {
            Ok(Some(state)) => state.shim() == Some(&self.process),
            Ok(None) | Err(_) => false,
        };
        // A directory that was moved is not where the shim says.
        let relative = self.run.strip_prefix("/").unwrap_or(&self.run);
        if names_it && self.view().join(relative).exists() {
            let of_data = self.run.ancestors().nth(PARTS_OF_RUN);
            return Err(io::Error::other(format!(
                "this directory is a copy of `{}`, whose task `{}` runs: nothing is started here; stop that task, or use the \
                 copy on another machine",
                of_data.unwrap_or(&self.run).display(),
                self.run.display(),
            )));
        }
        Ok(())
    }
}

/// The parts of a run's path below the data directory: `allocs/ALLOC/tasks/TASK/runs/N`.
const PARTS_OF_RUN: usize = 6;

/// Returns the path of a run below a directory that exists. `view` is the root of the mount namespace in which the run is
/// named.
fn path_below(view: &Path, run: &Path, directory: &Path) -> io::Result<Option<PathBuf>> {
    let desired = std::fs::metadata(directory)?;
    let same = run.ancestors().find(|ancestor| {
        let Ok(ancestor) = ancestor.strip_prefix("/") else {
            return false;
        };
        let found = std::fs::metadata(view.join(ancestor));
        found.is_ok_and(|found| (found.dev(), found.ino()) == (desired.dev(), desired.ino()))
    });
    let rest = same.and_then(|same| run.strip_prefix(same).ok());
    Ok(rest.map(|rest| directory.join(rest)))
}

/// Writes the state of a run again that says nothing: its shim lives, or it is certain that none does. A state that is missing
/// without a shim is that of a run that was never started. Blocks.
///
/// # Errors
/// If neither can be found out, or the state cannot be written.
pub(super) fn recover(run: &RunFiles) -> io::Result<()> {
    let lock = match run.try_lock() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        lock => lock?,
    };
    match (living_shim_of(run)?, lock) {
        (Some(shim), _) => run.recover(shim),
        (None, Some(_lock)) => match run.read_state() {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let reason = "its state is damaged, and its supervisor has ended".to_owned();
                run.write_state(&RunState::Lost { reason })
            }
            Ok(_) | Err(_) => Ok(()),
        },
        (None, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_command_line_of_a_shim_names_a_run() {
        let run = |line: &str| run_in(line.replace(' ', "\0").as_bytes());
        let expected = Some(PathBuf::from("/d/allocs/a/tasks/t/runs/1"));
        let path = "/d/allocs/a/tasks/t/runs/1";
        assert_eq!(run(&format!("nomad-csi task-process shim {path} ")), expected);
        for other in [
            format!("nomad-csi task-process stage {path} "),
            format!("nomad-csi task-process shim {path} more "),
            format!("nomad-csi task-process shim {path}"),
            "nomad-csi task-process shim ".to_owned(),
            String::new(),
        ] {
            assert_eq!(run(&other), None, "{other}");
        }
    }

    #[test]
    fn a_process_of_another_user_or_of_a_task_is_no_shim() {
        let status = |user: u32, numbers: &str| {
            format!("Name:\tnomad-csi\nUid:\t{user}\t0\t0\t0\nNSpid:\t{numbers}\n")
        };
        assert!(is_shim_of(0, &status(0, "200\t1")));
        assert!(is_shim_of(7, &status(7, "200\t30\t1")));
        for other in [status(7, "200\t1"), status(0, "200"), status(0, "1"), status(0, "200\t5")] {
            assert!(!is_shim_of(0, &other), "{other}");
        }
        assert!(!is_shim_of(0, ""));
    }

    #[test]
    fn a_run_is_found_below_its_directory_by_every_path() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let other = directory.path().join("other");
        for path in [&data, &other] {
            std::fs::create_dir(path).unwrap();
        }
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&data, &link).unwrap();
        let rest = "allocs/a/tasks/t/runs/1";
        let host = Path::new("/");
        let found = |base: &Path| path_below(host, &base.join(rest), &data).unwrap();
        assert_eq!(found(&data), Some(data.join(rest)));
        assert_eq!(found(&link), Some(data.join(rest)));
        assert_eq!(found(&other), None);
    }

    /// Two machines in containers, whose data directories have the same path.
    #[test]
    fn the_same_path_in_another_mount_namespace_is_another_directory() {
        let directory = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| directory.path().join(name));
        for root in [&own, &other] {
            std::fs::create_dir_all(root.join("data/allocs")).unwrap();
        }
        let run = Path::new("/data/allocs/a/tasks/t/runs/1");
        let data = own.join("data");
        let found = |view: &Path| path_below(view, run, &data).unwrap();
        assert_eq!(found(&own), Some(data.join("allocs/a/tasks/t/runs/1")));
        assert_eq!(found(&other), None);
        assert_eq!(found(&directory.path().join("gone")), None);
    }
}
