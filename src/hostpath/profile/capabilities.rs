//! The plugin's capabilities, as CSI names them. `--without` removes one.
//!
//! A removed capability is not advertised, and its RPCs answer UNIMPLEMENTED. Orchestrators must
//! work with every combination, so tests can choose any.

use std::collections::BTreeSet;

use crate::shared::Role;

/// Defines the enum and its names.
macro_rules! capabilities {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A capability of the plugin, named as in CSI.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum PluginCapability {
            $($(#[$doc])* $name,)*
        }

        impl PluginCapability {
            /// All capabilities.
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// The names of all capabilities, in order.
            pub(crate) fn names() -> Vec<&'static str> {
                Self::ALL.iter().map(|capability| capability.name()).collect()
            }

            /// The name that `--without` takes.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

capabilities! {
    /// Has the Controller service.
    Controller = "CONTROLLER_SERVICE",
    /// Has the Node service.
    Node = "NODE_SERVICE",
    /// Has the GroupController service.
    Groups = "GROUP_CONTROLLER_SERVICE",
    /// Has the SnapshotMetadata service.
    Metadata = "SNAPSHOT_METADATA_SERVICE",
    /// Creates and deletes volumes.
    CreateVolume = "CREATE_DELETE_VOLUME",
    /// Lists volumes.
    ListVolumes = "LIST_VOLUMES",
    /// Reports the available capacity.
    Capacity = "GET_CAPACITY",
    /// Creates, deletes and restores snapshots.
    CreateSnapshot = "CREATE_DELETE_SNAPSHOT",
    /// Lists snapshots.
    ListSnapshots = "LIST_SNAPSHOTS",
    /// Returns one snapshot.
    GetSnapshot = "GET_SNAPSHOT",
    /// Clones volumes.
    Clone = "CLONE_VOLUME",
    /// Expands volumes.
    Expand = "EXPAND_VOLUME",
    /// Expands volumes on the node.
    NodeExpand = "NODE_EXPAND_VOLUME",
    /// Returns one volume.
    GetVolume = "GET_VOLUME",
    /// Changes mutable parameters of a volume.
    Modify = "MODIFY_VOLUME",
    /// Reports the health of one volume.
    VolumeHealth = "GET_VOLUME_HEALTH",
    /// Lists the volumes with an adverse condition. Needs `VolumeHealth`.
    ListHealth = "LIST_VOLUME_HEALTH",
    /// Supports the access modes for several workloads on one node.
    MultiWriter = "SINGLE_NODE_MULTI_WRITER",
    /// Honours `readonly` in ControllerPublishVolume.
    PublishReadOnly = "PUBLISH_READONLY",
    /// Lists the nodes that a volume is attached to.
    PublishedNodes = "LIST_VOLUMES_PUBLISHED_NODES",
    /// Stages volumes before publishing them.
    Stage = "STAGE_UNSTAGE_VOLUME",
    /// Reports the used space of volumes on the node.
    Stats = "GET_VOLUME_STATS",
    /// Reports the health of one volume on the node.
    NodeVolumeHealth = "NODE_GET_VOLUME_HEALTH",
    /// Reports the health of the storage on the node.
    StorageHealth = "GET_STORAGE_HEALTH",
    /// Honours `volume_mount_group`.
    MountGroup = "VOLUME_MOUNT_GROUP",
    /// Reports where a snapshot can be used, if the plugin has a topology.
    SnapshotTopology = "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS",
    /// Confirms capabilities. Without it, ValidateVolumeCapabilities never confirms any.
    Confirm = "CONFIRMED",
}

/// The capabilities that a plugin has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PluginCapabilities {
    /// The removed capabilities.
    pub(crate) without: BTreeSet<PluginCapability>,
    /// True if volumes are attached before use (`--attach`).
    pub(crate) requires_attachment: bool,
    /// True if volumes have a topology (`--topology`).
    pub(crate) has_topology: bool,
}

impl PluginCapabilities {
    /// Limits the capabilities to those of one part of a plugin whose parts share a directory. Volumes are attached there.
    pub(crate) fn limit_to(&mut self, role: Role) {
        self.requires_attachment = true;
        if !role.has_node() {
            self.without.insert(PluginCapability::Node);
        }
        if !role.has_controller() {
            self.without.extend([
                PluginCapability::Controller,
                PluginCapability::Groups,
                PluginCapability::Metadata,
            ]);
        }
    }

    /// Returns whether the plugin has this capability.
    pub(crate) fn has(&self, capability: PluginCapability) -> bool {
        let needs_attachment = matches!(
            capability,
            PluginCapability::PublishReadOnly | PluginCapability::PublishedNodes
        );
        if needs_attachment && !self.requires_attachment {
            return false;
        }
        let base = match capability {
            PluginCapability::ListHealth => Some(PluginCapability::VolumeHealth),
            PluginCapability::SnapshotTopology if !self.has_topology => return false,
            PluginCapability::SnapshotTopology => Some(PluginCapability::CreateSnapshot),
            _ => None,
        };
        base.is_none_or(|base| self.has(base)) && !self.without.contains(&capability)
    }

    /// Returns whether the plugin answers this RPC.
    pub(crate) fn supports_rpc(&self, rpc: &str) -> bool {
        let has = |capability| self.has(capability);
        let controller = has(PluginCapability::Controller);
        match rpc {
            "ControllerGetCapabilities" | "ValidateVolumeCapabilities" => controller,
            "CreateVolume" | "DeleteVolume" => controller && has(PluginCapability::CreateVolume),
            "ControllerPublishVolume" | "ControllerUnpublishVolume" => {
                controller && self.requires_attachment
            }
            "ListVolumes" => controller && has(PluginCapability::ListVolumes),
            "GetCapacity" => controller && has(PluginCapability::Capacity),
            "CreateSnapshot" | "DeleteSnapshot" => {
                controller && has(PluginCapability::CreateSnapshot)
            }
            "ListSnapshots" => controller && has(PluginCapability::ListSnapshots),
            "GetSnapshot" => controller && has(PluginCapability::GetSnapshot),
            "ControllerExpandVolume" => controller && has(PluginCapability::Expand),
            "ControllerGetVolume" => controller && has(PluginCapability::GetVolume),
            "ControllerGetVolumeHealth" => controller && has(PluginCapability::VolumeHealth),
            "ControllerListVolumeHealth" => controller && has(PluginCapability::ListHealth),
            "ControllerModifyVolume" => controller && has(PluginCapability::Modify),
            "GroupControllerGetCapabilities"
            | "CreateVolumeGroupSnapshot"
            | "DeleteVolumeGroupSnapshot"
            | "GetVolumeGroupSnapshot" => has(PluginCapability::Groups),
            "GetMetadataAllocated" | "GetMetadataDelta" => has(PluginCapability::Metadata),
            "NodeStageVolume" | "NodeUnstageVolume" => {
                has(PluginCapability::Node) && has(PluginCapability::Stage)
            }
            "NodePublishVolume" | "NodeUnpublishVolume" | "NodeGetCapabilities" | "NodeGetInfo" => {
                has(PluginCapability::Node)
            }
            "NodeGetVolumeStats" => has(PluginCapability::Node) && has(PluginCapability::Stats),
            "NodeGetVolumeHealth" => {
                has(PluginCapability::Node) && has(PluginCapability::NodeVolumeHealth)
            }
            "NodeGetStorageHealth" => {
                has(PluginCapability::Node) && has(PluginCapability::StorageHealth)
            }
            "NodeExpandVolume" => has(PluginCapability::Node) && has(PluginCapability::NodeExpand),
            _ => true,
        }
    }
}

/// Every RPC of CSI 1.13.
pub(crate) const RPCS: [&str; 36] = [
    "GetPluginInfo",
    "GetPluginCapabilities",
    "Probe",
    "CreateVolume",
    "DeleteVolume",
    "ControllerPublishVolume",
    "ControllerUnpublishVolume",
    "ValidateVolumeCapabilities",
    "ListVolumes",
    "GetCapacity",
    "ControllerGetCapabilities",
    "CreateSnapshot",
    "DeleteSnapshot",
    "ListSnapshots",
    "GetSnapshot",
    "ControllerExpandVolume",
    "ControllerGetVolume",
    "ControllerModifyVolume",
    "ControllerGetVolumeHealth",
    "ControllerListVolumeHealth",
    "GroupControllerGetCapabilities",
    "CreateVolumeGroupSnapshot",
    "DeleteVolumeGroupSnapshot",
    "GetVolumeGroupSnapshot",
    "GetMetadataAllocated",
    "GetMetadataDelta",
    "NodeStageVolume",
    "NodeUnstageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeGetVolumeStats",
    "NodeExpandVolume",
    "NodeGetCapabilities",
    "NodeGetInfo",
    "NodeGetVolumeHealth",
    "NodeGetStorageHealth",
];
