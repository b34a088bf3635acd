//! ControllerPublishVolume and ControllerUnpublishVolume (CSI sections of those names).

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::{ListVolumesRequest, Volume};
use crate::ports::StatusCode;

use super::requests::{ALREADY_EXISTS, NOT_FOUND, mount};

const NEEDS: &[Need] = &[
    Need::Can(ControllerRpc::PublishUnpublishVolume),
    Need::Can(ControllerRpc::CreateDeleteVolume),
    Need::NodeInfo,
];
const READ_ONLY: &[Need] = &[
    Need::Can(ControllerRpc::PublishReadonly),
    Need::Can(ControllerRpc::PublishUnpublishVolume),
    Need::Can(ControllerRpc::CreateDeleteVolume),
    Need::NodeInfo,
];
const LISTS: &[Need] = &[
    Need::Can(ControllerRpc::ListVolumesPublishedNodes),
    Need::Can(ControllerRpc::ListVolumes),
    Need::Can(ControllerRpc::CreateDeleteVolume),
    Need::NodeInfo,
];
/// Nodes that take more volumes than this are not filled.
const MOST_VOLUMES: i64 = 32;

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Attach,
        "attach/arguments",
        "An attachment without a volume ID, a node ID or a capability is refused",
        "ControllerPublishVolume",
        NEEDS,
        Creates,
        arguments
    ),
    case!(
        Attach,
        "attach/unknown",
        "A volume that does not exist, or a node that does not, is NOT_FOUND",
        "ControllerPublishVolume Errors",
        NEEDS,
        Creates,
        unknown
    ),
    case!(
        Attach,
        "attach/again",
        "A volume is attached once, however often that is asked, with the same context",
        "ControllerPublishVolume",
        NEEDS,
        Creates,
        again
    ),
    case!(
        Attach,
        "attach/read-only",
        "A volume attached for writing is not attached read-only too",
        "ControllerPublishVolume Errors",
        READ_ONLY,
        Creates,
        read_only
    ),
    case!(
        Attach,
        "attach/in-use",
        "A volume that is attached is not deleted",
        "DeleteVolume Errors",
        NEEDS,
        Creates,
        in_use
    ),
    case!(
        Attach,
        "attach/listed",
        "The list says at which node a volume is",
        "ListVolumes",
        LISTS,
        Creates,
        listed
    ),
    case!(
        Attach,
        "attach/limit",
        "A node takes as many volumes as it says, and no more",
        "ControllerPublishVolume Errors",
        NEEDS,
        Creates,
        limit
    ),
];

fn unknown_volume() -> Volume {
    Volume {
        volume_id: "nomad-csi-check-no-such-volume".to_owned(),
        ..Default::default()
    }
}

async fn arguments(check: &mut Check<'_>) -> Ended {
    let capability = mount(Mode::SingleNodeWriter);
    let whole = check.attach_request(&unknown_volume(), &capability);
    check
        .needs(&whole, "volume_id", |request| request.volume_id.clear())
        .await;
    check
        .needs(&whole, "node_id", |request| request.node_id.clear())
        .await;
    check
        .needs(&whole, "volume_capability", |request| {
            request.volume_capability = None;
        })
        .await;
    let whole = check.detach_request(&unknown_volume().volume_id);
    check
        .needs(&whole, "volume_id", |request| request.volume_id.clear())
        .await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> Ended {
    let capability = mount(Mode::SingleNodeWriter);
    let request = check.attach_request(&unknown_volume(), &capability);
    check
        .refused(request, NOT_FOUND, "there is no such volume")
        .await;
    let volume = check.volume().await?;
    let mut request = check.attach_request(&volume, &capability);
    request.node_id = "nomad-csi-check-no-such-node".to_owned();
    check
        .refused(request, NOT_FOUND, "there is no such node")
        .await;
    let request = check.detach_request("nomad-csi-check-no-such-volume");
    if let Err(failure) = check.call(request).await {
        let rule = "OK, or NOT_FOUND: there is no such volume";
        let holds = failure.code() == Some(StatusCode::NotFound);
        check.hold(holds, rule, &failure.to_string());
    }
    Ok(())
}

async fn again(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let request = check.attach_request(&volume, &mount(Mode::SingleNodeWriter));
    let first = check
        .must(request.clone(), "the volume and the node exist")
        .await?;
    let because = "the volume is attached there as asked for";
    let second = check.must(request, because).await?;
    let rule = "publish_context is the same every time";
    let same = first.publish_context == second.publish_context;
    check.hold(same, rule, &format!("{:?}", second.publish_context));
    let detach = check.detach_request(&volume.volume_id);
    let because = "one call detaches the volume, however often it was attached";
    check.must(detach.clone(), because).await?;
    let delete = check.delete_request(&volume.volume_id);
    check.must(delete, because).await?;
    let volume = check.volume().await?;
    let attach = check.attach_request(&volume, &mount(Mode::SingleNodeWriter));
    check.prepare(attach).await?;
    let detach = check.detach_request(&volume.volume_id);
    let because = "the volume is not staged";
    check.must(detach.clone(), because).await?;
    let because = "the volume is detached already";
    check.must(detach, because).await?;
    Ok(())
}

async fn read_only(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let mut request = check.attach_request(&volume, &mount(Mode::SingleNodeWriter));
    check.prepare(request.clone()).await?;
    request.readonly = true;
    let because = "the volume is attached there for writing";
    check.refused(request, ALREADY_EXISTS, because).await;
    Ok(())
}

async fn in_use(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let attach = check.attach_request(&volume, &mount(Mode::SingleNodeWriter));
    check.prepare(attach).await?;
    let delete = check.delete_request(&volume.volume_id);
    let codes = [StatusCode::FailedPrecondition];
    check
        .refused(delete, &codes, "the volume is attached to a node")
        .await;
    Ok(())
}

async fn nodes_of(check: &mut Check<'_>, id: &str) -> Result<Vec<String>, Stop> {
    let because = "an empty request lists all volumes";
    let answer = check.must(ListVolumesRequest::default(), because).await?;
    let is_it = |entry: &&crate::csi::proto::list_volumes_response::Entry| {
        entry
            .volume
            .as_ref()
            .is_some_and(|volume| volume.volume_id == id)
    };
    let entry = answer.entries.iter().find(is_it);
    let status = entry.and_then(|entry| entry.status.clone());
    Ok(status.unwrap_or_default().published_node_ids)
}

async fn listed(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let nodes = nodes_of(check, &volume.volume_id).await?;
    let rule = "published_node_ids is empty: the volume is attached nowhere";
    check.hold(nodes.is_empty(), rule, &format!("{nodes:?}"));
    let attach = check.attach_request(&volume, &mount(Mode::SingleNodeWriter));
    check.prepare(attach).await?;
    let nodes = nodes_of(check, &volume.volume_id).await?;
    let node = check.node_id();
    let rule = format!("published_node_ids is {node}");
    check.hold(nodes == [node], &rule, &format!("{nodes:?}"));
    Ok(())
}

async fn limit(check: &mut Check<'_>) -> Ended {
    let node = check.profile().described_node();
    let most = node
        .map(|node| node.max_volumes_per_node)
        .unwrap_or_default();
    if most == 0 || most > MOST_VOLUMES {
        let why =
            format!("the node takes more than {MOST_VOLUMES} volumes, or does not say how many");
        return Err(Stop::NotDemanded(why));
    }
    let capability = mount(Mode::SingleNodeWriter);
    for _ in 0..most {
        let volume = check.volume().await?;
        let attach = check.attach_request(&volume, &capability);
        let because = "the node takes as many volumes";
        check.must(attach, because).await?;
    }
    let volume = check.volume().await?;
    let attach = check.attach_request(&volume, &capability);
    let codes = [StatusCode::ResourceExhausted];
    let because = "the node has as many volumes as it takes";
    check.refused(attach, &codes, because).await;
    Ok(())
}
