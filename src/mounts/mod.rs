//! mount(2): the mounter of a real machine.
//!
//! Binds, remounts with flags, unmounts, and reads the kernel's mount table. Never recursive, never
//! deletes anything, and never lazy: an unmount that cannot be done now is an error.

mod linux;
mod mountinfo;

pub use linux::LinuxMounter;
