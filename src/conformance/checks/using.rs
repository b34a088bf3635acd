//! A volume on its way to a workload and back: attach, stage, publish, and their three inverses, as
//! far as the plugin has them (CSI section "Volume Lifecycle").

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::conformance::case::Ended;
use crate::conformance::check::{Check, Stop};
use crate::conformance::workload::Kind;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::node_service_capability::rpc::Type as NodeRpc;
use crate::csi::proto::volume_capability::AccessType;
use crate::csi::proto::{
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, Volume,
    VolumeCapability,
};

/// A volume in use at one path.
#[derive(Clone, Debug)]
pub(super) struct Used {
    pub(super) volume: Volume,
    pub(super) capability: VolumeCapability,
    /// Empty if the plugin does not stage.
    pub(super) staging: String,
    pub(super) target: String,
    pub(super) publish_context: BTreeMap<String, String>,
}

impl Used {
    /// The path whose bytes are the volume's: a file of it, or the device.
    pub(super) fn data(&self) -> PathBuf {
        match self.capability.access_type {
            Some(AccessType::Block(_)) => PathBuf::from(&self.target),
            Some(AccessType::Mount(_)) | None => Path::new(&self.target).join("nomad-csi-check"),
        }
    }
}

impl Check<'_> {
    pub(super) fn attaches(&self) -> bool {
        self.profile()
            .controller_has(ControllerRpc::PublishUnpublishVolume)
    }

    pub(super) fn stages(&self) -> bool {
        self.profile().node_has(NodeRpc::StageUnstageVolume)
    }

    pub(super) fn node_id(&self) -> String {
        let node = self.profile().described_node();
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

    pub(super) fn stage_request(&self, used: &Used) -> NodeStageVolumeRequest {
        NodeStageVolumeRequest {
            volume_id: used.volume.volume_id.clone(),
            publish_context: used.publish_context.clone(),
            staging_target_path: used.staging.clone(),
            volume_capability: Some(used.capability.clone()),
            secrets: self.secrets(),
            volume_context: used.volume.volume_context.clone(),
        }
    }

    pub(super) fn publish_request(&self, used: &Used) -> NodePublishVolumeRequest {
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

    pub(super) fn unpublish_request(used: &Used) -> NodeUnpublishVolumeRequest {
        NodeUnpublishVolumeRequest {
            volume_id: used.volume.volume_id.clone(),
            target_path: used.target.clone(),
        }
    }

    pub(super) fn unstage_request(used: &Used) -> NodeUnstageVolumeRequest {
        NodeUnstageVolumeRequest {
            volume_id: used.volume.volume_id.clone(),
            staging_target_path: used.staging.clone(),
        }
    }

    /// A path for a target; the plugin makes what is there, its parent exists.
    ///
    /// # Errors
    /// If the parent cannot be made: then the check says nothing.
    pub(super) async fn target(&mut self) -> Result<String, Stop> {
        let parent = self.setup().target.clone();
        self.directory(&parent).await?;
        text(&parent.join(self.name()))
    }

    /// Paths for a volume that has been attached, if the plugin attaches; nothing is staged yet.
    ///
    /// # Errors
    /// If that fails: then the check says nothing.
    pub(super) async fn bring(
        &mut self,
        volume: Volume,
        capability: VolumeCapability,
    ) -> Result<Used, Stop> {
        let mut publish_context = BTreeMap::new();
        if self.attaches() {
            let request = self.attach_request(&volume, &capability);
            publish_context = self.prepare(request).await?.publish_context;
        }
        let mut staging = String::new();
        if self.stages() {
            let path = self.setup().staging.clone().join(self.name());
            self.directory(&path).await?;
            staging = text(&path)?;
        }
        Ok(Used {
            volume,
            capability,
            staging,
            target: self.target().await?,
            publish_context,
        })
    }

    /// A volume that is staged, if the plugin stages.
    ///
    /// # Errors
    /// If that fails: then the check says nothing.
    pub(super) async fn staged(
        &mut self,
        volume: Volume,
        capability: VolumeCapability,
    ) -> Result<Used, Stop> {
        let used = self.bring(volume, capability).await?;
        if self.stages() {
            self.prepare(self.stage_request(&used)).await?;
        }
        Ok(used)
    }

    /// A volume that is published.
    ///
    /// # Errors
    /// If that fails: then the check says nothing.
    pub(super) async fn published(
        &mut self,
        volume: Volume,
        capability: VolumeCapability,
    ) -> Result<Used, Stop> {
        let used = self.staged(volume, capability).await?;
        self.prepare(self.publish_request(&used)).await?;
        Ok(used)
    }

    /// Takes a volume out of use.
    ///
    /// # Errors
    /// If that fails: then the check says nothing.
    pub(super) async fn release(&mut self, used: &Used) -> Result<(), Stop> {
        self.prepare(Self::unpublish_request(used)).await?;
        if self.stages() {
            self.prepare(Self::unstage_request(used)).await?;
        }
        if self.attaches() {
            self.prepare(self.detach_request(&used.volume.volume_id))
                .await?;
        }
        Ok(())
    }

    /// What is at a path of this machine.
    ///
    /// # Errors
    /// If that cannot be seen: then the check says nothing.
    pub(super) async fn kind(&self, path: &str) -> Result<Kind, Stop> {
        let kind = self.session.workload.kind(Path::new(path)).await;
        kind.map_err(|error| Stop::Untried(format!("{path} cannot be looked at: {error}")))
    }

    /// Writes into a volume that is published.
    ///
    /// # Errors
    /// If it cannot be written: then the check says nothing.
    pub(super) async fn write(&self, used: &Used, text: &str) -> Result<(), Stop> {
        let written = self.try_write(used, text).await;
        written.map_err(|error| {
            let path = used.data();
            let why = "is the plugin's target path visible here, and writable to this user?";
            Stop::Untried(format!(
                "{} cannot be written: {error}; {why}",
                path.display()
            ))
        })
    }

    pub(super) async fn try_write(&self, used: &Used, text: &str) -> std::io::Result<()> {
        let mut bytes = text.as_bytes().to_vec();
        // Devices are written in whole sectors.
        bytes.resize(bytes.len().next_multiple_of(4096), b'.');
        self.session.workload.write(&used.data(), &bytes).await
    }

    /// Whether a volume that is published holds what was written.
    pub(super) async fn holds(&self, used: &Used, text: &str) -> Result<(), String> {
        let read = self.session.workload.read(&used.data(), 4096).await;
        match read {
            Ok(bytes) if bytes.starts_with(text.as_bytes()) => Ok(()),
            Ok(bytes) if bytes.is_empty() => Err("nothing".to_owned()),
            Ok(bytes) => {
                let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
                Err(format!("{:?}", start.trim_end_matches(['.', '\0'])))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Writes down if a published volume does not hold what was written.
    pub(super) async fn hold_data(&mut self, used: &Used, text: &str, rule: &str) {
        if let Err(got) = self.holds(used, text).await {
            self.hold(false, &format!("{rule}: {text:?}"), &got);
        }
    }

    /// How large a published volume is to a workload.
    ///
    /// # Errors
    /// If that cannot be seen: then the check says nothing.
    pub(super) async fn size_of(&self, used: &Used) -> Result<u64, Stop> {
        let size = self.session.workload.size(Path::new(&used.target)).await;
        size.map_err(|error| Stop::Untried(format!("{} cannot be measured: {error}", used.target)))
    }
}

/// # Errors
/// If the path is not Unicode, as CSI's are.
fn text(path: &Path) -> Result<String, Stop> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Stop::Untried(format!("{} is not Unicode", path.display())))
}

/// A volume on its way to a target path, where it is a thing of this kind, and back; then used once
/// more, with the data that was written the first time.
pub(super) async fn there_and_back(
    check: &mut Check<'_>,
    capability: VolumeCapability,
    expected: Kind,
    rule: &str,
) -> Ended {
    let volume = check.volume_for(capability.clone()).await?;
    let used = check.bring(volume, capability.clone()).await?;
    if check.stages() {
        let because = "the volume is new, and its path is there";
        check.must(check.stage_request(&used), because).await?;
    }
    let publish = check.publish_request(&used);
    check.must(publish, "the volume is staged").await?;
    let kind = check.kind(&used.target).await?;
    if !check.hold(kind == expected, rule, &format!("{kind:?}")) {
        return Ok(());
    }
    check.write(&used, "written before").await?;
    check
        .must(Check::unpublish_request(&used), "the volume is published")
        .await?;
    let kind = check.kind(&used.target).await?;
    let rule = "what the plugin made at target_path is gone once the volume is not published";
    check.hold(kind == Kind::Missing, rule, &format!("{kind:?}"));
    if check.stages() {
        let because = "the volume is published nowhere any more";
        check.must(Check::unstage_request(&used), because).await?;
    }
    if check.attaches() {
        let detach = check.detach_request(&used.volume.volume_id);
        check.must(detach, "the volume is not staged").await?;
    }
    let again = check.published(used.volume, capability).await?;
    let rule = "a volume keeps its data from one use to the next";
    check.hold_data(&again, "written before", rule).await;
    Ok(())
}
