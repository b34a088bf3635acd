//! The embedded plugin's socket and state directory.

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use nomad_csi_hostpath::{ServeError, serve};
use nomad_csi_testing::FakeMounter;

use crate::support::hostpath::{PluginFixture, RunningPlugin, TestHost, config};

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_socket_and_the_state_are_private_and_a_stop_removes_the_socket() {
    let fixture = PluginFixture::new().await;
    let socket = fixture.plugin.socket.clone();
    assert_eq!(mode(&socket), 0o600);
    for directory in ["s", "state", "state/volumes"] {
        assert_eq!(mode(&fixture.path(directory)), 0o700, "{directory}");
    }
    fixture.plugin.stop().await;
    assert!(!socket.exists());
}

/// Returns why a plugin does not start. A plugin that starts would never be stopped.
async fn refusal(directory: &Path) -> ServeError {
    let host = TestHost::without_devices(FakeMounter::new()).plugin_host();
    let plugin = serve(config(directory), host, std::future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(60), plugin).await;
    ended.expect("the plugin does not start").unwrap_err()
}

#[tokio::test]
async fn only_a_stale_socket_is_replaced() {
    let fixture = PluginFixture::new().await;
    // The same state directory, and a socket with a listener.
    let refused = refusal(fixture.directory.path()).await;
    assert!(matches!(refused, ServeError::StateInUse(_)), "{refused}");
    let socket = fixture.plugin.socket.clone();
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
    assert!(other.join("csi.sock").metadata().unwrap().file_type().is_socket());
    RunningPlugin::start(directory.path(), FakeMounter::new()).await.stop().await;
    std::fs::write(other.join("csi.sock"), "a file").unwrap();
    let refused = refusal(directory.path()).await;
    assert!(matches!(refused, ServeError::NotASocket(_)), "{refused}");
}

/// An unusable state directory is reported with its path and the reason.
#[tokio::test]
async fn a_state_directory_that_is_a_file_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("state"), "").unwrap();
    let refused = refusal(directory.path()).await.to_string();
    assert!(refused.contains("cannot use state directory"), "{refused}");
}
