//! Removes what a check created, also what it may have created in a call of unknown outcome.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::check::Check;
use super::finding::Leftover;
use super::resources::{Resource, TrackedCall};
use super::{answers, message_text};
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::{
    ControllerUnpublishVolumeRequest, DeleteSnapshotRequest, DeleteVolumeGroupSnapshotRequest,
    DeleteVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
};

/// Attempts of each call, and the pause between two attempts.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(400);

impl Check<'_> {
    /// Removes everything that still exists. Returns what it could not remove.
    pub(super) async fn clean_up(&mut self) -> Vec<Leftover> {
        let mut leftovers = vec![];
        for resource in self.resources.take_in_cleanup_order() {
            if let Err(why) = self.undo(&resource).await {
                leftovers.push(Leftover {
                    what: resource.to_string(),
                    why: message_text::redact_secrets(&why, &self.session.options.secrets),
                });
            }
        }
        leftovers
    }

    /// # Errors
    /// Returns why the resource still exists.
    async fn undo(&self, resource: &Resource) -> Result<(), String> {
        match resource {
            Resource::Directory(path) => self.remove_path(path).await,
            Resource::Volume(id) => self.delete_volume(id).await,
            Resource::VolumeWithoutId(request) => {
                let created = self.send_until_answered(request.as_ref()).await?;
                match created.and_then(|response| response.volume) {
                    Some(volume) => self.delete_volume(&volume.volume_id).await,
                    None => Ok(()),
                }
            }
            Resource::Snapshot(id) => self.delete_snapshot(id).await,
            Resource::SnapshotWithoutId(request) => {
                let created = self.send_until_answered(request.as_ref()).await?;
                match created.and_then(|response| response.snapshot) {
                    Some(snapshot) => self.delete_snapshot(&snapshot.snapshot_id).await,
                    None => Ok(()),
                }
            }
            Resource::Group { id, members } => self.delete_group(id, members).await,
            Resource::GroupWithoutId(request) => {
                let created = self.send_until_answered(request.as_ref()).await?;
                let Some(group) = created.and_then(|response| response.group_snapshot) else {
                    return Ok(());
                };
                let members: Vec<String> =
                    group.snapshots.into_iter().map(|snapshot| snapshot.snapshot_id).collect();
                self.delete_group(&group.group_snapshot_id, &members).await
            }
            Resource::Attachment { volume, node } => {
                let request = ControllerUnpublishVolumeRequest {
                    volume_id: volume.clone(),
                    node_id: node.clone(),
                    secrets: self.secrets(),
                };
                self.send_until_answered(&request).await.map(drop)
            }
            Resource::Staging { volume, path } => {
                let request = NodeUnstageVolumeRequest {
                    volume_id: volume.clone(),
                    staging_target_path: path.clone(),
                };
                self.send_until_answered(&request).await.map(drop)
            }
            Resource::Target { volume, path } => {
                let request = NodeUnpublishVolumeRequest {
                    volume_id: volume.clone(),
                    target_path: path.clone(),
                };
                self.send_until_answered(&request).await?;
                self.remove_path(&PathBuf::from(path)).await
            }
        }
    }

    async fn remove_path(&self, path: &Path) -> Result<(), String> {
        let removed = self.session.files.remove_empty(path).await;
        removed.map_err(|error| error.to_string())
    }

    async fn delete_volume(&self, id: &str) -> Result<(), String> {
        let request = DeleteVolumeRequest { volume_id: id.to_owned(), secrets: self.secrets() };
        self.send_until_answered(&request).await.map(drop)
    }

    async fn delete_snapshot(&self, id: &str) -> Result<(), String> {
        let request = DeleteSnapshotRequest { snapshot_id: id.to_owned(), secrets: self.secrets() };
        self.send_until_answered(&request).await.map(drop)
    }

    async fn delete_group(&self, id: &str, members: &[String]) -> Result<(), String> {
        let request = DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: id.to_owned(),
            snapshot_ids: members.to_vec(),
            secrets: self.secrets(),
        };
        self.send_until_answered(&request).await.map(drop)
    }

    /// Repeats a call of the clean-up while that may help. `None` means that nothing is left to remove.
    async fn send_until_answered<C: TrackedCall>(
        &self,
        request: &C,
    ) -> Result<Option<C::Response>, String> {
        let mut last = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let failure = match self.session.client.call(request.clone()).await {
                Ok(response) => return Ok(Some(response)),
                Err(failure) => failure,
            };
            let creates = request.may_create().is_some();
            match failure.code() {
                Some(StatusCode::NotFound | StatusCode::Unimplemented) => return Ok(None),
                Some(StatusCode::InvalidArgument | StatusCode::AlreadyExists) if creates => {
                    return Ok(None);
                }
                _ => {}
            }
            last = failure.to_string();
            if !answers::is_transient(&failure)
                && failure.code() != Some(StatusCode::FailedPrecondition)
            {
                break;
            }
        }
        Err(last)
    }
}
