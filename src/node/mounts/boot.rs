//! Which boot of the machine this is.

use std::io;

/// Returns the ID of the machine's boot, which is another one after each. Blocks.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn boot_id() -> io::Result<String> {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(boot_id.trim().to_owned())
}
