//! Making the content of a volume when it is first used.
//!
//! CreateVolume only records an empty volume (`is_blank`). The first staging makes its directory, or its
//! file with the file system, then records that together with the staging path. A file system is made in
//! a file of another name, which then gets the volume's name. So the volume's file is complete or
//! absent, also after a crash.
//!
//! **The plugin formats nothing that has content.** The catalogue must record the volume as blank, and
//! its file must be absent or empty. If the two disagree, staging is refused.

use super::volume::{ContentMade, Volume};
use crate::catalog::Backing;
use crate::error::{FailedPrecondition, HostError};
use nomad_csi_ports::{FileContent, FileSystem};

impl Volume {
    /// Makes what the first use needs, and checks the rest. The caller writes the changed record.
    pub(crate) fn make_content<E>(&mut self) -> Result<ContentMade, E>
    where
        E: From<HostError> + From<FailedPrecondition>,
    {
        let content = &self.record.content;
        let is_made = match content.backing {
            Backing::Directory => content.is_prepared,
            Backing::Image | Backing::Block => !content.is_blank,
        };
        match (content.backing, is_made) {
            (Backing::Directory | Backing::Block, true) => return Ok(ContentMade::Before),
            (Backing::Image, true) => {
                self.check_file_system::<E>()?;
                return Ok(ContentMade::Before);
            }
            (Backing::Directory, false) => {
                let made = self.plugin.directories.create(self.id());
                made.map_err(HostError::io("create the volume's directory"))?;
                self.record.content.is_blank = false;
                self.record.content.is_prepared = true;
            }
            (Backing::Image | Backing::Block, false) => {
                if !self.has_made_file::<E>()? {
                    self.make_file()?;
                }
                self.record.content.is_blank = false;
                self.record.content.file_system_bytes = self.made_file_system_bytes();
            }
        }
        Ok(ContentMade::Now)
    }

    /// Returns whether the first mount of the volume is complete. Only then may a caller use it.
    pub(crate) fn is_prepared(&self) -> bool {
        self.backing() == Backing::Block || self.record.content.is_prepared
    }

    fn made_file_system_bytes(&self) -> u64 {
        let content = &self.record.content;
        content.file_system.map_or(0, |_| content.bytes)
    }

    /// Returns whether an interrupted staging already made the file of a blank volume. Refuses a file with
    /// other content, and a file that a device uses.
    fn has_made_file<E>(&self) -> Result<bool, E>
    where
        E: From<HostError> + From<FailedPrecondition>,
    {
        let Some(found) = self.probe()? else {
            return Ok(false);
        };
        match (found, self.record.content.file_system) {
            (FileContent::FileSystem(found), Some(expected)) if found == expected => Ok(true),
            (FileContent::Empty, _) if self.devices()?.is_empty() => Ok(false),
            (FileContent::Empty, _) => Err(self.refuse_blank("a loop device uses it")),
            (found, _) => Err(self.refuse_blank(&format!("it has {}", describe(found)))),
        }
    }

    fn refuse_blank<E: From<FailedPrecondition>>(&self, why: &str) -> E {
        FailedPrecondition(format!(
            "volume `{}` was never staged, but its file `{}` exists and {why}: another program wrote it, and the plugin does not format it; move the file away, or delete the volume",
            self.id(),
            self.data.display()
        ))
        .into()
    }

    fn make_file(&self) -> Result<(), HostError> {
        let content = &self.record.content;
        let storage = &self.plugin.host.storage;
        let unfinished = self.plugin.host.ids.uuid();
        let made =
            self.plugin.images.make_file(
                self.id(),
                &unfinished,
                content.bytes,
                |file| match content.file_system {
                    Some(kind) => storage.make_file_system(file, kind),
                    None => Ok(()),
                },
            );
        made.map_err(HostError::io("create the volume's data"))
    }

    /// Checks that the file of a formatted volume still has its file system.
    fn check_file_system<E>(&self) -> Result<(), E>
    where
        E: From<HostError> + From<FailedPrecondition>,
    {
        let Some(expected) = self.record.content.file_system else {
            return Ok(());
        };
        let found = match self.probe()? {
            Some(FileContent::FileSystem(found)) if found == expected => return Ok(()),
            Some(found) => describe(found),
            None => "no content",
        };
        Err(FailedPrecondition(format!(
            "volume `{}` was formatted with {}, but its file `{}` has {found}: another program changed it, and the plugin does not format it again; restore the file",
            self.id(),
            expected.name(),
            self.data.display()
        ))
        .into())
    }

    /// Returns what the volume's file contains; `None` if it does not exist.
    fn probe(&self) -> Result<Option<FileContent>, HostError> {
        match self.plugin.host.storage.probe(&self.data) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(HostError::io("read the volume's file")(error)),
        }
    }
}

const fn describe(found: FileContent) -> &'static str {
    match found {
        FileContent::Empty => "no content",
        FileContent::FileSystem(FileSystem::Ext4) => "an ext4 file system",
        FileContent::FileSystem(FileSystem::Xfs) => "an xfs file system",
        FileContent::FileSystem(FileSystem::Btrfs) => "a btrfs file system",
        FileContent::Other => "other content",
    }
}
