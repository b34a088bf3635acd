//! Mounts and block storage on Linux.
//!
//! No mount operation is recursive or lazy: an unmount that is not possible now is an error. Nothing
//! here deletes data. Loop devices are attached with ioctls, file systems are created by their `mkfs`
//! programs, and copies share blocks where the file system supports it.

mod copy;
mod file_system;
mod linux;
mod loop_device;
mod mountinfo;
mod storage;

pub use linux::LinuxMounter;
pub use storage::LinuxBlockStorage;
