//! The restrictions of a mount, as the kernel takes them.

use rustix::mount::MountFlags as Flags;

use nomad_csi_ports::MountFlags;

/// Returns the flags as mount(2) takes them.
pub(super) fn to_kernel(flags: MountFlags) -> Flags {
    let mut kernel = Flags::empty();
    for (is_set, flag) in [
        (flags.read_only, Flags::RDONLY),
        (flags.no_exec, Flags::NOEXEC),
        (flags.no_suid, Flags::NOSUID),
        (flags.no_dev, Flags::NODEV),
        (flags.no_atime, Flags::NOATIME),
        (flags.no_dir_atime, Flags::NODIRATIME),
    ] {
        kernel.set(flag, is_set);
    }
    kernel
}
