//! Checks of ControllerExpandVolume and NodeExpandVolume, and of what a workload sees afterwards.

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use crate::finding::Level;
use nomad_csi_csi::CallFailure;
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::node_service_capability::rpc::Type as NodeRpc;
use nomad_csi_proto::plugin_capability::volume_expansion::Type as Expansion;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::{
    ControllerExpandVolumeRequest, NodeExpandVolumeRequest, Volume, VolumeCapability,
};

use super::requests::{INVALID, NOT_FOUND, at_least, exactly, mount};
use super::volume_use::VolumeUse;

const NEEDS: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::ExpandVolume),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const SEES: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::ExpandVolume),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
    Need::NodeService,
];
const NODE: &[Need] = &[
    Need::NodeCapability(NodeRpc::ExpandVolume),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];

pub(crate) const CASES: &[Case] = &[
    case!(
        Expand,
        "expand/arguments",
        "ControllerExpandVolume without a volume ID or a capacity range is refused",
        "ControllerExpandVolume",
        NEEDS,
        Creates,
        arguments
    ),
    case!(
        Expand,
        "expand/unknown",
        "ControllerExpandVolume of an unknown volume fails with NOT_FOUND",
        "ControllerExpandVolume Errors",
        NEEDS,
        Creates,
        unknown
    ),
    case!(
        Expand,
        "expand/controller",
        "ControllerExpandVolume expands a volume, is idempotent, and never shrinks it",
        "ControllerExpandVolume",
        NEEDS,
        Creates,
        controller
    ),
    case!(
        Expand,
        "expand/endless",
        "ControllerExpandVolume refuses 8 EiB and contradictory sizes",
        "ControllerExpandVolume Errors",
        NEEDS,
        Creates,
        endless
    ),
    case!(
        Expand,
        "expand/sees",
        "A workload sees the new size and the old data of an expanded volume",
        "NodeExpandVolume",
        SEES,
        Creates,
        sees
    ),
    case!(
        Expand,
        "expand/online",
        "ControllerExpandVolume of a published volume works or is refused, as the plugin advertises",
        "ControllerExpandVolume",
        SEES,
        Creates,
        online
    ),
    case!(
        Expand,
        "expand/node-arguments",
        "NodeExpandVolume requires a volume ID, a path and an existing volume",
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

fn node_request(check: &Check<'_>, used: &VolumeUse, bytes: i64) -> NodeExpandVolumeRequest {
    NodeExpandVolumeRequest {
        volume_id: used.volume.volume_id.clone(),
        volume_path: used.target.clone(),
        capacity_range: Some(at_least(bytes)),
        staging_target_path: used.staging.clone(),
        volume_capability: Some(used.capability.clone()),
        secrets: check.secrets(),
    }
}

async fn arguments(check: &mut Check<'_>) -> CheckResult {
    let desired = request(check, "", check.options().size, None);
    check.call_refused(desired, INVALID, "volume_id is required").await;
    let volume = check.new_volume().await?;
    let mut desired = request(check, &volume.volume_id, 0, None);
    desired.capacity_range = None;
    check.call_refused(desired, INVALID, "capacity_range is required").await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> CheckResult {
    let desired = request(check, "nomad-csi-check-no-such-volume", check.options().size, None);
    check.call_refused(desired, NOT_FOUND, "the volume does not exist").await;
    Ok(())
}

/// Returns the size for an expansion of `volume`.
fn doubled_size(check: &Check<'_>, volume: &Volume) -> i64 {
    volume.capacity_bytes.max(check.options().size).saturating_mul(2)
}

/// Skips the check if the plugin reports no sizes and refuses to expand the volume.
///
/// # Errors
/// Returns [`StopReason::NotApplicable`] in that case.
fn skip_if_unsized(volume: &Volume, failure: Option<&CallFailure>) -> Result<(), StopReason> {
    let refused = failure.is_some_and(|one| one.code() == Some(StatusCode::OutOfRange));
    if refused && volume.capacity_bytes == 0 {
        let why = "the plugin neither reports the size of its volumes nor expands them";
        return Err(StopReason::NotApplicable(why.to_owned()));
    }
    Ok(())
}

async fn controller(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let bytes = doubled_size(check, &volume);
    let desired = request(check, &volume.volume_id, bytes, None);
    let first = check.call(desired.clone()).await;
    skip_if_unsized(&volume, first.as_ref().err())?;
    check.expect_ok(&first, "the volume exists and is not published");
    let Ok(first) = first else {
        return Ok(());
    };
    let rule = format!("capacity_bytes is at least the required {bytes} bytes");
    check.expect(first.capacity_bytes >= bytes, &rule, &first.capacity_bytes.to_string());
    let again = check.call_ok(desired, "the volume already has this size").await?;
    let rule = "capacity_bytes is the same as before";
    let same = again.capacity_bytes == first.capacity_bytes;
    check.expect(same, rule, &again.capacity_bytes.to_string());
    let less = request(check, &volume.volume_id, check.options().size, None);
    if let Ok(response) = check.call(less).await {
        let rule = "a volume that is already larger keeps its size";
        let kept = response.capacity_bytes >= first.capacity_bytes;
        check.expect(kept, rule, &response.capacity_bytes.to_string());
    }
    Ok(())
}

async fn endless(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let desired = request(check, &volume.volume_id, i64::MAX, None);
    let codes = [StatusCode::OutOfRange, StatusCode::ResourceExhausted];
    check.call_refused(desired, &codes, "no storage provides 8 EiB").await;
    let mut desired = request(check, &volume.volume_id, 0, None);
    let size = check.options().size;
    desired.capacity_range = Some(exactly(size));
    desired.capacity_range.iter_mut().for_each(|range| range.limit_bytes = size - 1);
    let codes = [StatusCode::OutOfRange, StatusCode::InvalidArgument];
    check.call_refused(desired, &codes, "limit_bytes is below required_bytes").await;
    Ok(())
}

/// Calls NodeExpandVolume if the controller requires it.
async fn expand_on_node(
    check: &mut Check<'_>,
    used: &VolumeUse,
    bytes: i64,
    is_required: bool,
) -> CheckResult {
    if !is_required {
        return Ok(());
    }
    if !check.plugin().node_has(NodeRpc::ExpandVolume) {
        let rule = "node_expansion_required is true only if the node advertises EXPAND_VOLUME";
        check.add_finding(Level::Must, rule, "true, but the node does not advertise EXPAND_VOLUME");
        return Ok(());
    }
    let desired = node_request(check, used, bytes);
    check.call_ok(desired.clone(), "the volume is published at this path").await?;
    check.call_ok(desired, "the volume already has this size").await?;
    Ok(())
}

async fn expect_grown(check: &mut Check<'_>, used: &VolumeUse, before: u64) -> CheckResult {
    let after = check.visible_size(used).await?;
    if after > before + before / 2 {
        return Ok(());
    }
    let rule = "a workload sees the new size of an expanded volume";
    let level = if used.has_own_size(before) { Level::Must } else { Level::Advice };
    check.add_finding(level, rule, &format!("{after} bytes; {before} bytes before the expansion"));
    Ok(())
}

async fn sees(check: &mut Check<'_>) -> CheckResult {
    let capability = mount(Mode::SingleNodeWriter);
    let used = check.new_published(capability.clone()).await?;
    check.write_data(&used, "written before").await?;
    let before = check.visible_size(&used).await?;
    check.end_use(&used).await?;
    let bytes = doubled_size(check, &used.volume);
    let desired = request(check, &used.volume.volume_id, bytes, Some(capability.clone()));
    let response = check.call(desired).await;
    skip_if_unsized(&used.volume, response.as_ref().err())?;
    check.expect_ok(&response, "the volume exists and is not published");
    let Ok(response) = response else {
        return Ok(());
    };
    let again = check.published(used.volume, capability).await?;
    expand_on_node(check, &again, bytes, response.node_expansion_required).await?;
    let rule = "an expanded volume keeps its data";
    check.expect_data(&again, "written before", rule).await;
    expect_grown(check, &again, before).await
}

async fn online(check: &mut Check<'_>) -> CheckResult {
    let capability = mount(Mode::SingleNodeWriter);
    let used = check.new_published(capability.clone()).await?;
    check.write_data(&used, "written before").await?;
    let before = check.visible_size(&used).await?;
    let bytes = doubled_size(check, &used.volume);
    let desired = request(check, &used.volume.volume_id, bytes, Some(capability));
    let response = check.call(desired).await;
    skip_if_unsized(&used.volume, response.as_ref().err())?;
    let is_advertised = check.plugin().expands(Expansion::Online);
    let response = match response {
        Ok(response) => response,
        Err(failure) => {
            let rule = "OK: the plugin advertises the volume expansion ONLINE";
            check.expect(!is_advertised, rule, &failure.to_string());
            let rule = "FAILED_PRECONDITION: the volume is published";
            let refused = failure.code() == Some(StatusCode::FailedPrecondition);
            check.expect(is_advertised || refused, rule, &failure.to_string());
            return Ok(());
        }
    };
    expand_on_node(check, &used, bytes, response.node_expansion_required).await?;
    let rule = "an expanded volume keeps its data";
    check.expect_data(&used, "written before", rule).await;
    expect_grown(check, &used, before).await
}

async fn node_arguments(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(mount(Mode::SingleNodeWriter)).await?;
    let size = check.options().size;
    let mut desired = node_request(check, &used, size);
    desired.volume_id.clear();
    check.call_refused(desired, INVALID, "volume_id is required").await;
    let mut desired = node_request(check, &used, size);
    desired.volume_path.clear();
    check.call_refused(desired, INVALID, "volume_path is required").await;
    let mut desired = node_request(check, &used, size);
    desired.volume_id = "nomad-csi-check-no-such-volume".to_owned();
    check.call_refused(desired, NOT_FOUND, "the volume does not exist").await;
    Ok(())
}
