//! [`SharedDirectory`]: the shared directory as one process of the plugin has it open. All calls block.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::attachment_files::AttachmentFiles;
use super::call_log::CallLog;
use super::options::{Role, SharedConfig};
use super::record_files::RecordFiles;
use nomad_csi_model::private::{create_directory, create_subdirectory};

/// The shared directory.
#[derive(Debug)]
pub(crate) struct SharedDirectory {
    /// Without symbolic links.
    pub(crate) path: PathBuf,
    pub(crate) role: Role,
    pub(crate) detach_cuts: bool,
    pub(crate) records: RecordFiles,
    pub(crate) attachments: AttachmentFiles,
    pub(crate) calls: Arc<CallLog>,
}

impl SharedDirectory {
    /// Opens the directory, and makes what is missing.
    pub(crate) fn open(config: &SharedConfig, node_id: &str) -> io::Result<Self> {
        let path = create_directory(&config.directory)?;
        let below = |name: &str| {
            let path = path.join(name);
            create_subdirectory(&path).map(|_| path)
        };
        Ok(Self {
            records: RecordFiles::new(below("records")?, below("prepared")?),
            attachments: AttachmentFiles::new(below("attached")?),
            calls: Arc::new(CallLog::open(&path.join("calls.jsonl"), config.role, node_id)?),
            role: config.role,
            detach_cuts: config.detach_cuts,
            path,
        })
    }

    /// Removes the files of a deleted volume.
    pub(crate) fn forget(&self, id: &str) -> io::Result<()> {
        self.records.withdraw(id)?;
        self.records.remove_prepared(id)?;
        self.attachments.forget(id)
    }

    /// Removes the files of every volume that is not one of these. Only the controller may, before it answers calls.
    pub(crate) fn retain(&self, ids: &BTreeSet<String>) -> io::Result<()> {
        self.records.retain(ids)?;
        self.attachments.retain(ids)
    }
}
