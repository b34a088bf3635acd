//! Paths as a workload of the plugin in memory sees them.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nomad_csi::conformance::{Kind, Workload};

use super::Deviation as D;
use super::Shared;
use super::world::{Content, World, is_block};

/// The paths.
#[derive(Clone)]
pub(crate) struct ExemplarFiles(pub(super) Shared);

/// The target at or above a path, and what is left of the path.
fn target_of(world: &World, path: &Path) -> Option<(PathBuf, PathBuf)> {
    let found = path
        .ancestors()
        .find(|above| world.targets.contains_key(*above))?;
    let rest = path.strip_prefix(found).ok()?;
    Some((found.to_owned(), rest.to_owned()))
}

fn content<'a>(world: &'a mut World, target: &Path) -> io::Result<&'a mut Content> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let id = world.targets[target].volume.clone();
    let owner = world.content_owner(&id);
    let target = world.targets.get_mut(target).ok_or_else(missing)?;
    match &mut target.apart {
        Some(apart) => Ok(apart),
        None => Ok(&mut world.volumes.get_mut(&owner).ok_or_else(missing)?.content),
    }
}

#[async_trait]
impl Workload for ExemplarFiles {
    async fn kind(&self, path: &Path) -> io::Result<Kind> {
        let world = self.0.world();
        if let Some(target) = world.targets.get(path) {
            return Ok(match is_block(&target.capability) {
                true if world.is(D::BlockIsFile) => Kind::Other,
                true => Kind::Device,
                false => Kind::Directory,
            });
        }
        Ok(match world.directories.contains(path) {
            true => Kind::Directory,
            false => Kind::Missing,
        })
    }

    async fn make_directory(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let is_new = self.0.world().directories.insert(path.to_owned());
        Ok(is_new.then(|| path.to_owned()).into_iter().collect())
    }

    async fn remove_empty(&self, path: &Path) -> io::Result<()> {
        self.0.world().directories.remove(path);
        Ok(())
    }

    async fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.0.world();
        let (target, rest) = target_of(&world, path).ok_or(io::ErrorKind::NotFound)?;
        let found = &world.targets[&target];
        let allowed = match is_block(&found.capability) {
            true => world.is(D::WritableBlock),
            false => world.is(D::WritableReadOnly),
        };
        if found.read_only && !allowed {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        content(&mut world, &target)?.insert(rest, bytes.to_vec());
        Ok(())
    }

    async fn read(&self, path: &Path, length: usize) -> io::Result<Vec<u8>> {
        let mut world = self.0.world();
        let (target, rest) = target_of(&world, path).ok_or(io::ErrorKind::NotFound)?;
        let bytes = content(&mut world, &target)?.get(&rest).cloned();
        let mut bytes = bytes.ok_or(io::ErrorKind::NotFound)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    async fn size(&self, path: &Path) -> io::Result<u64> {
        let world = self.0.world();
        let target = world.targets.get(path).ok_or(io::ErrorKind::NotFound)?;
        let volume = world.volumes.get(&target.volume);
        let size = volume.ok_or(io::ErrorKind::NotFound)?.seen_size;
        let block = is_block(&target.capability);
        Ok(match size {
            size if block && world.is(D::BlockTooSmall) => size - 512,
            size if !block && world.is(D::SmallFs) => size / 4,
            size => size,
        })
    }

    async fn tail(&self, _: &Path, offset: u64, _: u64) -> io::Result<(Vec<u8>, u64)> {
        let world = self.0.world();
        let start = usize::try_from(offset).unwrap_or_default();
        let bytes = world.log.as_bytes();
        let length = u64::try_from(bytes.len()).unwrap_or_default();
        Ok((bytes[start.min(bytes.len())..].to_vec(), length))
    }
}
