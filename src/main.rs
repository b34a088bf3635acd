//! The entry point: a part of a task, or the CLI in the environment of this process. Returns the exit code.

use std::process::ExitCode;

/// Returns memory to the system after a burst of requests; glibc's allocator keeps most of it.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg_attr(
    feature = "agent",
    expect(clippy::disallowed_methods, reason = "the arguments decide what the process is")
)]
fn main() -> ExitCode {
    #[cfg(feature = "agent")]
    if let Some(exit) = nomad_csi_node::driver::run_task_process(std::env::args_os()) {
        return exit;
    }
    ExitCode::from(
        nomad_csi::cli::run_command_line(nomad_csi::cli::ProcessEnvironment::of_process()).code(),
    )
}
