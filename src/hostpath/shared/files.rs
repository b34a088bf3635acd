//! Small JSON files below the shared directory. All calls block.

use std::fs::File;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use nomad_csi_model::private;

/// Writes a file durably. A reader sees the earlier content or the new one.
pub(super) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    private::replace(path, &serde_json::to_vec(value)?)
}

/// Reads a file; `None` if it does not exist.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let value = serde_json::from_slice(&bytes);
    let damaged = |error| io::Error::other(format!("`{}` is damaged: {error}", path.display()));
    value.map(Some).map_err(damaged)
}

/// Removes a file durably. Succeeds if it does not exist.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed?,
    }
    path.parent().map_or(Ok(()), sync)
}

/// Makes the names in a directory durable.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Returns the names in a directory, without those of unfinished files; none if it does not exist.
pub(super) fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries?,
    };
    let mut names = vec![];
    for entry in entries {
        if let Ok(name) = entry?.file_name().into_string()
            && !name.starts_with('.')
        {
            names.push(name);
        }
    }
    Ok(names)
}
