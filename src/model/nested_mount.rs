//! Mounts of a task inside of each other.
//!
//! A mount point is an entry of the directory around it. A task that removes that entry in its own mount namespace unmounts
//! what is there (Linux 3.18), and the other task goes on beside its volume. So a mount is inside of another one only where no
//! other task reaches that one.

use std::path::Path;

/// The directory that all tasks of an allocation share, in a task with a root of its own.
pub const SHARED_DIRECTORY: &str = "/alloc";
/// The directories that only the task itself reaches.
const OWN_DIRECTORIES: [&str; 2] = ["/local", "/secrets"];

/// Returns the mount that contains this destination and that other tasks can change, if there is one.
pub fn shared_mount_around<'a>(
    destination: &Path,
    mounts: impl IntoIterator<Item = &'a Path>,
) -> Option<&'a Path> {
    let is_own = |mount: &Path| OWN_DIRECTORIES.iter().any(|own| mount == Path::new(own));
    let mut around = mounts.into_iter();
    around.find(|mount| *mount != destination && destination.starts_with(mount) && !is_own(mount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_task_has_for_itself_may_contain_a_mount() {
        let mounts = ["/alloc", "/local", "/secrets", "/data", "/data/own"].map(Path::new);
        for (destination, expected) in [
            ("/alloc/data/db", Some("/alloc")),
            ("/data/own/db", Some("/data")),
            ("/data/own", Some("/data")),
            ("/data", None),
            ("/database", None),
            ("/local/db", None),
            ("/secrets/db", None),
            ("/srv/db", None),
        ] {
            let found = shared_mount_around(Path::new(destination), mounts);
            assert_eq!(found, expected.map(Path::new), "{destination}");
        }
    }
}
