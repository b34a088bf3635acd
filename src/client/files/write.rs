//! Writes the user's files: as a whole, and over another file only on request. A file that is replaced
//! has the old content or the new one, also after a crash.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::output_place::{HeldFile, Place, Stream, place_of, place_of_new};
use super::specs::reason;
use super::timed::write_stream;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::private;

/// How long the reader of a pipe may take.
const STREAM_LIMIT: Duration = Duration::from_secs(60);

/// Writes a new file, relative to `base_directory`. Removes an incomplete file.
///
/// # Errors
/// If the file exists or cannot be written.
pub fn write_new(base_directory: &Path, file: &Path, bytes: &[u8]) -> Result<(), Diagnostics> {
    let path = place_of_new(base_directory, file)?;
    let written = HeldFile::of(&path).and_then(|held| write(held.path(), bytes));
    written.map_err(|error| refused(file, &error))
}

/// Writes a new file that only this user can read, relative to `base_directory`. Removes an incomplete
/// file.
///
/// # Errors
/// If the file exists or cannot be written.
pub fn write_private(base_directory: &Path, file: &Path, bytes: &[u8]) -> Result<(), Diagnostics> {
    let path = place_of_new(base_directory, file)?;
    let written = HeldFile::of(&path).and_then(|held| {
        let opened = private::create_new(held.path())?;
        fill(opened, held.path(), bytes)
    });
    written.map_err(|error| refused(file, &error))
}

/// Writes a file, and replaces an earlier one. The file keeps its permissions, and a link in the working directory stays a
/// link. What is no regular file, such as a pipe, is written to.
///
/// # Errors
/// If the file cannot be written, or a link leads where no output goes. An earlier file is unchanged then.
pub fn write_over(base_directory: &Path, file: &Path, bytes: &[u8]) -> Result<(), Diagnostics> {
    let written = match place_of(base_directory, file)? {
        Place::File(path) => {
            HeldFile::of(&path).and_then(|held| write_or_replace(held.path(), bytes))
        }
        Place::Stream(stream) => write_stream(&stream, bytes, STREAM_LIMIT),
    };
    written.map_err(|error| refused(file, &error))
}

/// Replaces the content of a file, if it still is `old`, apart from a mark of the byte order, which stays. The file keeps its
/// permissions and its owner.
///
/// # Errors
/// If the file changed, cannot be written by this user, has several names, or cannot keep its owner. It is unchanged then.
pub fn rewrite(
    base_directory: &Path,
    file: &Path,
    old: &[u8],
    new: &[u8],
) -> Result<(), Diagnostics> {
    let why = |why: &str| refused(file, &io::Error::other(why));
    let Place::File(path) = place_of(base_directory, file)? else {
        return Err(why("it is not a regular file"));
    };
    let held = HeldFile::of(&path).map_err(|error| refused(file, &error))?;
    rewrite_held(held.path(), old, new).map_err(|error| refused(file, &error))
}

fn rewrite_held(path: &Path, old: &[u8], new: &[u8]) -> io::Result<()> {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    let found = path.symlink_metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("something else has taken its place"));
    }
    if found.permissions().readonly() {
        return Err(io::Error::other("it is read-only; run `chmod u+w` on it first"));
    }
    // Opening it shows whether this user may write to it: replacing it needs only the right to its directory.
    drop(OpenOptions::new().write(true).open(path)?);
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if found.nlink() > 1 {
            let names = found.nlink();
            return Err(io::Error::other(format!(
                "it has {names} names (hard links), of which only one would be changed"
            )));
        }
    }
    let has_mark = std::fs::read(path)?.starts_with(MARK);
    // The reader removes one mark.
    let with_mark = |text: &[u8]| match has_mark {
        true => [MARK, text].concat(),
        false => text.to_vec(),
    };
    let (old, new) = (with_mark(old), with_mark(new));
    private::replace_with(path, &new, |temporary| {
        keep_owner(temporary, &found)?;
        temporary.set_permissions(found.permissions())?;
        // This takes long, and is not to come between the comparison and the replacement.
        temporary.sync_all()?;
        match std::fs::read(path)? == old {
            true => Ok(()),
            false => Err(io::Error::other("it changed after it was read; run the command again")),
        }
    })
}

/// Gives a new file the owner and the group of the one that it replaces.
#[cfg(unix)]
fn keep_owner(temporary: &File, found: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    let made = temporary.metadata()?;
    if (made.uid(), made.gid()) == (found.uid(), found.gid()) {
        return Ok(());
    }
    let kept = std::os::unix::fs::fchown(temporary, Some(found.uid()), Some(found.gid()));
    kept.map_err(|_| {
        let (user, group) = (found.uid(), found.gid());
        io::Error::other(format!(
            "it cannot keep its owner (user ID {user}, group ID {group}); run the command as that user"
        ))
    })
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &std::fs::Metadata) -> io::Result<()> {
    Ok(())
}

fn write_or_replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => replace(path, bytes),
        Ok(found) if found.is_symlink() => Err(io::Error::other("a link has taken its place")),
        Err(error) if error.kind() == ErrorKind::NotFound => write(path, bytes),
        Ok(found) => write_stream(&Stream::new(path.to_owned(), &found), bytes, STREAM_LIMIT),
        Err(error) => Err(error),
    }
}

/// Writes files below a directory, and creates it if necessary. Without `overwrite`, writes none if
/// one of them exists.
///
/// # Errors
/// Every file that exists, or the first that cannot be written.
pub fn write_many(
    base_directory: &Path,
    files: &[(PathBuf, String)],
    overwrite: bool,
) -> Result<(), Diagnostics> {
    if !overwrite {
        let exists = |file: &Path| base_directory.join(file).symlink_metadata().is_ok();
        let existing = files.iter().filter(|(file, _)| exists(file));
        let error = io::Error::from(ErrorKind::AlreadyExists);
        let existing: Diagnostics = existing.flat_map(|(file, _)| refused(file, &error)).collect();
        if !existing.is_empty() {
            return Err(existing);
        }
    }
    for (file, text) in files {
        if let Some(directory) = place_of_new(base_directory, file)?.parent() {
            std::fs::create_dir_all(directory).map_err(|error| refused(file, &error))?;
        }
        if overwrite {
            write_over(base_directory, file, text.as_bytes())?;
        } else {
            write_new(base_directory, file, text.as_bytes())?;
        }
    }
    Ok(())
}

/// Replaces a regular file by one with the same permissions and, as far as this user may, the same owner. A file that another
/// user put into a directory of a third one, such as `/tmp`, becomes one of this user only.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let replaced = path.symlink_metadata()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let directory = path.parent().unwrap_or(path).metadata()?;
        let own = rustix::process::geteuid().as_raw();
        if ![own, directory.uid()].contains(&replaced.uid()) {
            return private::replace(path, bytes);
        }
    }
    private::replace_with(path, bytes, |file| {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let _ignored =
                std::os::unix::fs::fchown(file, Some(replaced.uid()), Some(replaced.gid()));
        }
        file.set_permissions(replaced.permissions())
    })
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    fill(file, path, bytes)
}

fn fill(mut file: File, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // An incomplete file is worse than none. The first error is the one to report.
        drop(std::fs::remove_file(path));
    }
    written
}

fn refused(file: &Path, error: &io::Error) -> Diagnostics {
    let file = file.display();
    let diagnostic = if error.kind() == ErrorKind::AlreadyExists {
        let message = format!("cannot write `{file}`: the file exists");
        Diagnostic::error(Code::CliFileExists, message)
            .help("choose another name, or move the existing file")
    } else {
        let message = format!("cannot write `{file}`: {}", reason(error));
        Diagnostic::error(Code::CliFile, message)
            .help("check the path, its permissions and the free disk space")
    };
    diagnostic.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_written_or_none() {
        let directory = tempfile::tempdir().unwrap();
        let read = |file: &str| std::fs::read_to_string(directory.path().join(file)).ok();
        let many = |text: &str, overwrite| {
            let files = ["new/b.hcl", "new/a.hcl"];
            let files = files.map(|file| (PathBuf::from(file), text.to_owned()));
            let result = write_many(directory.path(), &files[..], overwrite);
            result.err().iter().flatten().map(|one| one.code).collect::<Vec<_>>()
        };
        assert_eq!(many("first", false), []);
        std::fs::remove_file(directory.path().join("new/b.hcl")).unwrap();
        assert_eq!(many("second", false), [Code::CliFileExists]);
        assert_eq!((read("new/b.hcl"), read("new/a.hcl")), (None, Some("first".to_owned())));
        assert_eq!(many("third", true), []);
        assert_eq!(read("new/a.hcl").as_deref(), Some("third"));
    }

    /// A reader that has the old file open keeps its content: it is replaced, not truncated.
    #[cfg(unix)]
    #[test]
    fn a_file_is_replaced_as_a_whole_and_keeps_its_permissions() {
        use std::io::Read as _;
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let over = |name: &str, text: &str| {
            write_over(directory.path(), Path::new(name), text.as_bytes()).unwrap();
        };
        let text = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        over("report", "first");
        let mode = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(path("report"), mode).unwrap();
        let mut reader = File::open(path("report")).unwrap();
        let inode = reader.metadata().unwrap().ino();
        over("report", "second");
        let mut old = String::new();
        reader.read_to_string(&mut old).unwrap();
        assert_eq!((old.as_str(), text("report").as_str()), ("first", "second"));
        let replaced = path("report").metadata().unwrap();
        assert_ne!(replaced.ino(), inode);
        assert_eq!(replaced.mode() & 0o7777, 0o640);

        std::os::unix::fs::symlink("report", path("link")).unwrap();
        over("link", "third");
        assert!(path("link").is_symlink());
        assert_eq!(text("report"), "third");
        std::os::unix::fs::symlink("later", path("dangling")).unwrap();
        over("dangling", "fourth");
        assert_eq!(text("later"), "fourth");
        over("/dev/null", "nothing");
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
        let names = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(names, 4, "nothing temporary stays");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_rewritten_only_if_nothing_is_lost() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let rewrite = |old: &str, new: &str| -> Vec<String> {
            let written = rewrite(directory.path(), Path::new("a"), old.as_bytes(), new.as_bytes());
            written.err().iter().flatten().map(|one| one.message.clone()).collect()
        };
        std::fs::write(&path, "\u{feff}one").unwrap();
        let mode = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(&path, mode).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(61_234), Some(61_235)).unwrap();
        }
        let before = path.metadata().unwrap();
        assert_eq!(rewrite("one", "two"), Vec::<String>::new());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "\u{feff}two");
        let after = path.metadata().unwrap();
        let kept = |found: &std::fs::Metadata| (found.uid(), found.gid(), found.mode());
        assert_eq!(kept(&after), kept(&before));

        let changed = rewrite("one", "three");
        assert!(changed[0].contains("it changed after it was read"), "{changed:?}");
        std::fs::hard_link(&path, directory.path().join("b")).unwrap();
        let linked = rewrite("two", "three");
        assert!(linked[0].contains("it has 2 names"), "{linked:?}");
        std::fs::remove_file(directory.path().join("b")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o444);
        std::fs::set_permissions(&path, mode).unwrap();
        let read_only = rewrite("two", "three");
        assert!(read_only[0].contains("it is read-only"), "{read_only:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "\u{feff}two");
    }

    /// A pipe that no one reads would hold a pipeline for ever.
    #[cfg(unix)]
    #[test]
    fn a_pipe_without_a_reader_is_refused() {
        use std::io::Read as _;

        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("report");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let over = |bytes: &[u8]| write_over(directory.path(), Path::new("report"), bytes);
        let refused = over(b"lost").unwrap_err();
        let message = &refused.iter().next().unwrap().message;
        assert!(message.contains("no one reads the pipe"), "{message}");
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut read = vec![];
                File::open(pipe).unwrap().read_to_end(&mut read).unwrap();
                read.len()
            }
        });
        let long = vec![b'x'; 300_000];
        while over(&long).is_err() {
            std::thread::yield_now();
        }
        assert_eq!(reader.join().unwrap(), long.len());
        let looked_at = |path: &Path| Stream::new(path.to_owned(), &path.metadata().unwrap());
        let pipe = looked_at(&pipe);
        assert!(write_stream(&pipe, b"", Duration::ZERO).is_err(), "its reader is gone");
        let idle = File::options().read(true).write(true).open(&pipe.path);
        let idle = idle.unwrap();
        let stuck = write_stream(&pipe, &long, Duration::ZERO).unwrap_err();
        assert_eq!(stuck.kind(), ErrorKind::TimedOut);
        drop(idle);
        // Another user can exchange the pipe for a link after it was looked at.
        let kept = directory.path().join("kept");
        std::fs::write(&kept, "before").unwrap();
        std::fs::remove_file(&pipe.path).unwrap();
        std::os::unix::fs::symlink(&kept, &pipe.path).unwrap();
        let refused = write_stream(&pipe, b"report", Duration::ZERO).unwrap_err();
        assert!(refused.to_string().contains("taken its place"), "{refused}");
        assert_eq!(std::fs::read(&kept).unwrap(), b"before");
    }

    #[cfg(unix)]
    #[test]
    fn a_private_file_has_mode_0600_and_follows_no_link() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        write_private(directory.path(), Path::new("plan"), b"{}").unwrap();
        let plan = directory.path().join("plan");
        let mode = plan.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path().join("target"), &link).unwrap();
        assert!(write_private(directory.path(), Path::new("link"), b"{}").is_err());
        assert!(!directory.path().join("target").exists());
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let write = |file: &str, bytes: &[u8]| -> Vec<Code> {
            let result = write_new(directory.path(), Path::new(file), bytes);
            result.err().iter().flatten().map(|one| one.code).collect()
        };
        assert_eq!(write("volume.hcl", b"first"), []);
        assert_eq!(write("volume.hcl", b"second"), [Code::CliFileExists]);
        assert_eq!(write("volume.hcl/below", b""), [Code::CliFile]);
        let kept = std::fs::read(directory.path().join("volume.hcl")).unwrap();
        assert_eq!(kept, b"first");
    }
}
