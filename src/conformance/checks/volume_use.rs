//! Attaching, staging and publishing a volume, and the three opposites, as far as the plugin has them
//! (CSI section "Volume Lifecycle").

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::case::CheckResult;
use crate::check::{Check, StopReason};
use crate::workload_files::PathKind;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::node_service_capability::rpc::Type as NodeRpc;
use nomad_csi_proto::volume_capability::AccessType;
use nomad_csi_proto::{
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, Volume,
    VolumeCapability,
};

/// A volume, and the paths at which this node uses it.
#[derive(Clone, Debug)]
pub(super) struct VolumeUse {
    pub(super) volume: Volume,
    pub(super) capability: VolumeCapability,
    /// Empty if the plugin has no staging.
    pub(super) staging: String,
    pub(super) target: String,
    pub(super) publish_context: BTreeMap<String, String>,
}

impl VolumeUse {
    /// Returns the path for reads and writes: a file on the volume, or the device itself.
    pub(super) fn data_path(&self) -> PathBuf {
        match self.capability.access_type {
            Some(AccessType::Block(_)) => PathBuf::from(&self.target),
            Some(AccessType::Mount(_)) | None => Path::new(&self.target).join("nomad-csi-check"),
        }
    }

    /// Returns whether `total` is the size of the volume's own file system. A directory on a shared file
    /// system has the size of that, which says nothing about the volume.
    pub(super) fn has_own_size(&self, total: u64) -> bool {
        let capacity = u64::try_from(self.volume.capacity_bytes).unwrap_or_default();
        capacity > 0 && total <= capacity.saturating_mul(2)
    }
}

impl Check<'_> {
    pub(super) fn attaches(&self) -> bool {
        self.plugin().controller_has(ControllerRpc::PublishUnpublishVolume)
    }

    pub(super) fn stages(&self) -> bool {
        self.plugin().node_has(NodeRpc::StageUnstageVolume)
    }

    pub(super) fn node_id(&self) -> String {
        let node = self.plugin().described_node();
        node.map(|node| node.node_id.clone()).unwrap_or_default()
    }

    pub(super) fn attach_request(
        &self,
        volume: &Volume,
        capability: &VolumeCapability,
    ) -> ControllerPublishVolumeRequest {
        ControllerPublishVolumeRequest {
            volume_id: volume.volume_id.clone(),
            node_id: self.node_id(),
            volume_capability: Some(capability.clone()),
            readonly: false,
            secrets: self.secrets(),
            volume_context: volume.volume_context.clone(),
        }
    }

    pub(super) fn detach_request(&self, volume_id: &str) -> ControllerUnpublishVolumeRequest {
        ControllerUnpublishVolumeRequest {
            volume_id: volume_id.to_owned(),
            node_id: self.node_id(),
            secrets: self.secrets(),
        }
    }

    pub(super) fn stage_request(&self, used: &VolumeUse) -> NodeStageVolumeRequest {
        NodeStageVolumeRequest {
            volume_id: used.volume.volume_id.clone(),
            publish_context: used.publish_context.clone(),
            staging_target_path: used.staging.clone(),
            volume_capability: Some(used.capability.clone()),
            secrets: self.secrets(),
            volume_context: used.volume.volume_context.clone(),
        }
    }

    pub(super) fn publish_request(&self, used: &VolumeUse) -> NodePublishVolumeRequest {
        NodePublishVolumeRequest {
            volume_id: used.volume.volume_id.clone(),
            publish_context: used.publish_context.clone(),
            staging_target_path: used.staging.clone(),
            target_path: used.target.clone(),
            volume_capability: Some(used.capability.clone()),
            readonly: false,
            secrets: self.secrets(),
            volume_context: used.volume.volume_context.clone(),
        }
    }

    pub(super) fn unpublish_request(used: &VolumeUse) -> NodeUnpublishVolumeRequest {
        NodeUnpublishVolumeRequest {
            volume_id: used.volume.volume_id.clone(),
            target_path: used.target.clone(),
        }
    }

    pub(super) fn unstage_request(used: &VolumeUse) -> NodeUnstageVolumeRequest {
        NodeUnstageVolumeRequest {
            volume_id: used.volume.volume_id.clone(),
            staging_target_path: used.staging.clone(),
        }
    }

    /// Returns a new target path. The parent exists; the plugin creates the path itself.
    ///
    /// # Errors
    /// Stops the check as not run if the parent cannot be created.
    pub(super) async fn new_target_path(&mut self) -> Result<String, StopReason> {
        let parent = self.options().target_directory.clone();
        self.create_directory(&parent).await?;
        path_text(&parent.join(self.unique_name()))
    }

    /// Attaches a volume if the plugin has that, and chooses paths for it. Stages nothing.
    ///
    /// # Errors
    /// Stops the check as not run if that fails.
    pub(super) async fn attached(
        &mut self,
        volume: Volume,
        capability: VolumeCapability,
    ) -> Result<VolumeUse, StopReason> {
        let mut publish_context = BTreeMap::new();
        if self.attaches() {
            let request = self.attach_request(&volume, &capability);
            publish_context = self.prepare(request).await?.publish_context;
        }
        let mut staging = String::new();
        if self.stages() {
            let path = self.options().staging_directory.clone().join(self.unique_name());
            self.create_directory(&path).await?;
            staging = path_text(&path)?;
        }
        Ok(VolumeUse {
            volume,
            capability,
            staging,
            target: self.new_target_path().await?,
            publish_context,
        })
    }

    /// Attaches a volume, and stages it if the plugin has that.
    ///
    /// # Errors
    /// Stops the check as not run if that fails.
    pub(super) async fn staged(
        &mut self,
        volume: Volume,
        capability: VolumeCapability,
    ) -> Result<VolumeUse, StopReason> {
        let used = self.attached(volume, capability).await?;
        if self.stages() {
            self.prepare(self.stage_request(&used)).await?;
        }
        Ok(used)
    }

    /// Attaches, stages and publishes a volume.
    ///
    /// # Errors
    /// Stops the check as not run if that fails.
    pub(super) async fn published(
        &mut self,
        volume: Volume,
        capability: VolumeCapability,
    ) -> Result<VolumeUse, StopReason> {
        let used = self.staged(volume, capability).await?;
        self.prepare(self.publish_request(&used)).await?;
        Ok(used)
    }

    /// Creates a volume and publishes it.
    ///
    /// # Errors
    /// Stops the check as not run if that fails.
    pub(super) async fn new_published(
        &mut self,
        capability: VolumeCapability,
    ) -> Result<VolumeUse, StopReason> {
        let volume = self.new_volume_with(capability.clone()).await?;
        self.published(volume, capability).await
    }

    /// Unpublishes, unstages and detaches a volume.
    ///
    /// # Errors
    /// Stops the check as not run if that fails.
    pub(super) async fn end_use(&mut self, used: &VolumeUse) -> Result<(), StopReason> {
        self.prepare(Self::unpublish_request(used)).await?;
        if self.stages() {
            self.prepare(Self::unstage_request(used)).await?;
        }
        if self.attaches() {
            self.prepare(self.detach_request(&used.volume.volume_id)).await?;
        }
        Ok(())
    }

    /// Returns what is at a path of this machine.
    ///
    /// # Errors
    /// Stops the check as not run if the path cannot be inspected.
    pub(super) async fn path_kind(&self, path: &str) -> Result<PathKind, StopReason> {
        let kind = self.session.files.kind(Path::new(path)).await;
        kind.map_err(|error| StopReason::NotRun(format!("cannot inspect `{path}`: {error}")))
    }

    /// Writes to a published volume.
    ///
    /// # Errors
    /// Stops the check as not run if the write fails.
    pub(super) async fn write_data(&self, used: &VolumeUse, text: &str) -> Result<(), StopReason> {
        let written = self.try_write(used, text).await;
        written.map_err(|error| {
            let path = used.data_path();
            let hint = "the target path must be visible and writable for this user";
            StopReason::NotRun(format!("cannot write to `{}`: {error}; {hint}", path.display()))
        })
    }

    pub(super) async fn try_write(&self, used: &VolumeUse, text: &str) -> std::io::Result<()> {
        let mut bytes = text.as_bytes().to_vec();
        // A device accepts only whole sectors.
        bytes.resize(bytes.len().next_multiple_of(4096), b'.');
        self.session.files.write(&used.data_path(), &bytes).await
    }

    /// Fails with what a published volume holds, if that is not `text`.
    pub(super) async fn read_back(&self, used: &VolumeUse, text: &str) -> Result<(), String> {
        let read = self.session.files.read(&used.data_path(), 4096).await;
        match read {
            Ok(bytes) if bytes.starts_with(text.as_bytes()) => Ok(()),
            Ok(bytes) if bytes.is_empty() => Err("no data".to_owned()),
            Ok(bytes) => {
                let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
                Err(format!("{:?}", start.trim_end_matches(['.', '\0'])))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Records a finding if a published volume does not hold `text`.
    pub(super) async fn expect_data(&mut self, used: &VolumeUse, text: &str, rule: &str) {
        if let Err(got) = self.read_back(used, text).await {
            self.expect(false, &format!("{rule}: {text:?}"), &got);
        }
    }

    /// Returns the size of a published volume as a workload sees it.
    ///
    /// # Errors
    /// Stops the check as not run if the path cannot be inspected.
    pub(super) async fn visible_size(&self, used: &VolumeUse) -> Result<u64, StopReason> {
        let size = self.session.files.size(Path::new(&used.target)).await;
        size.map_err(|error| {
            StopReason::NotRun(format!("cannot determine the size of `{}`: {error}", used.target))
        })
    }
}

/// # Errors
/// Stops the check as not run if the path is not valid UTF-8, as CSI requires.
fn path_text(path: &Path) -> Result<String, StopReason> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        StopReason::NotRun(format!("the path `{}` is not valid UTF-8", path.display()))
    })
}

/// Publishes a new volume, expects a path of the kind `expected`, writes, unpublishes and publishes
/// it again, and expects the written data.
pub(super) async fn check_lifecycle(
    check: &mut Check<'_>,
    capability: VolumeCapability,
    expected: PathKind,
    rule: &str,
) -> CheckResult {
    let volume = check.new_volume_with(capability.clone()).await?;
    let used = check.attached(volume, capability.clone()).await?;
    if check.stages() {
        let because = "the volume exists, and so does the staging path";
        check.call_ok(check.stage_request(&used), because).await?;
    }
    let publish = check.publish_request(&used);
    check.call_ok(publish, "the volume is staged").await?;
    let kind = check.path_kind(&used.target).await?;
    if !check.expect(kind == expected, rule, &kind.to_string()) {
        return Ok(());
    }
    check.write_data(&used, "written before").await?;
    check.call_ok(Check::unpublish_request(&used), "the volume is published").await?;
    let kind = check.path_kind(&used.target).await?;
    let rule = "NodeUnpublishVolume removes target_path";
    check.expect(kind == PathKind::Missing, rule, &kind.to_string());
    if check.stages() {
        let because = "the volume is no longer published";
        check.call_ok(Check::unstage_request(&used), because).await?;
    }
    if check.attaches() {
        let detach = check.detach_request(&used.volume.volume_id);
        check.call_ok(detach, "the volume is not staged").await?;
    }
    let again = check.published(used.volume, capability).await?;
    let rule = "a volume keeps its data when it is unpublished";
    check.expect_data(&again, "written before", rule).await;
    Ok(())
}
