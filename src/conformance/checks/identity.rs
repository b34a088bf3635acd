//! Checks of what the plugin reports about itself (CSI section "Identity Service RPC", and the
//! capability RPCs of the other services).
//! capability RPCs of the other services).

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::Check;
use crate::finding::Level;
use crate::resources::TrackedCall;
use crate::validity;
use nomad_csi_csi::CallFailure;
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::{
    ControllerGetCapabilitiesRequest, ControllerGetVolumeRequest,
    ControllerListVolumeHealthRequest, GetCapacityRequest, GetPluginCapabilitiesRequest,
    GetPluginInfoRequest, GetSnapshotRequest, GroupControllerGetCapabilitiesRequest,
    ListSnapshotsRequest, ListVolumesRequest, NodeGetCapabilitiesRequest, NodeGetInfoRequest,
    ProbeRequest,
};

pub(crate) const CASES: &[Case] = &[
    case!(
        Identity,
        "identity/info",
        "GetPluginInfo returns a valid name and a version, the same on every call",
        "GetPluginInfo",
        &[],
        Reads,
        info
    ),
    case!(
        Identity,
        "identity/capabilities",
        "GetPluginCapabilities returns capabilities of the specification, the same on every call",
        "GetPluginCapabilities",
        &[],
        Reads,
        capabilities
    ),
    case!(
        Identity,
        "identity/probe",
        "Probe reports that the plugin is ready",
        "Probe",
        &[],
        Reads,
        probe
    ),
    case!(
        Identity,
        "identity/controller",
        "ControllerGetCapabilities returns a consistent set of capabilities of the specification",
        "ControllerGetCapabilities",
        &[Need::ControllerService],
        Reads,
        controller
    ),
    case!(
        Identity,
        "identity/node",
        "NodeGetCapabilities returns capabilities of the specification",
        "NodeGetCapabilities",
        &[Need::NodeService],
        Reads,
        node
    ),
    case!(
        Identity,
        "identity/node-info",
        "NodeGetInfo returns a valid node ID and topology, the same on every call",
        "NodeGetInfo",
        &[Need::NodeInfo],
        Reads,
        node_info
    ),
    case!(
        Identity,
        "identity/node-info-demanded",
        "NodeGetInfo is implemented if the controller advertises PUBLISH_UNPUBLISH_VOLUME",
        "NodeGetInfo",
        &[Need::NodeService, Need::ControllerCapability(ControllerRpc::PublishUnpublishVolume)],
        Reads,
        node_info_demanded
    ),
    case!(
        Identity,
        "identity/unadvertised",
        "Controller RPCs that are not advertised return UNIMPLEMENTED",
        "Error Scheme",
        &[Need::ControllerService],
        Reads,
        unadvertised
    ),
];

const SAME: &str = "the response is the same on every call";

/// Records a failure of the probe before the checks, although the same call may succeed now.
fn report_earlier_failure<T>(
    check: &mut Check<'_>,
    response: Option<Result<T, CallFailure>>,
    rpc: &str,
) {
    if let Some(Err(failure)) = response {
        let rule = format!("{rpc} succeeds on every call, including the first");
        check.add_finding(Level::Must, &rule, &failure.to_string());
    }
}

async fn info(check: &mut Check<'_>) -> CheckResult {
    let mandatory = "every plugin implements this RPC";
    let first = check.call_ok(GetPluginInfoRequest {}, mandatory).await?;
    check.add_problems(validity::plugin_info(&first));
    let second = check.call_ok(GetPluginInfoRequest {}, mandatory).await?;
    check.expect(first == second, SAME, &format!("{second:?}"));
    Ok(())
}

async fn capabilities(check: &mut Check<'_>) -> CheckResult {
    let mandatory = "every plugin implements this RPC";
    let first = check.call_ok(GetPluginCapabilitiesRequest {}, mandatory).await?;
    let before = check.plugin().services.clone();
    report_earlier_failure(check, Some(before), "GetPluginCapabilities");
    check.add_problems(validity::plugin_capabilities(check.plugin()));
    let second = check.call_ok(GetPluginCapabilitiesRequest {}, mandatory).await?;
    check.expect(first == second, SAME, &format!("{second:?}"));
    Ok(())
}

async fn probe(check: &mut Check<'_>) -> CheckResult {
    let healthy = "a usable plugin is healthy";
    let response = check.call_ok(ProbeRequest {}, healthy).await?;
    let before = check.plugin().ready.clone();
    report_earlier_failure(check, Some(before), "Probe");
    let ready = response.ready.unwrap_or(true);
    let rule = "`ready` is true or absent; other calls may fail before that";
    check.expect(ready, rule, "false: the plugin is still initializing");
    Ok(())
}

async fn controller(check: &mut Check<'_>) -> CheckResult {
    let because = "a plugin with CONTROLLER_SERVICE reports its controller capabilities";
    check.call_ok(ControllerGetCapabilitiesRequest {}, because).await?;
    let before = check.plugin().controller.clone();
    report_earlier_failure(check, before, "ControllerGetCapabilities");
    let before = check.plugin().group.clone();
    report_earlier_failure(check, before, "GroupControllerGetCapabilities");
    check.add_problems(validity::controller_capabilities(check.plugin()));
    if check.plugin().group.is_some() {
        let because =
            "a plugin with GROUP_CONTROLLER_SERVICE reports its group controller capabilities";
        check.call_ok(GroupControllerGetCapabilitiesRequest {}, because).await?;
    }
    Ok(())
}

async fn node(check: &mut Check<'_>) -> CheckResult {
    let because = "every node plugin reports its capabilities";
    check.call_ok(NodeGetCapabilitiesRequest {}, because).await?;
    let before = check.plugin().node.clone();
    report_earlier_failure(check, before, "NodeGetCapabilities");
    check.add_problems(validity::node_capabilities(check.plugin()));
    Ok(())
}

async fn node_info(check: &mut Check<'_>) -> CheckResult {
    let because = "NodeGetInfo can be called repeatedly";
    let first = check.call_ok(NodeGetInfoRequest {}, because).await?;
    let before = check.plugin().node_info.clone();
    report_earlier_failure(check, before, "NodeGetInfo");
    let has_topology = check.has_topology();
    check.add_problems(validity::node_info(&first, has_topology));
    let second = check.call_ok(NodeGetInfoRequest {}, because).await?;
    check.expect(first == second, SAME, &format!("{second:?}"));
    Ok(())
}

async fn node_info_demanded(check: &mut Check<'_>) -> CheckResult {
    let because =
        "PUBLISH_UNPUBLISH_VOLUME is advertised, and ControllerPublishVolume needs the node's ID";
    check.call_ok(NodeGetInfoRequest {}, because).await?;
    Ok(())
}

async fn unadvertised(check: &mut Check<'_>) -> CheckResult {
    expect_unimplemented(check, ControllerRpc::ListVolumes, ListVolumesRequest::default()).await;
    expect_unimplemented(check, ControllerRpc::GetCapacity, GetCapacityRequest::default()).await;
    expect_unimplemented(check, ControllerRpc::ListSnapshots, ListSnapshotsRequest::default())
        .await;
    let volume_id = "nomad-csi-check-no-volume".to_owned();
    let request = ControllerGetVolumeRequest { volume_id };
    expect_unimplemented(check, ControllerRpc::GetVolume, request).await;
    let request = GetSnapshotRequest {
        snapshot_id: "nomad-csi-check-no-snapshot".to_owned(),
        ..Default::default()
    };
    expect_unimplemented(check, ControllerRpc::GetSnapshot, request).await;
    let request = ControllerListVolumeHealthRequest::default();
    expect_unimplemented(check, ControllerRpc::ListVolumeHealth, request).await;
    Ok(())
}

async fn expect_unimplemented(
    check: &mut Check<'_>,
    kind: ControllerRpc,
    request: impl TrackedCall,
) {
    if check.plugin().controller_has(kind) {
        return;
    }
    let response = check.call(request).await;
    let got = match &response {
        Ok(_) => "OK".to_owned(),
        Err(failure) if failure.code() == Some(StatusCode::Unimplemented) => return,
        Err(failure) => failure.to_string(),
    };
    let name = kind.as_str_name();
    let rule = format!("UNIMPLEMENTED: the controller does not advertise {name}");
    check.advise(false, &rule, &got);
}
