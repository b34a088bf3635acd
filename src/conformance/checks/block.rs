//! Checks of block volumes (CSI section "NodePublishVolume"), which run with `--block`.

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use crate::workload_files::PathKind;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::volume_capability::access_mode::Mode;

use super::requests::block;
use super::volume_use::check_lifecycle;

const NEEDS: &[Need] = &[
    Need::BlockVolumes,
    Need::NodeService,
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];

pub(crate) const CASES: &[Case] = &[
    case!(
        Block,
        "block/lifecycle",
        "NodePublishVolume creates a device, NodeUnpublishVolume removes it, and the data persists",
        "NodePublishVolume",
        NEEDS,
        Creates,
        lifecycle
    ),
    case!(
        Block,
        "block/size",
        "The device that NodePublishVolume creates has exactly the size of the volume",
        "CapacityRange",
        NEEDS,
        Creates,
        size
    ),
    case!(
        Block,
        "block/read-only",
        "A device that NodePublishVolume publishes read-only can be read but not written",
        "NodePublishVolume",
        NEEDS,
        Creates,
        read_only
    ),
    case!(
        Block,
        "block/repeat",
        "Repeated NodePublishVolume calls publish one device, and one NodeUnpublishVolume removes it",
        "NodePublishVolume",
        NEEDS,
        Creates,
        repeat
    ),
];

async fn lifecycle(check: &mut Check<'_>) -> CheckResult {
    let rule = "target_path is a block device after NodePublishVolume";
    check_lifecycle(check, block(Mode::SingleNodeWriter), PathKind::Device, rule).await
}

async fn size(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(block(Mode::SingleNodeWriter)).await?;
    let capacity = u64::try_from(used.volume.capacity_bytes).unwrap_or_default();
    if capacity == 0 {
        let why = "the plugin does not report the size of its volumes";
        return Err(StopReason::NotApplicable(why.to_owned()));
    }
    let size = check.visible_size(&used).await?;
    let rule = format!("the device has the size of the volume, {capacity} bytes");
    check.expect(size >= capacity, &rule, &format!("{size} bytes"));
    check.advise(size <= capacity, &rule, &format!("{size} bytes"));
    Ok(())
}

async fn read_only(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(block(Mode::SingleNodeWriter)).await?;
    check.write_data(&used, "written before").await?;
    check.prepare(Check::unpublish_request(&used)).await?;
    let mut publish = check.publish_request(&used);
    publish.readonly = true;
    check.call_ok(publish, "a volume can be published read-only").await?;
    let rule = "the data of a read-only volume can be read";
    check.expect_data(&used, "written before", rule).await;
    let written = check.try_write(&used, "written read-only").await;
    let rule = "a write to the device fails, because `readonly` is true";
    check.expect(written.is_err(), rule, "the write succeeded");
    Ok(())
}

async fn repeat(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(block(Mode::SingleNodeWriter)).await?;
    for _ in 0..3 {
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
    Ok(())
}
