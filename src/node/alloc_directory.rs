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
//! through it. It is removed as a whole, after the end of the allocation.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Gid, Uid};

use super::task_record::TaskRecord;
use crate::model::{AllocId, segment};
use crate::ports::TaskUser;
use crate::private::{
    create_directory, create_subdirectory, grant_search, open_to_read, replace, revoke_search,
    users_with_search,
};

/// Held while the users that may pass through the directories of all allocations change.
static SEARCH_RIGHTS: Mutex<()> = Mutex::new(());
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
        Ok(directories_in(&data.join("allocs"))?
            .into_iter()
            .map(Self)
            .collect())
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
        let _rights = SEARCH_RIGHTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut users = self.users()?;
        for other in Self::list(data)?.iter().filter(|other| *other != self) {
            let needed = other.users()?;
            users.retain(|user| !needed.contains(user));
        }
        let shared = [data.join("allocs"), data.to_owned()];
        shared
            .iter()
            .try_for_each(|path| revoke_search(path, &users))
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
        let paths = directories_in(&self.0.join("tasks"))?.into_iter();
        let task = |path| TaskDirectory {
            alloc: self.clone(),
            path,
        };
        Ok(paths.map(task).collect())
    }

    /// Returns the directory that the tasks share.
    pub(super) fn shared(&self) -> PathBuf {
        self.0.join("alloc")
    }

    /// Returns the directory of a task.
    pub(super) fn task(&self, task: &str) -> TaskDirectory {
        TaskDirectory {
            alloc: self.clone(),
            path: self.0.join("tasks").join(segment(task)),
        }
    }
}

impl TaskDirectory {
    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory that the tasks of the allocation share.
    pub(super) fn shared(&self) -> PathBuf {
        self.alloc.shared()
    }

    /// Returns the directory that only the task uses.
    pub(super) fn local(&self) -> PathBuf {
        self.path.join("local")
    }

    /// Returns the directory of the task's secrets.
    pub(super) fn secrets(&self) -> PathBuf {
        self.path.join("secrets")
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
        let _rights = SEARCH_RIGHTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut parents = self
            .path
            .ancestors()
            .take_while(|path| path.starts_with(data));
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
        create_open_directory(&self.shared())?;
        for name in ["data", "logs", "tmp"] {
            create_open_directory(&self.shared().join(name))?;
        }
        if let Some(tasks) = self.path.parent() {
            create_subdirectory(tasks)?;
        }
        create_subdirectory(&self.path)?;
        create_subdirectory(&self.path.join("runs"))?;
        create_subdirectory(&self.run(run))?;
        create_for(&self.local(), user)?;
        create_for(&self.secrets(), user)
    }

    /// Returns the numbers of the runs, in ascending order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(super) fn runs(&self) -> io::Result<Vec<u32>> {
        let entries = match std::fs::read_dir(self.path.join("runs")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            entries => entries?,
        };
        let mut numbers = vec![];
        for entry in entries {
            let name = entry?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
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

/// Returns what a directory contains; nothing if it does not exist.
fn directories_in(path: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Creates a directory that every user of a task may write to. Its parent keeps other processes out.
fn create_open_directory(path: &Path) -> io::Result<()> {
    if create_one(path)? {
        std::fs::set_permissions(path, Permissions::from_mode(0o777))?;
    }
    Ok(())
}

/// Creates a directory with mode 0700 for the user of a task.
fn create_for(path: &Path, user: Option<TaskUser>) -> io::Result<()> {
    if create_one(path)? {
        std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    if let Some(user) = user {
        let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
        rustix::fs::chown(path, Some(uid), Some(gid))?;
    }
    Ok(())
}

/// Returns whether the directory is new.
fn create_one(path: &Path) -> io::Result<bool> {
    match DirBuilder::new().create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Runs a call that blocks on a thread for such calls.
///
/// # Errors
/// See the call.
pub(super) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(call).await;
    done.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// The user of an allocation that runs keeps the right, an operator's entry stays, and a crash before the removal costs nothing.
    #[test]
    fn the_users_of_a_removed_allocation_are_shut_out() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
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
    fn a_record_is_found_again() {
        let data = tempfile::tempdir().unwrap();
        let task = AllocDirectory::new(data.path(), &"a1".into()).task("web");
        assert_eq!(task.read_record().unwrap(), None);
        task.create(1, None).unwrap();
        let record = TaskRecord::new("exec");
        task.write_record(&record).unwrap();
        let listed = AllocDirectory::list(data.path()).unwrap();
        assert_eq!(listed, [AllocDirectory::new(data.path(), &"a1".into())]);
        assert_eq!(
            listed[0].tasks().unwrap(),
            [AllocDirectory::task(&listed[0], "web")]
        );
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
