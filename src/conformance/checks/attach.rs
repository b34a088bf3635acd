//! Checks of ControllerPublishVolume and ControllerUnpublishVolume.

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::{ListVolumesRequest, Volume};

use super::requests::{ALREADY_EXISTS, NOT_FOUND, mount};

const NEEDS: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::PublishUnpublishVolume),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
    Need::NodeInfo,
];
const READ_ONLY: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::PublishReadonly),
    Need::ControllerCapability(ControllerRpc::PublishUnpublishVolume),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
    Need::NodeInfo,
];
const LISTS: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::ListVolumesPublishedNodes),
    Need::ControllerCapability(ControllerRpc::ListVolumes),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
    Need::NodeInfo,
];
/// `attach/limit` is skipped on nodes that accept more volumes than this.
const MAX_VOLUMES: i64 = 32;

pub(crate) const CASES: &[Case] = &[
    case!(
        Attach,
        "attach/arguments",
        "ControllerPublishVolume without a volume ID, a node ID or a capability is refused",
        "ControllerPublishVolume",
        NEEDS,
        Creates,
        arguments
    ),
    case!(
        Attach,
        "attach/unknown",
        "ControllerPublishVolume of an unknown volume or to an unknown node fails with NOT_FOUND",
        "ControllerPublishVolume Errors",
        NEEDS,
        Creates,
        unknown
    ),
    case!(
        Attach,
        "attach/again",
        "Repeated ControllerPublishVolume calls attach a volume once and return the same context",
        "ControllerPublishVolume",
        NEEDS,
        Creates,
        again
    ),
    case!(
        Attach,
        "attach/read-only",
        "ControllerPublishVolume refuses read-only access to a volume attached for writing",
        "ControllerPublishVolume Errors",
        READ_ONLY,
        Creates,
        read_only
    ),
    case!(
        Attach,
        "attach/in-use",
        "DeleteVolume refuses to delete an attached volume",
        "DeleteVolume Errors",
        NEEDS,
        Creates,
        in_use
    ),
    case!(
        Attach,
        "attach/listed",
        "ListVolumes reports the node to which a volume is attached",
        "ListVolumes",
        LISTS,
        Creates,
        listed
    ),
    case!(
        Attach,
        "attach/limit",
        "ControllerPublishVolume accepts max_volumes_per_node volumes and refuses one more",
        "ControllerPublishVolume Errors",
        NEEDS,
        Creates,
        limit
    ),
];

fn unknown_volume() -> Volume {
    Volume { volume_id: "nomad-csi-check-no-such-volume".to_owned(), ..Default::default() }
}

async fn arguments(check: &mut Check<'_>) -> CheckResult {
    let capability = mount(Mode::SingleNodeWriter);
    let whole = check.attach_request(&unknown_volume(), &capability);
    check.call_without(&whole, "volume_id", |request| request.volume_id.clear()).await;
    check.call_without(&whole, "node_id", |request| request.node_id.clear()).await;
    check
        .call_without(&whole, "volume_capability", |request| {
            request.volume_capability = None;
        })
        .await;
    let whole = check.detach_request(&unknown_volume().volume_id);
    check.call_without(&whole, "volume_id", |request| request.volume_id.clear()).await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> CheckResult {
    let capability = mount(Mode::SingleNodeWriter);
    let request = check.attach_request(&unknown_volume(), &capability);
    check.call_refused(request, NOT_FOUND, "the volume does not exist").await;
    let volume = check.new_volume().await?;
    let mut request = check.attach_request(&volume, &capability);
    request.node_id = "nomad-csi-check-no-such-node".to_owned();
    check.call_refused(request, NOT_FOUND, "the node does not exist").await;
    let request = check.detach_request("nomad-csi-check-no-such-volume");
    if let Err(failure) = check.call(request).await {
        let rule = "OK or NOT_FOUND: the volume does not exist";
        let holds = failure.code() == Some(StatusCode::NotFound);
        check.expect(holds, rule, &failure.to_string());
    }
    Ok(())
}

async fn again(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let request = check.attach_request(&volume, &mount(Mode::SingleNodeWriter));
    let first = check.call_ok(request.clone(), "the volume and the node exist").await?;
    let because = "the volume is already attached to this node with the same arguments";
    let second = check.call_ok(request, because).await?;
    let rule = "publish_context is the same for every call";
    let same = first.publish_context == second.publish_context;
    check.expect(same, rule, &format!("{:?}", second.publish_context));
    let detach = check.detach_request(&volume.volume_id);
    let because =
        "one ControllerUnpublishVolume call detaches a volume, however often it was attached";
    check.call_ok(detach.clone(), because).await?;
    let delete = check.delete_request(&volume.volume_id);
    check.call_ok(delete, because).await?;
    let volume = check.new_volume().await?;
    let attach = check.attach_request(&volume, &mount(Mode::SingleNodeWriter));
    check.prepare(attach).await?;
    let detach = check.detach_request(&volume.volume_id);
    let because = "the volume is not staged";
    check.call_ok(detach.clone(), because).await?;
    let because = "the volume is already detached";
    check.call_ok(detach, because).await?;
    Ok(())
}

async fn read_only(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let mut request = check.attach_request(&volume, &mount(Mode::SingleNodeWriter));
    check.prepare(request.clone()).await?;
    request.readonly = true;
    let because = "the volume is attached to this node for writing";
    check.call_refused(request, ALREADY_EXISTS, because).await;
    Ok(())
}

async fn in_use(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let attach = check.attach_request(&volume, &mount(Mode::SingleNodeWriter));
    check.prepare(attach).await?;
    let delete = check.delete_request(&volume.volume_id);
    let codes = [StatusCode::FailedPrecondition];
    check.call_refused(delete, &codes, "the volume is attached to a node").await;
    Ok(())
}

async fn nodes_of(check: &mut Check<'_>, id: &str) -> Result<Vec<String>, StopReason> {
    let because = "an empty request lists all volumes";
    let response = check.call_ok(ListVolumesRequest::default(), because).await?;
    let is_it = |entry: &&nomad_csi_proto::list_volumes_response::Entry| {
        entry.volume.as_ref().is_some_and(|volume| volume.volume_id == id)
    };
    let entry = response.entries.iter().find(is_it);
    let status = entry.and_then(|entry| entry.status.clone());
    Ok(status.unwrap_or_default().published_node_ids)
}

async fn listed(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let nodes = nodes_of(check, &volume.volume_id).await?;
    let rule = "published_node_ids is empty: the volume is not attached";
    check.expect(nodes.is_empty(), rule, &format!("{nodes:?}"));
    let attach = check.attach_request(&volume, &mount(Mode::SingleNodeWriter));
    check.prepare(attach).await?;
    let nodes = nodes_of(check, &volume.volume_id).await?;
    let node = check.node_id();
    let rule = format!("published_node_ids contains only {node}");
    check.expect(nodes == [node], &rule, &format!("{nodes:?}"));
    Ok(())
}

async fn limit(check: &mut Check<'_>) -> CheckResult {
    let node = check.plugin().described_node();
    let limit = node.map(|node| node.max_volumes_per_node).unwrap_or_default();
    if limit == 0 || limit > MAX_VOLUMES {
        let why = format!("max_volumes_per_node is not set or is greater than {MAX_VOLUMES}");
        return Err(StopReason::NotApplicable(why));
    }
    let capability = mount(Mode::SingleNodeWriter);
    for _ in 0..limit {
        let volume = check.new_volume().await?;
        let attach = check.attach_request(&volume, &capability);
        let because = "the node has fewer than max_volumes_per_node volumes";
        check.call_ok(attach, because).await?;
    }
    let volume = check.new_volume().await?;
    let attach = check.attach_request(&volume, &capability);
    let codes = [StatusCode::ResourceExhausted];
    let because = "the node already has max_volumes_per_node volumes";
    check.call_refused(attach, &codes, because).await;
    Ok(())
}
