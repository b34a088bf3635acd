//! The paths as a workload of the in-memory plugin sees them.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nomad_csi_conformance::{PathKind, WorkloadFiles};

use super::deviation::Deviation as D;
use super::state::{Content, PluginState, SharedState, is_block};

/// The paths as a workload sees them.
#[derive(Clone)]
pub(crate) struct ReferenceFiles(pub(super) SharedState);

/// Returns the target at or above a path, and the rest of the path.
fn target_of(state: &PluginState, path: &Path) -> Option<(PathBuf, PathBuf)> {
    let found = path.ancestors().find(|above| state.targets.contains_key(*above))?;
    let rest = path.strip_prefix(found).ok()?;
    Some((found.to_owned(), rest.to_owned()))
}

fn content<'a>(state: &'a mut PluginState, target: &Path) -> io::Result<&'a mut Content> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let id = state.targets[target].volume.clone();
    let owner = state.content_owner(&id);
    let target = state.targets.get_mut(target).ok_or_else(missing)?;
    match &mut target.own_content {
        Some(own_content) => Ok(own_content),
        None => Ok(&mut state.volumes.get_mut(&owner).ok_or_else(missing)?.content),
    }
}

#[async_trait]
impl WorkloadFiles for ReferenceFiles {
    async fn kind(&self, path: &Path) -> io::Result<PathKind> {
        let state = self.0.lock();
        if let Some(target) = state.targets.get(path) {
            return Ok(match is_block(&target.capability) {
                true if state.has(D::BlockIsFile) => PathKind::Other,
                true => PathKind::Device,
                false => PathKind::Directory,
            });
        }
        Ok(match state.directories.contains(path) {
            true => PathKind::Directory,
            false => PathKind::Missing,
        })
    }

    async fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let is_new = self.0.lock().directories.insert(path.to_owned());
        Ok(is_new.then(|| path.to_owned()).into_iter().collect())
    }

    async fn remove_empty(&self, path: &Path) -> io::Result<()> {
        self.0.lock().directories.remove(path);
        Ok(())
    }

    async fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        let (target, rest) = target_of(&state, path).ok_or(io::ErrorKind::NotFound)?;
        let found = &state.targets[&target];
        let allowed = match is_block(&found.capability) {
            true => state.has(D::WritableBlock),
            false => state.has(D::WritableReadOnly),
        };
        if found.read_only && !allowed {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        content(&mut state, &target)?.insert(rest, bytes.to_vec());
        Ok(())
    }

    async fn read(&self, path: &Path, length: usize) -> io::Result<Vec<u8>> {
        let mut state = self.0.lock();
        let (target, rest) = target_of(&state, path).ok_or(io::ErrorKind::NotFound)?;
        let bytes = content(&mut state, &target)?.get(&rest).cloned();
        let mut bytes = bytes.ok_or(io::ErrorKind::NotFound)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    async fn size(&self, path: &Path) -> io::Result<u64> {
        let state = self.0.lock();
        let target = state.targets.get(path).ok_or(io::ErrorKind::NotFound)?;
        let volume = state.volumes.get(&target.volume);
        let size = volume.ok_or(io::ErrorKind::NotFound)?.seen_size;
        let block = is_block(&target.capability);
        Ok(match size {
            size if block && state.has(D::BlockTooSmall) => size - 512,
            size if !block && state.has(D::SmallFs) => size / 4,
            size => size,
        })
    }

    async fn tail(&self, _: &Path, offset: u64, _: u64) -> io::Result<(Vec<u8>, u64)> {
        let state = self.0.lock();
        let start = usize::try_from(offset).unwrap_or_default();
        let bytes = state.log.as_bytes();
        let length = u64::try_from(bytes.len()).unwrap_or_default();
        Ok((bytes[start.min(bytes.len())..].to_vec(), length))
    }
}
