//! Removes a directory with everything in it. What is mounted in it stays, and no link is followed.
//!
//! A tree that another program made may be of any depth and width, and may forbid its owner to enter it. So the tree is
//! walked without recursion, one open directory at a time, and a directory whose path is long is moved to the top first.
//! The walk remembers a limited number of directories: of a wide one it takes some, and reads it again after them.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::task_directory::{open_below, set_mode_below};

/// The longest path below the tree in bytes. The kernel allows 4095, with a name of 255 at the end.
const LONGEST: usize = 2048;
/// How many directories are remembered before only one of each directory is taken at a time.
const MOST_PENDING: usize = 1024;
/// The most steps that wait: those, and three for each directory of a path, whose names have a byte or more.
const MOST_STEPS: usize = MOST_PENDING + 3 * (LONGEST / 2 + 1);

/// Removes a directory and its contents. A mount point and the directories above it stay, and the error names it.
/// The rest is removed also after an error.
///
/// # Errors
/// The first directory or file that cannot be removed, and why.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let (parent, name) = path
        .parent()
        .zip(path.file_name())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no parent"))?;
    let parent = match parent == Path::new("") {
        true => Path::new("."),
        false => parent,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::openat(CWD, parent, flags, Mode::empty())?;
    let root = open_below(&parent, Path::new(name)).map_err(|error| named(path, error))?;
    let mut removal = Removal { root, path, moved: 0, removed: 0, problem: None };
    removal.remove_contents();
    match removal.problem {
        Some(problem) => Err(problem),
        None => rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)
            .map_err(|error| named(path, error)),
    }
}

/// A step of the walk. Paths are relative to the tree.
enum Step {
    /// Remove the files of the directory, and go on with its directories.
    Enter(PathBuf),
    /// The same for what is left of it, if there was progress since it had been this far.
    Again(PathBuf, u64),
    /// Remove the directory, which is empty.
    Leave(PathBuf),
}

/// A removal in progress.
struct Removal<'a> {
    root: OwnedFd,
    /// The path of the tree, for errors.
    path: &'a Path,
    /// How many directories were moved to the top.
    moved: u64,
    /// How many directories were removed.
    removed: u64,
    problem: Option<io::Error>,
}

impl Removal<'_> {
    fn remove_contents(&mut self) {
        self.remove_below(PathBuf::from("."));
        // What was moved while these were removed comes after them.
        let mut number = 0;
        while number < self.moved {
            self.remove_below(moved_name(number));
            number += 1;
        }
    }

    fn progress(&self) -> u64 {
        self.removed + self.moved
    }

    fn remove_below(&mut self, top: PathBuf) {
        let mut pending = vec![Step::Enter(top)];
        while let Some(step) = pending.pop() {
            let (directory, done) = match step {
                Step::Enter(directory) => {
                    if directory != Path::new(".") {
                        pending.push(Step::Leave(directory.clone()));
                    }
                    let entered = self.enter(&directory, &mut pending);
                    (directory, entered)
                }
                Step::Again(directory, progress) => {
                    let entered = match progress == self.progress() {
                        true => Ok(()),
                        false => self.enter(&directory, &mut pending),
                    };
                    (directory, entered)
                }
                Step::Leave(directory) => {
                    let removed = self.leave(&directory);
                    (directory, removed)
                }
            };
            match done {
                // Another entry of the tree has the name of a directory that was moved, and is removed already.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => self.note(&directory, error),
            }
            debug_assert!(pending.len() <= MOST_STEPS, "{} steps", pending.len());
        }
    }

    fn enter(&mut self, path: &Path, pending: &mut Vec<Step>) -> Result<(), Errno> {
        let directory = match open_below(&self.root, path) {
            Err(Errno::ACCESS) => {
                set_mode_below(&self.root, path, Mode::RWXU)?;
                open_below(&self.root, path)?
            }
            opened => opened?,
        };
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode);
        if !mode.contains(Mode::RWXU) {
            rustix::fs::fchmod(&directory, Mode::RWXU)?;
        }
        let max_remembered = MOST_PENDING.saturating_sub(pending.len()).max(1);
        let mut directories = vec![];
        for entry in Dir::read_from(&directory)? {
            if directories.len() == max_remembered {
                pending.push(Step::Again(path.to_owned(), self.progress()));
                break;
            }
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if matches!(name.as_bytes(), b"." | b"..") {
                continue;
            }
            let found = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let below = path.join(name);
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                if !self.moves_to_the_top(&directory, &below)? {
                    directories.push(Step::Enter(below));
                }
            } else if let Err(error) = rustix::fs::unlinkat(&directory, name, AtFlags::empty()) {
                self.note(&below, error);
            }
        }
        pending.append(&mut directories);
        Ok(())
    }

    /// Removes an empty directory, in the directory that it is in now.
    fn leave(&mut self, path: &Path) -> Result<(), Errno> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            Some(_) | None => Path::new("."),
        };
        let parent = open_below(&self.root, parent)?;
        rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?;
        self.removed += 1;
        Ok(())
    }

    /// Moves a directory to the top if its path is long. Returns whether it did.
    fn moves_to_the_top(&mut self, directory: &OwnedFd, path: &Path) -> Result<bool, Errno> {
        let Some(name) = path.file_name().filter(|_| path.as_os_str().len() > LONGEST) else {
            return Ok(false);
        };
        loop {
            let top = moved_name(self.moved);
            self.moved += 1;
            match rustix::fs::renameat(directory, name, &self.root, &top) {
                // The tree has an entry of this name.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                moved => return moved.map(|()| true),
            }
        }
    }

    fn note(&mut self, path: &Path, error: Errno) {
        let whole = self.path.join(path.strip_prefix(".").unwrap_or(path));
        self.problem.get_or_insert_with(|| named(&whole, error));
    }
}

/// The name at the top of the directory that was moved as this one.
fn moved_name(number: u64) -> PathBuf {
    PathBuf::from(format!(".removed-{number}"))
}

fn named(path: &Path, error: Errno) -> io::Error {
    let shown = path.display();
    let text = match error {
        Errno::XDEV | Errno::BUSY => format!("`{shown}` is a mount point"),
        error => format!("`{shown}`: {error}"),
    };
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn links_are_removed_and_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let (tree, kept) = (base.path().join("tree"), base.path().join("kept"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "").unwrap();
        fs::write(tree.join("a/b/file"), "").unwrap();
        symlink(&kept, tree.join("a/link")).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && kept.join("file").exists());
        symlink(&kept, &tree).unwrap();
        assert!(remove_tree(&tree).is_err(), "the tree itself is a link");
        assert!(kept.join("file").exists());
    }

    /// A task can make such a tree with relative paths.
    #[test]
    fn a_tree_that_is_deeper_than_any_path_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let tree = base.path().join("tree");
        fs::create_dir_all(tree.join(".removed-0/in-the-way")).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut at = rustix::fs::open(&tree, flags, Mode::empty()).unwrap();
        let name = "d".repeat(200);
        for _ in 0..100 {
            rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, &name, flags, Mode::empty()).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    /// More directories beside each other than the walk remembers, on every level down to where they are moved.
    #[test]
    fn a_tree_that_is_wider_than_the_walk_remembers_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let tree = base.path().join("tree");
        let mut level = tree.clone();
        for _ in 0..16 {
            for number in 0..MOST_PENDING / 8 {
                fs::create_dir_all(level.join(format!("wide-{number}/below"))).unwrap();
            }
            fs::write(level.join("file"), "").unwrap();
            level.push("d".repeat(180));
        }
        for number in 0..MOST_STEPS + MOST_PENDING {
            fs::create_dir(tree.join(format!("top-{number}"))).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn directories_that_forbid_their_owner_to_enter_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let tree = base.path().join("tree");
        for mode in [0o000, 0o400, 0o500] {
            fs::create_dir_all(tree.join("closed/below")).unwrap();
            fs::write(tree.join("closed/file"), "").unwrap();
            let closed = fs::Permissions::from_mode(mode);
            fs::set_permissions(tree.join("closed"), closed).unwrap();
            remove_tree(&tree).unwrap();
            assert!(!tree.exists());
        }
    }

    #[test]
    fn a_mount_point_is_refused() {
        let refused = remove_tree(Path::new("/proc")).unwrap_err();
        assert_eq!(refused.to_string(), "`/proc` is a mount point");
    }
}
