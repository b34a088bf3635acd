//! The directories of an agent: created at the start, cleaned up at the stop.
//!
//! ```text
//! DATA/                 mode 0700; `store` owns the journal, the key and the lock
//!   journal.redb
//!   secrets.key
//!   node.id             which node of the state this agent is
//!   role                the process of a server's or a node's directory
//!   node.place          where a node's directory was made
//!   node.secret         what no other node of a cluster knows
//!   cluster.json        the cluster of the node, and the highest place in its log that it has seen
//!   operator.token      what a client of the TCP address must know to change something
//!   plugins/hostpath/   state and data of the embedded plugin
//!   plugins/hostpath.process   the process that runs it
//!   plugins/ID.process  the process of a plugin that the agent did not start
//!   mounts/             where volumes are staged and published, and which these are
//!   run/                sockets: agent.sock, hostpath.sock, and HASH/csi.sock of plugin tasks
//! ```
//!
//! The path of a Unix socket has at most 107 bytes. If `DATA/run` is too long, sockets are in a
//! private directory below the user's runtime directory or the one for temporary files. Its name
//! depends on the data directory only, so crashes leave at most one.
//!
//! Another user who could write to one of these directories could take secrets from the agent. So
//! `private` creates and checks them, and no link inside the data directory is followed.
//!
//! A temporary data directory is removed at the stop, but never through a mount.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::config::DataDirSetting;
use nomad_csi_hostpath::first_mount_using;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::private::{
    NotPrivate, create_directory, create_subdirectory, has_private_mode, remove_tree,
};
use nomad_csi_model::{AllocId, OPERATOR_TOKEN_FILE, hex};
use nomad_csi_node::mounts::LinuxBlockStorage;
use nomad_csi_ports::{BlockStorage as _, MountEntry};

/// `sun_path` has 108 bytes, the last of which is zero.
const SOCKET_PATH_LIMIT: usize = 107;
/// The socket of the embedded plugin.
const PLUGIN_SOCKET: &str = "hostpath.sock";
/// As long as the longest name of a socket, which is that of a plugin's task.
const LONGEST_SOCKET: &str = "0123456789ab/csi.sock";

/// The data directory of an agent, before it is locked.
#[derive(Clone, Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    is_temporary: bool,
}

impl DataDir {
    /// Creates the directory if it is missing. Blocks.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(super) fn prepare(setting: &DataDirSetting) -> Result<Self, Diagnostics> {
        let (path, is_temporary) = match setting {
            DataDirSetting::Persistent(path) => (persistent(path)?, false),
            DataDirSetting::Temporary => (temporary()?, true),
        };
        Ok(Self { path, is_temporary })
    }

    /// The absolute path, without symbolic links.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The directories of an agent that holds the lock. Every function blocks.
#[derive(Clone, Debug)]
pub(super) struct AgentDirs {
    data: PathBuf,
    sockets: PathBuf,
    is_temporary: bool,
}

impl AgentDirs {
    /// Creates the directories that are missing.
    ///
    /// # Errors
    /// If one cannot be created.
    pub(super) fn create_dirs(dirs: DataDir, runtime: Option<&Path>) -> Result<Self, Diagnostics> {
        let sockets = sockets_directory(&dirs.path, runtime)?;
        let dirs = Self { data: dirs.path, sockets, is_temporary: dirs.is_temporary };
        let plugin = dirs.plugin_state();
        for directory in plugin.parent().into_iter().chain([plugin.as_path()]) {
            create_subdirectory(directory).map_err(|error| unusable(directory, &error))?;
        }
        Ok(dirs)
    }

    /// The data directory.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// Returns whether the data directory is removed at the stop.
    pub(super) fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// The agent's socket.
    pub(super) fn agent_socket(&self) -> PathBuf {
        self.sockets.join("agent.sock")
    }

    /// The embedded plugin's socket.
    pub(super) fn plugin_socket(&self) -> PathBuf {
        self.sockets.join(PLUGIN_SOCKET)
    }

    /// The directory that holds the directories of the sockets of plugin tasks.
    pub(super) fn plugin_sockets(&self) -> PathBuf {
        self.sockets.clone()
    }

    /// The state directory of the embedded plugin.
    pub(super) fn plugin_state(&self) -> PathBuf {
        self.data.join("plugins").join("hostpath")
    }

    /// The catalogue of the embedded plugin.
    pub(super) fn plugin_catalog(&self) -> PathBuf {
        self.plugin_state().join("catalog.redb")
    }

    /// The journal file.
    pub(super) fn journal(&self) -> PathBuf {
        journal_file(&self.data)
    }

    /// The file of the key that seals secrets.
    pub(super) fn key_file(&self) -> PathBuf {
        key_file(&self.data)
    }

    /// The file of the operator's token.
    pub(super) fn operator_token(&self) -> PathBuf {
        self.data.join(OPERATOR_TOKEN_FILE)
    }

    /// The file that says which node this is.
    pub(super) fn node_id_file(&self) -> PathBuf {
        self.data.join("node.id")
    }

    /// The file with the secret of the node.
    pub(super) fn node_secret_file(&self) -> PathBuf {
        self.data.join("node.secret")
    }

    /// The file with what the node remembers of its cluster.
    pub(super) fn cluster_file(&self) -> PathBuf {
        self.data.join("cluster.json")
    }

    /// The directory below which volumes are staged and published. It is created with the first one.
    pub(super) fn mounts(&self) -> PathBuf {
        self.data.join("mounts")
    }

    /// The file that names the process of the embedded plugin.
    pub(super) fn plugin_process(&self) -> PathBuf {
        self.data.join("plugins").join("hostpath.process")
    }

    /// The directory of what is remembered of plugins.
    pub(super) fn plugin_records(&self) -> PathBuf {
        self.data.join("plugins")
    }

    /// The file that names the process of a plugin that the agent did not start.
    pub(super) fn running_process(&self, task: &AllocId) -> PathBuf {
        self.plugin_records().join(format!("{task}.process"))
    }

    /// Removes the sockets. The caller still holds the lock: the next agent's have the same names.
    pub(super) fn remove_sockets(&self) {
        for socket in [self.agent_socket(), self.plugin_socket()] {
            log_failure(&socket, fs::remove_file(&socket));
        }
        // The directory stays if the plugin created a file beside its socket.
        let _kept_if_not_empty = fs::remove_dir(&self.sockets);
    }

    /// Removes a temporary data directory with its contents, unless a volume in it is still in use.
    /// Logs what cannot be removed.
    pub(super) fn remove_if_temporary(&self, mounts: &[MountEntry]) {
        if !self.is_temporary {
            return;
        }
        if let Some(mount) = first_mount_using(&self.data, mounts) {
            tracing::warn!(
                data = %self.data.display(),
                mount = %mount.target.display(),
                "the temporary directory was kept: a volume in it is still mounted"
            );
            return;
        }
        let devices = LinuxBlockStorage::default().attached(&self.data);
        if let Some(device) = devices.unwrap_or_default().first() {
            tracing::warn!(
                data = %self.data.display(),
                device = %device.path.display(),
                "the temporary directory was kept: a volume in it is still in use"
            );
            return;
        }
        log_failure(&self.data, remove_tree(&self.data));
    }
}

fn log_failure(path: &Path, removed: io::Result<()>) {
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "cannot remove the path");
    }
}

/// Returns the journal file of a data directory.
pub(super) fn journal_file(data: &Path) -> PathBuf {
    data.join("journal.redb")
}

/// Returns the file that the journal of a data directory is when it was moved to etcd.
pub(super) fn moved_journal_file(data: &Path) -> PathBuf {
    data.join("journal.moved.redb")
}

/// Returns the file of a data directory with the key that seals secrets.
pub(super) fn key_file(data: &Path) -> PathBuf {
    data.join("secrets.key")
}

/// Creates a data directory and returns its absolute path without symbolic links, which identifies it.
fn persistent(path: &Path) -> Result<PathBuf, Diagnostics> {
    create_directory(path).map_err(|error| unusable(path, &error))
}

fn temporary() -> Result<PathBuf, Diagnostics> {
    let created = tempfile::Builder::new().prefix("nomad-csi-").tempdir();
    // The guard is disarmed, because it would delete through mounts.
    let created = created.map(tempfile::TempDir::keep);
    let created = created.and_then(|path| {
        // The umask may have removed the owner's permissions.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        create_directory(&path)
    });
    created.map_err(|error| {
        Diagnostic::error(
            Code::AgentDirectory,
            format!("cannot create a temporary directory for the agent: {error}"),
        )
        .help("specify a directory with `--data-dir DIR`, or set `TMPDIR`")
        .into()
    })
}

fn unusable(path: &Path, error: &io::Error) -> Diagnostics {
    if let Some(refused) = NotPrivate::find(error) {
        let problem = refused.diagnostic("use the directory");
        return problem
            .note("another user could take secrets from an agent that works there")
            .into();
    }
    Diagnostic::error(
        Code::AgentDirectory,
        format!("cannot use the directory `{}`: {error}", path.display()),
    )
    .into()
}

fn sockets_directory(data: &Path, runtime: Option<&Path>) -> Result<PathBuf, Diagnostics> {
    let preferred = data.join("run");
    if fits(&preferred) {
        create_subdirectory(&preferred).map_err(|error| unusable(&preferred, &error))?;
        return Ok(preferred);
    }
    let digest = Sha256::digest(data.as_os_str().as_encoded_bytes());
    let name: String = "nomad-csi-".chars().chain(hex(&digest[..6])).collect();
    let temporary = tempfile::env::temp_dir();
    let candidates = runtime.into_iter().chain([temporary.as_path()]).map(|base| base.join(&name));
    candidates
        .filter(|candidate| fits(candidate))
        .find(|candidate| is_private(candidate).unwrap_or(false))
        .ok_or_else(|| {
            Diagnostic::error(
                Code::AgentDirectory,
                format!(
                    "cannot choose a directory for the agent's sockets: the path `{}` is longer than {SOCKET_PATH_LIMIT} bytes or not UTF-8",
                    preferred.join(LONGEST_SOCKET).display()
                ),
            )
            .help("use a data directory with a shorter path, or set `XDG_RUNTIME_DIR`")
            .into()
        })
}

/// Returns whether socket paths in the directory are short enough, and UTF-8, as endpoints have to be.
fn fits(sockets: &Path) -> bool {
    let longest = sockets.join(LONGEST_SOCKET);
    longest.to_str().is_some_and(|path| path.len() <= SOCKET_PATH_LIMIT)
}

/// Creates the directory if it is missing. Returns whether it is a directory that only this user can
/// use; another user may have created it.
fn is_private(path: &Path) -> io::Result<bool> {
    if let Some(parent) = path.parent()
        && !parent.try_exists()?
    {
        create_directory(parent)?;
    }
    create_subdirectory(path)?;
    has_private_mode(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use nomad_csi_ports::MountFlags;

    fn create(setting: &DataDirSetting, runtime: Option<&Path>) -> AgentDirs {
        AgentDirs::create_dirs(DataDir::prepare(setting).unwrap(), runtime).unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn created_directories_are_private() {
        let base = tempfile::tempdir().unwrap();
        let data = DataDirSetting::Persistent(base.path().join("deep/data"));
        let dirs = create(&data, None);
        let sockets = dirs.agent_socket().with_file_name("");
        for path in [dirs.data(), &dirs.plugin_state(), &sockets] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        assert_eq!(create(&data, None).agent_socket(), dirs.agent_socket());
    }

    #[test]
    fn sockets_of_a_long_path_are_in_the_runtime_directory() {
        let base = tempfile::tempdir().unwrap();
        let runtime = base.path().join("runtime");
        let data = DataDirSetting::Persistent(base.path().join("x".repeat(100)));
        let dirs = create(&data, Some(&runtime));
        let socket = dirs.agent_socket();
        assert!(socket.starts_with(&runtime), "{}", socket.display());
        UnixListener::bind(&socket).unwrap();
        let again = create(&data, Some(&runtime));
        assert_eq!(again.agent_socket(), socket, "the path depends on the data directory only");
        dirs.remove_sockets();
        dirs.remove_if_temporary(&[]);
        assert!(!socket.parent().unwrap().exists());
        assert!(dirs.data().exists(), "a persistent directory stays");
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
        assert!(is_private(&link).is_err());
        assert!(is_private(&base.path().join("new")).unwrap());
    }

    #[test]
    fn a_temporary_directory_is_removed_without_following_links() {
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("kept"), "").unwrap();
        let dirs = create(&DataDirSetting::Temporary, None);
        fs::create_dir_all(dirs.plugin_state().join("volumes/a")).unwrap();
        fs::write(dirs.plugin_state().join("volumes/a/file"), "x").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), dirs.data().join("link")).unwrap();
        dirs.remove_if_temporary(&[]);
        assert!(!dirs.data().exists());
        assert!(elsewhere.path().join("kept").exists());
    }

    #[test]
    fn a_temporary_directory_stays_while_a_volume_in_it_is_mounted() {
        let dirs = create(&DataDirSetting::Temporary, None);
        let volume = dirs.plugin_state().join("volumes/a");
        let mount = |target: PathBuf, root: PathBuf| MountEntry {
            id: 1,
            target,
            root,
            device: "8:1".to_owned(),
            source: "/dev/sda1".to_owned(),
            flags: MountFlags::default(),
        };
        let root = mount("/".into(), "/".into());
        let mounts = [root.clone(), mount("/elsewhere".into(), volume)];
        dirs.remove_if_temporary(&mounts);
        assert!(dirs.data().exists());
        dirs.remove_if_temporary(&[root]);
        assert!(!dirs.data().exists());
    }

    #[test]
    fn the_error_names_a_directory_that_cannot_be_created() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        let problem = DataDir::prepare(&DataDirSetting::Persistent(file.join("data"))).unwrap_err();
        let problem = problem.iter().next().unwrap();
        assert_eq!(problem.code, Code::AgentDirectory);
        assert!(problem.message.contains("file/data`: Not a directory"), "{}", problem.message);
    }
}
