//! Files that are created once and never written again: the key, and the identity of the node.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use nomad_csi_model::private;

/// Creates a file with mode 0600 under a temporary name and renames it when it is durable, so a crash
/// leaves a complete file or none. Returns whether this call created it.
pub(super) fn create_once(path: &Path, content: &[u8]) -> io::Result<bool> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = private::temporary_in(directory)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(error.error),
    }
    File::open(directory)?.sync_all()?;
    Ok(true)
}
