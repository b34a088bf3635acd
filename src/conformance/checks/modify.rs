//! Checks of ControllerModifyVolume. Every plugin has its own mutable parameters, so the checks of
//! valid values need `--mutable-parameters`.

use std::collections::BTreeMap;

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::Check;
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::ControllerModifyVolumeRequest;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;

use super::requests::INVALID;

const NEEDS: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::ModifyVolume),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];

const MODIFIES: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::ModifyVolume),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
    Need::MutableParameters,
];

pub(crate) const CASES: &[Case] = &[
    case!(
        Modify,
        "modify/arguments",
        "ControllerModifyVolume without a volume ID or with an unknown parameter is refused",
        "ControllerModifyVolume",
        NEEDS,
        Creates,
        arguments
    ),
    case!(
        Modify,
        "modify/unknown",
        "ControllerModifyVolume of an unknown volume is refused",
        "ControllerModifyVolume Errors",
        NEEDS,
        Creates,
        unknown
    ),
    case!(
        Modify,
        "modify/create",
        "CreateVolume with an unknown mutable parameter is refused",
        "CreateVolume",
        NEEDS,
        Creates,
        create
    ),
    case!(
        Modify,
        "modify/volume",
        "ControllerModifyVolume is idempotent, and refuses a request with a valid and an unknown parameter",
        "ControllerModifyVolume",
        MODIFIES,
        Creates,
        volume
    ),
    case!(
        Modify,
        "modify/create-with",
        "CreateVolume accepts mutable parameters, and ControllerModifyVolume changes them later",
        "CreateVolume",
        MODIFIES,
        Creates,
        create_with
    ),
];

fn unknown_parameter() -> BTreeMap<String, String> {
    [("nomad-csi-check-no-such-key".to_owned(), "x".to_owned())].into()
}

fn request(check: &Check<'_>, volume_id: &str) -> ControllerModifyVolumeRequest {
    ControllerModifyVolumeRequest {
        volume_id: volume_id.to_owned(),
        secrets: check.secrets(),
        mutable_parameters: unknown_parameter(),
    }
}

async fn arguments(check: &mut Check<'_>) -> CheckResult {
    let desired = request(check, "");
    check.call_refused(desired, INVALID, "volume_id is required").await;
    let volume = check.new_volume().await?;
    let desired = request(check, &volume.volume_id);
    let because = "the mutable parameter does not exist";
    check.call_refused(desired, INVALID, because).await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> CheckResult {
    let desired = request(check, "nomad-csi-check-no-such-volume");
    // The parameter is unknown too.
    let codes = [StatusCode::NotFound, StatusCode::InvalidArgument];
    check.call_refused(desired, &codes, "the volume does not exist").await;
    Ok(())
}

async fn create(check: &mut Check<'_>) -> CheckResult {
    let mut desired = check.create_request();
    desired.mutable_parameters = unknown_parameter();
    let because = "the mutable parameter does not exist";
    check.call_refused(desired, INVALID, because).await;
    Ok(())
}

fn valid_request(check: &Check<'_>, volume_id: &str) -> ControllerModifyVolumeRequest {
    ControllerModifyVolumeRequest {
        mutable_parameters: check.options().mutable_parameters.clone(),
        ..request(check, volume_id)
    }
}

/// Sends valid values twice, then valid values together with an unknown parameter.
async fn check_modification(check: &mut Check<'_>, id: &str) -> CheckResult {
    let desired = valid_request(check, id);
    let because = "the volume exists and the plugin supports the parameters";
    check.call_ok(desired.clone(), because).await?;
    let because = "the volume already has these values";
    check.call_ok(desired.clone(), because).await?;
    let mut mixed = desired;
    mixed.mutable_parameters.extend(unknown_parameter());
    let because = "one of the parameters does not exist";
    check.call_refused(mixed, INVALID, because).await;
    Ok(())
}

async fn volume(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    check_modification(check, &volume.volume_id).await
}

async fn create_with(check: &mut Check<'_>) -> CheckResult {
    let mut desired = check.create_request();
    desired.mutable_parameters = check.options().mutable_parameters.clone();
    let because = "the plugin supports the parameters";
    let created = check.call_ok(desired, because).await?;
    let volume = created.volume.unwrap_or_default();
    check_modification(check, &volume.volume_id).await
}
