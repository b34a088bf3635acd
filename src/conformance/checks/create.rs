//! Checks of CreateVolume: its arguments, one volume per name, sizes, topologies.

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use crate::finding::Level;
use crate::validity;
use nomad_csi_csi::CallFailure;
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::{
    CapacityRange, CreateVolumeRequest, CreateVolumeResponse, Topology, TopologyRequirement,
    ValidateVolumeCapabilitiesRequest, Volume, VolumeCapability,
};

use super::requests::{at_least, block, exactly};

const NEEDS: &[Need] = &[Need::ControllerCapability(ControllerRpc::CreateDeleteVolume)];
const NEEDS_TOPOLOGY: &[Need] =
    &[Need::ControllerCapability(ControllerRpc::CreateDeleteVolume), Need::Topology];

pub(crate) const CASES: &[Case] = &[
    case!(
        Create,
        "create/no-name",
        "CreateVolume without a name is refused",
        "CreateVolume",
        NEEDS,
        Creates,
        no_name
    ),
    case!(
        Create,
        "create/no-capabilities",
        "CreateVolume without capabilities is refused",
        "CreateVolume",
        NEEDS,
        Creates,
        no_capabilities
    ),
    case!(
        Create,
        "create/half-a-capability",
        "CreateVolume refuses a capability without an access mode or without an access type",
        "VolumeCapability",
        NEEDS,
        Creates,
        half_a_capability
    ),
    case!(
        Create,
        "create/volume",
        "CreateVolume creates the requested volume and returns a valid description of it",
        "CreateVolume",
        NEEDS,
        Creates,
        volume
    ),
    case!(
        Create,
        "create/no-size",
        "CreateVolume works without a capacity range",
        "CreateVolume",
        NEEDS,
        Creates,
        no_size
    ),
    case!(
        Create,
        "create/same-again",
        "A repeated CreateVolume call returns the same volume",
        "CreateVolume",
        NEEDS,
        Creates,
        same_again
    ),
    case!(
        Create,
        "create/longest-name",
        "CreateVolume accepts a name of 128 bytes",
        "Size Limits",
        NEEDS,
        Creates,
        longest_name
    ),
    case!(
        Create,
        "create/any-name",
        "CreateVolume accepts any Unicode name, including slashes and quotes",
        "CreateVolume",
        NEEDS,
        Creates,
        any_name
    ),
    case!(
        Create,
        "create/exact-size",
        "CreateVolume returns the exact size if required_bytes equals limit_bytes",
        "CapacityRange",
        NEEDS,
        Creates,
        exact_size
    ),
    case!(
        Create,
        "create/impossible-size",
        "CreateVolume refuses contradictory and negative sizes",
        "CapacityRange",
        NEEDS,
        Creates,
        impossible_size
    ),
    case!(
        Create,
        "create/endless-size",
        "CreateVolume refuses a size of 8 EiB",
        "CapacityRange",
        NEEDS,
        Creates,
        endless_size
    ),
    case!(
        Create,
        "create/other-size",
        "CreateVolume with an existing name and another size is refused",
        "CreateVolume Errors",
        NEEDS,
        Creates,
        other_size
    ),
    case!(
        Create,
        "create/other-parameters",
        "CreateVolume with an existing name and other parameters is refused",
        "CreateVolume Errors",
        NEEDS,
        Creates,
        other_parameters
    ),
    case!(
        Create,
        "create/other-capability",
        "CreateVolume with an existing name and a capability that the volume lacks is refused",
        "CreateVolume Errors",
        NEEDS,
        Creates,
        other_capability
    ),
    case!(
        Create,
        "create/place",
        "CreateVolume creates a volume in the requisite topology and reports its topology",
        "TopologyRequirement",
        NEEDS_TOPOLOGY,
        Creates,
        topology
    ),
    case!(
        Create,
        "create/no-place",
        "CreateVolume refuses a requisite topology that does not exist",
        "TopologyRequirement",
        NEEDS_TOPOLOGY,
        Creates,
        unknown_topology
    ),
];

async fn no_name(check: &mut Check<'_>) -> CheckResult {
    let mut request = check.create_request();
    request.name.clear();
    let codes = [StatusCode::InvalidArgument];
    check.call_refused(request, &codes, "name is required").await;
    Ok(())
}

async fn no_capabilities(check: &mut Check<'_>) -> CheckResult {
    let mut request = check.create_request();
    request.volume_capabilities.clear();
    let because = "at least one capability is required";
    let codes = [StatusCode::InvalidArgument];
    check.call_refused(request, &codes, because).await;
    Ok(())
}

async fn half_a_capability(check: &mut Check<'_>) -> CheckResult {
    let codes = [StatusCode::InvalidArgument];
    let mut request = check.create_request();
    let whole = request.volume_capabilities.clone();
    let without_mode =
        |one: &VolumeCapability| VolumeCapability { access_mode: None, ..one.clone() };
    request.volume_capabilities = whole.iter().map(without_mode).collect();
    let because = "access_mode is required";
    check.call_refused(request, &codes, because).await;
    let mut request = check.create_request();
    let without_type = |one: &VolumeCapability| VolumeCapability { access_type: None, ..*one };
    request.volume_capabilities = whole.iter().map(without_type).collect();
    let because = "access_type is required: block or mount";
    check.call_refused(request, &codes, because).await;
    Ok(())
}

/// Records what is wrong with a response to `request`, and returns the volume.
///
/// # Errors
/// Fails if the response has no volume.
pub(super) fn check_volume(
    check: &mut Check<'_>,
    request: &CreateVolumeRequest,
    response: CreateVolumeResponse,
) -> Result<Volume, StopReason> {
    let Some(volume) = response.volume else {
        check.add_finding(Level::Must, "volume is set", "not set");
        return Err(StopReason::FindingRecorded);
    };
    let has_topology = check.has_topology();
    check.add_problems(validity::volume(&volume, has_topology));
    if let Some(range) = &request.capacity_range {
        check.add_problems(validity::capacity(volume.capacity_bytes, range));
    }
    let desired = request.volume_content_source.as_ref();
    let got = volume.content_source.as_ref();
    if got.is_some() && got != desired {
        let rule = "content_source equals the requested source";
        check.add_finding(Level::Must, rule, &format!("{got:?}"));
    } else if got.is_none() && desired.is_some() {
        let rule = "content_source is set for a volume created from a source";
        check.add_finding(Level::Must, rule, "not set");
    }
    if volume.volume_id.is_empty() {
        return Err(StopReason::FindingRecorded);
    }
    Ok(volume)
}

async fn volume(check: &mut Check<'_>) -> CheckResult {
    let request = check.create_request();
    let because = "the request has all required fields";
    let response = check.call_ok(request.clone(), because).await?;
    check_volume(check, &request, response)?;
    Ok(())
}

async fn no_size(check: &mut Check<'_>) -> CheckResult {
    let mut request = check.create_request();
    request.capacity_range = None;
    let because = "capacity_range is optional; without it the plugin chooses the size";
    let response = check.call_ok(request.clone(), because).await?;
    check_volume(check, &request, response)?;
    Ok(())
}

async fn same_again(check: &mut Check<'_>) -> CheckResult {
    let request = check.create_request();
    let first = check.create_volume(request.clone()).await?;
    let because = "a volume of that name with the same arguments already exists";
    let second = check.call_ok(request.clone(), because).await?;
    let second = check_volume(check, &request, second)?;
    let rule = "volume_id is the same: one name never yields two volumes";
    check.expect(
        first.volume_id == second.volume_id,
        rule,
        &format!("{} and {}", first.volume_id, second.volume_id),
    );
    let rule = "volume_context of a volume never changes";
    let same = first.volume_context == second.volume_context;
    check.expect(same, rule, &format!("{:?}", second.volume_context));
    Ok(())
}

async fn longest_name(check: &mut Check<'_>) -> CheckResult {
    let mut request = check.create_request();
    let missing = 128_usize.saturating_sub(request.name.len());
    request.name += &"n".repeat(missing);
    let because = "a string field accepts 128 bytes";
    let response = check.call_ok(request.clone(), because).await?;
    check_volume(check, &request, response)?;
    Ok(())
}

async fn any_name(check: &mut Check<'_>) -> CheckResult {
    for text in ["/../a b", " \"ü日本\" 🦀 $(true) %n\ttab"] {
        let mut request = check.create_request();
        request.name += text;
        let because =
            "a name may contain any Unicode character except the banned control characters";
        let response = check.call_ok(request.clone(), because).await?;
        check_volume(check, &request, response)?;
    }
    Ok(())
}

async fn exact_size(check: &mut Check<'_>) -> CheckResult {
    let mut request = check.create_request();
    request.capacity_range = Some(exactly(check.options().size));
    match check.call(request.clone()).await {
        Ok(response) => drop(check_volume(check, &request, response)?),
        Err(failure) if failure.code() == Some(StatusCode::OutOfRange) => {
            let why = "the plugin cannot create a volume of exactly this size: give another one with `--size`";
            return Err(StopReason::NotApplicable(why.to_owned()));
        }
        Err(failure) => {
            let rule = "OK, or OUT_OF_RANGE if no volume can have exactly this size";
            check.add_finding(Level::Must, rule, &failure.to_string());
        }
    }
    Ok(())
}

async fn impossible_size(check: &mut Check<'_>) -> CheckResult {
    let size = check.options().size;
    for (required, limit, because) in [
        (size, size - 1, "limit_bytes is below required_bytes"),
        (-size, 0, "required_bytes is negative"),
        (0, -size, "limit_bytes is negative"),
    ] {
        let mut request = check.create_request();
        request.capacity_range =
            Some(CapacityRange { required_bytes: required, limit_bytes: limit });
        let codes = [StatusCode::InvalidArgument, StatusCode::OutOfRange];
        check.call_refused(request, &codes, because).await;
    }
    Ok(())
}

async fn endless_size(check: &mut Check<'_>) -> CheckResult {
    let mut request = check.create_request();
    request.capacity_range = Some(at_least(i64::MAX));
    let codes = [StatusCode::OutOfRange, StatusCode::ResourceExhausted];
    let response = check.call(request).await;
    match response {
        Ok(CreateVolumeResponse { volume: Some(Volume { capacity_bytes: 0, .. }) }) => {
            let rule = "OUT_OF_RANGE or RESOURCE_EXHAUSTED: the volume has at least required_bytes";
            check.add_finding(Level::Advice, rule, "OK, with a volume of unknown size");
        }
        response => check.expect_refusal(&response, &codes, "no storage provides 8 EiB"),
    }
    Ok(())
}

async fn other_size(check: &mut Check<'_>) -> CheckResult {
    let size = check.options().size;
    let mut request = check.create_request();
    request.capacity_range = Some(exactly(size));
    let volume = check.create_volume(request.clone()).await?;
    if volume.capacity_bytes == 0 {
        let why = "the plugin does not report the size of its volumes";
        return Err(StopReason::NotApplicable(why.to_owned()));
    }
    request.capacity_range = Some(exactly(size.saturating_mul(2)));
    let because = "the existing volume of that name has another size";
    expect_name_taken(check, request, &volume, because, &[StatusCode::AlreadyExists]).await;
    Ok(())
}

/// Sends a request with the name of `volume` and other arguments, which the plugin must refuse.
pub(super) async fn expect_name_taken(
    check: &mut Check<'_>,
    request: CreateVolumeRequest,
    volume: &Volume,
    because: &str,
    codes: &[StatusCode],
) {
    let response = check.call(request).await;
    check.expect_refusal(&response, codes, because);
    let Ok(CreateVolumeResponse { volume: Some(other) }) = response else {
        return;
    };
    if other.volume_id != volume.volume_id {
        let rule = "one name never yields two volumes";
        let got = format!("{} and {}", volume.volume_id, other.volume_id);
        check.add_finding(Level::Must, rule, &got);
    }
}

/// Only a parameter of our own has two values that are certain to differ. A plugin that refuses
/// unknown parameters is right, so the check does not apply to it.
async fn other_parameters(check: &mut Check<'_>) -> CheckResult {
    const KEY: &str = "nomad-csi-check";
    let mut request = check.create_request();
    request.parameters.insert(KEY.to_owned(), "one".to_owned());
    let response = check.call(request.clone()).await;
    let volume = match response {
        Ok(response) => {
            request.parameters.insert(KEY.to_owned(), "two".to_owned());
            response.volume.unwrap_or_default()
        }
        Err(CallFailure { .. }) if check.options().parameters.is_empty() => {
            let why = "the plugin refuses unknown parameters, and `--parameters` is not given";
            return Err(StopReason::NotApplicable(why.to_owned()));
        }
        Err(CallFailure { .. }) => {
            request.parameters.remove(KEY);
            let volume = check.create_volume(request.clone()).await?;
            request.parameters.clear();
            volume
        }
    };
    let because = "the existing volume of that name has other parameters";
    let codes = [StatusCode::AlreadyExists, StatusCode::InvalidArgument];
    expect_name_taken(check, request, &volume, because, &codes).await;
    Ok(())
}

/// A volume may have more capabilities than requested, so OK is right if the plugin confirms the
/// other capability too.
async fn other_capability(check: &mut Check<'_>) -> CheckResult {
    let mut request = check.create_request();
    let volume = check.create_volume(request.clone()).await?;
    let other = vec![block(Mode::SingleNodeWriter)];
    request.volume_capabilities.clone_from(&other);
    let response = check.call(request).await;
    let codes = [StatusCode::AlreadyExists, StatusCode::InvalidArgument];
    if response.is_err() {
        check.expect_refusal(
            &response,
            &codes,
            "the existing volume of that name is a file system",
        );
        return Ok(());
    }
    let response = check.exchanges.last().map(|one| one.got.clone());
    let validate = ValidateVolumeCapabilitiesRequest {
        volume_id: volume.volume_id,
        volume_context: volume.volume_context,
        volume_capabilities: other,
        secrets: check.secrets(),
        ..Default::default()
    };
    let confirmed = check.call(validate).await.ok().and_then(|it| it.confirmed);
    let rule = "ALREADY_EXISTS, or a volume that ValidateVolumeCapabilities confirms as a block device too";
    check.expect(confirmed.is_some(), rule, &response.unwrap_or_default());
    Ok(())
}

async fn topology(check: &mut Check<'_>) -> CheckResult {
    let request = check.create_request();
    let node = check.node_topology().unwrap_or_default();
    let because = "the requisite topology is that of the plugin's node";
    let response = check.call_ok(request.clone(), because).await?;
    let volume = check_volume(check, &request, response)?;
    let includes_node = |topology: &Topology| {
        let fits = |(key, value): (&String, &String)| node.segments.get(key) == Some(value);
        topology.segments.iter().all(fits)
    };
    let topologies = &volume.accessible_topology;
    if topologies.is_empty() {
        let rule =
            "accessible_topology is set if the plugin advertises VOLUME_ACCESSIBILITY_CONSTRAINTS";
        check.add_finding(Level::Advice, rule, "not set, which means accessible from every node");
    } else if !topologies.iter().any(includes_node) {
        let rule = "accessible_topology includes the requisite topology";
        check.add_finding(Level::Must, rule, &format!("{topologies:?}"));
    }
    Ok(())
}

async fn unknown_topology(check: &mut Check<'_>) -> CheckResult {
    let mut request = check.create_request();
    let unknown = Topology {
        segments: check
            .node_topology()
            .unwrap_or_default()
            .segments
            .into_keys()
            .map(|key| (key, "nomad-csi-check-nowhere".to_owned()))
            .collect(),
    };
    request.accessibility_requirements =
        Some(TopologyRequirement { requisite: vec![unknown], preferred: vec![] });
    let codes =
        [StatusCode::ResourceExhausted, StatusCode::InvalidArgument, StatusCode::OutOfRange];
    let because = "the only requisite topology does not exist";
    check.call_refused(request, &codes, because).await;
    Ok(())
}
