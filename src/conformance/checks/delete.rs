//! Checks of DeleteVolume. `attach` and `node` check that it refuses a volume in use.

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::Check;
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;

const NEEDS: &[Need] = &[Need::ControllerCapability(ControllerRpc::CreateDeleteVolume)];
const SECTION: &str = "DeleteVolume";

pub(crate) const CASES: &[Case] = &[
    case!(
        Delete,
        "delete/no-id",
        "DeleteVolume without a volume ID is refused",
        SECTION,
        NEEDS,
        Creates,
        no_id
    ),
    case!(
        Delete,
        "delete/unknown",
        "DeleteVolume of an unknown volume succeeds",
        SECTION,
        NEEDS,
        Creates,
        unknown
    ),
    case!(
        Delete,
        "delete/twice",
        "DeleteVolume succeeds, and succeeds again when the volume is gone",
        SECTION,
        NEEDS,
        Creates,
        twice
    ),
    case!(
        Delete,
        "delete/frees-name",
        "CreateVolume accepts the name of a deleted volume for a new volume",
        SECTION,
        NEEDS,
        Creates,
        frees_name
    ),
];

async fn no_id(check: &mut Check<'_>) -> CheckResult {
    let request = check.delete_request("");
    let codes = [StatusCode::InvalidArgument];
    check.call_refused(request, &codes, "volume_id is required").await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> CheckResult {
    let request = check.delete_request("nomad-csi-check-no-such-volume");
    check.call_ok(request, "a volume that does not exist counts as deleted").await?;
    Ok(())
}

async fn twice(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let request = check.delete_request(&volume.volume_id);
    check.call_ok(request.clone(), "the volume is not in use").await?;
    check.call_ok(request, "the volume is already deleted").await?;
    Ok(())
}

async fn frees_name(check: &mut Check<'_>) -> CheckResult {
    let request = check.create_request();
    let first = check.create_volume(request.clone()).await?;
    let delete = check.delete_request(&first.volume_id);
    check.call_ok(delete, "the volume is not in use").await?;
    let because = "the volume of that name is deleted";
    let second = check.call_ok(request, because).await?.volume.unwrap_or_default();
    let same = second.volume_id == first.volume_id;
    // An ID derived from the name is legal, but misleads orchestrators that remember the old volume.
    let rule = "volume_id differs from that of the deleted volume";
    check.advise(!same, rule, &second.volume_id);
    Ok(())
}
