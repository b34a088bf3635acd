//! [`NodeAllocAccess`]: restarts and signals of the tasks of this node, and the files of its allocations.
//!
//! Which task runs is what the driver says of its newest run. A file is named by an open directory and its name, as whatever is in
//! a directory that a task can write to. Of the directory of a task only `local/` is shown: the others have its secrets, its
//! environment and what the agent records.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::{FileType, Stat};

use super::alloc_directory::AllocDirectory;
use super::task_identity::signal_number;
use super::task_restarts::TaskRestarts;
use crate::task_run::{RunDriver, RunStatus};
use nomad_csi_model::AllocId;
use nomad_csi_model::private::TaskWritableDirectory;
use nomad_csi_ports::{AllocAccess, AllocAccessError, AllocFile, run_blocking};

type Result<T> = std::result::Result<T, AllocAccessError>;

/// The most entries of a directory that are listed.
const MAX_ENTRIES: usize = 10_000;
/// The most bytes that one call reads.
const MAX_BYTES: u64 = 1 << 20;

/// The tasks and the files of this node.
pub struct NodeAllocAccess {
    data_directory: PathBuf,
    drivers: BTreeMap<String, Arc<dyn RunDriver>>,
    restarts: TaskRestarts,
}

/// A run that goes on.
struct LivingRun {
    task: String,
    driver: Arc<dyn RunDriver>,
    run: PathBuf,
}

impl NodeAllocAccess {
    /// The tasks that `restarts` knows, of these drivers, below the agent's data directory.
    pub fn new(
        data_directory: PathBuf,
        drivers: BTreeMap<String, Arc<dyn RunDriver>>,
        restarts: TaskRestarts,
    ) -> Self {
        Self { data_directory, drivers, restarts }
    }

    fn directory(&self, alloc: &AllocId) -> AllocDirectory {
        AllocDirectory::new(&self.data_directory, alloc)
    }

    /// Returns the runs of a task, or of all tasks, that go on: at least one.
    async fn living(&self, alloc: &AllocId, task: Option<&str>) -> Result<Vec<LivingRun>> {
        let known = self.restarts.tasks(alloc);
        let meant = known.into_iter().filter(|known| task.is_none_or(|task| task == known));
        let mut living = vec![];
        for task in meant {
            living.extend(self.living_run(alloc, task).await?);
        }
        if living.is_empty() {
            return Err(AllocAccessError::NotRunning(match task {
                Some(task) => format!("task `{task}` of allocation `{alloc}` does not run"),
                None => format!("no task of allocation `{alloc}` runs"),
            }));
        }
        Ok(living)
    }

    async fn living_run(&self, alloc: &AllocId, task: String) -> Result<Option<LivingRun>> {
        let directory = self.directory(alloc).task(&task);
        let found = {
            let directory = directory.clone();
            run_blocking(move || Ok((directory.read_record()?, directory.runs()?))).await
        };
        let (record, runs) = found.map_err(|error| failed(&error))?;
        let driver = record.and_then(|record| self.drivers.get(&record.driver).cloned());
        let (Some(driver), Some(newest)) = (driver, runs.last()) else {
            return Ok(None);
        };
        let run = directory.run(*newest);
        let status = driver.status(&run).await.map_err(|error| failed(&error))?;
        let lives = matches!(status, Some(RunStatus::Running { .. }));
        Ok(lives.then_some(LivingRun { task, driver, run }))
    }

    /// Looks at a place of an allocation, on a thread that may block.
    async fn look<T: Send + 'static>(
        &self,
        alloc: &AllocId,
        path: &str,
        look: impl FnOnce(Place) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let shown = ShownPath::parse(path)?;
        let (directory, named, alloc) = (self.directory(alloc), path.to_owned(), alloc.clone());
        let found = run_blocking(move || look(shown.open(&directory)?)).await;
        found.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => AllocAccessError::NoFile(format!(
                "allocation `{alloc}` has no file `{named}` on its node: list a directory to see what is there"
            )),
            _ => AllocAccessError::Refused(format!(
                "cannot read `{named}` of allocation `{alloc}`: {error}"
            )),
        })
    }
}

#[async_trait]
impl AllocAccess for NodeAllocAccess {
    async fn restart(&self, alloc: &AllocId, task: Option<&str>) -> Result<()> {
        for living in self.living(alloc, task).await? {
            if !self.restarts.request(alloc, &living.task) {
                let text = format!("task `{}` of allocation `{alloc}` has ended", living.task);
                return Err(AllocAccessError::NotRunning(text));
            }
        }
        Ok(())
    }

    async fn signal(&self, alloc: &AllocId, task: Option<&str>, signal: &str) -> Result<()> {
        let number = signal_number(signal).map_err(AllocAccessError::Refused)?;
        for living in self.living(alloc, task).await? {
            let sent = living.driver.signal(&living.run, number).await;
            if !sent.map_err(|error| failed(&error))? {
                let text = format!("task `{}` of allocation `{alloc}` has ended", living.task);
                return Err(AllocAccessError::NotRunning(text));
            }
        }
        Ok(())
    }

    async fn stat(&self, alloc: &AllocId, path: &str) -> Result<AllocFile> {
        self.look(alloc, path, Place::stat).await
    }

    async fn list(&self, alloc: &AllocId, path: &str) -> Result<Vec<AllocFile>> {
        self.look(alloc, path, Place::list).await
    }

    async fn read(&self, alloc: &AllocId, path: &str, offset: u64, limit: u64) -> Result<Vec<u8>> {
        self.look(alloc, path, move |place| place.read(offset, limit.min(MAX_BYTES))).await
    }
}

fn failed(error: &dyn std::fmt::Display) -> AllocAccessError {
    AllocAccessError::Failed(error.to_string())
}

/// A path of an allocation that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ShownPath {
    /// The directory of the allocation.
    Root,
    /// The directory of a task, of which `local` is shown.
    Task(String),
    /// What is below the directory that tasks share.
    Shared(PathBuf),
    /// What is below `local` of a task.
    Local(String, PathBuf),
}

impl ShownPath {
    fn parse(path: &str) -> Result<Self> {
        let mut names = vec![];
        for part in Path::new(path).components() {
            match part {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
                Component::ParentDir | Component::Prefix(_) => {
                    let text =
                        format!("`{path}` leads out of a directory: name the file without `..`");
                    return Err(AllocAccessError::Refused(text));
                }
            }
        }
        match names.as_slice() {
            [] => Ok(Self::Root),
            [shared, rest @ ..] if shared == "alloc" => Ok(Self::Shared(rest.iter().collect())),
            [task] => Ok(Self::Task(task.clone())),
            [task, local, rest @ ..] if local == "local" => {
                Ok(Self::Local(task.clone(), rest.iter().collect()))
            }
            [task, other, ..] => Err(AllocAccessError::Refused(format!(
                "`{other}` of task `{task}` is not shown: only `{task}/local` and `alloc` are"
            ))),
        }
    }

    /// Opens the place. Blocks.
    fn open(self, alloc: &AllocDirectory) -> io::Result<Place> {
        let root = TaskWritableDirectory::open(alloc.path())?;
        let (top, below) = match &self {
            Self::Root => return Ok(Place::Tasks(root, alloc.clone())),
            Self::Task(task) => {
                let directory = TaskWritableDirectory::open(alloc.task(task).path())?;
                return Ok(Place::Task(directory, task.clone()));
            }
            Self::Shared(below) => (alloc.shared(), below),
            Self::Local(task, below) => (alloc.task(task).local(), below),
        };
        let top = TaskWritableDirectory::open(&top)?;
        let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
            return Ok(Place::Directory(top));
        };
        let parent = match parent == Path::new("") {
            true => top,
            false => top.open_directory(parent)?,
        };
        let entry = parent.entry(name)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(match FileType::from_raw_mode(entry.st_mode) {
            FileType::Directory => Place::Directory(parent.open_directory(Path::new(name))?),
            _ => Place::File(parent, name.to_os_string(), entry),
        })
    }
}

/// An open place of an allocation.
enum Place {
    /// The directory of the allocation, with `alloc` and one directory for each task.
    Tasks(TaskWritableDirectory, AllocDirectory),
    /// The directory of this task.
    Task(TaskWritableDirectory, String),
    /// A directory.
    Directory(TaskWritableDirectory),
    /// An entry of a directory that is none itself.
    File(TaskWritableDirectory, std::ffi::OsString, Stat),
}

impl Place {
    fn stat(self) -> io::Result<AllocFile> {
        match self {
            Self::Tasks(directory, _) | Self::Directory(directory) => {
                described(".", &directory.facts()?)
            }
            Self::Task(directory, task) => described(&task, &directory.facts()?),
            Self::File(_, name, entry) => described(&name.to_string_lossy(), &entry),
        }
    }

    fn list(self) -> io::Result<Vec<AllocFile>> {
        let mut files = match self {
            Self::Tasks(directory, alloc) => {
                let mut files = vec![];
                if let Some(shared) = directory.entry(OsStr::new("alloc"))? {
                    files.push(described("alloc", &shared)?);
                }
                for task in alloc.tasks()? {
                    let Some(name) = task.name() else {
                        continue;
                    };
                    let open = TaskWritableDirectory::open(task.path())?;
                    files.push(described(&name, &open.facts()?)?);
                }
                files
            }
            Self::Task(directory, _) => {
                let local = directory.entry(OsStr::new("local"))?;
                local.iter().map(|entry| described("local", entry)).collect::<io::Result<_>>()?
            }
            Self::Directory(directory) => {
                let mut names = directory.names()?;
                names.sort_unstable();
                if names.len() > MAX_ENTRIES {
                    let count = names.len();
                    let text =
                        format!("it has {count} entries, and {MAX_ENTRIES} are listed at most");
                    return Err(io::Error::other(text));
                }
                let mut files = vec![];
                for name in names {
                    // What is gone by now is not listed.
                    if let Some(entry) = directory.entry(&name)? {
                        files.push(described(&name.to_string_lossy(), &entry)?);
                    }
                }
                files
            }
            Self::File(..) => return Err(io::Error::other("it is not a directory")),
        };
        files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn read(self, offset: u64, limit: u64) -> io::Result<Vec<u8>> {
        let Self::File(directory, name, _) = self else {
            return Err(io::Error::other("it is a directory"));
        };
        let mut file = directory.open_file(&name)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = vec![];
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn described(name: &str, entry: &Stat) -> io::Result<AllocFile> {
    let seconds = entry.st_mtime;
    let nanoseconds = i64::try_from(entry.st_mtime_nsec).unwrap_or_default();
    Ok(AllocFile {
        name: name.to_owned(),
        is_directory: FileType::from_raw_mode(entry.st_mode) == FileType::Directory,
        size: u64::try_from(entry.st_size).map_err(io::Error::other)?,
        mode: entry.st_mode,
        modified: seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds),
    })
}

#[cfg(test)]
mod tests;
