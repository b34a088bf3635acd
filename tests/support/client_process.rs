//! The program as a process of its own that talks to one server, so that it can be killed.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;
use tokio_util::sync::CancellationToken;

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if it was killed.
    pub(crate) code: Option<i32>,
    /// Both streams, standard output first.
    pub(crate) said: String,
}

/// Runs the program in a directory that is also its home, with nothing of our environment, until it
/// ends or `kill` says so; that is a `kill -9`.
pub(crate) async fn run(
    server: &str,
    directory: &Path,
    words: &[&str],
    kill: &CancellationToken,
) -> Ended {
    let child = Command::new(env!("CARGO_BIN_EXE_nomad-csi"))
        .args(words)
        .env_clear()
        .env("NOMAD_ADDR", server)
        .env("HOME", directory)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the program starts");
    tokio::select! {
        output = child.wait_with_output() => {
            let output = output.expect("it ends");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Ended {
                code: output.status.code(),
                said: text(&output.stdout) + &text(&output.stderr),
            }
        }
        () = kill.cancelled() => Ended { code: None, said: "it was killed".to_owned() },
    }
}
