//! The embedded plugin's socket and state directory.

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use nomad_csi::hostpath::{ServeError, serve};
use nomad_csi::ports::fake::FakeMounter;

use crate::support::hostpath::{Machine, Running, World, config};

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path)
        .unwrap()
        .permissions()
        .mode()
        & 0o777
}

#[tokio::test]
async fn the_socket_and_the_state_are_private_and_the_socket_goes_with_the_plugin() {
    let world = World::new().await;
    let socket = world.running.socket.clone();
    assert_eq!(mode(&socket), 0o600);
    for directory in ["s", "state", "state/volumes"] {
        assert_eq!(mode(&world.path(directory)), 0o700, "{directory}");
    }
    world.running.stop().await;
    assert!(!socket.exists());
}

/// Why a plugin does not start there. One that started would not be told to stop.
async fn refusal(directory: &Path) -> ServeError {
    let host = Machine::plain(FakeMounter::new()).host();
    let running = serve(config(directory), host, std::future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
    ended.expect("it does not start").unwrap_err()
}

#[tokio::test]
async fn a_socket_is_taken_over_from_the_dead_only() {
    let world = World::new().await;
    // The same state, and a socket that somebody listens on.
    let refused = refusal(world.directory.path()).await;
    assert!(matches!(refused, ServeError::StateInUse(_)), "{refused}");
    let socket = world.running.socket.clone();
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("s");
    std::fs::create_dir_all(&other).unwrap();
    std::os::unix::fs::symlink(&socket, other.join("csi.sock")).unwrap();
    let refused = refusal(directory.path()).await;
    assert!(matches!(refused, ServeError::NotASocket(_)), "{refused}");
    std::fs::remove_file(other.join("csi.sock")).unwrap();
    let living = std::os::unix::net::UnixListener::bind(other.join("csi.sock")).unwrap();
    let refused = refusal(directory.path()).await;
    assert!(matches!(refused, ServeError::SocketInUse(_)), "{refused}");
    drop(living);
    assert!(
        other
            .join("csi.sock")
            .metadata()
            .unwrap()
            .file_type()
            .is_socket()
    );
    Running::start(directory.path(), FakeMounter::new())
        .await
        .stop()
        .await;
    std::fs::write(other.join("csi.sock"), "a file").unwrap();
    let refused = refusal(directory.path()).await;
    assert!(matches!(refused, ServeError::NotASocket(_)), "{refused}");
}

/// A state directory that cannot be used is named, with the reason.
#[tokio::test]
async fn a_state_directory_that_is_a_file_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("state"), "").unwrap();
    let refused = refusal(directory.path()).await.to_string();
    assert!(
        refused.contains("cannot use the state directory"),
        "{refused}"
    );
}
