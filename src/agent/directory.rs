//! The directories that an agent works in, made at the start and tidied at the end.
//!
//! ```text
//! DATA/                 mode 0700; what the journal, the key and the lock are is `store`'s business
//!   journal.redb
//!   secrets.key
//!   plugins/hostpath/   state and data of the embedded plugin
//!   run/                sockets: agent.sock, hostpath.sock
//! ```
//!
//! A Unix socket's path has at most 107 bytes. If it would be longer in `DATA/run`, sockets are made
//! in a directory of their own in the user's runtime directory, or in the one for temporary files:
//! always the same one for the same data directory, so that crashes leave no heap of them, and used
//! only if it is this user's alone.
//!
//! A temporary data directory is removed at the end, file by file, and never through a mount: whoever
//! mounted something below it keeps it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use sha2::{Digest as _, Sha256};

use super::config::DataDirectory;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::hostpath::first_use;
use crate::model::hex;
use crate::mounts::LinuxBlockStorage;
use crate::ports::{BlockStorage as _, MountEntry};

/// `sun_path` has 108 bytes, the last of which is zero.
const SOCKET_PATH_LIMIT: usize = 107;
/// The longest name that is made in the sockets' directory.
const LONGEST_SOCKET: &str = "hostpath.sock";

/// The directory that an agent works in, before it is locked.
#[derive(Clone, Debug)]
pub(super) struct DataPlace {
    path: PathBuf,
    is_temporary: bool,
}

impl DataPlace {
    /// Makes it if it is missing. Blocks.
    ///
    /// # Errors
    /// With the directory and the reason.
    pub(super) fn prepare(wanted: &DataDirectory) -> Result<Self, Diagnostics> {
        let (path, is_temporary) = match wanted {
            DataDirectory::Kept(path) => (kept(path)?, false),
            DataDirectory::Temporary => (temporary()?, true),
        };
        Ok(Self { path, is_temporary })
    }

    /// Where it is: absolute, without symbolic links.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The directories of one agent, once it holds the lock. What is made here is removed by the agent
/// that held it before. Every function blocks.
#[derive(Clone, Debug)]
pub(super) struct Workplace {
    data: PathBuf,
    sockets: PathBuf,
    is_temporary: bool,
}

impl Workplace {
    /// Makes what is missing.
    ///
    /// # Errors
    /// With the directory and the reason.
    pub(super) fn furnish(place: DataPlace, runtime: Option<&Path>) -> Result<Self, Diagnostics> {
        let sockets = sockets_directory(&place.path, runtime)?;
        let place = Self {
            data: place.path,
            sockets,
            is_temporary: place.is_temporary,
        };
        let plugin = place.plugin_state();
        private_directory(&plugin).map_err(|error| unusable(&plugin, &error))?;
        Ok(place)
    }

    /// Where the state is.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// Whether the state goes with the agent.
    pub(super) fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Where the agent itself listens.
    pub(super) fn agent_socket(&self) -> PathBuf {
        self.sockets.join("agent.sock")
    }

    /// Where the embedded plugin listens.
    pub(super) fn plugin_socket(&self) -> PathBuf {
        self.sockets.join(LONGEST_SOCKET)
    }

    /// Where the embedded plugin keeps its volumes.
    pub(super) fn plugin_state(&self) -> PathBuf {
        self.data.join("plugins").join("hostpath")
    }

    /// Where the journal is.
    pub(super) fn journal(&self) -> PathBuf {
        self.data.join("journal.redb")
    }

    /// Where the key is that secrets are sealed with.
    pub(super) fn key_file(&self) -> PathBuf {
        self.data.join("secrets.key")
    }

    /// Removes the sockets. While the directory is still locked: the next agent's have the same names.
    pub(super) fn remove_sockets(&self) {
        for socket in [self.agent_socket(), self.plugin_socket()] {
            told(&socket, fs::remove_file(&socket));
        }
        // The plugin may have made a file beside its socket; then the directory stays.
        let _kept_if_not_empty = fs::remove_dir(&self.sockets);
    }

    /// Removes a temporary data directory with all that is in it; a kept one is kept. So is one of
    /// which something is mounted anywhere: somebody still uses a volume. What cannot be removed
    /// stays, and is told to the log.
    pub(super) fn remove_if_temporary(&self, mounts: &[MountEntry]) {
        if !self.is_temporary {
            return;
        }
        if let Some(mount) = first_use(&self.data, mounts) {
            tracing::warn!(
                data = %self.data.display(),
                mount = %mount.target.display(),
                "the temporary directory stays: a volume in it is still mounted"
            );
            return;
        }
        let devices = LinuxBlockStorage::default().attached(&self.data);
        if let Some(device) = devices.unwrap_or_default().first() {
            tracing::warn!(
                data = %self.data.display(),
                device = %device.path.display(),
                "the temporary directory stays: a volume in it is still in use"
            );
            return;
        }
        told(&self.data, remove_tree(&self.data));
    }
}

fn told(path: &Path, removed: io::Result<()>) {
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "not removed");
    }
}

/// The data directory as an absolute path without symbolic links, so that two names of one directory
/// are one directory.
fn kept(path: &Path) -> Result<PathBuf, Diagnostics> {
    let made = private_directory(path).and_then(|()| fs::canonicalize(path));
    made.map_err(|error| unusable(path, &error))
}

fn temporary() -> Result<PathBuf, Diagnostics> {
    let made = tempfile::Builder::new().prefix("nomad-csi-").tempdir();
    // Not removed by its guard, which would go through mounts.
    made.map(tempfile::TempDir::keep).map_err(|error| {
        Diagnostic::error(
            Code::AgentDirectory,
            format!("cannot make a temporary directory for the agent: {error}"),
        )
        .help("name a directory with --data-dir DIR, or set TMPDIR")
        .into()
    })
}

fn unusable(path: &Path, error: &io::Error) -> Diagnostics {
    Diagnostic::error(
        Code::AgentDirectory,
        format!(
            "the agent cannot use the directory {}: {error}",
            path.display()
        ),
    )
    .into()
}

/// Makes a directory and its parents, for this user only; one that exists stays as it is.
fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn sockets_directory(data: &Path, runtime: Option<&Path>) -> Result<PathBuf, Diagnostics> {
    let near = data.join("run");
    if fits(&near) {
        private_directory(&near).map_err(|error| unusable(&near, &error))?;
        return Ok(near);
    }
    let digest = Sha256::digest(data.as_os_str().as_encoded_bytes());
    let name: String = "nomad-csi-".chars().chain(hex(&digest[..6])).collect();
    let temporary = tempfile::env::temp_dir();
    let candidates = runtime
        .into_iter()
        .chain([temporary.as_path()])
        .map(|base| base.join(&name));
    candidates
        .filter(|candidate| fits(candidate))
        .find(|candidate| is_private(candidate).unwrap_or(false))
        .ok_or_else(|| {
            Diagnostic::error(
                Code::AgentDirectory,
                format!(
                    "there is no place for the agent's sockets: a socket's path may have {SOCKET_PATH_LIMIT} bytes of text, and {} does not fit",
                    near.join(LONGEST_SOCKET).display()
                ),
            )
            .help("use a data directory with a shorter path, or set XDG_RUNTIME_DIR")
            .into()
        })
}

/// Short enough, and text, because an endpoint is a text.
fn fits(sockets: &Path) -> bool {
    let longest = sockets.join(LONGEST_SOCKET);
    longest
        .to_str()
        .is_some_and(|path| path.len() <= SOCKET_PATH_LIMIT)
}

/// Makes the directory if it is missing. Whether it is one, and this user's alone: where everybody may
/// make directories, somebody else may have made it.
fn is_private(path: &Path) -> io::Result<bool> {
    private_directory(path)?;
    let found = fs::symlink_metadata(path)?;
    let own = found.uid() == rustix::process::geteuid().as_raw();
    Ok(found.is_dir() && own && found.mode() & 0o077 == 0)
}

/// Removes a directory and what is in it. Nothing is removed on the other side of a mount; then the
/// directories above it stay, and the error names it.
fn remove_tree(path: &Path) -> io::Result<()> {
    if is_mount_point(path)? {
        let told = format!("{} is a mount point", path.display());
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, told));
    }
    let mut first_problem = None;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let removed = if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())
        } else {
            fs::remove_file(entry.path())
        };
        first_problem = first_problem.or(removed.err());
    }
    match first_problem {
        Some(problem) => Err(problem),
        None => fs::remove_dir(path),
    }
}

/// Whether something is mounted exactly there. A kernel before 5.8 does not say; then it is taken for
/// one.
fn is_mount_point(path: &Path) -> io::Result<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, path, flags, StatxFlags::BASIC_STATS)?;
    let known = found
        .stx_attributes_mask
        .contains(StatxAttributes::MOUNT_ROOT);
    Ok(!known || found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::ports::MountFlags;

    fn place(wanted: &DataDirectory, runtime: Option<&Path>) -> Workplace {
        Workplace::furnish(DataPlace::prepare(wanted).unwrap(), runtime).unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_for_this_user_only() {
        let base = tempfile::tempdir().unwrap();
        let data = DataDirectory::Kept(base.path().join("deep/data"));
        let made = place(&data, None);
        let sockets = made.agent_socket().with_file_name("");
        for path in [made.data(), &made.plugin_state(), &sockets] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        assert_eq!(place(&data, None).agent_socket(), made.agent_socket());
    }

    #[test]
    fn sockets_of_a_long_path_are_made_where_it_is_short() {
        let base = tempfile::tempdir().unwrap();
        let runtime = base.path().join("runtime");
        let data = DataDirectory::Kept(base.path().join("x".repeat(100)));
        let made = place(&data, Some(&runtime));
        let socket = made.agent_socket();
        assert!(socket.starts_with(&runtime), "{}", socket.display());
        UnixListener::bind(&socket).unwrap();
        let again = place(&data, Some(&runtime));
        assert_eq!(
            again.agent_socket(),
            socket,
            "the same for the same directory"
        );
        made.remove_sockets();
        made.remove_if_temporary(&[]);
        assert!(!socket.parent().unwrap().exists());
        assert!(made.data().exists(), "a kept directory is kept");
    }

    #[test]
    fn a_sockets_directory_that_others_can_enter_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let open = base.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!is_private(&open).unwrap());
        let link = base.path().join("link");
        std::os::unix::fs::symlink(base.path(), &link).unwrap();
        assert!(!is_private(&link).unwrap());
        assert!(is_private(&base.path().join("new")).unwrap());
    }

    #[test]
    fn a_temporary_directory_goes_with_all_that_is_in_it_and_links_are_not_followed() {
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("kept"), "").unwrap();
        let place = place(&DataDirectory::Temporary, None);
        fs::create_dir_all(place.plugin_state().join("volumes/a")).unwrap();
        fs::write(place.plugin_state().join("volumes/a/file"), "x").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), place.data().join("link")).unwrap();
        place.remove_if_temporary(&[]);
        assert!(!place.data().exists());
        assert!(elsewhere.path().join("kept").exists());
    }

    #[test]
    fn a_temporary_directory_stays_while_a_volume_in_it_is_mounted() {
        let place = place(&DataDirectory::Temporary, None);
        let volume = place.plugin_state().join("volumes/a");
        let mount = |target: PathBuf, root: PathBuf| MountEntry {
            target,
            root,
            device: "8:1".to_owned(),
            source: "/dev/sda1".to_owned(),
            flags: MountFlags::default(),
        };
        let root = mount("/".into(), "/".into());
        let mounts = [root.clone(), mount("/elsewhere".into(), volume)];
        place.remove_if_temporary(&mounts);
        assert!(place.data().exists());
        place.remove_if_temporary(&[root]);
        assert!(!place.data().exists());
    }

    #[test]
    fn a_mount_point_is_known_as_one() {
        assert!(is_mount_point(Path::new("/proc")).unwrap());
        let base = tempfile::tempdir().unwrap();
        assert!(!is_mount_point(base.path()).unwrap());
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        let problem = DataPlace::prepare(&DataDirectory::Kept(file.join("data"))).unwrap_err();
        let problem = problem.iter().next().unwrap();
        assert_eq!(problem.code, Code::AgentDirectory);
        assert!(
            problem.message.contains("file/data: Not a directory"),
            "{}",
            problem.message
        );
    }
}
