//! The program as a separate process that a test can kill.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;
use tokio_util::sync::CancellationToken;

/// The result of the process.
#[derive(Debug)]
pub(crate) struct ProcessResult {
    /// The exit code; `None` after a kill.
    pub(crate) code: Option<i32>,
    /// Standard output, then standard error.
    pub(crate) output: String,
}

/// Runs the program in a directory that is also its home, with an empty environment, until it exits
/// or `kill` ends it as `kill -9` does.
pub(crate) async fn run_client(
    server: &str,
    directory: &Path,
    args: &[&str],
    kill: &CancellationToken,
) -> ProcessResult {
    let child = Command::new(env!("CARGO_BIN_EXE_nomad-csi"))
        .args(args)
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
            let output = output.expect("the program exits");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            ProcessResult {
                code: output.status.code(),
                output: text(&output.stdout) + &text(&output.stderr),
            }
        }
        () = kill.cancelled() => ProcessResult { code: None, output: "the process was killed".to_owned() },
    }
}
