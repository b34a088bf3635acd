//! What the plugin can do and says that it can: CSI's capabilities, each of which can be taken away.
//!
//! An orchestrator has to cope with every combination, so each can be played (`--without`). What is
//! taken away is not advertised, and its RPCs answer UNIMPLEMENTED (`csi-spec` 4.3).

use std::collections::BTreeSet;

/// Writes the enum with its names.
macro_rules! abilities {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// One thing that the plugin can do, named as CSI names it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Ability {
            $($(#[$doc])* $name,)*
        }

        impl Ability {
            /// All of them.
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];

            /// Their names, in order.
            pub(super) fn names() -> Vec<&'static str> {
                Self::ALL.iter().map(|ability| ability.name()).collect()
            }

            /// As it is written after `--without`.
            pub(super) const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

abilities! {
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
    /// Tells how much room there is.
    Capacity = "GET_CAPACITY",
    /// Cuts and deletes snapshots, and restores them.
    CreateSnapshot = "CREATE_DELETE_SNAPSHOT",
    /// Lists snapshots.
    ListSnapshots = "LIST_SNAPSHOTS",
    /// Tells of one snapshot.
    GetSnapshot = "GET_SNAPSHOT",
    /// Clones volumes.
    Clone = "CLONE_VOLUME",
    /// Makes volumes larger.
    Expand = "EXPAND_VOLUME",
    /// Makes them larger where they are used.
    NodeExpand = "NODE_EXPAND_VOLUME",
    /// Tells of one volume.
    GetVolume = "GET_VOLUME",
    /// Changes parameters of a volume.
    Modify = "MODIFY_VOLUME",
    /// Says how volumes are.
    Condition = "VOLUME_CONDITION",
    /// Knows the access modes for several workloads on one node.
    MultiWriter = "SINGLE_NODE_MULTI_WRITER",
    /// Honours read-only when attaching.
    PublishReadOnly = "PUBLISH_READONLY",
    /// Lists where volumes are attached.
    PublishedNodes = "LIST_VOLUMES_PUBLISHED_NODES",
    /// Stages volumes before it publishes them.
    Stage = "STAGE_UNSTAGE_VOLUME",
    /// Measures volumes where they are used.
    Stats = "GET_VOLUME_STATS",
    /// Mounts for a group of users.
    MountGroup = "VOLUME_MOUNT_GROUP",
    /// Confirms capabilities; without it, ValidateVolumeCapabilities never does.
    Confirm = "CONFIRMED",
}

/// What is left of all abilities, with what has to be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Abilities {
    /// What was taken away.
    pub(super) without: BTreeSet<Ability>,
    /// Whether volumes are attached before they are used.
    pub(super) attaches: bool,
    /// Whether volumes have places.
    pub(super) has_topology: bool,
}

impl Abilities {
    /// Whether the plugin can do that.
    pub(super) fn has(&self, ability: Ability) -> bool {
        let needs_attaching = matches!(ability, Ability::PublishReadOnly | Ability::PublishedNodes);
        !self.without.contains(&ability) && (self.attaches || !needs_attaching)
    }

    /// Whether an RPC, by its name, is one that the plugin answers.
    pub(super) fn answers(&self, rpc: &str) -> bool {
        let has = |ability| self.has(ability);
        let controller = has(Ability::Controller);
        match rpc {
            "ControllerGetCapabilities" | "ValidateVolumeCapabilities" => controller,
            "CreateVolume" | "DeleteVolume" => controller && has(Ability::CreateVolume),
            "ControllerPublishVolume" | "ControllerUnpublishVolume" => controller && self.attaches,
            "ListVolumes" => controller && has(Ability::ListVolumes),
            "GetCapacity" => controller && has(Ability::Capacity),
            "CreateSnapshot" | "DeleteSnapshot" => controller && has(Ability::CreateSnapshot),
            "ListSnapshots" => controller && has(Ability::ListSnapshots),
            "GetSnapshot" => controller && has(Ability::GetSnapshot),
            "ControllerExpandVolume" => controller && has(Ability::Expand),
            "ControllerGetVolume" => controller && has(Ability::GetVolume),
            "ControllerModifyVolume" => controller && has(Ability::Modify),
            "GroupControllerGetCapabilities"
            | "CreateVolumeGroupSnapshot"
            | "DeleteVolumeGroupSnapshot"
            | "GetVolumeGroupSnapshot" => has(Ability::Groups),
            "GetMetadataAllocated" | "GetMetadataDelta" => has(Ability::Metadata),
            "NodeStageVolume" | "NodeUnstageVolume" => has(Ability::Node) && has(Ability::Stage),
            "NodePublishVolume" | "NodeUnpublishVolume" | "NodeGetCapabilities" | "NodeGetInfo" => {
                has(Ability::Node)
            }
            "NodeGetVolumeStats" => has(Ability::Node) && has(Ability::Stats),
            "NodeExpandVolume" => has(Ability::Node) && has(Ability::NodeExpand),
            _ => true,
        }
    }
}

/// Every RPC of CSI 1.12.
pub(super) const RPCS: [&str; 32] = [
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
];
