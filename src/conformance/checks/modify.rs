//! ControllerModifyVolume (CSI section "ControllerModifyVolume"). Which parameters a plugin lets
//! change is its own affair; what is checked is what holds for all.

use std::collections::BTreeMap;

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::Check;
use crate::csi::proto::ControllerModifyVolumeRequest;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::ports::StatusCode;

use super::requests::INVALID;

const NEEDS: &[Need] = &[
    Need::Can(ControllerRpc::ModifyVolume),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];

const MODIFIES: &[Need] = &[
    Need::Can(ControllerRpc::ModifyVolume),
    Need::Can(ControllerRpc::CreateDeleteVolume),
    Need::Mutable,
];

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Modify,
        "modify/arguments",
        "A modification without a volume ID is refused, and so is a parameter that does not exist",
        "ControllerModifyVolume",
        NEEDS,
        Creates,
        arguments
    ),
    case!(
        Modify,
        "modify/unknown",
        "A modification of a volume that does not exist is refused",
        "ControllerModifyVolume Errors",
        NEEDS,
        Creates,
        unknown
    ),
    case!(
        Modify,
        "modify/create",
        "A volume is not created with a mutable parameter that does not exist",
        "CreateVolume",
        NEEDS,
        Creates,
        create
    ),
    case!(
        Modify,
        "modify/volume",
        "A volume is modified, again with the same values, and one bad parameter changes nothing",
        "ControllerModifyVolume",
        MODIFIES,
        Creates,
        volume
    ),
    case!(
        Modify,
        "modify/create-with",
        "A volume is created with mutable parameters, and modified later",
        "CreateVolume",
        MODIFIES,
        Creates,
        create_with
    ),
];

fn no_such() -> BTreeMap<String, String> {
    [("nomad-csi-check-no-such-key".to_owned(), "x".to_owned())].into()
}

fn request(check: &Check<'_>, volume_id: &str) -> ControllerModifyVolumeRequest {
    ControllerModifyVolumeRequest {
        volume_id: volume_id.to_owned(),
        secrets: check.secrets(),
        mutable_parameters: no_such(),
    }
}

async fn arguments(check: &mut Check<'_>) -> Ended {
    let wanted = request(check, "");
    check
        .refused(wanted, INVALID, "volume_id is required")
        .await;
    let volume = check.volume().await?;
    let wanted = request(check, &volume.volume_id);
    let because = "no volume has such a mutable parameter";
    check.refused(wanted, INVALID, because).await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> Ended {
    let wanted = request(check, "nomad-csi-check-no-such-volume");
    // The parameter does not exist either.
    let codes = [StatusCode::NotFound, StatusCode::InvalidArgument];
    check
        .refused(wanted, &codes, "there is no such volume")
        .await;
    Ok(())
}

async fn create(check: &mut Check<'_>) -> Ended {
    let mut wanted = check.create_request();
    wanted.mutable_parameters = no_such();
    let because = "no volume has such a mutable parameter";
    check.refused(wanted, INVALID, because).await;
    Ok(())
}

fn good(check: &Check<'_>, volume_id: &str) -> ControllerModifyVolumeRequest {
    ControllerModifyVolumeRequest {
        mutable_parameters: check.setup().mutable.clone(),
        ..request(check, volume_id)
    }
}

/// Good values, the same again, and good ones with one that does not exist.
async fn modified(check: &mut Check<'_>, id: &str) -> Ended {
    let wanted = good(check, id);
    let because = "the volume exists and the parameters are ones that the plugin knows";
    check.must(wanted.clone(), because).await?;
    let because = "the volume has these values already";
    check.must(wanted.clone(), because).await?;
    let mut mixed = wanted;
    mixed.mutable_parameters.extend(no_such());
    let because = "one of the parameters does not exist";
    check.refused(mixed, INVALID, because).await;
    Ok(())
}

async fn volume(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    modified(check, &volume.volume_id).await
}

async fn create_with(check: &mut Check<'_>) -> Ended {
    let mut wanted = check.create_request();
    wanted.mutable_parameters = check.setup().mutable.clone();
    let because = "the parameters are ones that the plugin knows";
    let created = check.must(wanted, because).await?;
    let volume = created.volume.unwrap_or_default();
    modified(check, &volume.volume_id).await
}
