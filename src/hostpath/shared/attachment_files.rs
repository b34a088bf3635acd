//! The attachments of volumes to nodes as files, and the decision whether a volume can be attached.
//!
//! An attachment is on the disk before the call that makes it is answered, and gone from it before the call that ends it is.
//! The name of a file is the ID of a node, so a node ID has the form of a file name here. All calls block.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use parking_lot::Mutex;

use super::files;
use super::record_files::is_generated;
use crate::catalog::{Attachment, Backing};
use nomad_csi_model::private::{create_subdirectory, remove_temporary_in};

/// Linux's limit for a file name, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// The files of the attachments.
#[derive(Debug)]
pub(crate) struct AttachmentFiles {
    directory: PathBuf,
    /// Held while attachments are counted and one is made.
    limited: Mutex<()>,
}

impl AttachmentFiles {
    /// The files in this directory, which exists.
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, limited: Mutex::default() }
    }

    /// Returns the attachments of a volume by node.
    pub(crate) fn of(&self, id: &str) -> io::Result<BTreeMap<String, Attachment>> {
        let mut found = BTreeMap::new();
        for node in self.nodes(id)? {
            if let Some(attachment) = self.get(id, &node)? {
                found.insert(node, attachment);
            }
        }
        Ok(found)
    }

    /// Returns the nodes that a volume is attached to.
    pub(crate) fn nodes(&self, id: &str) -> io::Result<Vec<String>> {
        self.volume(id).map_or(Ok(vec![]), |directory| files::names(&directory))
    }

    /// Returns the attachment of a volume to a node.
    pub(crate) fn get(&self, id: &str, node: &str) -> io::Result<Option<Attachment>> {
        self.file(id, node).map_or(Ok(None), |file| files::read(&file))
    }

    /// Attaches a volume to a node, unless the node already has `limit` volumes. Returns whether it is attached.
    pub(crate) fn put(
        &self,
        id: &str,
        node: &str,
        attachment: &Attachment,
        limit: Option<usize>,
    ) -> io::Result<bool> {
        let (Some(directory), Some(file)) = (self.volume(id), self.file(id, node)) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let limited = self.limited.lock();
        if let Some(limit) = limit
            && self.count_of(node)? >= limit
        {
            return Ok(false);
        }
        if create_subdirectory(&directory)? {
            files::sync(&self.directory)?;
        }
        files::write(&file, attachment)?;
        drop(limited);
        Ok(true)
    }

    /// Detaches a volume from a node.
    pub(crate) fn remove(&self, id: &str, node: &str) -> io::Result<()> {
        self.file(id, node).map_or(Ok(()), |file| files::remove(&file))
    }

    /// Removes all files of a volume.
    pub(super) fn forget(&self, id: &str) -> io::Result<()> {
        let Some(directory) = self.volume(id) else {
            return Ok(());
        };
        for node in files::names(&directory)? {
            files::remove(&directory.join(node))?;
        }
        match std::fs::remove_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => files::sync(&self.directory),
        }
    }

    /// Removes the files of every volume that is not one of these, and what a crash of the controller left unfinished.
    pub(super) fn retain(&self, ids: &BTreeSet<String>) -> io::Result<()> {
        for id in files::names(&self.directory)? {
            remove_temporary_in(&self.directory.join(&id))?;
            if !ids.contains(&id) {
                self.forget(&id)?;
            }
        }
        Ok(())
    }

    fn count_of(&self, node: &str) -> io::Result<usize> {
        let mut count = 0;
        for id in files::names(&self.directory)? {
            let file = self.file(&id, node);
            count += usize::from(file.map_or(Ok(false), |file| file.try_exists())?);
        }
        Ok(count)
    }

    fn volume(&self, id: &str) -> Option<PathBuf> {
        is_generated(id).then(|| self.directory.join(id))
    }

    fn file(&self, id: &str, node: &str) -> Option<PathBuf> {
        self.volume(id).filter(|_| is_node_name(node)).map(|volume| volume.join(node))
    }
}

/// Returns whether the ID of a node can be the name of a file.
pub(crate) fn is_node_name(node: &str) -> bool {
    let is_short = (1..=MAX_NAME_BYTES).contains(&node.len());
    is_short && !node.starts_with('.') && !node.contains(['/', '\0'])
}

/// Whether a volume can be attached to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttachDecision {
    /// It can.
    Attach,
    /// It is attached to the node in the same way.
    IsAttached,
    /// It is attached to the node in another way.
    Differs,
    /// It is attached to another node, and cannot be attached to a second one.
    Elsewhere(String, Elsewhere),
}

/// Why a volume cannot be attached to a second node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// The access mode of the other attachment allows one node.
    OtherMode,
    /// The requested access mode allows one node.
    RequestedMode,
    /// The volume is not a directory.
    Backing,
}

/// Decides whether a volume can be attached to a node, with the attachments that it has.
pub(crate) fn decide_attach(
    node: &str,
    requested: &Attachment,
    backing: Backing,
    attachments: &BTreeMap<String, Attachment>,
) -> AttachDecision {
    match attachments.get(node) {
        Some(attached) if attached == requested => return AttachDecision::IsAttached,
        Some(_) => return AttachDecision::Differs,
        None => {}
    }
    let allows_one = |attachment: &Attachment| attachment.capability.access_mode.is_single_node();
    for (other, attached) in attachments {
        let why = if allows_one(attached) {
            Elsewhere::OtherMode
        } else if allows_one(requested) {
            Elsewhere::RequestedMode
        } else if backing != Backing::Directory {
            Elsewhere::Backing
        } else {
            continue;
        };
        return AttachDecision::Elsewhere(other.clone(), why);
    }
    AttachDecision::Attach
}
