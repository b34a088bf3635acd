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
