//! Directories, files and sockets that only this user can use.
//!
//! Files and directories that this program creates have mode 0700 or 0600 whatever the umask. What exists already is used
//! only if it belongs to this user and no other user can write to it. A symbolic link inside a
//! private directory is never followed. A parent directory may be open to others, such as `/tmp`: the
//! directory itself and what is in it counts.
//!
//! A file that the user names for reading, such as a secret, may also belong to root, and may be
//! reached by a link of this user or of root. Other systems than Unix have no owners and modes to
//! check. Every function blocks.

#[cfg(unix)]
mod directory;
mod file;
mod given;
mod lock_holder;
mod problem;
#[cfg(target_os = "linux")]
mod process_stat;
#[cfg(target_os = "linux")]
mod search_right;
#[cfg(unix)]
mod socket;
#[cfg(target_os = "linux")]
mod socket_peer;
#[cfg(target_os = "linux")]
mod task_directory;
#[cfg(target_os = "linux")]
mod tree;

#[cfg(unix)]
pub use directory::{create_directory, create_subdirectory, has_private_mode};
pub use file::{
    create_new, exchange, exchange_synced, open_existing, open_or_create, open_to_read,
    remove_temporary_in, replace, replace_with, temporary_in,
};
#[cfg(unix)]
pub use given::open_secret;
pub use given::{check_given, open_given, open_given_choice, own_network};
pub use lock_holder::{LockProcess, lock_owner};
pub use problem::{NotPrivate, Problem};
#[cfg(target_os = "linux")]
pub use process_stat::start_time_in;
#[cfg(target_os = "linux")]
pub use search_right::{grant_search, revoke_search, users_with_search};
#[cfg(unix)]
pub use socket::{bind_socket, check_socket, check_socket_directory, check_socket_of};
#[cfg(target_os = "linux")]
pub use socket_peer::SocketPeer;
#[cfg(target_os = "linux")]
pub use task_directory::{DirectoryUsers, TaskWritableDirectory, open_below, set_mode_below};
#[cfg(target_os = "linux")]
pub use tree::remove_tree;
