//! How long one attempt of each RPC may take.
//!
//! The deadline is sent along as `grpc-timeout`, so that a plugin may give up too, and is kept here
//! whatever the plugin does. A call that reaches it may still take effect (CSI section "Timeouts").

use std::time::Duration;

use crate::ports::Rpc;

/// The deadline of one attempt (`csi-orchestration` 7.3).
pub const fn of(rpc: Rpc) -> Duration {
    match rpc {
        // Answered from memory by every plugin.
        Rpc::GetPluginInfo
        | Rpc::GetPluginCapabilities
        | Rpc::ControllerGetCapabilities
        | Rpc::NodeGetCapabilities => Duration::from_secs(1),
        // May look at the plugin's dependencies (B56).
        Rpc::Probe => Duration::from_secs(5),
        // Drivers of clouds ask the machine's metadata service.
        Rpc::NodeGetInfo => Duration::from_secs(10),
        // Works on storage.
        Rpc::CreateVolume
        | Rpc::DeleteVolume
        | Rpc::ValidateVolumeCapabilities
        | Rpc::ListVolumes
        | Rpc::CreateSnapshot
        | Rpc::DeleteSnapshot
        | Rpc::ListSnapshots
        | Rpc::ControllerExpandVolume
        | Rpc::NodeStageVolume
        | Rpc::NodeUnstageVolume
        | Rpc::NodePublishVolume
        | Rpc::NodeUnpublishVolume => Duration::from_secs(120),
    }
}
