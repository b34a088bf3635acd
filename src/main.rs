//! Process entry: the real world in, an exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(nomad_csi::cli::run(nomad_csi::cli::World::of_process()).code())
}
