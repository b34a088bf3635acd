//! mount(2) and block storage of a real machine.
//!
//! Mounts are bound, made of devices, remounted with flags, unmounted, and read from the kernel's
//! table: never recursive, never lazy (an unmount that cannot be done now is an error), and nothing
//! here deletes anything. Loop devices are set up by ioctl, file systems made by their own programs,
//! and files copied by sharing their blocks where that can be.

mod copy;
mod file_system;
mod linux;
mod loop_device;
mod mountinfo;
mod storage;

pub use linux::LinuxMounter;
pub use storage::LinuxBlockStorage;
