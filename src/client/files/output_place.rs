//! Where an output goes when links are on its path.
//!
//! A tree from others, such as the checkout of a change, can have links at the places of outputs. So a path in the working
//! directory does not lead to a file outside of it, and a link of another user is followed nowhere. A path that leaves the
//! working directory by itself was chosen by the person who gave it. What is no file, such as `/dev/stdout` or a pipe, is
//! written to as it is; a block device never.

use std::fs::Metadata;
use std::path::{Component, Path, PathBuf};

use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};

/// Where an output goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A file or a directory, or where one can be made: a path without links.
    File(PathBuf),
    /// Something that is written to.
    Stream(Stream),
}

/// A pipe or a device that was looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) path: PathBuf,
    /// Its file system and number, by which it is known when it is opened.
    #[cfg(unix)]
    identity: (u64, u64),
}

impl Stream {
    pub(super) fn new(path: PathBuf, found: &Metadata) -> Self {
        Self {
            path,
            #[cfg(unix)]
            identity: identity(found),
        }
    }

    /// Returns whether what was opened is what was looked at: another user may have exchanged it since.
    #[cfg(unix)]
    pub(super) fn is(&self, opened: &Metadata) -> bool {
        self.identity == identity(opened)
    }
}

#[cfg(unix)]
fn identity(found: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;

    (found.dev(), found.ino())
}

/// Returns where an output goes whose path is relative to the working directory.
///
/// # Errors
/// If the path leads where an output must not go, or cannot be followed.
#[cfg(unix)]
pub(super) fn place_of(working_directory: &Path, file: &Path) -> Result<Place, Diagnostics> {
    use std::os::unix::fs::FileTypeExt as _;

    let path = working_directory.join(file);
    let real = walk::without_links(&path).map_err(|refusal| refused(file, &refusal))?;
    if let Ok(found) = path.metadata()
        && !found.is_file()
        && !found.is_dir()
    {
        return match found.file_type().is_block_device() {
            true => Err(refused(file, &walk::Refusal::BlockDevice)),
            false => Ok(Place::Stream(Stream::new(path, &found))),
        };
    }
    let working = walk::without_links(working_directory);
    let working = working.map_err(|refusal| refused(file, &refusal))?;
    if lexically(&path).starts_with(lexically(working_directory)) && !real.starts_with(&working) {
        return Err(refused(file, &walk::Refusal::LeadsOut { target: real }));
    }
    Ok(Place::File(real))
}

/// Other systems have no such links in checkouts.
#[cfg(not(unix))]
pub(super) fn place_of(working_directory: &Path, file: &Path) -> Result<Place, Diagnostics> {
    let path = working_directory.join(file);
    match path.metadata() {
        Ok(found) if !found.is_file() && !found.is_dir() => {
            Ok(Place::Stream(Stream::new(path, &found)))
        }
        Ok(_) | Err(_) => Ok(Place::File(path)),
    }
}

/// Returns where a new file goes: only its directory may be reached by links.
///
/// # Errors
/// See [`place_of`].
pub(super) fn place_of_new(working_directory: &Path, file: &Path) -> Result<PathBuf, Diagnostics> {
    let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else {
        return Ok(working_directory.join(file));
    };
    match place_of(working_directory, directory)? {
        Place::File(directory) => Ok(directory.join(name)),
        Place::Stream(stream) => Ok(stream.path.join(name)),
    }
}

/// A file whose directory is held: it stays in the directory that was looked at, whatever another user has made of the path
/// since.
pub(super) struct HeldFile {
    path: PathBuf,
    #[cfg(target_os = "linux")]
    _directory: Option<std::os::fd::OwnedFd>,
}

impl HeldFile {
    /// Holds the directory of a path that has no links.
    ///
    /// # Errors
    /// If the directory cannot be opened, or a link is on the path by now.
    #[cfg(target_os = "linux")]
    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        use std::os::fd::AsRawFd as _;

        use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
        use rustix::io::Errno;

        let plain = || Self { path: path.to_owned(), _directory: None };
        let descriptors = Path::new("/proc/self/fd");
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(plain());
        };
        if directory.as_os_str().is_empty() || !descriptors.exists() {
            return Ok(plain());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat2(CWD, directory, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        match opened {
            Ok(opened) => Ok(Self {
                path: descriptors.join(opened.as_raw_fd().to_string()).join(name),
                _directory: Some(opened),
            }),
            // Before Linux 5.6.
            Err(Errno::NOSYS) => Ok(plain()),
            Err(error) => Err(error.into()),
        }
    }

    /// Other systems have no such call.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        Ok(Self { path: path.to_owned() })
    }

    /// Returns a path that leads to the file while it is held.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(unix)]
fn refused(file: &Path, refusal: &walk::Refusal) -> Diagnostics {
    let shown = file.display();
    let message = format!("cannot write `{shown}`: {refusal}");
    let diagnostic = Diagnostic::error(Code::CliFile, message);
    match refusal {
        walk::Refusal::LeadsOut { target } => diagnostic
            .help(format!("remove the link, or name `{}` if it is meant", target.display())),
        walk::Refusal::ForeignLink { .. } => {
            diagnostic.help("choose another place, or ask that user to remove the link")
        }
        walk::Refusal::BlockDevice => diagnostic.help("name a file"),
        walk::Refusal::Unknown { .. } => {
            diagnostic.help("check the path, its permissions and the free disk space")
        }
    }
    .into()
}

#[cfg(unix)]
mod walk {
    use std::ffi::OsString;
    use std::fmt;
    use std::io;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::{Component, Path, PathBuf};

    /// How many links a path may have, as on Linux.
    const MOST_LINKS: usize = 40;

    /// Why nothing is written.
    #[derive(Debug)]
    pub(super) enum Refusal {
        /// A path in the working directory leads out of it.
        LeadsOut {
            /// Where it leads.
            target: PathBuf,
        },
        /// A link on the path belongs to another user.
        ForeignLink {
            /// The link.
            link: PathBuf,
            /// The user.
            owner: u32,
        },
        /// A disk.
        BlockDevice,
        /// The path cannot be followed.
        Unknown {
            /// Why.
            reason: String,
        },
    }

    impl fmt::Display for Refusal {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::LeadsOut { target } => write!(
                    f,
                    "a link on its path leads to `{}`, outside of the working directory",
                    target.display()
                ),
                Self::ForeignLink { link, owner } => write!(
                    f,
                    "`{}` is a link of user {owner}, which is not followed",
                    link.display()
                ),
                Self::BlockDevice => f.write_str("it is a block device"),
                Self::Unknown { reason } => f.write_str(reason),
            }
        }
    }

    impl From<io::Error> for Refusal {
        fn from(error: io::Error) -> Self {
            let reason = error.to_string();
            Self::Unknown { reason }
        }
    }

    /// A part of a path that was not followed yet.
    enum Step {
        Root,
        Parent,
        Name(OsString),
    }

    /// Returns the path without links. What does not exist has none.
    pub(super) fn without_links(path: &Path) -> Result<PathBuf, Refusal> {
        let mut steps = steps_of(path);
        let mut real = PathBuf::new();
        let mut links = 0;
        while let Some(step) = steps.pop() {
            match step {
                Step::Root => real = PathBuf::from("/"),
                Step::Parent => drop(real.pop()),
                Step::Name(name) => {
                    let next = real.join(name);
                    match next.symlink_metadata() {
                        Ok(found) if found.is_symlink() => {
                            links += 1;
                            if links > MOST_LINKS {
                                return Err(io::Error::from(rustix::io::Errno::LOOP).into());
                            }
                            let owner = found.uid();
                            if owner != 0 && owner != rustix::process::geteuid().as_raw() {
                                return Err(Refusal::ForeignLink { link: next, owner });
                            }
                            steps.extend(steps_of(&next.read_link()?));
                        }
                        Ok(_) => real = next,
                        Err(error) if error.kind() == io::ErrorKind::NotFound => real = next,
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(real)
    }

    /// Returns the steps of a path, the first one last.
    fn steps_of(path: &Path) -> Vec<Step> {
        let steps = path.components().filter_map(|part| match part {
            Component::RootDir => Some(Step::Root),
            Component::ParentDir => Some(Step::Parent),
            Component::Normal(name) => Some(Step::Name(name.to_owned())),
            Component::CurDir | Component::Prefix(_) => None,
        });
        let mut steps: Vec<_> = steps.collect();
        steps.reverse();
        steps
    }
}

/// Returns the path as it is written, without `..`.
pub(super) fn lexically(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part @ (Component::RootDir | Component::Prefix(_) | Component::Normal(_)) => {
                plain.push(part);
            }
        }
    }
    plain
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn problem(result: Result<Place, Diagnostics>) -> String {
        result.unwrap_err().iter().next().unwrap().message.clone()
    }

    /// The author of a change chooses what is in the tree, and the person at the command what is outside.
    #[test]
    fn a_path_in_the_tree_does_not_lead_out_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        let (tree, home) = (directory.join("tree"), directory.join("home"));
        for path in [&tree, &home, &tree.join("real")] {
            std::fs::create_dir(path).unwrap();
        }
        std::fs::write(home.join("bashrc"), "old").unwrap();
        for (link, target) in [
            ("file", "../home/bashrc"),
            ("new", "../home/new"),
            ("twice", "file"),
            ("home", "../home"),
            ("absolute", home.to_str().unwrap()),
            ("inner", "real"),
            ("loop", "loop"),
            ("null", "/dev/null"),
        ] {
            symlink(target, tree.join(link)).unwrap();
        }
        for (path, target) in [
            ("file", "bashrc"),
            ("./file", "bashrc"),
            ("real/../file", "bashrc"),
            ("new", "new"),
            ("twice", "bashrc"),
            ("home/new", "new"),
            ("home/deep/new", "deep/new"),
            ("absolute/bashrc", "bashrc"),
        ] {
            let target = home.join(target);
            let expected = format!(
                "cannot write `{path}`: a link on its path leads to `{}`, outside of the working directory",
                target.display()
            );
            assert_eq!(problem(place_of(&tree, Path::new(path))), expected);
            let absolute = tree.join(path);
            assert!(place_of(&tree, &absolute).is_err(), "{path}");
            // A person elsewhere names the same place.
            let place = place_of(&directory, &absolute).unwrap();
            assert_eq!(place, Place::File(target), "{path}");
        }
        let file = |path: &str| Place::File(directory.join(path));
        for (path, expected) in
            [("inner/new", file("tree/real/new")), ("../home/bashrc", file("home/bashrc"))]
        {
            assert_eq!(place_of(&tree, Path::new(path)).unwrap(), expected);
        }
        for (path, expected) in [("null", tree.join("null")), ("/dev/null", "/dev/null".into())] {
            let found = Path::new("/dev/null").metadata().unwrap();
            let expected = Place::Stream(Stream::new(expected, &found));
            assert_eq!(place_of(&tree, Path::new(path)).unwrap(), expected);
        }
        assert!(problem(place_of(&tree, Path::new("loop"))).contains("symbolic links"));
        assert!(place_of_new(&tree, Path::new("home/new")).is_err());
        let new = place_of_new(&tree, Path::new("inner/new")).unwrap();
        assert_eq!(new, tree.join("real/new"));
    }

    /// Another user exchanges a directory of the path by a link after it was looked at, or while it is written to.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_directory_that_is_exchanged_leads_nowhere_else() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        for name in ["shared", "home"] {
            std::fs::create_dir(directory.join(name)).unwrap();
        }
        let Ok(Place::File(path)) = place_of(&directory, Path::new("shared/report")) else {
            panic!("it is no file");
        };
        let held = HeldFile::of(&path).unwrap();
        std::fs::rename(directory.join("shared"), directory.join("moved")).unwrap();
        symlink("home", directory.join("shared")).unwrap();
        std::fs::write(held.path(), "report").unwrap();
        let written = std::fs::read_to_string(directory.join("moved/report"));
        assert_eq!(written.unwrap(), "report");
        let refused = HeldFile::of(&path).err().unwrap();
        assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
        let home = std::fs::read_dir(directory.join("home")).unwrap();
        assert_eq!(home.count(), 0);
    }

    /// `/tmp` is a place where everybody can put a link.
    #[test]
    fn a_link_of_another_user_is_not_followed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        std::fs::create_dir(directory.join("tree")).unwrap();
        std::fs::create_dir(directory.join("real")).unwrap();
        for link in ["link", "tree/link"] {
            let path = directory.join(link);
            symlink(directory.join("real"), &path).unwrap();
            std::os::unix::fs::lchown(&path, Some(61_234), None).unwrap();
            for output in [path.clone(), path.join("report")] {
                let expected = format!(
                    "cannot write `{}`: `{}` is a link of user 61234, which is not followed",
                    output.display(),
                    path.display()
                );
                assert_eq!(problem(place_of(&directory.join("tree"), &output)), expected);
            }
        }
    }
}
