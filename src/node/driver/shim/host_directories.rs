//! What of the host a task with the user root sees: what every user may read, and nothing else.
//!
//! Root in a task is root of the host, so the permissions of a file do not stop it. Its copies of the host's directories
//! therefore map no owner: the kernel then treats every file as one of another user, and root's capabilities do not count
//! for it. A file that is replaced later, such as `/etc/shadow`, is treated in the same way. Where a file system cannot
//! do that, a task of root is refused.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;

use rustix::thread::UnshareFlags;

use super::super::process_id::ProcessId;
use super::action_error::about;
use super::destination::open_place;
use super::launch::unshare;
use super::role::Role;
use super::run_files::RunFiles;
use super::run_spec::RunSpec;
use crate::mounts::{attach_tree, clone_tree, map_owners, mount_points_below};

/// The only owner that is mapped, because a mapping must not be empty: the user `nobody`.
const ONLY_NOBODY: &str = "65534 65534 1";

/// A user namespace whose mapping has no owner of a file.
#[derive(Debug)]
pub(super) struct NoOwners {
    namespace: File,
}

impl NoOwners {
    /// Makes the namespace if the task is root of the host.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn for_task(run: &RunFiles, spec: &RunSpec) -> io::Result<Option<Self>> {
        let is_root = spec.user.is_none_or(|user| user.uid == 0 || user.gid == 0);
        if !is_root || has_one_user(&std::fs::read_to_string("/proc/self/uid_map")?) {
            return Ok(None);
        }
        let made = Self::make(run);
        let made = made.map_err(|error| about("make a user namespace for a task of root", &error));
        made.map(Some)
    }

    fn make(run: &RunFiles) -> io::Result<Self> {
        let mut holder = Role::UserNamespace
            .command(run)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = holder.stdout.take();
        let output = output.ok_or_else(|| io::Error::other("it has no output"))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let process: ProcessId = serde_json::from_str(&line)?;
        let directory = Path::new("/proc").join(process.pid.to_string());
        std::fs::write(directory.join("uid_map"), ONLY_NOBODY)?;
        std::fs::write(directory.join("gid_map"), ONLY_NOBODY)?;
        let namespace = File::open(directory.join("ns/user"))?;
        // The end of its input ends the process. The namespace lives as long as it is open.
        drop(holder.stdin.take());
        holder.wait()?;
        Ok(Self { namespace })
    }

    /// Shows a directory of the host at `target`, with the mounts below it.
    ///
    /// # Errors
    /// If a file system there cannot show its files without owners.
    pub(super) fn show(&self, path: &Path, target: &Path) -> io::Result<()> {
        let mut points = mount_points_below(path)?;
        points.retain(|point| point != path);
        points.insert(0, path.to_owned());
        for point in points {
            let tree = clone_tree(&point, false)?;
            map_owners(&tree, &self.namespace).map_err(|error| {
                io::Error::other(format!(
                    "the file system of `{}` cannot hide files of root from a task of root ({error}); set another \
                     `user`, such as `nobody`",
                    point.display()
                ))
            })?;
            let below = point.strip_prefix(path).unwrap_or(&point);
            attach_tree(&tree, open_place(&target.join(below))?)?;
        }
        Ok(())
    }
}

/// Returns whether a user namespace has one user: that of an agent without root, whose tasks are not root of the host.
fn has_one_user(map: &str) -> bool {
    map.split_whitespace().nth(2) == Some("1")
}

/// Holds a new user namespace until the end of the input, and says who does.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn hold_user_namespace() -> io::Result<()> {
    unshare(UnshareFlags::NEWUSER)?;
    say_process()?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(())
}

fn say_process() -> io::Result<()> {
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &ProcessId::own()?)?;
    output.write_all(b"\n")?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_of_an_agent_without_root_has_one_user() {
        assert!(has_one_user("         0       1000          1\n"));
        assert!(!has_one_user("         0          0 4294967295\n"));
        assert!(!has_one_user("         0     100000      65536\n"));
        assert!(!has_one_user(""));
    }
}
