//! Requests of ControllerPublishVolume, ControllerUnpublishVolume and NodeExpandVolume.
//!
//! A required field that is empty is found before anything is sent, with Nomad's text: a plugin may
//! take an empty node ID as "every node" (CSI, "ControllerUnpublishVolume").

use std::collections::BTreeMap;
use std::path::PathBuf;

use nomad_csi_model::{
    Capability, CapacityRange, ExternalId, ExternalNodeId, MountOptions, Secrets,
};

/// The request of ControllerPublishVolume: attach a volume to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerPublishVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// The ID that the plugin's NodeGetInfo returned on the node.
    pub node_id: ExternalNodeId,
    /// The access and attachment mode.
    pub capability: Capability,
    /// The mount options.
    pub mount_options: MountOptions,
    /// True if the node may only read; false unless the plugin advertises PUBLISH_READONLY.
    pub read_only: bool,
    /// The provider's secrets.
    pub secrets: Secrets,
    /// The volume context.
    pub context: BTreeMap<String, String>,
}

/// The request of ControllerUnpublishVolume: detach a volume from one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerUnpublishVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// The ID that the plugin's NodeGetInfo returned on the node.
    pub node_id: ExternalNodeId,
    /// The secrets of the publish.
    pub secrets: Secrets,
}

/// The request of NodeExpandVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeExpandVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// A path at which the volume is staged or published.
    pub volume_path: PathBuf,
    /// The requested size; never unset.
    pub capacity: CapacityRange,
    /// The staging path, if the plugin stages volumes.
    pub staging_path: Option<PathBuf>,
    /// The access and attachment mode.
    pub capability: Option<Capability>,
    /// The mount options.
    pub mount_options: MountOptions,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// Returns the text of the first condition that holds.
fn first(wrong: impl IntoIterator<Item = (bool, &'static str)>) -> Option<String> {
    let mut wrong = wrong.into_iter();
    wrong.find_map(|(holds, text)| holds.then(|| text.to_owned()))
}

impl ControllerPublishVolume {
    /// Returns why the request must not be sent, in Nomad's words.
    pub fn problem(&self) -> Option<String> {
        first([
            (self.external_id.as_str().is_empty(), "missing volume ID"),
            (self.node_id.as_str().is_empty(), "missing NodeID"),
        ])
    }
}

impl ControllerUnpublishVolume {
    /// Returns why the request must not be sent, in Nomad's words. Without a node ID the plugin would
    /// detach the volume from every node.
    pub fn problem(&self) -> Option<String> {
        first([
            (self.external_id.as_str().is_empty(), "missing ExternalID"),
            (self.node_id.as_str().is_empty(), "missing NodeID"),
        ])
    }
}

impl NodeExpandVolume {
    /// Returns why the request must not be sent, in Nomad's words: every reason on its own line.
    pub fn problem(&self) -> Option<String> {
        let (min, max) = (self.capacity.min, self.capacity.max);
        let unset = self.capacity.is_unset();
        let wrong = [
            (self.external_id.as_str().is_empty(), "ExternalVolumeID is required"),
            (self.volume_path.as_os_str().is_empty(), "TargetPath is required"),
            (unset, "either RequiredBytes or LimitBytes must be set"),
            (!max.is_zero() && max < min, "LimitBytes cannot be less than RequiredBytes"),
        ];
        let texts = wrong.into_iter().filter(|(holds, _)| *holds);
        let texts: Vec<_> = texts.map(|(_, text)| text).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{AccessMode, AttachmentMode, Bytes};

    const WRITER: Capability = Capability {
        access_mode: AccessMode::SingleNodeWriter,
        attachment_mode: AttachmentMode::FileSystem,
    };

    fn attach(volume: &str, node: &str) -> ControllerPublishVolume {
        ControllerPublishVolume {
            external_id: volume.into(),
            node_id: node.into(),
            capability: WRITER,
            mount_options: MountOptions::default(),
            read_only: false,
            secrets: Secrets::default(),
            context: BTreeMap::new(),
        }
    }

    fn detach(volume: &str, node: &str) -> ControllerUnpublishVolume {
        ControllerUnpublishVolume {
            external_id: volume.into(),
            node_id: node.into(),
            secrets: Secrets::default(),
        }
    }

    #[test]
    fn a_missing_field_has_nomads_text() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(attach("", "").problem(), text("missing volume ID"));
        assert_eq!(attach("v", "").problem(), text("missing NodeID"));
        assert_eq!(attach("v", "n").problem(), None);
        assert_eq!(detach("", "n").problem(), text("missing ExternalID"));
        assert_eq!(detach("v", "").problem(), text("missing NodeID"));
        assert_eq!(detach("v", "n").problem(), None);
    }

    #[test]
    fn an_expansion_reports_all_that_is_wrong() {
        let size = |bytes| Bytes::new(bytes).unwrap();
        let expand = |volume: &str, path: &str, min, max| NodeExpandVolume {
            external_id: volume.into(),
            volume_path: path.into(),
            capacity: CapacityRange { min: size(min), max: size(max) },
            staging_path: None,
            capability: None,
            mount_options: MountOptions::default(),
            secrets: Secrets::default(),
        };
        let all = "ExternalVolumeID is required\nTargetPath is required\n\
                   either RequiredBytes or LimitBytes must be set";
        assert_eq!(expand("", "", 0, 0).problem().as_deref(), Some(all));
        let reversed = expand("v", "/t", 2, 1).problem();
        let expected = "LimitBytes cannot be less than RequiredBytes";
        assert_eq!(reversed.as_deref(), Some(expected));
        assert_eq!(expand("v", "/t", 2, 0).problem(), None);
        assert_eq!(expand("v", "/t", 0, 2).problem(), None);
    }
}
