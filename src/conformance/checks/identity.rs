//! What the plugin says of itself (CSI sections "Identity Service RPC" and the capability RPCs).

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::Check;
use crate::conformance::made::Leaves;
use crate::conformance::report::Level;
use crate::conformance::sound;
use crate::csi::Failure;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::{
    ControllerGetCapabilitiesRequest, ControllerGetVolumeRequest, GetCapacityRequest,
    GetPluginCapabilitiesRequest, GetPluginInfoRequest, GetSnapshotRequest,
    GroupControllerGetCapabilitiesRequest, ListSnapshotsRequest, ListVolumesRequest,
    NodeGetCapabilitiesRequest, NodeGetInfoRequest, ProbeRequest,
};
use crate::ports::StatusCode;

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Identity,
        "identity/info",
        "GetPluginInfo gives a well-formed name and a version, the same every time",
        "GetPluginInfo",
        &[],
        Reads,
        info
    ),
    case!(
        Identity,
        "identity/capabilities",
        "GetPluginCapabilities lists capabilities of the specification, the same every time",
        "GetPluginCapabilities",
        &[],
        Reads,
        capabilities
    ),
    case!(
        Identity,
        "identity/probe",
        "Probe says that the plugin is ready",
        "Probe",
        &[],
        Reads,
        probe
    ),
    case!(
        Identity,
        "identity/controller",
        "ControllerGetCapabilities lists capabilities of the specification that go together",
        "ControllerGetCapabilities",
        &[Need::Controller],
        Reads,
        controller
    ),
    case!(
        Identity,
        "identity/node",
        "NodeGetCapabilities lists capabilities of the specification",
        "NodeGetCapabilities",
        &[Need::Node],
        Reads,
        node
    ),
    case!(
        Identity,
        "identity/node-info",
        "NodeGetInfo gives a node ID and a place that are well-formed, the same every time",
        "NodeGetInfo",
        &[Need::NodeInfo],
        Reads,
        node_info
    ),
    case!(
        Identity,
        "identity/node-info-demanded",
        "A node of a plugin that attaches volumes has NodeGetInfo",
        "NodeGetInfo",
        &[Need::Node, Need::Can(ControllerRpc::PublishUnpublishVolume)],
        Reads,
        node_info_demanded
    ),
    case!(
        Identity,
        "identity/unadvertised",
        "What a controller does not advertise is UNIMPLEMENTED",
        "Error Scheme",
        &[Need::Controller],
        Reads,
        unadvertised
    ),
];

const SAME: &str = "the same answer every time";

/// The plugin was asked once before the checks began: what failed then is a failure, though it may
/// work by now.
fn asked_before<T>(check: &mut Check<'_>, answer: Option<Result<T, Failure>>, rpc: &str) {
    if let Some(Err(failure)) = answer {
        let rule = format!("{rpc} is answered whenever it is asked, the first time too");
        check.find(Level::Must, &rule, &failure.to_string());
    }
}

async fn info(check: &mut Check<'_>) -> Ended {
    let always = "it is answered always";
    let first = check.must(GetPluginInfoRequest {}, always).await?;
    check.problems(sound::plugin_info(&first));
    let second = check.must(GetPluginInfoRequest {}, always).await?;
    check.hold(first == second, SAME, &format!("{second:?}"));
    Ok(())
}

async fn capabilities(check: &mut Check<'_>) -> Ended {
    let always = "it is answered always";
    let first = check.must(GetPluginCapabilitiesRequest {}, always).await?;
    let before = check.profile().services.clone();
    asked_before(check, Some(before), "GetPluginCapabilities");
    check.problems(sound::plugin_capabilities(check.profile()));
    let second = check.must(GetPluginCapabilitiesRequest {}, always).await?;
    check.hold(first == second, SAME, &format!("{second:?}"));
    Ok(())
}

async fn probe(check: &mut Check<'_>) -> Ended {
    let healthy = "a plugin that can be used is healthy and ready";
    let answer = check.must(ProbeRequest {}, healthy).await?;
    let before = check.profile().ready.clone();
    asked_before(check, Some(before), "Probe");
    let ready = answer.ready.unwrap_or(true);
    let rule = "`ready` true or absent: until then other calls may fail";
    check.hold(ready, rule, "false: it is still initialising");
    Ok(())
}

async fn controller(check: &mut Check<'_>) -> Ended {
    let because = "a plugin with CONTROLLER_SERVICE says what its controller can do";
    check
        .must(ControllerGetCapabilitiesRequest {}, because)
        .await?;
    let before = check.profile().controller.clone();
    asked_before(check, before, "ControllerGetCapabilities");
    let before = check.profile().group.clone();
    asked_before(check, before, "GroupControllerGetCapabilities");
    check.problems(sound::controller_capabilities(check.profile()));
    if check.profile().group.is_some() {
        let because = "a plugin with GROUP_CONTROLLER_SERVICE says what that can do";
        check
            .must(GroupControllerGetCapabilitiesRequest {}, because)
            .await?;
    }
    Ok(())
}

async fn node(check: &mut Check<'_>) -> Ended {
    let because = "every node plugin says what it can do";
    check.must(NodeGetCapabilitiesRequest {}, because).await?;
    let before = check.profile().node.clone();
    asked_before(check, before, "NodeGetCapabilities");
    check.problems(sound::node_capabilities(check.profile()));
    Ok(())
}

async fn node_info(check: &mut Check<'_>) -> Ended {
    let because = "it may be called repeatedly";
    let first = check.must(NodeGetInfoRequest {}, because).await?;
    let before = check.profile().node_info.clone();
    asked_before(check, before, "NodeGetInfo");
    let has_topology = check.has_topology();
    check.problems(sound::node_info(&first, has_topology));
    let second = check.must(NodeGetInfoRequest {}, because).await?;
    check.hold(first == second, SAME, &format!("{second:?}"));
    Ok(())
}

async fn node_info_demanded(check: &mut Check<'_>) -> Ended {
    let because =
        "PUBLISH_UNPUBLISH_VOLUME is advertised, and ControllerPublishVolume needs the node's ID";
    check.must(NodeGetInfoRequest {}, because).await?;
    Ok(())
}

async fn unadvertised(check: &mut Check<'_>) -> Ended {
    lacks(
        check,
        ControllerRpc::ListVolumes,
        ListVolumesRequest::default(),
    )
    .await;
    lacks(
        check,
        ControllerRpc::GetCapacity,
        GetCapacityRequest::default(),
    )
    .await;
    lacks(
        check,
        ControllerRpc::ListSnapshots,
        ListSnapshotsRequest::default(),
    )
    .await;
    let volume_id = "nomad-csi-check-no-volume".to_owned();
    let request = ControllerGetVolumeRequest { volume_id };
    lacks(check, ControllerRpc::GetVolume, request).await;
    let request = GetSnapshotRequest {
        snapshot_id: "nomad-csi-check-no-snapshot".to_owned(),
        ..Default::default()
    };
    lacks(check, ControllerRpc::GetSnapshot, request).await;
    Ok(())
}

async fn lacks(check: &mut Check<'_>, kind: ControllerRpc, request: impl Leaves) {
    if check.profile().controller_has(kind) {
        return;
    }
    let answer = check.call(request).await;
    let got = match &answer {
        Ok(_) => "OK".to_owned(),
        Err(failure) if failure.code() == Some(StatusCode::Unimplemented) => return,
        Err(failure) => failure.to_string(),
    };
    let name = kind.as_str_name();
    let rule = format!("UNIMPLEMENTED: {name} is not advertised, so no orchestrator uses it");
    check.advise(false, &rule, &got);
}
