//! The deadline of one attempt of each RPC.
//!
//! The plugin receives the deadline as `grpc-timeout`; the client enforces it in any case. A call that
//! times out may still take effect (CSI section "Timeouts").

use std::time::Duration;

use nomad_csi_ports::Rpc;

/// Returns the deadline of one attempt.
pub const fn for_rpc(rpc: Rpc) -> Duration {
    match rpc {
        // Plugins answer these from memory.
        Rpc::GetPluginInfo
        | Rpc::GetPluginCapabilities
        | Rpc::ControllerGetCapabilities
        | Rpc::NodeGetCapabilities => Duration::from_secs(1),
        // May check the plugin's dependencies (B56).
        Rpc::Probe => Duration::from_secs(5),
        // Cloud drivers call the machine's metadata service.
        Rpc::NodeGetInfo => Duration::from_secs(10),
        // May ask the storage; a person or a fingerprint waits for it.
        Rpc::GetCapacity
        | Rpc::ControllerGetVolumeHealth
        | Rpc::NodeGetVolumeStats
        | Rpc::NodeGetVolumeHealth
        | Rpc::NodeGetStorageHealth => Duration::from_secs(10),
        // Changes nothing, so it can be cancelled and sent again.
        Rpc::ValidateVolumeCapabilities
        | Rpc::ListVolumes
        | Rpc::ListSnapshots
        | Rpc::ControllerListVolumeHealth => Duration::from_secs(120),
        // Changes storage. A call that is cancelled may still take effect after the call that undoes
        // it, so the limit is only for plugins that poll and would never give up.
        Rpc::CreateVolume
        | Rpc::DeleteVolume
        | Rpc::CreateSnapshot
        | Rpc::DeleteSnapshot
        | Rpc::ControllerExpandVolume
        | Rpc::ControllerModifyVolume
        | Rpc::ControllerPublishVolume
        | Rpc::ControllerUnpublishVolume
        | Rpc::NodeStageVolume
        | Rpc::NodeUnstageVolume
        | Rpc::NodePublishVolume
        | Rpc::NodeUnpublishVolume
        | Rpc::NodeExpandVolume => Duration::from_secs(30 * 60),
    }
}
