//! The directories of allocations and their tasks. Every function that does I/O blocks.
//!
//! ```text
//! ROOT/ALLOCATION/alloc/                shared by the tasks: data/, logs/, tmp/
//! ROOT/ALLOCATION/tasks/TASK/local/     the task's own
//! ROOT/ALLOCATION/tasks/TASK/secrets/   the task's own
//! ROOT/ALLOCATION/tasks/TASK/task.json  what the runner decided about its runs
//! ROOT/ALLOCATION/tasks/TASK/runs/N/    one run, of the driver; the highest number is the newest
//! ```
//!
//! Only the agent's user can enter `ROOT/ALLOCATION`, and the user of a task that sees the paths of the host can pass
//! through it. Tasks write below `alloc/`, `local/` and `secrets/`, so nothing there is reached by its path: see
//! [`TaskWritableDirectory`]. `ROOT/ALLOCATION` is removed as a whole, after the end of the allocation.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::task_record::TaskRecord;
use crate::task_run::TaskUser;
use nomad_csi_model::private::{
    DirectoryUsers, TaskWritableDirectory, create_directory, create_subdirectory, grant_search,
    open_to_read, remove_tree, replace, revoke_search, users_with_search,
};
use nomad_csi_model::{AllocId, segment};

/// Held while the users that may pass through the directories of all allocations change.
static SEARCH_RIGHTS: Mutex<()> = Mutex::new(());
/// The directory that the tasks of an allocation share.
const SHARED: &str = "alloc";
/// The directory of a task for its files.
const LOCAL: &str = "local";
/// The directory of a task for its secrets.
const SECRETS: &str = "secrets";
/// How many runs of a task have a directory. Their output counts in one limit, so more of them could not keep any.
pub(super) const KEPT_RUNS: usize = 10;
/// The longest record that is read.
const LONGEST_RECORD: u64 = 64 << 10;

/// The directory of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AllocDirectory(PathBuf);

/// The directory of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskDirectory {
    alloc: AllocDirectory,
    path: PathBuf,
}

impl AllocDirectory {
    /// Returns the directory of an allocation in the agent's data directory.
    pub(super) fn new(data: &Path, alloc: &AllocId) -> Self {
        Self(data.join("allocs").join(segment(alloc.as_str())))
    }

    /// Returns the directories of all allocations in the agent's data directory.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(super) fn list(data: &Path) -> io::Result<Vec<Self>> {
        Ok(paths_in(&data.join("allocs"))?.into_iter().map(Self).collect())
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Takes the right to pass through the agent's directories from the users of this allocation's tasks that no other
    /// allocation needs it for. Its own directory has the right until it is removed, so that the next agent finds the
    /// users after a crash.
    ///
    /// # Errors
    /// If a directory cannot be read or changed.
    pub(super) fn shut_out(&self, data: &Path) -> io::Result<()> {
        let _rights = SEARCH_RIGHTS.lock();
        let mut users = self.users()?;
        for other in Self::list(data)?.iter().filter(|other| *other != self) {
            let needed = other.users()?;
            users.retain(|user| !needed.contains(user));
        }
        let shared = [data.join("allocs"), data.to_owned()];
        shared.iter().try_for_each(|path| revoke_search(path, &users))
    }

    /// Returns the users that may pass through the directory.
    fn users(&self) -> io::Result<BTreeSet<u32>> {
        match users_with_search(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            users => users,
        }
    }

    /// Returns the directories of the tasks that the node ran.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(super) fn tasks(&self) -> io::Result<Vec<TaskDirectory>> {
        let paths = paths_in(&self.0.join("tasks"))?.into_iter();
        let task = |path| TaskDirectory { alloc: self.clone(), path };
        Ok(paths.map(task).collect())
    }

    /// Returns the directory that the tasks share.
    pub(super) fn shared(&self) -> PathBuf {
        self.0.join(SHARED)
    }

    /// Returns the directory of a task.
    pub(super) fn task(&self, task: &str) -> TaskDirectory {
        TaskDirectory { alloc: self.clone(), path: self.0.join("tasks").join(segment(task)) }
    }
}

impl TaskDirectory {
    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the directory, which is that of the task if it is one of a path.
    pub(super) fn name(&self) -> Option<String> {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// Returns the directory that the tasks of the allocation share.
    pub(super) fn shared(&self) -> PathBuf {
        self.alloc.shared()
    }

    /// Returns the directory that only the task uses.
    pub(super) fn local(&self) -> PathBuf {
        self.path.join(LOCAL)
    }

    /// Returns the directory of the task's secrets.
    pub(super) fn secrets(&self) -> PathBuf {
        self.path.join(SECRETS)
    }

    /// Returns the directory of a run.
    pub(super) fn run(&self, number: u32) -> PathBuf {
        self.path.join("runs").join(number.to_string())
    }

    /// Lets a user whose task sees the paths of the host reach the directories of the task. `data` is the agent's data
    /// directory.
    ///
    /// # Errors
    /// If the file system has no access control lists.
    pub(super) fn let_in(&self, data: &Path, user: TaskUser) -> io::Result<()> {
        let _rights = SEARCH_RIGHTS.lock();
        let mut parents = self.path.ancestors().take_while(|path| path.starts_with(data));
        parents.try_for_each(|path| {
            grant_search(path, user.uid).map_err(|error| {
                let text = format!(
                    "user {} cannot be allowed to reach `{}`: {error}; use driver `exec`",
                    user.uid,
                    path.display()
                );
                io::Error::new(error.kind(), text)
            })
        })
    }

    /// Creates what a run of the task as this user needs. What exists stays as it is.
    ///
    /// # Errors
    /// If a directory cannot be created or given to the user.
    pub(super) fn create(&self, run: u32, user: Option<TaskUser>) -> io::Result<()> {
        create_directory(&self.alloc.0)?;
        let alloc = TaskWritableDirectory::open(&self.alloc.0)?;
        // Only what is in the shared directory belongs to the tasks. They can replace none of its three entries.
        let shared = alloc.create_directory(SHARED, DirectoryUsers::Readers)?;
        for name in ["data", "logs", "tmp"] {
            shared.create_directory(name, DirectoryUsers::Everyone)?;
        }
        if let Some(tasks) = self.path.parent() {
            create_subdirectory(tasks)?;
        }
        create_subdirectory(&self.path)?;
        create_subdirectory(&self.path.join("runs"))?;
        create_subdirectory(&self.run(run))?;
        let task = TaskWritableDirectory::open(&self.path)?;
        let owner = DirectoryUsers::One(user.map(|user| (user.uid, user.gid)));
        task.create_directory(LOCAL, owner)?;
        task.create_directory(SECRETS, owner)?;
        Ok(())
    }

    /// Writes the payload of a dispatched job into the task's own directory, for its user, with the directories on the
    /// way. A payload that is there is written again: a task may have changed its own.
    ///
    /// # Errors
    /// If something cannot be created, or is a link.
    pub(super) fn write_payload(
        &self,
        file: &Path,
        payload: &[u8],
        user: Option<TaskUser>,
    ) -> io::Result<()> {
        let owner = DirectoryUsers::One(user.map(|user| (user.uid, user.gid)));
        let task = TaskWritableDirectory::open(&self.path)?;
        let mut directory = task.open_directory(Path::new(LOCAL))?;
        for parent in file.parent().into_iter().flat_map(Path::components) {
            let name = parent.as_os_str().to_string_lossy();
            directory = directory.create_directory(&name, owner)?;
        }
        let name = file.file_name().unwrap_or_default();
        directory.write_file(name, payload, owner)
    }

    /// Returns the numbers of the runs, in ascending order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(super) fn runs(&self) -> io::Result<Vec<u32>> {
        let names = names_in(&self.path.join("runs"))?.into_iter();
        let number = |name: OsString| name.to_str().and_then(|name| name.parse::<u32>().ok());
        let mut numbers: Vec<_> = names.filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the directories of the runs before this one that are kept, the oldest first.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(super) fn earlier_runs(&self, number: u32) -> io::Result<Vec<PathBuf>> {
        let earlier = self.runs()?.into_iter().filter(|run| *run < number);
        Ok(earlier.map(|run| self.run(run)).collect())
    }

    /// Removes the oldest runs before this one, whose ends were dealt with, so that [`KEPT_RUNS`] are left with it.
    ///
    /// # Errors
    /// If one cannot be removed. The others are.
    pub(super) fn remove_old_runs(&self, number: u32) -> io::Result<()> {
        let earlier = self.earlier_runs(number)?;
        let old = earlier.len().saturating_sub(KEPT_RUNS - 1);
        let mut removed = Ok(());
        for run in earlier.iter().take(old) {
            removed = removed.and(remove_tree(run));
        }
        removed
    }

    /// Returns the record of the task; `None` if there is none, or a damaged one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn read_record(&self) -> io::Result<Option<TaskRecord>> {
        let mut text = vec![];
        match open_to_read(&self.record()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.take(LONGEST_RECORD).read_to_end(&mut text)?,
        };
        Ok(TaskRecord::parse(&text))
    }

    /// Replaces the record of the task durably.
    ///
    /// # Errors
    /// If the file cannot be written. The earlier record is unchanged then.
    pub(super) fn write_record(&self, record: &TaskRecord) -> io::Result<()> {
        replace(&self.record(), &record.to_text()?)
    }

    fn record(&self) -> PathBuf {
        self.path.join("task.json")
    }
}

/// Returns the paths of what a directory contains; nothing if it does not exist.
fn paths_in(path: &Path) -> io::Result<Vec<PathBuf>> {
    let names = names_in(path)?.into_iter();
    Ok(names.map(|name| path.join(name)).collect())
}

/// Returns the names of what a directory contains; nothing if it does not exist.
fn names_in(path: &Path) -> io::Result<Vec<OsString>> {
    match TaskWritableDirectory::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        opened => opened?.names(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// The user of an allocation that runs keeps the right, an operator's entry stays, and a crash before the removal costs nothing.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test removes what it made")]
    fn the_users_of_a_removed_allocation_are_shut_out() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        std::fs::set_permissions(data, std::fs::Permissions::from_mode(0o700)).unwrap();
        let users = || {
            let shared = [data.to_owned(), data.join("allocs")];
            shared.map(|path| users_with_search(&path).unwrap())
        };
        let (both, first) = (4242, 4243);
        let allocs = ["a1", "a2"].map(|id| AllocDirectory::new(data, &id.into()));
        for (alloc, uids) in [(&allocs[0], vec![both, first]), (&allocs[1], vec![both])] {
            for uid in uids {
                let task = alloc.task(&uid.to_string());
                task.create(1, None).unwrap();
                task.let_in(data, TaskUser { uid, gid: uid }).unwrap();
            }
        }
        assert_eq!(users(), [(); 2].map(|()| BTreeSet::from([both, first])));
        allocs[0].shut_out(data).unwrap();
        // A crash here: the next agent does the same again.
        allocs[0].shut_out(data).unwrap();
        std::fs::remove_dir_all(allocs[0].path()).unwrap();
        assert_eq!(users(), [(); 2].map(|()| BTreeSet::from([both])));
        allocs[1].shut_out(data).unwrap();
        assert_eq!(users(), [(); 2].map(|()| BTreeSet::new()));
        assert_eq!([mode(data), mode(&data.join("allocs"))], [0o700; 2]);
    }

    /// What a task left at the place of a directory stays what it is, and so does what it leads to.
    #[test]
    fn a_link_at_the_place_of_a_directory_is_refused_and_changes_nothing() {
        let is_root = rustix::process::geteuid().is_root();
        for place in [
            "alloc",
            "alloc/data",
            "alloc/logs",
            "alloc/tmp",
            "tasks/web",
            "tasks/web/runs",
            "tasks/web/runs/2",
            "tasks/web/local",
            "tasks/web/secrets",
        ] {
            let data = tempfile::tempdir().unwrap();
            let alloc = AllocDirectory::new(data.path(), &"a1".into());
            let task = alloc.task("web");
            task.create(1, None).unwrap();
            let outside = data.path().join("outside");
            std::fs::create_dir(&outside).unwrap();
            std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o711)).unwrap();
            let before = std::fs::metadata(&outside).unwrap();
            let path = alloc.path().join(place);
            std::fs::rename(&path, data.path().join("moved")).ok();
            symlink(&outside, &path).unwrap();
            let user = is_root.then_some(TaskUser { uid: 7, gid: 7 });
            assert!(task.create(2, user).is_err(), "{place}");
            let after = std::fs::metadata(&outside).unwrap();
            assert_eq!(
                (after.mode(), after.uid(), after.gid()),
                (before.mode(), before.uid(), before.gid()),
                "{place}"
            );
            assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "{place}");
        }
    }

    /// An earlier version let tasks replace the directories in it.
    #[test]
    fn the_shared_directory_is_closed_at_the_next_run() {
        let data = tempfile::tempdir().unwrap();
        let task = AllocDirectory::new(data.path(), &"a1".into()).task("web");
        task.create(1, None).unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(task.shared(), open).unwrap();
        task.create(2, None).unwrap();
        assert_eq!(mode(&task.shared()), 0o755);
    }

    #[test]
    fn the_directories_of_a_task_are_private_and_can_be_created_again() {
        let data = tempfile::tempdir().unwrap();
        let alloc = AllocDirectory::new(data.path(), &"a1".into());
        let task = alloc.task("web");
        for _ in 0..2 {
            task.create(1, None).unwrap();
        }
        assert_eq!(mode(&data.path().join("allocs/a1")), 0o700);
        assert_eq!(mode(&task.local()), 0o700);
        assert_eq!(mode(&task.secrets()), 0o700);
        assert_eq!(mode(&task.shared()), 0o755);
        assert_eq!(mode(&task.shared().join("data")), 0o777);
    }

    #[test]
    fn runs_are_found_by_their_numbers() {
        let data = tempfile::tempdir().unwrap();
        let task = AllocDirectory::new(data.path(), &"a1".into()).task("web");
        assert_eq!(task.runs().unwrap(), [0_u32; 0]);
        task.create(1, None).unwrap();
        for name in ["9", "10", "x"] {
            std::fs::create_dir(task.path().join("runs").join(name)).unwrap();
        }
        assert_eq!(task.runs().unwrap(), [1, 9, 10]);
    }

    #[test]
    fn old_runs_are_removed_and_the_newest_stay() {
        let data = tempfile::tempdir().unwrap();
        let task = AllocDirectory::new(data.path(), &"a1".into()).task("web");
        for number in 1..=25 {
            task.create(number, None).unwrap();
            std::fs::write(task.run(number).join("stdout.0"), "x").unwrap();
            task.remove_old_runs(number).unwrap();
        }
        assert_eq!(task.runs().unwrap(), (16..=25).collect::<Vec<_>>());
        let earlier = task.earlier_runs(25).unwrap();
        assert_eq!(earlier.len(), KEPT_RUNS - 1);
        assert_eq!(earlier[0], task.run(16));
    }

    #[test]
    fn a_record_is_found_again() {
        let data = tempfile::tempdir().unwrap();
        let task = AllocDirectory::new(data.path(), &"a1".into()).task("web");
        assert_eq!(task.read_record().unwrap(), None);
        task.create(1, None).unwrap();
        let record = TaskRecord::new("exec");
        task.write_record(&record).unwrap();
        let listed = AllocDirectory::list(data.path()).unwrap();
        assert_eq!(listed, [AllocDirectory::new(data.path(), &"a1".into())]);
        assert_eq!(listed[0].tasks().unwrap(), [AllocDirectory::task(&listed[0], "web")]);
        assert_eq!(task.read_record().unwrap(), Some(record));
        std::fs::write(task.path().join("task.json"), "{").unwrap();
        assert_eq!(task.read_record().unwrap(), None);
    }

    #[test]
    fn every_name_is_a_directory_of_its_own_below_the_root() {
        let alloc = AllocDirectory::new(Path::new("/data"), &"../a".into());
        let expected = Path::new("/data/allocs/%2e.%2fa/tasks/%2e.");
        assert_eq!(alloc.task("..").path(), expected);
    }
}
