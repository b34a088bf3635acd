//! The entry point: runs the CLI in the environment of this process and returns its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(
        nomad_csi::cli::run_command_line(nomad_csi::cli::ProcessEnvironment::of_process()).code(),
    )
}
