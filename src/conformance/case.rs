//! What a check is: a name, what it demands and by which section, what it needs, what it does.

use futures_util::future::BoxFuture;

use super::check::{Check, Stop};
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::node_service_capability::rpc::Type as NodeRpc;

/// How a check's work ends: it says all it has to say through [`Check`].
pub(super) type Ended = Result<(), Stop>;

/// One named check.
#[derive(Clone, Copy)]
pub struct Case {
    /// `area/word`, for `--only` and `--skip`.
    pub id: &'static str,
    /// What holds if it passes: a sentence.
    pub title: &'static str,
    /// Where it belongs.
    pub area: Area,
    /// The section of the CSI specification that demands it.
    pub section: &'static str,
    /// What has to be advertised or given for it to be demanded.
    pub needs: &'static [Need],
    /// What it leaves behind until it cleans up.
    pub effect: Effect,
    pub(super) work: for<'a> fn(&'a mut Check<'_>) -> BoxFuture<'a, Ended>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

macro_rules! areas {
    ($($variant:ident $word:literal $doc:literal;)*) => {
        /// What checks are about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Area {
            $(#[doc = $doc] $variant,)*
        }

        impl Area {
            /// All of them, in the order in which they are checked.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word before the slash of its checks.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// What its checks are about.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

areas! {
    Identity "identity" "What the plugin says of itself.";
    Create "create" "CreateVolume.";
    Delete "delete" "DeleteVolume.";
    Validate "validate" "ValidateVolumeCapabilities.";
    List "list" "ListVolumes, ControllerGetVolume and GetCapacity.";
    Snapshot "snapshot" "Snapshots.";
    Attach "attach" "ControllerPublishVolume and ControllerUnpublishVolume.";
    Node "node" "Staging and publishing file systems.";
    Block "block" "Staging and publishing block devices.";
    Copy "copy" "Volumes made of snapshots and of volumes, and what is in them.";
    Expand "expand" "Expansion, and what a workload sees of it.";
    Modify "modify" "ControllerModifyVolume.";
    Group "group" "Group snapshots.";
    Metadata "metadata" "Blocks of snapshots, and blocks that differ between two.";
    Concurrency "concurrency" "Calls at once, and calls repeated after a connection that broke.";
    Manners "manners" "What holds for every call: refusals in words, secrets kept.";
}

/// A case in one line.
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
pub(in crate::conformance) use case;

/// What a check leaves behind until it cleans up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it only asks.
    Reads,
    /// It creates, or would if the plugin were wrong, or asks what may end a plugin that is wrong:
    /// only with `--destructive`.
    Creates,
}

/// What has to be there for a check to be demanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// CONTROLLER_SERVICE.
    Controller,
    /// A controller's capability.
    Can(ControllerRpc),
    /// A node service.
    Node,
    /// NodeGetInfo.
    NodeInfo,
    /// A node's capability.
    NodeCan(NodeRpc),
    /// VOLUME_ACCESSIBILITY_CONSTRAINTS, and a node that says where it is.
    Topology,
    /// CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT.
    GroupSnapshots,
    /// SNAPSHOT_METADATA_SERVICE.
    SnapshotMetadata,
    /// Block volumes are asked for.
    Block,
    /// Mutable parameters are given.
    Mutable,
    /// The plugin's log is given.
    Log,
    /// Secrets are given.
    Secrets,
}
