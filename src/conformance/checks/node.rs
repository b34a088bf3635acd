//! Staging and publishing file systems on this machine (CSI sections "NodeStageVolume" to
//! "NodeGetVolumeStats"). What a workload would see is looked at, as far as the paths are visible
//! here. Block devices have an area of their own.

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::conformance::report::Level;
use crate::conformance::workload::Kind;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::node_service_capability::rpc::Type as NodeRpc;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::volume_usage::Unit;
use crate::csi::proto::{NodeGetVolumeStatsRequest, Volume, VolumeCapability};
use crate::ports::StatusCode;

use super::requests::{ALREADY_EXISTS, INVALID, NOT_FOUND, block, mount};
use super::using::{Used, there_and_back};

const NEEDS: &[Need] = &[Need::Node, Need::Can(ControllerRpc::CreateDeleteVolume)];
const STAGES: &[Need] = &[
    Need::NodeCan(NodeRpc::StageUnstageVolume),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
const SHARES: &[Need] = &[
    Need::NodeCan(NodeRpc::SingleNodeMultiWriter),
    Need::Can(ControllerRpc::SingleNodeMultiWriter),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
const MEASURES: &[Need] = &[
    Need::NodeCan(NodeRpc::GetVolumeStats),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Node,
        "node/publish-arguments",
        "A publication without a volume ID, a target path or a capability is refused",
        "NodePublishVolume",
        NEEDS,
        Creates,
        publish_arguments
    ),
    case!(
        Node,
        "node/unpublish-arguments",
        "An end of a publication without a volume ID or a target path is refused",
        "NodeUnpublishVolume",
        NEEDS,
        Creates,
        unpublish_arguments
    ),
    case!(
        Node,
        "node/stage-arguments",
        "A staging without a volume ID, a path or a capability is refused, and so is its end",
        "NodeStageVolume",
        STAGES,
        Creates,
        stage_arguments
    ),
    case!(
        Node,
        "node/unknown",
        "Staging or publishing a volume that does not exist is NOT_FOUND",
        "NodePublishVolume Errors",
        NEEDS,
        Creates,
        unknown
    ),
    case!(
        Node,
        "node/lifecycle",
        "A volume appears at its target path, keeps its data, and leaves no path behind",
        "Volume Lifecycle",
        NEEDS,
        Creates,
        lifecycle
    ),
    case!(
        Node,
        "node/again",
        "Staging and publishing again is the same; one call undoes each, and another one does no harm",
        "NodePublishVolume",
        NEEDS,
        Creates,
        again
    ),
    case!(
        Node,
        "node/read-only",
        "A volume published read-only can be read and not written",
        "NodePublishVolume",
        NEEDS,
        Creates,
        read_only
    ),
    case!(
        Node,
        "node/other-use",
        "A target path is not published again read-only",
        "NodePublishVolume Errors",
        NEEDS,
        Creates,
        other_use
    ),
    case!(
        Node,
        "node/second-target",
        "A volume of SINGLE_NODE_WRITER is not published at a second path",
        "NodePublishVolume",
        NEEDS,
        Creates,
        second_target
    ),
    case!(
        Node,
        "node/single-writer",
        "A volume of SINGLE_NODE_SINGLE_WRITER is not published at a second path",
        "NodePublishVolume",
        SHARES,
        Creates,
        single_writer
    ),
    case!(
        Node,
        "node/multi-writer",
        "A volume of SINGLE_NODE_MULTI_WRITER is one volume at two paths",
        "NodePublishVolume",
        SHARES,
        Creates,
        multi_writer
    ),
    case!(
        Node,
        "node/without-staging",
        "A volume that is not staged is not published",
        "NodePublishVolume Errors",
        STAGES,
        Creates,
        without_staging
    ),
    case!(
        Node,
        "node/staged-otherwise",
        "A volume staged as a file system is not staged as a block device at that path",
        "NodeStageVolume Errors",
        STAGES,
        Creates,
        staged_otherwise
    ),
    case!(
        Node,
        "node/no-such-fs",
        "A file system that does not exist is refused",
        "VolumeCapability",
        NEEDS,
        Creates,
        no_such_fs
    ),
    case!(
        Node,
        "node/delete-in-use",
        "A volume that is published is not deleted, and its data stays",
        "DeleteVolume Errors",
        NEEDS,
        Creates,
        delete_in_use
    ),
    case!(
        Node,
        "node/size",
        "A file system has about the size that the volume has",
        "CapacityRange",
        NEEDS,
        Creates,
        size
    ),
    case!(
        Node,
        "node/stats",
        "Statistics of a published volume add up, and its condition is true",
        "NodeGetVolumeStats",
        MEASURES,
        Creates,
        stats
    ),
    case!(
        Node,
        "node/stats-elsewhere",
        "Statistics need an ID and a path, and a volume that is there",
        "NodeGetVolumeStats",
        MEASURES,
        Creates,
        stats_elsewhere
    ),
];

impl Check<'_> {
    /// A volume for `mode`, made to be used as a file system.
    ///
    /// # Errors
    /// If it cannot be had: then the check says nothing.
    pub(super) async fn volume_for(
        &mut self,
        capability: VolumeCapability,
    ) -> Result<Volume, Stop> {
        let mut request = self.create_request();
        request.volume_capabilities = vec![capability];
        self.volume_of(request).await
    }

    /// A new volume, published.
    ///
    /// # Errors
    /// If it cannot be had: then the check says nothing.
    pub(super) async fn in_use(&mut self, capability: VolumeCapability) -> Result<Used, Stop> {
        let volume = self.volume_for(capability.clone()).await?;
        self.published(volume, capability).await
    }
}

/// Paths for a volume that does not exist: nothing of them is touched by a plugin that is right.
async fn nowhere(check: &mut Check<'_>) -> Result<Used, Stop> {
    let volume = check.volume().await?;
    let capability = mount(Mode::SingleNodeWriter);
    check.bring(volume, capability).await
}

async fn publish_arguments(check: &mut Check<'_>) -> Ended {
    let used = nowhere(check).await?;
    let whole = check.publish_request(&used);
    check
        .needs(&whole, "volume_id", |request| request.volume_id.clear())
        .await;
    check
        .needs(&whole, "target_path", |request| request.target_path.clear())
        .await;
    check
        .needs(&whole, "volume_capability", |request| {
            request.volume_capability = None;
        })
        .await;
    Ok(())
}

async fn unpublish_arguments(check: &mut Check<'_>) -> Ended {
    let used = nowhere(check).await?;
    let whole = Check::unpublish_request(&used);
    check
        .needs(&whole, "volume_id", |request| request.volume_id.clear())
        .await;
    check
        .needs(&whole, "target_path", |request| request.target_path.clear())
        .await;
    Ok(())
}

async fn stage_arguments(check: &mut Check<'_>) -> Ended {
    let used = nowhere(check).await?;
    let whole = check.stage_request(&used);
    check
        .needs(&whole, "volume_id", |request| request.volume_id.clear())
        .await;
    check
        .needs(&whole, "staging_target_path", |request| {
            request.staging_target_path.clear();
        })
        .await;
    check
        .needs(&whole, "volume_capability", |request| {
            request.volume_capability = None;
        })
        .await;
    let whole = Check::unstage_request(&used);
    check
        .needs(&whole, "volume_id", |request| request.volume_id.clear())
        .await;
    check
        .needs(&whole, "staging_target_path", |request| {
            request.staging_target_path.clear();
        })
        .await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> Ended {
    let mut used = nowhere(check).await?;
    used.volume = Volume {
        volume_id: "nomad-csi-check-no-such-volume".to_owned(),
        ..Default::default()
    };
    let because = "there is no such volume";
    if check.stages() {
        let request = check.stage_request(&used);
        check.refused(request, NOT_FOUND, because).await;
    }
    let request = check.publish_request(&used);
    // Nothing is staged at that path either.
    let codes = [StatusCode::NotFound, StatusCode::FailedPrecondition];
    check.refused(request, &codes, because).await;
    if let Err(failure) = check.call(Check::unpublish_request(&used)).await {
        let rule = "OK, or NOT_FOUND: there is no such volume";
        let holds = failure.code() == Some(StatusCode::NotFound);
        check.hold(holds, rule, &failure.to_string());
    }
    Ok(())
}

async fn lifecycle(check: &mut Check<'_>) -> Ended {
    let rule = "target_path is a directory once the volume is published (if the plugin runs in another mount namespace, give paths that both see as --staging and --target)";
    let capability = mount(Mode::SingleNodeWriter);
    there_and_back(check, capability, Kind::Directory, rule).await
}

async fn again(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(mount(Mode::SingleNodeWriter)).await?;
    for _ in 0..3 {
        if check.stages() {
            let stage = check.stage_request(&used);
            check
                .must(stage, "the volume is staged there as asked for")
                .await?;
        }
        let publish = check.publish_request(&used);
        check
            .must(publish, "the volume is published there as asked for")
            .await?;
    }
    check
        .must(Check::unpublish_request(&used), "the volume is published")
        .await?;
    let kind = check.kind(&used.target).await?;
    let rule = "nothing is at target_path any more, however often the volume was published there";
    check.hold(kind == Kind::Missing, rule, &format!("{kind:?}"));
    check
        .must(
            Check::unpublish_request(&used),
            "the volume is not published any more",
        )
        .await?;
    if check.stages() {
        check
            .must(Check::unstage_request(&used), "the volume is staged")
            .await?;
        check
            .must(
                Check::unstage_request(&used),
                "the volume is not staged any more",
            )
            .await?;
    }
    Ok(())
}

async fn read_only(check: &mut Check<'_>) -> Ended {
    let capability = mount(Mode::SingleNodeWriter);
    let used = check.in_use(capability).await?;
    check.write(&used, "written before").await?;
    check.prepare(Check::unpublish_request(&used)).await?;
    let mut publish = check.publish_request(&used);
    publish.readonly = true;
    check
        .must(publish, "a volume can be published read-only")
        .await?;
    let rule = "what is in the volume can be read";
    check.hold_data(&used, "written before", rule).await;
    let written = check.try_write(&used, "written read-only").await;
    let rule = "`readonly` is true: nothing can be written at target_path";
    check.hold(written.is_err(), rule, "it was written");
    Ok(())
}

async fn other_use(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(mount(Mode::SingleNodeWriter)).await?;
    let mut publish = check.publish_request(&used);
    publish.readonly = true;
    let because = "the volume is published there for writing";
    check.refused(publish, ALREADY_EXISTS, because).await;
    Ok(())
}

async fn at_second_path(check: &mut Check<'_>, mode: Mode) -> Ended {
    let first = check.in_use(mount(mode)).await?;
    let second = Used {
        target: check.target().await?,
        ..first.clone()
    };
    let publish = check.publish_request(&second);
    let codes = [StatusCode::FailedPrecondition];
    let because = "the access mode allows one target path on a node";
    check.refused(publish, &codes, because).await;
    Ok(())
}

async fn second_target(check: &mut Check<'_>) -> Ended {
    at_second_path(check, Mode::SingleNodeWriter).await
}

async fn single_writer(check: &mut Check<'_>) -> Ended {
    at_second_path(check, Mode::SingleNodeSingleWriter).await
}

async fn multi_writer(check: &mut Check<'_>) -> Ended {
    let first = check.in_use(mount(Mode::SingleNodeMultiWriter)).await?;
    check.write(&first, "written at the first path").await?;
    let second = Used {
        target: check.target().await?,
        ..first.clone()
    };
    let publish = check.publish_request(&second);
    let because = "the access mode allows several target paths on a node";
    check.must(publish, because).await?;
    let rule = "both paths show the same volume";
    check
        .hold_data(&second, "written at the first path", rule)
        .await;
    check.prepare(Check::unpublish_request(&first)).await?;
    let rule = "the volume stays at its other path";
    check
        .hold_data(&second, "written at the first path", rule)
        .await;
    Ok(())
}

async fn without_staging(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let used = check.bring(volume, mount(Mode::SingleNodeWriter)).await?;
    let mut publish = check.publish_request(&used);
    publish.staging_target_path.clear();
    // A required field is missing, too.
    let codes = [StatusCode::FailedPrecondition, StatusCode::InvalidArgument];
    let because = "STAGE_UNSTAGE_VOLUME is advertised and staging_target_path is not set";
    check.refused(publish, &codes, because).await;
    Ok(())
}

async fn staged_otherwise(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let used = check.staged(volume, mount(Mode::SingleNodeWriter)).await?;
    let mut stage = check.stage_request(&used);
    stage.volume_capability = Some(block(Mode::SingleNodeWriter));
    let codes = [
        StatusCode::AlreadyExists,
        StatusCode::InvalidArgument,
        StatusCode::FailedPrecondition,
    ];
    let because = "the volume is staged there as a file system";
    check.refused(stage, &codes, because).await;
    Ok(())
}

async fn no_such_fs(check: &mut Check<'_>) -> Ended {
    use crate::csi::proto::volume_capability::{AccessType, MountVolume};
    let volume = check.volume().await?;
    let mut capability = mount(Mode::SingleNodeWriter);
    capability.access_type = Some(AccessType::Mount(MountVolume {
        fs_type: "nomad-csi-no-such-fs".to_owned(),
        ..Default::default()
    }));
    if check.attaches() {
        // Who attaches may find it out already.
        let attach = check.attach_request(&volume, &capability);
        if check.call(attach).await.is_err() {
            return Ok(());
        }
    }
    let used = check.bring(volume, capability).await?;
    if check.stages() {
        let stage = check.stage_request(&used);
        if check.call(stage).await.is_err() {
            return Ok(());
        }
    }
    let publish = check.publish_request(&used);
    if check.call(publish).await.is_ok() {
        let rule = "INVALID_ARGUMENT at staging or publishing: there is no such file system";
        check.find(Level::Must, rule, "OK");
    }
    Ok(())
}

/// A controller that attaches nothing cannot know in general that its volume is in use elsewhere.
async fn delete_in_use(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(mount(Mode::SingleNodeWriter)).await?;
    check.write(&used, "written before").await?;
    let delete = check.delete_request(&used.volume.volume_id);
    let answer = check.call(delete).await;
    let rule = "FAILED_PRECONDITION: the volume is published";
    match answer {
        Err(failure) => {
            let refused = failure.code() == Some(StatusCode::FailedPrecondition);
            check.hold(refused, rule, &failure.to_string());
            let rule = "a deletion that is refused leaves the data";
            check.hold_data(&used, "written before", rule).await;
        }
        Ok(_) if check.attaches() => check.find(Level::Must, rule, "OK"),
        Ok(_) => check.find(Level::Advice, rule, "OK"),
    }
    Ok(())
}

async fn size(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(mount(Mode::SingleNodeWriter)).await?;
    let capacity = u64::try_from(used.volume.capacity_bytes).unwrap_or_default();
    if capacity == 0 {
        let why = "the plugin does not say how large its volumes are";
        return Err(Stop::NotDemanded(why.to_owned()));
    }
    let total = check.size_of(&used).await?;
    // A file system keeps some of its device for itself.
    let rule = format!("the file system has about the {capacity} bytes of the volume");
    let got = format!("{total} bytes");
    check.hold(total >= capacity / 10 * 6, &rule, &got);
    let rule = format!("nothing above the {capacity} bytes of the volume can be used");
    check.advise(total <= capacity / 10 * 11, &rule, &got);
    Ok(())
}

fn stats_request(used: &Used, path: &str) -> NodeGetVolumeStatsRequest {
    NodeGetVolumeStatsRequest {
        volume_id: used.volume.volume_id.clone(),
        volume_path: path.to_owned(),
        staging_target_path: used.staging.clone(),
    }
}

async fn stats(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(mount(Mode::SingleNodeWriter)).await?;
    let request = stats_request(&used, &used.target);
    let answer = check.must(request, "the volume is published there").await?;
    for usage in &answer.usage {
        let got = format!("{usage:?}");
        let unit = usage.unit() != Unit::Unknown;
        check.hold(unit, "unit is BYTES or INODES", &got);
        let positive = usage.total >= 0 && usage.used >= 0 && usage.available >= 0;
        check.hold(positive, "no number is negative", &got);
        let adds_up = usage.used <= usage.total && usage.available <= usage.total;
        check.hold(adds_up, "neither used nor available is above total", &got);
    }
    let bytes = answer.usage.iter().any(|usage| usage.unit() == Unit::Bytes);
    check.advise(bytes, "usage in bytes", "none");
    if check.profile().node_has(NodeRpc::VolumeCondition) {
        let condition = answer.volume_condition;
        let rule = "volume_condition is set, since VOLUME_CONDITION is advertised";
        check.hold(condition.is_some(), rule, "not set");
        let abnormal = condition.filter(|condition| condition.abnormal);
        let rule = "a volume that is published and works is not abnormal";
        let got = abnormal.as_ref().map(|one| one.message.clone());
        check.hold(abnormal.is_none(), rule, &got.unwrap_or_default());
    }
    Ok(())
}

async fn stats_elsewhere(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(mount(Mode::SingleNodeWriter)).await?;
    let mut request = stats_request(&used, &used.target);
    request.volume_id.clear();
    check
        .refused(request, INVALID, "volume_id is required")
        .await;
    let request = stats_request(&used, "");
    check
        .refused(request, INVALID, "volume_path is required")
        .await;
    let elsewhere = check.target().await?;
    let request = stats_request(&used, &elsewhere);
    check
        .refused(request, NOT_FOUND, "the volume is not at that path")
        .await;
    let mut request = stats_request(&used, &used.target);
    request.volume_id = "nomad-csi-check-no-such-volume".to_owned();
    check
        .refused(request, NOT_FOUND, "there is no such volume")
        .await;
    Ok(())
}
