//! Checks of staging, publishing and statistics of file systems on this machine. They look at the
//! target paths as a workload would. `block` has the checks of block devices.

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use crate::finding::Level;
use crate::workload_files::PathKind;
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::node_service_capability::rpc::Type as NodeRpc;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_usage::Unit;
use nomad_csi_proto::{NodeGetVolumeStatsRequest, Volume};

use super::requests::{ALREADY_EXISTS, INVALID, NOT_FOUND, block, mount};
use super::volume_use::{VolumeUse, check_lifecycle};

const NEEDS: &[Need] =
    &[Need::NodeService, Need::ControllerCapability(ControllerRpc::CreateDeleteVolume)];
const STAGES: &[Need] = &[
    Need::NodeCapability(NodeRpc::StageUnstageVolume),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const SHARES: &[Need] = &[
    Need::NodeCapability(NodeRpc::SingleNodeMultiWriter),
    Need::ControllerCapability(ControllerRpc::SingleNodeMultiWriter),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const MEASURES: &[Need] = &[
    Need::NodeCapability(NodeRpc::GetVolumeStats),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];

pub(crate) const CASES: &[Case] = &[
    case!(
        Node,
        "node/publish-arguments",
        "NodePublishVolume without a volume ID, a target path or a capability is refused",
        "NodePublishVolume",
        NEEDS,
        Creates,
        publish_arguments
    ),
    case!(
        Node,
        "node/unpublish-arguments",
        "NodeUnpublishVolume without a volume ID or a target path is refused",
        "NodeUnpublishVolume",
        NEEDS,
        Creates,
        unpublish_arguments
    ),
    case!(
        Node,
        "node/stage-arguments",
        "NodeStageVolume and NodeUnstageVolume without a required field are refused",
        "NodeStageVolume",
        STAGES,
        Creates,
        stage_arguments
    ),
    case!(
        Node,
        "node/unknown",
        "NodeStageVolume and NodePublishVolume of an unknown volume fail with NOT_FOUND",
        "NodePublishVolume Errors",
        NEEDS,
        Creates,
        unknown
    ),
    case!(
        Node,
        "node/lifecycle",
        "NodePublishVolume creates target_path, NodeUnpublishVolume removes it, and the data persists",
        "Volume Lifecycle",
        NEEDS,
        Creates,
        lifecycle
    ),
    case!(
        Node,
        "node/again",
        "NodeStageVolume, NodePublishVolume, NodeUnpublishVolume and NodeUnstageVolume are idempotent",
        "NodePublishVolume",
        NEEDS,
        Creates,
        again
    ),
    case!(
        Node,
        "node/read-only",
        "A volume that NodePublishVolume publishes read-only can be read but not written",
        "NodePublishVolume",
        NEEDS,
        Creates,
        read_only
    ),
    case!(
        Node,
        "node/other-use",
        "NodePublishVolume refuses read-only access to a path published for writing",
        "NodePublishVolume Errors",
        NEEDS,
        Creates,
        other_use
    ),
    case!(
        Node,
        "node/second-target",
        "NodePublishVolume refuses a second path for a SINGLE_NODE_WRITER volume",
        "NodePublishVolume",
        NEEDS,
        Creates,
        second_target
    ),
    case!(
        Node,
        "node/single-writer",
        "NodePublishVolume refuses a second path for a SINGLE_NODE_SINGLE_WRITER volume",
        "NodePublishVolume",
        SHARES,
        Creates,
        single_writer
    ),
    case!(
        Node,
        "node/multi-writer",
        "NodePublishVolume publishes a SINGLE_NODE_MULTI_WRITER volume at two paths",
        "NodePublishVolume",
        SHARES,
        Creates,
        multi_writer
    ),
    case!(
        Node,
        "node/without-staging",
        "NodePublishVolume refuses a volume that is not staged",
        "NodePublishVolume Errors",
        STAGES,
        Creates,
        without_staging
    ),
    case!(
        Node,
        "node/staged-otherwise",
        "NodeStageVolume refuses to stage a file system again as a block device",
        "NodeStageVolume Errors",
        STAGES,
        Creates,
        staged_with_other_capability
    ),
    case!(
        Node,
        "node/no-such-fs",
        "NodeStageVolume or NodePublishVolume refuses an unknown fs_type",
        "VolumeCapability",
        NEEDS,
        Creates,
        no_such_fs
    ),
    case!(
        Node,
        "node/delete-in-use",
        "DeleteVolume refuses a published volume and keeps its data",
        "DeleteVolume Errors",
        NEEDS,
        Creates,
        delete_in_use
    ),
    case!(
        Node,
        "node/size",
        "The file system that NodePublishVolume provides has about the size of the volume",
        "CapacityRange",
        NEEDS,
        Creates,
        size
    ),
    case!(
        Node,
        "node/stats",
        "NodeGetVolumeStats returns consistent numbers and the correct condition",
        "NodeGetVolumeStats",
        MEASURES,
        Creates,
        stats
    ),
    case!(
        Node,
        "node/stats-elsewhere",
        "NodeGetVolumeStats requires an ID, a path, and the volume at that path",
        "NodeGetVolumeStats",
        MEASURES,
        Creates,
        stats_elsewhere
    ),
];

/// Returns a new attached volume with paths that a correct plugin does not touch.
async fn attached_volume(check: &mut Check<'_>) -> Result<VolumeUse, StopReason> {
    let volume = check.new_volume().await?;
    let capability = mount(Mode::SingleNodeWriter);
    check.attached(volume, capability).await
}

async fn publish_arguments(check: &mut Check<'_>) -> CheckResult {
    let used = attached_volume(check).await?;
    let whole = check.publish_request(&used);
    check.call_without(&whole, "volume_id", |request| request.volume_id.clear()).await;
    check.call_without(&whole, "target_path", |request| request.target_path.clear()).await;
    check
        .call_without(&whole, "volume_capability", |request| {
            request.volume_capability = None;
        })
        .await;
    Ok(())
}

async fn unpublish_arguments(check: &mut Check<'_>) -> CheckResult {
    let used = attached_volume(check).await?;
    let whole = Check::unpublish_request(&used);
    check.call_without(&whole, "volume_id", |request| request.volume_id.clear()).await;
    check.call_without(&whole, "target_path", |request| request.target_path.clear()).await;
    Ok(())
}

async fn stage_arguments(check: &mut Check<'_>) -> CheckResult {
    let used = attached_volume(check).await?;
    let whole = check.stage_request(&used);
    check.call_without(&whole, "volume_id", |request| request.volume_id.clear()).await;
    check
        .call_without(&whole, "staging_target_path", |request| {
            request.staging_target_path.clear();
        })
        .await;
    check
        .call_without(&whole, "volume_capability", |request| {
            request.volume_capability = None;
        })
        .await;
    let whole = Check::unstage_request(&used);
    check.call_without(&whole, "volume_id", |request| request.volume_id.clear()).await;
    check
        .call_without(&whole, "staging_target_path", |request| {
            request.staging_target_path.clear();
        })
        .await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> CheckResult {
    let mut used = attached_volume(check).await?;
    used.volume =
        Volume { volume_id: "nomad-csi-check-no-such-volume".to_owned(), ..Default::default() };
    let because = "the volume does not exist";
    if check.stages() {
        let request = check.stage_request(&used);
        check.call_refused(request, NOT_FOUND, because).await;
    }
    let request = check.publish_request(&used);
    // No volume is staged at the path either.
    let codes = [StatusCode::NotFound, StatusCode::FailedPrecondition];
    check.call_refused(request, &codes, because).await;
    if let Err(failure) = check.call(Check::unpublish_request(&used)).await {
        let rule = "OK or NOT_FOUND: the volume does not exist";
        let holds = failure.code() == Some(StatusCode::NotFound);
        check.expect(holds, rule, &failure.to_string());
    }
    Ok(())
}

async fn lifecycle(check: &mut Check<'_>) -> CheckResult {
    let rule = "target_path is a directory after NodePublishVolume (if the plugin runs in another mount namespace, give `--staging` and `--target` paths that both can see)";
    let capability = mount(Mode::SingleNodeWriter);
    check_lifecycle(check, capability, PathKind::Directory, rule).await
}

async fn again(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(mount(Mode::SingleNodeWriter)).await?;
    for _ in 0..3 {
        if check.stages() {
            let stage = check.stage_request(&used);
            check
                .call_ok(stage, "the volume is already staged at this path with the same arguments")
                .await?;
        }
        let publish = check.publish_request(&used);
        check
            .call_ok(
                publish,
                "the volume is already published at this path with the same arguments",
            )
            .await?;
    }
    check.call_ok(Check::unpublish_request(&used), "the volume is published").await?;
    let kind = check.path_kind(&used.target).await?;
    let rule =
        "one NodeUnpublishVolume call removes target_path, however often the volume was published";
    check.expect(kind == PathKind::Missing, rule, &kind.to_string());
    check.call_ok(Check::unpublish_request(&used), "the volume is already unpublished").await?;
    if check.stages() {
        check.call_ok(Check::unstage_request(&used), "the volume is staged").await?;
        check.call_ok(Check::unstage_request(&used), "the volume is already unstaged").await?;
    }
    Ok(())
}

async fn read_only(check: &mut Check<'_>) -> CheckResult {
    let capability = mount(Mode::SingleNodeWriter);
    let used = check.new_published(capability).await?;
    check.write_data(&used, "written before").await?;
    check.prepare(Check::unpublish_request(&used)).await?;
    let mut publish = check.publish_request(&used);
    publish.readonly = true;
    check.call_ok(publish, "a volume can be published read-only").await?;
    let rule = "the data of a read-only volume can be read";
    check.expect_data(&used, "written before", rule).await;
    let written = check.try_write(&used, "written read-only").await;
    let rule = "a write to target_path fails, because `readonly` is true";
    check.expect(written.is_err(), rule, "the write succeeded");
    Ok(())
}

async fn other_use(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(mount(Mode::SingleNodeWriter)).await?;
    let mut publish = check.publish_request(&used);
    publish.readonly = true;
    let because = "the volume is published at this path for writing";
    check.call_refused(publish, ALREADY_EXISTS, because).await;
    Ok(())
}

async fn at_second_path(check: &mut Check<'_>, mode: Mode) -> CheckResult {
    let first = check.new_published(mount(mode)).await?;
    let second = VolumeUse { target: check.new_target_path().await?, ..first.clone() };
    let publish = check.publish_request(&second);
    let codes = [StatusCode::FailedPrecondition];
    let because = "the access mode allows only one target path per node";
    check.call_refused(publish, &codes, because).await;
    Ok(())
}

async fn second_target(check: &mut Check<'_>) -> CheckResult {
    at_second_path(check, Mode::SingleNodeWriter).await
}

async fn single_writer(check: &mut Check<'_>) -> CheckResult {
    at_second_path(check, Mode::SingleNodeSingleWriter).await
}

async fn multi_writer(check: &mut Check<'_>) -> CheckResult {
    let first = check.new_published(mount(Mode::SingleNodeMultiWriter)).await?;
    check.write_data(&first, "written at the first path").await?;
    let second = VolumeUse { target: check.new_target_path().await?, ..first.clone() };
    let publish = check.publish_request(&second);
    let because = "the access mode allows several target paths per node";
    check.call_ok(publish, because).await?;
    let rule = "both target paths show the same data";
    check.expect_data(&second, "written at the first path", rule).await;
    check.prepare(Check::unpublish_request(&first)).await?;
    let rule = "the volume stays published at its other target path";
    check.expect_data(&second, "written at the first path", rule).await;
    Ok(())
}

async fn without_staging(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let used = check.attached(volume, mount(Mode::SingleNodeWriter)).await?;
    let mut publish = check.publish_request(&used);
    publish.staging_target_path.clear();
    // INVALID_ARGUMENT is right as well, because a required field is missing.
    let codes = [StatusCode::FailedPrecondition, StatusCode::InvalidArgument];
    let because = "STAGE_UNSTAGE_VOLUME is advertised and staging_target_path is not set";
    check.call_refused(publish, &codes, because).await;
    Ok(())
}

async fn staged_with_other_capability(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let used = check.staged(volume, mount(Mode::SingleNodeWriter)).await?;
    let mut stage = check.stage_request(&used);
    stage.volume_capability = Some(block(Mode::SingleNodeWriter));
    let codes =
        [StatusCode::AlreadyExists, StatusCode::InvalidArgument, StatusCode::FailedPrecondition];
    let because = "the volume is staged at this path as a file system";
    check.call_refused(stage, &codes, because).await;
    Ok(())
}

async fn no_such_fs(check: &mut Check<'_>) -> CheckResult {
    use nomad_csi_proto::volume_capability::{AccessType, MountVolume};
    let volume = check.new_volume().await?;
    let mut capability = mount(Mode::SingleNodeWriter);
    capability.access_type = Some(AccessType::Mount(MountVolume {
        fs_type: "nomad-csi-no-such-fs".to_owned(),
        ..Default::default()
    }));
    if check.attaches() {
        // ControllerPublishVolume may already refuse the file system.
        let attach = check.attach_request(&volume, &capability);
        if check.call(attach).await.is_err() {
            return Ok(());
        }
    }
    let used = check.attached(volume, capability).await?;
    if check.stages() {
        let stage = check.stage_request(&used);
        if check.call(stage).await.is_err() {
            return Ok(());
        }
    }
    let publish = check.publish_request(&used);
    if check.call(publish).await.is_ok() {
        let rule = "INVALID_ARGUMENT from NodeStageVolume or NodePublishVolume: fs_type is unknown";
        check.add_finding(Level::Must, rule, "OK");
    }
    Ok(())
}

/// A controller without ControllerPublishVolume may not know that a volume is in use on a node.
async fn delete_in_use(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(mount(Mode::SingleNodeWriter)).await?;
    check.write_data(&used, "written before").await?;
    let delete = check.delete_request(&used.volume.volume_id);
    let response = check.call(delete).await;
    let rule = "FAILED_PRECONDITION: the volume is published";
    match response {
        Err(failure) => {
            let refused = failure.code() == Some(StatusCode::FailedPrecondition);
            check.expect(refused, rule, &failure.to_string());
            let rule = "a refused DeleteVolume leaves the data intact";
            check.expect_data(&used, "written before", rule).await;
        }
        Ok(_) if check.attaches() => check.add_finding(Level::Must, rule, "OK"),
        Ok(_) => check.add_finding(Level::Advice, rule, "OK"),
    }
    Ok(())
}

async fn size(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(mount(Mode::SingleNodeWriter)).await?;
    let capacity = u64::try_from(used.volume.capacity_bytes).unwrap_or_default();
    if capacity == 0 {
        let why = "the plugin does not report the size of its volumes";
        return Err(StopReason::NotApplicable(why.to_owned()));
    }
    let total = check.visible_size(&used).await?;
    // A file system uses part of its device for metadata.
    let rule = format!("the file system has about the size of the volume, {capacity} bytes");
    let got = format!("{total} bytes");
    check.expect(total >= capacity / 10 * 6, &rule, &got);
    let rule = format!("the file system is not larger than the volume, {capacity} bytes");
    check.advise(total <= capacity / 10 * 11, &rule, &got);
    Ok(())
}

fn stats_request(used: &VolumeUse, path: &str) -> NodeGetVolumeStatsRequest {
    NodeGetVolumeStatsRequest {
        volume_id: used.volume.volume_id.clone(),
        volume_path: path.to_owned(),
        staging_target_path: used.staging.clone(),
    }
}

async fn stats(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(mount(Mode::SingleNodeWriter)).await?;
    let request = stats_request(&used, &used.target);
    let response = check.call_ok(request, "the volume is published at this path").await?;
    for usage in &response.usage {
        let got = format!("{usage:?}");
        let unit = usage.unit() != Unit::Unknown;
        check.expect(unit, "unit is BYTES or INODES", &got);
        let positive = usage.total >= 0 && usage.used >= 0 && usage.available >= 0;
        check.expect(positive, "total, used and available are not negative", &got);
        let adds_up = usage.used <= usage.total && usage.available <= usage.total;
        check.expect(adds_up, "used and available are at most total", &got);
    }
    let bytes = response.usage.iter().any(|usage| usage.unit() == Unit::Bytes);
    check.advise(bytes, "usage has an entry in BYTES", "no entry in BYTES");
    if check.plugin().node_has(NodeRpc::VolumeCondition) {
        let condition = response.volume_condition;
        let rule = "volume_condition is set, because VOLUME_CONDITION is advertised";
        check.expect(condition.is_some(), rule, "not set");
        let abnormal = condition.filter(|condition| condition.abnormal);
        let rule = "a working published volume is not abnormal";
        let got = abnormal.as_ref().map(|one| one.message.clone());
        check.expect(abnormal.is_none(), rule, &got.unwrap_or_default());
    }
    Ok(())
}

async fn stats_elsewhere(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(mount(Mode::SingleNodeWriter)).await?;
    let mut request = stats_request(&used, &used.target);
    request.volume_id.clear();
    check.call_refused(request, INVALID, "volume_id is required").await;
    let request = stats_request(&used, "");
    check.call_refused(request, INVALID, "volume_path is required").await;
    let elsewhere = check.new_target_path().await?;
    let request = stats_request(&used, &elsewhere);
    check.call_refused(request, NOT_FOUND, "the volume is not published at this path").await;
    let mut request = stats_request(&used, &used.target);
    request.volume_id = "nomad-csi-check-no-such-volume".to_owned();
    check.call_refused(request, NOT_FOUND, "the volume does not exist").await;
    Ok(())
}
