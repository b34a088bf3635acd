//! ControllerExpandVolume and NodeExpandVolume (CSI sections of those names), and what a workload
//! sees of it.

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::conformance::report::Level;
use crate::csi::Failure;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::node_service_capability::rpc::Type as NodeRpc;
use crate::csi::proto::plugin_capability::volume_expansion::Type as Expansion;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::{
    ControllerExpandVolumeRequest, NodeExpandVolumeRequest, Volume, VolumeCapability,
};
use crate::ports::StatusCode;

use super::copy::sizes_are_real;
use super::requests::{INVALID, NOT_FOUND, at_least, exactly, mount};
use super::using::Used;

const NEEDS: &[Need] = &[
    Need::Can(ControllerRpc::ExpandVolume),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
const SEES: &[Need] = &[
    Need::Can(ControllerRpc::ExpandVolume),
    Need::Can(ControllerRpc::CreateDeleteVolume),
    Need::Node,
];
const NODE: &[Need] = &[
    Need::NodeCan(NodeRpc::ExpandVolume),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Expand,
        "expand/arguments",
        "An expansion without a volume ID or without a size is refused",
        "ControllerExpandVolume",
        NEEDS,
        Creates,
        arguments
    ),
    case!(
        Expand,
        "expand/unknown",
        "An expansion of a volume that does not exist is NOT_FOUND",
        "ControllerExpandVolume Errors",
        NEEDS,
        Creates,
        unknown
    ),
    case!(
        Expand,
        "expand/controller",
        "A volume is expanded, the same again changes nothing, and it never shrinks",
        "ControllerExpandVolume",
        NEEDS,
        Creates,
        controller
    ),
    case!(
        Expand,
        "expand/endless",
        "An expansion to 8 EiB is refused and changes nothing",
        "ControllerExpandVolume Errors",
        NEEDS,
        Creates,
        endless
    ),
    case!(
        Expand,
        "expand/sees",
        "A workload sees the size of an expanded volume, and its data",
        "NodeExpandVolume",
        SEES,
        Creates,
        sees
    ),
    case!(
        Expand,
        "expand/online",
        "A volume is expanded while it is published, or is refused as the plugin advertises",
        "ControllerExpandVolume",
        SEES,
        Creates,
        online
    ),
    case!(
        Expand,
        "expand/node-arguments",
        "An expansion on the node needs an ID and a path, and a volume that exists",
        "NodeExpandVolume",
        NODE,
        Creates,
        node_arguments
    ),
];

fn request(
    check: &Check<'_>,
    volume_id: &str,
    bytes: i64,
    capability: Option<VolumeCapability>,
) -> ControllerExpandVolumeRequest {
    ControllerExpandVolumeRequest {
        volume_id: volume_id.to_owned(),
        capacity_range: Some(at_least(bytes)),
        secrets: check.secrets(),
        volume_capability: capability,
    }
}

fn node_request(check: &Check<'_>, used: &Used, bytes: i64) -> NodeExpandVolumeRequest {
    NodeExpandVolumeRequest {
        volume_id: used.volume.volume_id.clone(),
        volume_path: used.target.clone(),
        capacity_range: Some(at_least(bytes)),
        staging_target_path: used.staging.clone(),
        volume_capability: Some(used.capability.clone()),
        secrets: check.secrets(),
    }
}

async fn arguments(check: &mut Check<'_>) -> Ended {
    let wanted = request(check, "", check.setup().size, None);
    check
        .refused(wanted, INVALID, "volume_id is required")
        .await;
    let volume = check.volume().await?;
    let mut wanted = request(check, &volume.volume_id, 0, None);
    wanted.capacity_range = None;
    check
        .refused(wanted, INVALID, "capacity_range is required")
        .await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> Ended {
    let wanted = request(
        check,
        "nomad-csi-check-no-such-volume",
        check.setup().size,
        None,
    );
    check
        .refused(wanted, NOT_FOUND, "there is no such volume")
        .await;
    Ok(())
}

/// How large a volume is to become.
fn double(check: &Check<'_>, volume: &Volume) -> i64 {
    volume
        .capacity_bytes
        .max(check.setup().size)
        .saturating_mul(2)
}

/// Who does not say how large a volume is need not make it larger.
///
/// # Errors
/// If that is so: then the check demands nothing.
fn is_sized(volume: &Volume, failure: Option<&Failure>) -> Result<(), Stop> {
    let refused = failure.is_some_and(|one| one.code() == Some(StatusCode::OutOfRange));
    if refused && volume.capacity_bytes == 0 {
        let why =
            "the plugin does not say how large its volumes are, and does not make them larger";
        return Err(Stop::NotDemanded(why.to_owned()));
    }
    Ok(())
}

async fn controller(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let bytes = double(check, &volume);
    let wanted = request(check, &volume.volume_id, bytes, None);
    let first = check.call(wanted.clone()).await;
    is_sized(&volume, first.as_ref().err())?;
    check.hold_ok(&first, "the volume exists and is not published");
    let Ok(first) = first else {
        return Ok(());
    };
    let rule = format!("capacity_bytes is at least the {bytes} required");
    check.hold(
        first.capacity_bytes >= bytes,
        &rule,
        &first.capacity_bytes.to_string(),
    );
    let again = check.must(wanted, "the volume is as large already").await?;
    let rule = "the same size as before";
    let same = again.capacity_bytes == first.capacity_bytes;
    check.hold(same, rule, &again.capacity_bytes.to_string());
    let less = request(check, &volume.volume_id, check.setup().size, None);
    if let Ok(answer) = check.call(less).await {
        let rule = "a volume that is larger than required keeps its size";
        let kept = answer.capacity_bytes >= first.capacity_bytes;
        check.hold(kept, rule, &answer.capacity_bytes.to_string());
    }
    Ok(())
}

async fn endless(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let wanted = request(check, &volume.volume_id, i64::MAX, None);
    let codes = [StatusCode::OutOfRange, StatusCode::ResourceExhausted];
    check.refused(wanted, &codes, "no storage has 8 EiB").await;
    let mut wanted = request(check, &volume.volume_id, 0, None);
    let size = check.setup().size;
    wanted.capacity_range = Some(exactly(size));
    wanted
        .capacity_range
        .iter_mut()
        .for_each(|range| range.limit_bytes = size - 1);
    let codes = [StatusCode::OutOfRange, StatusCode::InvalidArgument];
    check
        .refused(wanted, &codes, "limit_bytes is below required_bytes")
        .await;
    Ok(())
}

/// Expands on the node if the answer of the controller says so.
async fn on_node(check: &mut Check<'_>, used: &Used, bytes: i64, is_required: bool) -> Ended {
    if !is_required {
        return Ok(());
    }
    if !check.profile().node_has(NodeRpc::ExpandVolume) {
        let rule = "node_expansion_required comes with EXPAND_VOLUME of the node";
        check.find(Level::Must, rule, "true without it");
        return Ok(());
    }
    let wanted = node_request(check, used, bytes);
    check
        .must(wanted.clone(), "the volume is published there")
        .await?;
    check.must(wanted, "the volume is as large already").await?;
    Ok(())
}

async fn grown(check: &mut Check<'_>, used: &Used, before: u64) -> Ended {
    let after = check.size_of(used).await?;
    if after > before + before / 2 {
        return Ok(());
    }
    let rule = "an expanded volume is larger to a workload too";
    let level = if sizes_are_real(used, before) {
        Level::Must
    } else {
        Level::Advice
    };
    check.find(level, rule, &format!("{after} bytes, and {before} before"));
    Ok(())
}

async fn sees(check: &mut Check<'_>) -> Ended {
    let capability = mount(Mode::SingleNodeWriter);
    let used = check.in_use(capability.clone()).await?;
    check.write(&used, "written before").await?;
    let before = check.size_of(&used).await?;
    check.release(&used).await?;
    let bytes = double(check, &used.volume);
    let wanted = request(
        check,
        &used.volume.volume_id,
        bytes,
        Some(capability.clone()),
    );
    let answer = check.call(wanted).await;
    is_sized(&used.volume, answer.as_ref().err())?;
    check.hold_ok(&answer, "the volume exists and is not published");
    let Ok(answer) = answer else {
        return Ok(());
    };
    let again = check.published(used.volume, capability).await?;
    on_node(check, &again, bytes, answer.node_expansion_required).await?;
    let rule = "an expanded volume keeps its data";
    check.hold_data(&again, "written before", rule).await;
    grown(check, &again, before).await
}

async fn online(check: &mut Check<'_>) -> Ended {
    let capability = mount(Mode::SingleNodeWriter);
    let used = check.in_use(capability.clone()).await?;
    check.write(&used, "written before").await?;
    let before = check.size_of(&used).await?;
    let bytes = double(check, &used.volume);
    let wanted = request(check, &used.volume.volume_id, bytes, Some(capability));
    let answer = check.call(wanted).await;
    is_sized(&used.volume, answer.as_ref().err())?;
    let promised = check.profile().expands(Expansion::Online);
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) => {
            let rule = "OK: ONLINE is advertised";
            check.hold(!promised, rule, &failure.to_string());
            let rule = "FAILED_PRECONDITION: the volume is published";
            let refused = failure.code() == Some(StatusCode::FailedPrecondition);
            check.hold(promised || refused, rule, &failure.to_string());
            return Ok(());
        }
    };
    on_node(check, &used, bytes, answer.node_expansion_required).await?;
    let rule = "an expanded volume keeps its data";
    check.hold_data(&used, "written before", rule).await;
    grown(check, &used, before).await
}

async fn node_arguments(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(mount(Mode::SingleNodeWriter)).await?;
    let size = check.setup().size;
    let mut wanted = node_request(check, &used, size);
    wanted.volume_id.clear();
    check
        .refused(wanted, INVALID, "volume_id is required")
        .await;
    let mut wanted = node_request(check, &used, size);
    wanted.volume_path.clear();
    check
        .refused(wanted, INVALID, "volume_path is required")
        .await;
    let mut wanted = node_request(check, &used, size);
    wanted.volume_id = "nomad-csi-check-no-such-volume".to_owned();
    check
        .refused(wanted, NOT_FOUND, "there is no such volume")
        .await;
    Ok(())
}
