//! The entry point: runs the CLI in the environment of this process and returns its exit code.

use std::process::ExitCode;

/// Returns memory to the system after a burst of requests; glibc's allocator keeps most of it.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    ExitCode::from(
        nomad_csi::cli::run_command_line(nomad_csi::cli::ProcessEnvironment::of_process()).code(),
    )
}
