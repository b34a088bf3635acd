//! The definition of one check: its ID, its rule, the section of the rule, and its prerequisites.

use futures_util::future::BoxFuture;

use super::check::{Check, StopReason};
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::node_service_capability::rpc::Type as NodeRpc;

/// How a check's function ends. Findings go to [`Check`].
pub(super) type CheckResult = Result<(), StopReason>;

/// One check.
#[derive(Clone, Copy)]
pub struct Case {
    /// `area/word`, as `--only` and `--skip` take it.
    pub id: &'static str,
    /// The rule that holds if the check passes, as a sentence without a full stop.
    pub title: &'static str,
    /// The area to which the check belongs.
    pub area: Area,
    /// The section of the CSI specification that demands the rule.
    pub section: &'static str,
    /// The capabilities and arguments without which the check does not apply.
    pub needs: &'static [Need],
    /// The effect on the provider.
    pub effect: Effect,
    pub(super) work: for<'a> fn(&'a mut Check<'_>) -> BoxFuture<'a, CheckResult>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

macro_rules! areas {
    ($($variant:ident $word:literal $doc:literal;)*) => {
        /// A group of checks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Area {
            $(#[doc = $doc] $variant,)*
        }

        impl Area {
            /// All areas, in the order in which they run.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the part of the check IDs before the slash.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Returns what the checks of the area are about.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

areas! {
    Identity "identity" "What the plugin reports about itself.";
    Create "create" "CreateVolume.";
    Delete "delete" "DeleteVolume.";
    Validate "validate" "ValidateVolumeCapabilities.";
    List "list" "ListVolumes, ControllerGetVolume and GetCapacity.";
    Health "health" "Health of volumes and storage.";
    Snapshot "snapshot" "Snapshots.";
    Attach "attach" "ControllerPublishVolume and ControllerUnpublishVolume.";
    Node "node" "Staging and publishing file systems.";
    Block "block" "Staging and publishing block devices.";
    Copy "copy" "Volumes created from snapshots and volumes, and their data.";
    Expand "expand" "Expansion, and what a workload sees of it.";
    Modify "modify" "ControllerModifyVolume.";
    Group "group" "Group snapshots.";
    Metadata "metadata" "Allocated blocks of a snapshot, and changed blocks between two.";
    Concurrency "concurrency" "Concurrent calls, and calls repeated after a lost connection.";
    EveryCall "manners" "Rules for every call: error messages and secrets.";
}

/// Defines a [`Case`].
macro_rules! case {
    ($area:ident, $id:literal, $title:literal, $section:expr, $needs:expr, $effect:ident, $work:path) => {
        Case {
            id: $id,
            title: $title,
            area: Area::$area,
            section: $section,
            needs: $needs,
            effect: Effect::$effect,
            work: |check| Box::pin($work(check)),
        }
    };
}
pub(crate) use case;

/// The effect of a check on the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The check only reads.
    Reads,
    /// The check creates something, or would with a faulty plugin, or may crash a faulty plugin. It
    /// runs only with `--destructive`.
    Creates,
}

/// A prerequisite of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The plugin advertises CONTROLLER_SERVICE.
    ControllerService,
    /// The controller advertises a capability.
    ControllerCapability(ControllerRpc),
    /// The plugin has a node service.
    NodeService,
    /// The plugin implements NodeGetInfo.
    NodeInfo,
    /// The node service advertises a capability.
    NodeCapability(NodeRpc),
    /// The plugin advertises VOLUME_ACCESSIBILITY_CONSTRAINTS and reports its node's topology.
    Topology,
    /// The plugin advertises SNAPSHOT_ACCESSIBILITY_CONSTRAINTS and reports its node's topology.
    SnapshotTopology,
    /// The plugin advertises CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT.
    GroupSnapshots,
    /// The plugin advertises SNAPSHOT_METADATA_SERVICE.
    SnapshotMetadata,
    /// `--block` is given.
    BlockVolumes,
    /// `--mutable-parameters` is given.
    MutableParameters,
    /// `--log` is given.
    Log,
    /// `--secrets` is given.
    Secrets,
}
