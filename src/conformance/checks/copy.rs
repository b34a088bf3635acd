//! Volumes made of snapshots and of volumes (CSI section "CreateVolume"), and what is in them.

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::conformance::report::Level;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::{CreateVolumeRequest, VolumeCapability, VolumeContentSource};
use crate::ports::StatusCode;

use super::create::{inspect, taken};
use super::requests::{
    ALREADY_EXISTS, NOT_FOUND, at_least, block, exactly, from_snapshot, from_volume, mount,
};
use super::using::Used;

const CLONES: &[Need] = &[
    Need::Can(ControllerRpc::CloneVolume),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
const RESTORES: &[Need] = &[
    Need::Can(ControllerRpc::CreateDeleteSnapshot),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
const CLONES_DATA: &[Need] = &[
    Need::Can(ControllerRpc::CloneVolume),
    Need::Can(ControllerRpc::CreateDeleteVolume),
    Need::Node,
];
const RESTORES_DATA: &[Need] = &[
    Need::Can(ControllerRpc::CreateDeleteSnapshot),
    Need::Can(ControllerRpc::CreateDeleteVolume),
    Need::Node,
];
const BLOCK_DATA: &[Need] = &[
    Need::Block,
    Need::Can(ControllerRpc::CreateDeleteSnapshot),
    Need::Can(ControllerRpc::CreateDeleteVolume),
    Need::Node,
];

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Copy,
        "copy/clone",
        "A volume is made of a volume, and the same request again gives the same one",
        "CreateVolume",
        CLONES,
        Creates,
        clone
    ),
    case!(
        Copy,
        "copy/restore",
        "A volume is made of a snapshot, and the same request again gives the same one",
        "CreateVolume",
        RESTORES,
        Creates,
        restore
    ),
    case!(
        Copy,
        "copy/unknown-volume",
        "A copy of a volume that does not exist is NOT_FOUND",
        "CreateVolume Errors",
        CLONES,
        Creates,
        unknown_volume
    ),
    case!(
        Copy,
        "copy/unknown-snapshot",
        "A copy of a snapshot that does not exist is NOT_FOUND",
        "CreateVolume Errors",
        RESTORES,
        Creates,
        unknown_snapshot
    ),
    case!(
        Copy,
        "copy/other-source",
        "A taken name with another source, or with none, is refused",
        "CreateVolume Errors",
        CLONES,
        Creates,
        other_source
    ),
    case!(
        Copy,
        "copy/smaller",
        "A copy that is smaller than its source is refused",
        "CreateVolume Errors",
        CLONES,
        Creates,
        smaller
    ),
    case!(
        Copy,
        "copy/no-size",
        "A copy can be made without saying how large it should be",
        "CreateVolume",
        RESTORES,
        Creates,
        no_size
    ),
    case!(
        Copy,
        "copy/clone-data",
        "A clone has its source's data, and both change by themselves",
        "CreateVolume",
        CLONES_DATA,
        Creates,
        clone_data
    ),
    case!(
        Copy,
        "copy/restore-data",
        "A restored volume has the data of the moment of the snapshot",
        "CreateSnapshot",
        RESTORES_DATA,
        Creates,
        restore_data
    ),
    case!(
        Copy,
        "copy/larger",
        "A copy with a larger size has the data and the size, or is refused with OUT_OF_RANGE",
        "CreateVolume",
        RESTORES_DATA,
        Creates,
        larger
    ),
    case!(
        Copy,
        "copy/block-data",
        "A restored block volume has the data of the moment of the snapshot",
        "CreateSnapshot",
        BLOCK_DATA,
        Creates,
        block_data
    ),
];

fn of(check: &mut Check<'_>, source: VolumeContentSource) -> CreateVolumeRequest {
    let mut request = check.create_request();
    request.volume_content_source = Some(source);
    request
}

async fn made_of(check: &mut Check<'_>, source: VolumeContentSource) -> Ended {
    let request = of(check, source);
    let because = "the source exists";
    let first = check.must(request.clone(), because).await?;
    let first = inspect(check, &request, first)?;
    let because = "the volume of that name is a copy of that source";
    let second = check.must(request.clone(), because).await?;
    let second = inspect(check, &request, second)?;
    let rule = "one name never stands for two volumes: the same volume_id";
    let got = format!("{} and {}", first.volume_id, second.volume_id);
    check.hold(first.volume_id == second.volume_id, rule, &got);
    Ok(())
}

async fn clone(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    made_of(check, from_volume(&volume.volume_id)).await
}

async fn restore(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let snapshot = check.snapshot(&volume.volume_id).await?;
    made_of(check, from_snapshot(&snapshot.snapshot_id)).await
}

async fn unknown_volume(check: &mut Check<'_>) -> Ended {
    let request = of(check, from_volume("nomad-csi-check-no-such-volume"));
    check
        .refused(request, NOT_FOUND, "there is no such volume")
        .await;
    Ok(())
}

async fn unknown_snapshot(check: &mut Check<'_>) -> Ended {
    let request = of(check, from_snapshot("nomad-csi-check-no-such-snapshot"));
    check
        .refused(request, NOT_FOUND, "there is no such snapshot")
        .await;
    Ok(())
}

async fn other_source(check: &mut Check<'_>) -> Ended {
    let (one, other) = (check.volume().await?, check.volume().await?);
    let mut request = of(check, from_volume(&one.volume_id));
    let copy = check.volume_of(request.clone()).await?;
    request.volume_content_source = Some(from_volume(&other.volume_id));
    let because = "the volume of that name is a copy of another volume";
    taken(check, request.clone(), &copy, because, ALREADY_EXISTS).await;
    request.volume_content_source = None;
    let because = "the volume of that name is a copy";
    taken(check, request, &copy, because, ALREADY_EXISTS).await;
    Ok(())
}

async fn smaller(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    if volume.capacity_bytes == 0 {
        let why = "the plugin does not say how large its volumes are";
        return Err(Stop::NotDemanded(why.to_owned()));
    }
    let mut request = of(check, from_volume(&volume.volume_id));
    request.capacity_range = Some(exactly(volume.capacity_bytes / 2));
    let codes = [StatusCode::OutOfRange];
    check.refused(request, &codes, "the source is larger").await;
    Ok(())
}

async fn no_size(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let snapshot = check.snapshot(&volume.volume_id).await?;
    let mut request = of(check, from_snapshot(&snapshot.snapshot_id));
    request.capacity_range = None;
    let because = "capacity_range is optional, the plugin chooses then";
    let answer = check.must(request.clone(), because).await?;
    let copy = inspect(check, &request, answer)?;
    let known = copy.capacity_bytes > 0 && snapshot.size_bytes > 0;
    let rule = format!("at least the {} bytes of the source", snapshot.size_bytes);
    let fits = !known || copy.capacity_bytes >= snapshot.size_bytes;
    check.hold(fits, &rule, &copy.capacity_bytes.to_string());
    Ok(())
}

/// A new volume with data in it, in use.
async fn filled(
    check: &mut Check<'_>,
    capability: VolumeCapability,
    text: &str,
) -> Result<Used, Stop> {
    let used = check.in_use(capability).await?;
    check.write(&used, text).await?;
    Ok(used)
}

async fn clone_data(check: &mut Check<'_>) -> Ended {
    let capability = mount(Mode::SingleNodeWriter);
    let source = filled(check, capability.clone(), "the source").await?;
    check.release(&source).await?;
    let request = of(check, from_volume(&source.volume.volume_id));
    let copy = check.volume_of(request).await?;
    let copy = check.published(copy, capability.clone()).await?;
    check
        .hold_data(&copy, "the source", "a clone has its source's data")
        .await;
    check.write(&copy, "the copy").await?;
    check.release(&copy).await?;
    let source = check.published(source.volume, capability).await?;
    let rule = "what is written to a clone does not change its source";
    check.hold_data(&source, "the source", rule).await;
    Ok(())
}

async fn cut_and_changed(check: &mut Check<'_>, capability: VolumeCapability) -> Ended {
    let source = filled(check, capability.clone(), "at the cut").await?;
    let (snapshot, source) = check.cut(source).await?;
    check.write(&source, "changed").await?;
    check.release(&source).await?;
    let mut request = of(check, from_snapshot(&snapshot.snapshot_id));
    request.volume_capabilities = vec![capability.clone()];
    let restored = check.volume_of(request).await?;
    let restored = check.published(restored, capability).await?;
    let rule = "a restored volume has the data of the moment of the snapshot";
    check.hold_data(&restored, "at the cut", rule).await;
    Ok(())
}

async fn restore_data(check: &mut Check<'_>) -> Ended {
    cut_and_changed(check, mount(Mode::SingleNodeWriter)).await
}

async fn block_data(check: &mut Check<'_>) -> Ended {
    cut_and_changed(check, block(Mode::SingleNodeWriter)).await
}

async fn larger(check: &mut Check<'_>) -> Ended {
    let capability = mount(Mode::SingleNodeWriter);
    let source = filled(check, capability.clone(), "the source").await?;
    let before = check.size_of(&source).await?;
    check.release(&source).await?;
    let snapshot = check.snapshot(&source.volume.volume_id).await?;
    let double = source
        .volume
        .capacity_bytes
        .max(check.setup().size)
        .saturating_mul(2);
    let mut request = of(check, from_snapshot(&snapshot.snapshot_id));
    request.capacity_range = Some(at_least(double));
    let copy = match check.call(request.clone()).await {
        Ok(answer) => inspect(check, &request, answer)?,
        Err(failure) => {
            let rule = "OK, or OUT_OF_RANGE if a copy cannot be larger than its source";
            let refused = failure.code() == Some(StatusCode::OutOfRange);
            check.hold(refused, rule, &failure.to_string());
            return Ok(());
        }
    };
    let known = copy.capacity_bytes > 0;
    let copy = check.published(copy, capability).await?;
    check
        .hold_data(&copy, "the source", "a larger copy has its source's data")
        .await;
    let after = check.size_of(&copy).await?;
    if known && after <= before + before / 2 {
        let rule = "the file system of a larger copy has grown when it is published";
        let level = if sizes_are_real(&source, before) {
            Level::Must
        } else {
            Level::Advice
        };
        check.find(level, rule, &format!("{after} bytes, and {before} before"));
    }
    Ok(())
}

/// Whether a file system is the volume's own, and not that of the machine below it, which says
/// nothing of one volume's size.
pub(super) fn sizes_are_real(used: &Used, total: u64) -> bool {
    let capacity = u64::try_from(used.volume.capacity_bytes).unwrap_or_default();
    capacity > 0 && total <= capacity.saturating_mul(2)
}
