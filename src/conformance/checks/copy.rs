//! Checks of volumes created from snapshots and from volumes (CSI section "CreateVolume"), and of
//! their data.
//! their data.

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use crate::finding::Level;
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::{CreateVolumeRequest, VolumeCapability, VolumeContentSource};

use super::create::{check_volume, expect_name_taken};
use super::requests::{
    ALREADY_EXISTS, NOT_FOUND, at_least, block, exactly, from_snapshot, from_volume, mount,
};
use super::volume_use::VolumeUse;

const CLONES: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::CloneVolume),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const RESTORES: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::CreateDeleteSnapshot),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const CLONES_DATA: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::CloneVolume),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
    Need::NodeService,
];
const RESTORES_DATA: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::CreateDeleteSnapshot),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
    Need::NodeService,
];
const BLOCK_DATA: &[Need] = &[
    Need::BlockVolumes,
    Need::ControllerCapability(ControllerRpc::CreateDeleteSnapshot),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
    Need::NodeService,
];

pub(crate) const CASES: &[Case] = &[
    case!(
        Copy,
        "copy/clone",
        "CreateVolume clones a volume, and a repeated call returns the same clone",
        "CreateVolume",
        CLONES,
        Creates,
        clone
    ),
    case!(
        Copy,
        "copy/restore",
        "CreateVolume restores a snapshot, and a repeated call returns the same volume",
        "CreateVolume",
        RESTORES,
        Creates,
        restore
    ),
    case!(
        Copy,
        "copy/unknown-volume",
        "CreateVolume from an unknown volume fails with NOT_FOUND",
        "CreateVolume Errors",
        CLONES,
        Creates,
        unknown_volume
    ),
    case!(
        Copy,
        "copy/unknown-snapshot",
        "CreateVolume from an unknown snapshot fails with NOT_FOUND",
        "CreateVolume Errors",
        RESTORES,
        Creates,
        unknown_snapshot
    ),
    case!(
        Copy,
        "copy/other-source",
        "CreateVolume with an existing name and another source, or none, is refused",
        "CreateVolume Errors",
        CLONES,
        Creates,
        other_source
    ),
    case!(
        Copy,
        "copy/smaller",
        "CreateVolume with a size below that of its source is refused",
        "CreateVolume Errors",
        CLONES,
        Creates,
        smaller
    ),
    case!(
        Copy,
        "copy/no-size",
        "CreateVolume from a snapshot works without a capacity range",
        "CreateVolume",
        RESTORES,
        Creates,
        no_size
    ),
    case!(
        Copy,
        "copy/clone-data",
        "A clone has the data of its source, and a write to one does not change the other",
        "CreateVolume",
        CLONES_DATA,
        Creates,
        clone_data
    ),
    case!(
        Copy,
        "copy/restore-data",
        "A restored volume has the data from the time of the snapshot",
        "CreateSnapshot",
        RESTORES_DATA,
        Creates,
        restore_data
    ),
    case!(
        Copy,
        "copy/larger",
        "CreateVolume with a size above that of its source grows the copy or fails with OUT_OF_RANGE",
        "CreateVolume",
        RESTORES_DATA,
        Creates,
        larger
    ),
    case!(
        Copy,
        "copy/block-data",
        "A restored block volume has the data from the time of the snapshot",
        "CreateSnapshot",
        BLOCK_DATA,
        Creates,
        block_data
    ),
];

fn copy_request(check: &mut Check<'_>, source: VolumeContentSource) -> CreateVolumeRequest {
    let mut request = check.create_request();
    request.volume_content_source = Some(source);
    request
}

async fn check_copy(check: &mut Check<'_>, source: VolumeContentSource) -> CheckResult {
    let request = copy_request(check, source);
    let because = "the source exists";
    let first = check.call_ok(request.clone(), because).await?;
    let first = check_volume(check, &request, first)?;
    let because = "a volume of that name, copied from that source, already exists";
    let second = check.call_ok(request.clone(), because).await?;
    let second = check_volume(check, &request, second)?;
    let rule = "volume_id is the same: one name never yields two volumes";
    let got = format!("{} and {}", first.volume_id, second.volume_id);
    check.expect(first.volume_id == second.volume_id, rule, &got);
    Ok(())
}

async fn clone(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    check_copy(check, from_volume(&volume.volume_id)).await
}

async fn restore(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let snapshot = check.new_snapshot(&volume.volume_id).await?;
    check_copy(check, from_snapshot(&snapshot.snapshot_id)).await
}

async fn unknown_volume(check: &mut Check<'_>) -> CheckResult {
    let request = copy_request(check, from_volume("nomad-csi-check-no-such-volume"));
    check.call_refused(request, NOT_FOUND, "the source volume does not exist").await;
    Ok(())
}

async fn unknown_snapshot(check: &mut Check<'_>) -> CheckResult {
    let request = copy_request(check, from_snapshot("nomad-csi-check-no-such-snapshot"));
    check.call_refused(request, NOT_FOUND, "the source snapshot does not exist").await;
    Ok(())
}

async fn other_source(check: &mut Check<'_>) -> CheckResult {
    let (one, other) = (check.new_volume().await?, check.new_volume().await?);
    let mut request = copy_request(check, from_volume(&one.volume_id));
    let copy = check.create_volume(request.clone()).await?;
    request.volume_content_source = Some(from_volume(&other.volume_id));
    let because = "the existing volume of that name is a copy of another volume";
    expect_name_taken(check, request.clone(), &copy, because, ALREADY_EXISTS).await;
    request.volume_content_source = None;
    let because = "the existing volume of that name is a copy";
    expect_name_taken(check, request, &copy, because, ALREADY_EXISTS).await;
    Ok(())
}

async fn smaller(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    if volume.capacity_bytes == 0 {
        let why = "the plugin does not report the size of its volumes";
        return Err(StopReason::NotApplicable(why.to_owned()));
    }
    let mut request = copy_request(check, from_volume(&volume.volume_id));
    request.capacity_range = Some(exactly(volume.capacity_bytes / 2));
    let codes = [StatusCode::OutOfRange];
    check.call_refused(request, &codes, "the source is larger").await;
    Ok(())
}

async fn no_size(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let snapshot = check.new_snapshot(&volume.volume_id).await?;
    let mut request = copy_request(check, from_snapshot(&snapshot.snapshot_id));
    request.capacity_range = None;
    let because = "capacity_range is optional; without it the plugin chooses the size";
    let response = check.call_ok(request.clone(), because).await?;
    let copy = check_volume(check, &request, response)?;
    let known = copy.capacity_bytes > 0 && snapshot.size_bytes > 0;
    let rule =
        format!("capacity_bytes is at least the {} bytes of the source", snapshot.size_bytes);
    let fits = !known || copy.capacity_bytes >= snapshot.size_bytes;
    check.expect(fits, &rule, &copy.capacity_bytes.to_string());
    Ok(())
}

/// Returns a new published volume that holds `text`.
async fn new_volume_with_data(
    check: &mut Check<'_>,
    capability: VolumeCapability,
    text: &str,
) -> Result<VolumeUse, StopReason> {
    let used = check.new_published(capability).await?;
    check.write_data(&used, text).await?;
    Ok(used)
}

async fn clone_data(check: &mut Check<'_>) -> CheckResult {
    let capability = mount(Mode::SingleNodeWriter);
    let source = new_volume_with_data(check, capability.clone(), "the source").await?;
    check.end_use(&source).await?;
    let request = copy_request(check, from_volume(&source.volume.volume_id));
    let copy = check.create_volume(request).await?;
    let copy = check.published(copy, capability.clone()).await?;
    check.expect_data(&copy, "the source", "a clone has the data of its source").await;
    check.write_data(&copy, "the copy").await?;
    check.end_use(&copy).await?;
    let source = check.published(source.volume, capability).await?;
    let rule = "a write to a clone does not change its source";
    check.expect_data(&source, "the source", rule).await;
    Ok(())
}

async fn check_restored_data(check: &mut Check<'_>, capability: VolumeCapability) -> CheckResult {
    let source = new_volume_with_data(check, capability.clone(), "before the snapshot").await?;
    let (snapshot, source) = check.snapshot_in_use(source).await?;
    check.write_data(&source, "after the snapshot").await?;
    check.end_use(&source).await?;
    let mut request = copy_request(check, from_snapshot(&snapshot.snapshot_id));
    request.volume_capabilities = vec![capability.clone()];
    let restored = check.create_volume(request).await?;
    let restored = check.published(restored, capability).await?;
    let rule = "a restored volume has the data from the time of the snapshot";
    check.expect_data(&restored, "before the snapshot", rule).await;
    Ok(())
}

async fn restore_data(check: &mut Check<'_>) -> CheckResult {
    check_restored_data(check, mount(Mode::SingleNodeWriter)).await
}

async fn block_data(check: &mut Check<'_>) -> CheckResult {
    check_restored_data(check, block(Mode::SingleNodeWriter)).await
}

async fn larger(check: &mut Check<'_>) -> CheckResult {
    let capability = mount(Mode::SingleNodeWriter);
    let source = new_volume_with_data(check, capability.clone(), "the source").await?;
    let before = check.visible_size(&source).await?;
    check.end_use(&source).await?;
    let snapshot = check.new_snapshot(&source.volume.volume_id).await?;
    let double = source.volume.capacity_bytes.max(check.options().size).saturating_mul(2);
    let mut request = copy_request(check, from_snapshot(&snapshot.snapshot_id));
    request.capacity_range = Some(at_least(double));
    let copy = match check.call(request.clone()).await {
        Ok(response) => check_volume(check, &request, response)?,
        Err(failure) => {
            let rule = "OK, or OUT_OF_RANGE if a copy cannot be larger than its source";
            let refused = failure.code() == Some(StatusCode::OutOfRange);
            check.expect(refused, rule, &failure.to_string());
            return Ok(());
        }
    };
    let known = copy.capacity_bytes > 0;
    let copy = check.published(copy, capability).await?;
    check.expect_data(&copy, "the source", "a larger copy has the data of its source").await;
    let after = check.visible_size(&copy).await?;
    if known && after <= before + before / 2 {
        let rule = "the file system of a larger copy has the larger size";
        let level = if source.has_own_size(before) { Level::Must } else { Level::Advice };
        check.add_finding(level, rule, &format!("{after} bytes; the source has {before} bytes"));
    }
    Ok(())
}
