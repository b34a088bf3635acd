//! The root of an `exec` task, in the mount namespace of its stage.
//!
//! The order matters. First every source that must be a certain mount is opened and compared with what the agent
//! recorded. It stays open until its copy is known to be the same file, so nothing can come between: no task gets the
//! bare directory below a mount that is gone. Copies of the task's mounts are made next, while they are peers of the
//! host's. Then everything becomes a slave: nothing that is mounted here reaches the host, and what the host unmounts
//! leaves. The root is a tmpfs with the host's programs, read-only. After the old root is left, which takes all other
//! copies of the host's mounts with it, the task's mounts are made: their destinations cannot lead out of the new root.

use std::ffi::CStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{
    MountFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_remount, unmount,
};
use rustix::thread::UnshareFlags;

use super::action_error::about;
use super::destination::open_destination;
use super::host_directories::NoOwners;
use super::launch::unshare;
use super::masked_paths::protect_kernel_files;
use super::run_files::RunFiles;
use super::run_spec::{RunSpec, TaskRoot};
use super::stage_report::LostSource;
use crate::mounts::{
    OpenedSource, attach_tree, clone_tree, clone_without_links, descriptor_path,
    make_attached_read_only, make_private_below, make_read_only_below, make_slave_below,
    open_source,
};
use crate::task_run::TaskMount;
use nomad_csi_model::PropagationMode;
use nomad_csi_ports::SourceIdentity;

/// The paths of the host that a task sees: the list of Nomad's driver `exec`.
const HOST: [&str; 9] = [
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/run/resolvconf",
    "/run/systemd/resolve",
    "/sbin",
    "/usr",
];
/// The devices of the host in the `/dev` of a task.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// The links in the `/dev` of a task.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Returns why the task does not see its program, although the host may have it; `None` if it sees the path.
pub(super) fn hidden_from(spec: &RunSpec) -> Option<String> {
    let mut mounted = spec.mounts.iter().map(|mount| &*mount.destination);
    let is_seen = spec.root == TaskRoot::Host
        || spec.command.is_relative()
        || mounted.any(|path| spec.command.starts_with(path))
        || HOST.iter().any(|path| spec.command.starts_with(path));
    (!is_seen).then(|| {
        let seen = HOST.join(", ");
        format!("of the host, a task of the driver `exec` sees only {seen}")
    })
}

/// Directories that programs expect.
const EMPTY: [&str; 7] = ["dev", "proc", "root", "run", "sys", "tmp", "var"];
/// Of the root, which has directories and empty files only.
const ROOT_OPTIONS: &CStr = c"mode=0755,size=4m,nr_inodes=16k";
/// Of `/tmp`, which is memory of the host.
const TMP_OPTIONS: &CStr = c"mode=1777,size=256m,nr_inodes=64k";
/// The flags of file systems without programs and devices.
const DATA_ONLY: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// A mount of the task whose source is held, if it must be a certain one.
struct HeldSource<'a> {
    mount: &'a TaskMount,
    opened: Option<OpenedSource>,
}

/// A mount of the task that is not at its destination yet.
struct DetachedMount<'a> {
    mount: &'a TaskMount,
    /// The path that is mounted, without symbolic links.
    source: PathBuf,
    tree: OwnedFd,
}

/// Replaces the root of this process, which has one thread, by the task's.
///
/// # Errors
/// Names what could not be mounted, why, and what to change.
pub(super) fn enter_new_root(run: &RunFiles, spec: &RunSpec) -> io::Result<()> {
    let root = &run.root();
    // In the mount namespace of the agent: mounts have other numbers in the next one.
    let held = hold_sources(&spec.mounts)?;
    unshare(namespaces_of(spec))
        .map_err(|error| about("create the namespaces of the task", &error))?;
    let detached = detach_mounts(held, spec.root)?;
    make_slave_below(Path::new("/"))?;
    make_skeleton(run, spec).map_err(|error| about("make the root of the task", &error))?;
    leave_old_root(root).map_err(|error| about("enter the root of the task", &error))?;
    for hidden in &spec.hidden {
        hide(hidden).map_err(|error| about(&format!("hide `{}`", hidden.display()), &error))?;
    }
    for detached in detached {
        attach(&detached, &spec.hidden).map_err(|error| refused(detached.mount, &error))?;
    }
    if spec.root == TaskRoot::Own {
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
        mount_remount("/", flags, c"")?;
    }
    Ok(())
}

fn hold_sources(mounts: &[TaskMount]) -> io::Result<Vec<HeldSource<'_>>> {
    let held = mounts.iter().map(|mount| {
        let expected = mount.identity.as_ref();
        let opened = expected.map(|expected| hold_source(&mount.source, expected));
        Ok(HeldSource { mount, opened: opened.transpose()? })
    });
    held.collect()
}

/// Opens a source, and refuses another one than the agent recorded.
fn hold_source(source: &Path, expected: &SourceIdentity) -> io::Result<OpenedSource> {
    let opened = open_source(source).map_err(|error| lost(source, &error.to_string()))?;
    if opened.identity.is(expected) {
        return Ok(opened);
    }
    Err(lost(
        source,
        match opened.identity.is_volume() {
            true => "another mount is there",
            false => "nothing is mounted there",
        },
    ))
}

fn lost(source: &Path, reason: &str) -> io::Error {
    let shown = source.display();
    io::Error::other(LostSource {
        path: source.to_owned(),
        reason: format!("the volume is no longer mounted at `{shown}`: {reason}"),
    })
}

/// A plugin shares the host's IPC namespace, where it waits for `udev`.
fn namespaces_of(spec: &RunSpec) -> UnshareFlags {
    let own = UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    match spec.root {
        TaskRoot::Own if spec.control_group.is_some() => own | UnshareFlags::NEWCGROUP,
        TaskRoot::Own => own,
        TaskRoot::OwnPrivileged | TaskRoot::Host => UnshareFlags::NEWNS,
    }
}

fn detach_mounts(held: Vec<HeldSource<'_>>, root: TaskRoot) -> io::Result<Vec<DetachedMount<'_>>> {
    let clone = match root {
        // A plugin mounts what the agent made, at the paths of its operator.
        TaskRoot::OwnPrivileged => clone_tree,
        TaskRoot::Own | TaskRoot::Host => clone_without_links,
    };
    let detached = held.into_iter().map(|HeldSource { mount, opened }| {
        // Later mounts of the host below a private one belong to others.
        let is_recursive = mount.propagation != PropagationMode::Private;
        let tree = clone(&mount.source, is_recursive)
            .and_then(|tree| Ok((tree, fs::canonicalize(&mount.source)?)));
        let (tree, source) =
            tree.map_err(|error| about(&format!("mount `{}`", mount.source.display()), &error))?;
        if let Some(opened) = opened
            && !opened.is_same_file(&tree)?
        {
            return Err(lost(&mount.source, "it was unmounted a moment ago"));
        }
        Ok(DetachedMount { mount, source, tree })
    });
    detached.collect()
}

fn make_skeleton(run: &RunFiles, spec: &RunSpec) -> io::Result<()> {
    let root = &run.root();
    let no_owners = match spec.root {
        TaskRoot::Own => NoOwners::for_task(run, spec)?,
        TaskRoot::OwnPrivileged | TaskRoot::Host => None,
    };
    let options = match spec.root {
        TaskRoot::Own | TaskRoot::Host => ROOT_OPTIONS,
        // A plugin may keep files there.
        TaskRoot::OwnPrivileged => c"mode=0755",
    };
    mount("tmpfs", root, "tmpfs", MountFlags::NOSUID, options)?;
    for path in HOST {
        show_host_directory(root, Path::new(path), no_owners.as_ref())?;
    }
    for name in EMPTY {
        make_directory(&root.join(name))?;
    }
    mount_proc(&root.join("proc"), spec.root)?;
    let tmp_flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", root.join("tmp"), "tmpfs", tmp_flags, TMP_OPTIONS)?;
    mount_bind_recursive("/sys", root.join("sys"))?;
    match spec.root {
        TaskRoot::OwnPrivileged => Ok(mount_bind_recursive("/dev", root.join("dev"))?),
        TaskRoot::Own | TaskRoot::Host => {
            make_private_below(&root.join("sys"))?;
            make_read_only_below(&root.join("sys"))?;
            if spec.control_group.is_some() {
                show_own_group(&root.join("sys/fs/cgroup"))?;
            }
            make_devices(&root.join("dev"))?;
            protect_kernel_files(root)
        }
    }
}

/// Mounts `/proc`. A task that is no plugin sees only processes that it may trace, so not its shim, whose `mountinfo` names all
/// mounts of the host. Before Linux 5.8, members of group 0 see the others too.
fn mount_proc(path: &Path, root: TaskRoot) -> io::Result<()> {
    let options: &[Option<&CStr>] = match root {
        TaskRoot::Own | TaskRoot::Host => &[Some(c"hidepid=4"), Some(c"hidepid=2")],
        TaskRoot::OwnPrivileged => &[None],
    };
    // The kernel allows this in a user namespace only while the old one is visible.
    let mut mounted = Err(Errno::INVAL);
    for options in options {
        mounted = mount("proc", path, "proc", DATA_ONLY, *options);
        if mounted != Err(Errno::INVAL) {
            break;
        }
    }
    mounted
        .map_err(|error| about("mount /proc; a container must not hide parts of it", &error.into()))
}

/// Shows the task its own control group and nothing above it, read-only: programs look there for their limits.
fn show_own_group(path: &Path) -> io::Result<()> {
    let flags = DATA_ONLY | MountFlags::RDONLY;
    // The kernel mounts no file system over itself, and the host's groups are there.
    mount("tmpfs", path, "tmpfs", flags, c"mode=0555,size=4k,nr_inodes=2")
        .and_then(|()| mount("cgroup2", path, "cgroup2", flags, None))
        .map_err(|error| about("show the control group of the task", &error.into()))
}

/// Shows a directory of the host, with the mounts below it, read-only.
fn show_host_directory(root: &Path, path: &Path, no_owners: Option<&NoOwners>) -> io::Result<()> {
    let target = root.join(path.strip_prefix("/").unwrap_or(path));
    match fs::symlink_metadata(path) {
        // `/bin` is a link to `usr/bin` on most systems.
        Ok(found) if found.is_symlink() => symlink(fs::read_link(path)?, target),
        Ok(_) => {
            make_directory(&target)?;
            match no_owners {
                Some(no_owners) => no_owners.show(path, &target)?,
                None => mount_bind_recursive(path, &target)?,
            }
            // Before it becomes read-only: a mount that arrives later would be writable.
            make_private_below(&target)?;
            make_read_only_below(&target)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes `root` the root, and drops all other mounts.
fn leave_old_root(root: &Path) -> io::Result<()> {
    rustix::process::chdir(root)?;
    // The old root is mounted on top of the new one, and is removed at once.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}

/// Covers a directory that the task sees with an empty one.
fn hide(directory: &Path) -> io::Result<()> {
    match fs::symlink_metadata(directory) {
        Ok(_) => {
            let flags = DATA_ONLY | MountFlags::RDONLY;
            Ok(mount("tmpfs", directory, "tmpfs", flags, c"mode=0")?)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Attaches a mount. What it contains of the hidden directories stays hidden, except for a task whose mounts the host
/// sees, which has all rights.
fn attach(detached: &DetachedMount<'_>, hidden: &[PathBuf]) -> io::Result<()> {
    let DetachedMount { mount, source, tree } = detached;
    let kind = File::from(tree.try_clone()?).metadata()?.file_type();
    if mount.read_only && kind.is_block_device() {
        return Err(io::Error::other(
            "a block device stays writable on a read-only mount; remove `read_only`",
        ));
    }
    let place = open_destination(&mount.destination, kind.is_dir())?;
    attach_tree(tree, &place)?;
    let attached = descriptor_path(tree);
    match mount.propagation {
        PropagationMode::Private => make_private_below(&attached)?,
        PropagationMode::HostToTask => make_slave_below(&attached)?,
        PropagationMode::Bidirectional => {}
    }
    if mount.propagation != PropagationMode::Bidirectional {
        for below in hidden.iter().filter_map(|it| it.strip_prefix(source).ok()) {
            hide(&mount.destination.join(below))?;
        }
    }
    // The node of a device is the host's: what a task did to its mode or owner would stay for the next volume.
    if mount.read_only || kind.is_block_device() {
        make_attached_read_only(tree)?;
    }
    Ok(())
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

fn refused(mount: &TaskMount, error: &io::Error) -> io::Error {
    let (source, destination) = (mount.source.display(), mount.destination.display());
    if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
        return io::Error::other(format!(
            "cannot mount `{source}` at `{destination}`: the host's directory there is read-only for tasks; choose \
             a destination outside of it, or create `{destination}` on the host"
        ));
    }
    about(&format!("mount `{source}` at `{destination}`"), error)
}

/// Fills the directory `dev` with the devices that every program may use.
///
/// The host's nodes are bound, which needs no CAP_MKNOD and works in a user namespace. They are bound read-only: a device
/// can be written to all the same, and root in the task cannot change the mode, owner or times of a node that the whole
/// machine uses.
///
/// # Errors
/// If something cannot be mounted.
fn make_devices(dev: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", dev, "tmpfs", flags, c"mode=0755,size=64k,nr_inodes=1k")?;
    for name in DEVICES {
        drop(File::create(dev.join(name))?);
        let node = dev.join(name);
        mount_bind(Path::new("/dev").join(name), &node)?;
        make_read_only_below(&node)?;
    }
    for (name, target) in DEVICE_LINKS {
        symlink(target, dev.join(name))?;
    }
    for name in ["pts", "shm"] {
        fs::create_dir(dev.join(name))?;
    }
    let terminals = c"newinstance,ptmxmode=0666,mode=0620";
    mount("devpts", dev.join("pts"), "devpts", flags, terminals)?;
    let shared_memory = flags | MountFlags::NODEV;
    mount("tmpfs", dev.join("shm"), "tmpfs", shared_memory, c"mode=1777,size=64m,nr_inodes=4k")?;
    Ok(())
}
