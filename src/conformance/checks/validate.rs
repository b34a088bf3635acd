//! ValidateVolumeCapabilities (CSI section "ValidateVolumeCapabilities"), mandatory for controllers.

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::Check;
use crate::conformance::report::Level;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::validate_volume_capabilities_response::Confirmed;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::volume_capability::{AccessType, MountVolume};
use crate::csi::proto::{ValidateVolumeCapabilitiesRequest, Volume, VolumeCapability};
use crate::ports::StatusCode;

use super::requests::{INVALID, NOT_FOUND, mount};

const ASKS: &[Need] = &[Need::Controller];
const NEEDS: &[Need] = &[Need::Can(ControllerRpc::CreateDeleteVolume)];
const SECTION: &str = "ValidateVolumeCapabilities";

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Validate,
        "validate/no-id",
        "A validation without a volume ID is refused",
        SECTION,
        ASKS,
        Reads,
        no_id
    ),
    case!(
        Validate,
        "validate/unknown",
        "A validation of a volume that does not exist is refused",
        SECTION,
        ASKS,
        Reads,
        unknown
    ),
    case!(
        Validate,
        "validate/no-capabilities",
        "A validation without capabilities is refused",
        SECTION,
        NEEDS,
        Creates,
        no_capabilities
    ),
    case!(
        Validate,
        "validate/own",
        "A volume's own capability is confirmed, and echoed as it was sent",
        SECTION,
        NEEDS,
        Creates,
        own
    ),
    case!(
        Validate,
        "validate/impossible",
        "A file system that does not exist, or a context that is not the volume's, is not confirmed",
        SECTION,
        NEEDS,
        Creates,
        impossible
    ),
];

fn of(check: &Check<'_>, volume: &Volume) -> ValidateVolumeCapabilitiesRequest {
    ValidateVolumeCapabilitiesRequest {
        volume_id: volume.volume_id.clone(),
        volume_context: volume.volume_context.clone(),
        volume_capabilities: vec![mount(Mode::SingleNodeWriter)],
        parameters: check.setup().parameters.clone(),
        secrets: check.secrets(),
        ..Default::default()
    }
}

async fn no_id(check: &mut Check<'_>) -> Ended {
    let request = of(check, &Volume::default());
    check
        .refused(request, INVALID, "volume_id is required")
        .await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> Ended {
    let volume = Volume {
        volume_id: "nomad-csi-check-no-such-volume".to_owned(),
        ..Default::default()
    };
    let request = of(check, &volume);
    check
        .refused(request, NOT_FOUND, "there is no such volume")
        .await;
    Ok(())
}

async fn no_capabilities(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let mut request = of(check, &volume);
    request.volume_capabilities.clear();
    let because = "at least one capability is required";
    check.refused(request, INVALID, because).await;
    Ok(())
}

async fn own(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let request = of(check, &volume);
    let because = "the volume exists";
    let answer = check.must(request.clone(), because).await?;
    let Some(confirmed) = answer.confirmed else {
        let rule = "the capability that the volume was created with is confirmed";
        check.find(
            Level::Advice,
            rule,
            &format!("not confirmed: {}", answer.message),
        );
        return Ok(());
    };
    for (expected, holds) in echoed(&request, &confirmed) {
        check.hold(holds, expected, &format!("{confirmed:?}"));
    }
    Ok(())
}

/// What a confirmation has to say, since whatever is not echoed counts as not confirmed.
fn echoed(
    request: &ValidateVolumeCapabilitiesRequest,
    confirmed: &Confirmed,
) -> [(&'static str, bool); 3] {
    let capabilities = &confirmed.volume_capabilities;
    let asked = request.volume_capabilities.iter();
    let same_mode = |one: &VolumeCapability, other: &VolumeCapability| {
        one.access_mode == other.access_mode
            && std::mem::discriminant(&one.access_type)
                == std::mem::discriminant(&other.access_type)
    };
    let context = &confirmed.volume_context;
    let parameters = &confirmed.parameters;
    [
        (
            "confirmed.volume_capabilities lists what was asked for",
            asked
                .clone()
                .all(|one| capabilities.iter().any(|other| same_mode(one, other))),
        ),
        (
            "confirmed.volume_context is the one that was asked for, or left out",
            context.is_empty() || *context == request.volume_context,
        ),
        (
            "confirmed.parameters are those that were asked for, or left out",
            parameters.is_empty() || *parameters == request.parameters,
        ),
    ]
}

async fn impossible(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let mut request = of(check, &volume);
    request.volume_capabilities[0].access_type = Some(AccessType::Mount(MountVolume {
        fs_type: "nomad-csi-no-such-fs".to_owned(),
        ..Default::default()
    }));
    let rule = "not confirmed, or INVALID_ARGUMENT: there is no such file system";
    unconfirmed(check, request, rule).await;
    let mut request = of(check, &volume);
    let key = "nomad-csi-check".to_owned();
    request
        .volume_context
        .insert(key, "not the volume's".to_owned());
    let rule =
        "not confirmed, or INVALID_ARGUMENT: volume_context is another one than the volume has";
    unconfirmed(check, request, rule).await;
    Ok(())
}

async fn unconfirmed(
    check: &mut Check<'_>,
    request: ValidateVolumeCapabilitiesRequest,
    rule: &str,
) {
    match check.call(request).await {
        Ok(answer) => drop(check.hold(answer.confirmed.is_none(), rule, "confirmed")),
        Err(failure) => {
            let invalid = failure.code() == Some(StatusCode::InvalidArgument);
            check.hold(invalid, rule, &failure.to_string());
        }
    }
}
