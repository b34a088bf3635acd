//! Claims for tests.

use super::admit::{AdmissionFacts, ClaimRequest, NodeVolumes};
use super::key::ClaimKey;
use super::usage::{ClaimUsage, SealedFlags};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Capability, ExternalNodeId, Namespace, NamespacedId,
    NodeId, VolumeAlias, VolumeId,
};

/// A capability for file systems.
pub fn capability(access_mode: AccessMode) -> Capability {
    Capability { access_mode, attachment_mode: AttachmentMode::FileSystem }
}

/// A key with the alias `data`.
pub fn key(alloc: &str) -> ClaimKey {
    ClaimKey { alloc: AllocId::new(alloc), alias: VolumeAlias::new("data") }
}

/// A request to write volume `db` on a node.
pub fn request(alloc: &str, node: &str, access_mode: AccessMode) -> ClaimRequest {
    let capability = capability(access_mode);
    ClaimRequest {
        key: key(alloc),
        volume: NamespacedId::new(Namespace::default(), VolumeId::new("db")),
        node: NodeId::new(node),
        external_node: Some(ExternalNodeId::new(format!("i-{node}"))),
        usage: ClaimUsage::new(capability, "ext4", SealedFlags::default()),
        read_only: false,
    }
}

/// Every capability for file systems.
pub fn all_capabilities() -> Vec<Capability> {
    AccessMode::ALL.map(capability).to_vec()
}

/// Facts that deny nothing.
pub fn permissive(capabilities: &[Capability]) -> AdmissionFacts<'_> {
    AdmissionFacts {
        capabilities,
        is_schedulable: true,
        is_node_lost: false,
        node_volumes: NodeVolumes::default(),
    }
}
