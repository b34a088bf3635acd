//! Checks of ValidateVolumeCapabilities, which every controller implements.

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::Check;
use crate::finding::Level;
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::validate_volume_capabilities_response::Confirmed;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_capability::{AccessType, MountVolume};
use nomad_csi_proto::{ValidateVolumeCapabilitiesRequest, Volume, VolumeCapability};

use super::requests::{INVALID, NOT_FOUND, mount};

const NEEDS_CONTROLLER: &[Need] = &[Need::ControllerService];
const NEEDS: &[Need] = &[Need::ControllerCapability(ControllerRpc::CreateDeleteVolume)];
const SECTION: &str = "ValidateVolumeCapabilities";

pub(crate) const CASES: &[Case] = &[
    case!(
        Validate,
        "validate/no-id",
        "ValidateVolumeCapabilities without a volume ID is refused",
        SECTION,
        NEEDS_CONTROLLER,
        Reads,
        no_id
    ),
    case!(
        Validate,
        "validate/unknown",
        "ValidateVolumeCapabilities of an unknown volume fails with NOT_FOUND",
        SECTION,
        NEEDS_CONTROLLER,
        Reads,
        unknown
    ),
    case!(
        Validate,
        "validate/no-capabilities",
        "ValidateVolumeCapabilities without capabilities is refused",
        SECTION,
        NEEDS,
        Creates,
        no_capabilities
    ),
    case!(
        Validate,
        "validate/own",
        "ValidateVolumeCapabilities confirms the volume's own capability and repeats the request",
        SECTION,
        NEEDS,
        Creates,
        own
    ),
    case!(
        Validate,
        "validate/impossible",
        "ValidateVolumeCapabilities does not confirm an unknown fs_type or a wrong volume_context",
        SECTION,
        NEEDS,
        Creates,
        impossible
    ),
];

fn validate_request(check: &Check<'_>, volume: &Volume) -> ValidateVolumeCapabilitiesRequest {
    ValidateVolumeCapabilitiesRequest {
        volume_id: volume.volume_id.clone(),
        volume_context: volume.volume_context.clone(),
        volume_capabilities: vec![mount(Mode::SingleNodeWriter)],
        parameters: check.options().parameters.clone(),
        secrets: check.secrets(),
        ..Default::default()
    }
}

async fn no_id(check: &mut Check<'_>) -> CheckResult {
    let request = validate_request(check, &Volume::default());
    check.call_refused(request, INVALID, "volume_id is required").await;
    Ok(())
}

async fn unknown(check: &mut Check<'_>) -> CheckResult {
    let volume =
        Volume { volume_id: "nomad-csi-check-no-such-volume".to_owned(), ..Default::default() };
    let request = validate_request(check, &volume);
    check.call_refused(request, NOT_FOUND, "the volume does not exist").await;
    Ok(())
}

async fn no_capabilities(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let mut request = validate_request(check, &volume);
    request.volume_capabilities.clear();
    let because = "at least one capability is required";
    check.call_refused(request, INVALID, because).await;
    Ok(())
}

async fn own(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let request = validate_request(check, &volume);
    let because = "the volume exists";
    let response = check.call_ok(request.clone(), because).await?;
    let Some(confirmed) = response.confirmed else {
        let rule = "the plugin confirms the capability with which the volume was created";
        check.add_finding(Level::Advice, rule, &format!("not confirmed: {}", response.message));
        return Ok(());
    };
    for (expected, holds) in confirmation_rules(&request, &confirmed) {
        check.expect(holds, expected, &format!("{confirmed:?}"));
    }
    Ok(())
}

/// The rules for a confirmation. A field that the response does not repeat counts as unconfirmed.
fn confirmation_rules(
    request: &ValidateVolumeCapabilitiesRequest,
    confirmed: &Confirmed,
) -> [(&'static str, bool); 3] {
    let capabilities = &confirmed.volume_capabilities;
    let requested = request.volume_capabilities.iter();
    let same_mode = |one: &VolumeCapability, other: &VolumeCapability| {
        one.access_mode == other.access_mode
            && std::mem::discriminant(&one.access_type)
                == std::mem::discriminant(&other.access_type)
    };
    let context = &confirmed.volume_context;
    let parameters = &confirmed.parameters;
    [
        (
            "confirmed.volume_capabilities lists the requested capabilities",
            requested.clone().all(|one| capabilities.iter().any(|other| same_mode(one, other))),
        ),
        (
            "confirmed.volume_context equals the requested one, or is empty",
            context.is_empty() || *context == request.volume_context,
        ),
        (
            "confirmed.parameters equals the requested ones, or is empty",
            parameters.is_empty() || *parameters == request.parameters,
        ),
    ]
}

async fn impossible(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let mut request = validate_request(check, &volume);
    request.volume_capabilities[0].access_type = Some(AccessType::Mount(MountVolume {
        fs_type: "nomad-csi-no-such-fs".to_owned(),
        ..Default::default()
    }));
    let rule = "not confirmed, or INVALID_ARGUMENT: fs_type is unknown";
    expect_unconfirmed(check, request, rule).await;
    let mut request = validate_request(check, &volume);
    let key = "nomad-csi-check".to_owned();
    request.volume_context.insert(key, "not the volume's".to_owned());
    let rule = "not confirmed, or INVALID_ARGUMENT: volume_context is not that of the volume";
    expect_unconfirmed(check, request, rule).await;
    Ok(())
}

async fn expect_unconfirmed(
    check: &mut Check<'_>,
    request: ValidateVolumeCapabilitiesRequest,
    rule: &str,
) {
    match check.call(request).await {
        Ok(response) => drop(check.expect(response.confirmed.is_none(), rule, "confirmed")),
        Err(failure) => {
            let invalid = failure.code() == Some(StatusCode::InvalidArgument);
            check.expect(invalid, rule, &failure.to_string());
        }
    }
}
