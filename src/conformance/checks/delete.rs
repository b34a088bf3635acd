//! DeleteVolume (CSI section "DeleteVolume"). That a volume in use is not deleted is checked where
//! volumes are used.

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::Check;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::ports::StatusCode;

const NEEDS: &[Need] = &[Need::Can(ControllerRpc::CreateDeleteVolume)];
const SECTION: &str = "DeleteVolume";

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Delete,
        "delete/no-id",
        "A deletion without a volume ID is refused",
        SECTION,
        NEEDS,
        Creates,
        no_id
    ),
    case!(
        Delete,
        "delete/unknown",
        "Deleting a volume that does not exist succeeds",
        SECTION,
        NEEDS,
        Creates,
        unknown
    ),
    case!(
        Delete,
        "delete/twice",
        "Deleting a volume succeeds, and again when it is gone",
        SECTION,
        NEEDS,
        Creates,
        twice
    ),
    case!(
        Delete,
        "delete/frees-name",
        "The name of a deleted volume can be used again, for another volume",
        SECTION,
        NEEDS,
        Creates,
        frees_name
    ),
];

async fn no_id(check: &mut Check<'_>) -> Ended {
    let request = check.delete_request("");
    let codes = [StatusCode::InvalidArgument];
    check
        .refused(request, &codes, "volume_id is required")
        .await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> Ended {
    let request = check.delete_request("nomad-csi-check-no-such-volume");
    check
        .must(request, "what is not there is deleted already")
        .await?;
    Ok(())
}

async fn twice(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let request = check.delete_request(&volume.volume_id);
    check
        .must(request.clone(), "the volume is not in use")
        .await?;
    check
        .must(request, "a repeated deletion finds the volume gone")
        .await?;
    Ok(())
}

async fn frees_name(check: &mut Check<'_>) -> Ended {
    let request = check.create_request();
    let first = check.volume_of(request.clone()).await?;
    let delete = check.delete_request(&first.volume_id);
    check.must(delete, "the volume is not in use").await?;
    let because = "no volume has that name any more";
    let second = check
        .must(request, because)
        .await?
        .volume
        .unwrap_or_default();
    let same = second.volume_id == first.volume_id;
    // An ID made of the name is legal; orchestrators that remember the old volume are not helped.
    let rule = "an ID that no deleted volume had";
    check.advise(!same, rule, &second.volume_id);
    Ok(())
}
