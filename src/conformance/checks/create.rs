//! CreateVolume (CSI section "CreateVolume"): its arguments, one volume per name, sizes, places.

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::conformance::report::Level;
use crate::conformance::sound;
use crate::csi::Failure;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::{
    CapacityRange, CreateVolumeRequest, CreateVolumeResponse, Topology, TopologyRequirement,
    ValidateVolumeCapabilitiesRequest, Volume, VolumeCapability,
};
use crate::ports::StatusCode;

use super::requests::{at_least, block, exactly};

const NEEDS: &[Need] = &[Need::Can(ControllerRpc::CreateDeleteVolume)];
const WITH_PLACES: &[Need] = &[Need::Can(ControllerRpc::CreateDeleteVolume), Need::Topology];

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Create,
        "create/no-name",
        "A volume without a name is refused",
        "CreateVolume",
        NEEDS,
        Creates,
        no_name
    ),
    case!(
        Create,
        "create/no-capabilities",
        "A volume without capabilities is refused",
        "CreateVolume",
        NEEDS,
        Creates,
        no_capabilities
    ),
    case!(
        Create,
        "create/half-a-capability",
        "A capability without its access mode, or without its type, is refused",
        "VolumeCapability",
        NEEDS,
        Creates,
        half_a_capability
    ),
    case!(
        Create,
        "create/volume",
        "A volume is created as asked for and described as the specification wants",
        "CreateVolume",
        NEEDS,
        Creates,
        volume
    ),
    case!(
        Create,
        "create/no-size",
        "A volume can be created without saying how large it should be",
        "CreateVolume",
        NEEDS,
        Creates,
        no_size
    ),
    case!(
        Create,
        "create/same-again",
        "The same request again gives the same volume",
        "CreateVolume",
        NEEDS,
        Creates,
        same_again
    ),
    case!(
        Create,
        "create/longest-name",
        "A name of 128 bytes is accepted",
        "Size Limits",
        NEEDS,
        Creates,
        longest_name
    ),
    case!(
        Create,
        "create/any-name",
        "Any Unicode text is accepted as a name, slashes and quotes too",
        "CreateVolume",
        NEEDS,
        Creates,
        any_name
    ),
    case!(
        Create,
        "create/exact-size",
        "A volume has exactly the size that is its least and its greatest",
        "CapacityRange",
        NEEDS,
        Creates,
        exact_size
    ),
    case!(
        Create,
        "create/impossible-size",
        "Sizes that contradict each other, or are negative, are refused",
        "CapacityRange",
        NEEDS,
        Creates,
        impossible_size
    ),
    case!(
        Create,
        "create/endless-size",
        "A volume of 8 EiB is refused",
        "CapacityRange",
        NEEDS,
        Creates,
        endless_size
    ),
    case!(
        Create,
        "create/other-size",
        "A taken name with another size is refused",
        "CreateVolume Errors",
        NEEDS,
        Creates,
        other_size
    ),
    case!(
        Create,
        "create/other-parameters",
        "A taken name with other parameters is refused",
        "CreateVolume Errors",
        NEEDS,
        Creates,
        other_parameters
    ),
    case!(
        Create,
        "create/other-capability",
        "A taken name with a capability that the volume does not have is refused",
        "CreateVolume Errors",
        NEEDS,
        Creates,
        other_capability
    ),
    case!(
        Create,
        "create/place",
        "A volume is made where it is required, and says where it is",
        "TopologyRequirement",
        WITH_PLACES,
        Creates,
        place
    ),
    case!(
        Create,
        "create/no-place",
        "A volume that is required where it cannot be is refused",
        "TopologyRequirement",
        WITH_PLACES,
        Creates,
        no_place
    ),
];

async fn no_name(check: &mut Check<'_>) -> Ended {
    let mut request = check.create_request();
    request.name.clear();
    let codes = [StatusCode::InvalidArgument];
    check.refused(request, &codes, "name is required").await;
    Ok(())
}

async fn no_capabilities(check: &mut Check<'_>) -> Ended {
    let mut request = check.create_request();
    request.volume_capabilities.clear();
    let because = "at least one capability is required";
    let codes = [StatusCode::InvalidArgument];
    check.refused(request, &codes, because).await;
    Ok(())
}

async fn half_a_capability(check: &mut Check<'_>) -> Ended {
    let codes = [StatusCode::InvalidArgument];
    let mut request = check.create_request();
    let whole = request.volume_capabilities.clone();
    let without_mode = |one: &VolumeCapability| VolumeCapability {
        access_mode: None,
        ..one.clone()
    };
    request.volume_capabilities = whole.iter().map(without_mode).collect();
    let because = "access_mode is required";
    check.refused(request, &codes, because).await;
    let mut request = check.create_request();
    let without_type = |one: &VolumeCapability| VolumeCapability {
        access_type: None,
        ..*one
    };
    request.volume_capabilities = whole.iter().map(without_type).collect();
    let because = "a capability is either block or mount";
    check.refused(request, &codes, because).await;
    Ok(())
}

/// Writes down what is wrong with an answer to `request`, and gives the volume.
///
/// # Errors
/// If there is no volume.
pub(super) fn inspect(
    check: &mut Check<'_>,
    request: &CreateVolumeRequest,
    answer: CreateVolumeResponse,
) -> Result<Volume, Stop> {
    let Some(volume) = answer.volume else {
        check.find(Level::Must, "volume is set", "not set");
        return Err(Stop::Found);
    };
    let has_topology = check.has_topology();
    check.problems(sound::volume(&volume, has_topology));
    if let Some(range) = &request.capacity_range {
        check.problems(sound::capacity(volume.capacity_bytes, range));
    }
    let wanted = request.volume_content_source.as_ref();
    let got = volume.content_source.as_ref();
    if got.is_some() && got != wanted {
        let rule = "content_source is the source that was asked for";
        check.find(Level::Must, rule, &format!("{got:?}"));
    } else if got.is_none() && wanted.is_some() {
        let rule = "content_source says what the volume was filled from";
        check.find(Level::Must, rule, "not set");
    }
    if volume.volume_id.is_empty() {
        return Err(Stop::Found);
    }
    Ok(volume)
}

async fn volume(check: &mut Check<'_>) -> Ended {
    let request = check.create_request();
    let because = "the request has all that is required";
    let answer = check.must(request.clone(), because).await?;
    inspect(check, &request, answer)?;
    Ok(())
}

async fn no_size(check: &mut Check<'_>) -> Ended {
    let mut request = check.create_request();
    request.capacity_range = None;
    let because = "capacity_range is optional, the plugin chooses then";
    let answer = check.must(request.clone(), because).await?;
    inspect(check, &request, answer)?;
    Ok(())
}

async fn same_again(check: &mut Check<'_>) -> Ended {
    let request = check.create_request();
    let first = check.volume_of(request.clone()).await?;
    let because = "the volume of that name is as asked for";
    let second = check.must(request.clone(), because).await?;
    let second = inspect(check, &request, second)?;
    let rule = "one name never stands for two volumes: the same volume_id";
    check.hold(
        first.volume_id == second.volume_id,
        rule,
        &format!("{} and {}", first.volume_id, second.volume_id),
    );
    let rule = "volume_context is always the same for a volume";
    let same = first.volume_context == second.volume_context;
    check.hold(same, rule, &format!("{:?}", second.volume_context));
    Ok(())
}

async fn longest_name(check: &mut Check<'_>) -> Ended {
    let mut request = check.create_request();
    let missing = 128_usize.saturating_sub(request.name.len());
    request.name += &"n".repeat(missing);
    let because = "a text may have 128 bytes";
    let answer = check.must(request.clone(), because).await?;
    inspect(check, &request, answer)?;
    Ok(())
}

async fn any_name(check: &mut Check<'_>) -> Ended {
    for text in ["/../a b", " \"ü日本\" 🦀 $(true) %n\ttab"] {
        let mut request = check.create_request();
        request.name += text;
        let because =
            "a name is any Unicode text without control characters, and only a suggestion";
        let answer = check.must(request.clone(), because).await?;
        inspect(check, &request, answer)?;
    }
    Ok(())
}

async fn exact_size(check: &mut Check<'_>) -> Ended {
    let mut request = check.create_request();
    request.capacity_range = Some(exactly(check.setup().size));
    match check.call(request.clone()).await {
        Ok(answer) => drop(inspect(check, &request, answer)?),
        Err(failure) if failure.code() == Some(StatusCode::OutOfRange) => {
            let why = "the plugin makes no volume of exactly that size: give another with `--size`";
            return Err(Stop::NotDemanded(why.to_owned()));
        }
        Err(failure) => {
            let rule = "OK, or OUT_OF_RANGE if no volume can have exactly that size";
            check.find(Level::Must, rule, &failure.to_string());
        }
    }
    Ok(())
}

async fn impossible_size(check: &mut Check<'_>) -> Ended {
    let size = check.setup().size;
    for (required, limit, because) in [
        (size, size - 1, "limit_bytes is below required_bytes"),
        (-size, 0, "required_bytes is negative"),
        (0, -size, "limit_bytes is negative"),
    ] {
        let mut request = check.create_request();
        request.capacity_range = Some(CapacityRange {
            required_bytes: required,
            limit_bytes: limit,
        });
        let codes = [StatusCode::InvalidArgument, StatusCode::OutOfRange];
        check.refused(request, &codes, because).await;
    }
    Ok(())
}

async fn endless_size(check: &mut Check<'_>) -> Ended {
    let mut request = check.create_request();
    request.capacity_range = Some(at_least(i64::MAX));
    let codes = [StatusCode::OutOfRange, StatusCode::ResourceExhausted];
    let answer = check.call(request).await;
    match answer {
        Ok(CreateVolumeResponse {
            volume: Some(Volume {
                capacity_bytes: 0, ..
            }),
        }) => {
            let rule = "OUT_OF_RANGE or RESOURCE_EXHAUSTED: a size that is required has to be had";
            check.find(Level::Advice, rule, "OK, with a volume of unknown size");
        }
        answer => check.hold_refused(&answer, &codes, "no storage has 8 EiB"),
    }
    Ok(())
}

async fn other_size(check: &mut Check<'_>) -> Ended {
    let size = check.setup().size;
    let mut request = check.create_request();
    request.capacity_range = Some(exactly(size));
    let volume = check.volume_of(request.clone()).await?;
    if volume.capacity_bytes == 0 {
        let why = "the plugin does not say how large its volumes are";
        return Err(Stop::NotDemanded(why.to_owned()));
    }
    request.capacity_range = Some(exactly(size.saturating_mul(2)));
    let because = "the volume of that name has another size";
    taken(
        check,
        request,
        &volume,
        because,
        &[StatusCode::AlreadyExists],
    )
    .await;
    Ok(())
}

/// Sends a request whose name belongs to `volume`, which is not as the request wants it.
pub(super) async fn taken(
    check: &mut Check<'_>,
    request: CreateVolumeRequest,
    volume: &Volume,
    because: &str,
    codes: &[StatusCode],
) {
    let answer = check.call(request).await;
    check.hold_refused(&answer, codes, because);
    let Ok(CreateVolumeResponse {
        volume: Some(other),
    }) = answer
    else {
        return;
    };
    if other.volume_id != volume.volume_id {
        let rule = "one name never stands for two volumes";
        let got = format!("{} and {}", volume.volume_id, other.volume_id);
        check.find(Level::Must, rule, &got);
    }
}

/// The only parameter whose values are known here to be different is one of our own; a plugin that
/// refuses parameters which it does not know is right, and cannot be asked this.
async fn other_parameters(check: &mut Check<'_>) -> Ended {
    const KEY: &str = "nomad-csi-check";
    let mut request = check.create_request();
    request.parameters.insert(KEY.to_owned(), "one".to_owned());
    let answer = check.call(request.clone()).await;
    let volume = match answer {
        Ok(answer) => {
            request.parameters.insert(KEY.to_owned(), "two".to_owned());
            answer.volume.unwrap_or_default()
        }
        Err(Failure { .. }) if check.setup().parameters.is_empty() => {
            let why = "the plugin refuses parameters that it does not know, and none are given with `--parameters`";
            return Err(Stop::NotDemanded(why.to_owned()));
        }
        Err(Failure { .. }) => {
            request.parameters.remove(KEY);
            let volume = check.volume_of(request.clone()).await?;
            request.parameters.clear();
            volume
        }
    };
    let because = "the volume of that name has other parameters";
    let codes = [StatusCode::AlreadyExists, StatusCode::InvalidArgument];
    taken(check, request, &volume, because, &codes).await;
    Ok(())
}

/// A volume may have more capabilities than were asked for, so an answer of OK is right if the
/// plugin confirms the other one too.
async fn other_capability(check: &mut Check<'_>) -> Ended {
    let mut request = check.create_request();
    let volume = check.volume_of(request.clone()).await?;
    let other = vec![block(Mode::SingleNodeWriter)];
    request.volume_capabilities.clone_from(&other);
    let answer = check.call(request).await;
    let codes = [StatusCode::AlreadyExists, StatusCode::InvalidArgument];
    if answer.is_err() {
        check.hold_refused(&answer, &codes, "the volume of that name is a file system");
        return Ok(());
    }
    let taken_as = check.exchanges.last().map(|one| one.got.clone());
    let validate = ValidateVolumeCapabilitiesRequest {
        volume_id: volume.volume_id,
        volume_context: volume.volume_context,
        volume_capabilities: other,
        secrets: check.secrets(),
        ..Default::default()
    };
    let confirmed = check.call(validate).await.ok().and_then(|it| it.confirmed);
    let rule = "ALREADY_EXISTS, or a volume that is confirmed to be a block device as well";
    check.hold(confirmed.is_some(), rule, &taken_as.unwrap_or_default());
    Ok(())
}

async fn place(check: &mut Check<'_>) -> Ended {
    let request = check.create_request();
    let here = check.place().unwrap_or_default();
    let because = "the volume is required where the plugin's node is";
    let answer = check.must(request.clone(), because).await?;
    let volume = inspect(check, &request, answer)?;
    let at_node = |place: &Topology| {
        let fits = |(key, value): (&String, &String)| here.segments.get(key) == Some(value);
        place.segments.iter().all(fits)
    };
    let places = &volume.accessible_topology;
    if places.is_empty() {
        let rule = "accessible_topology says where the volume can be used";
        check.find(Level::Advice, rule, "not set: from everywhere");
    } else if !places.iter().any(at_node) {
        let rule = "the volume can be used where it was required";
        check.find(Level::Must, rule, &format!("{places:?}"));
    }
    Ok(())
}

async fn no_place(check: &mut Check<'_>) -> Ended {
    let mut request = check.create_request();
    let nowhere = Topology {
        segments: check
            .place()
            .unwrap_or_default()
            .segments
            .into_keys()
            .map(|key| (key, "nomad-csi-check-nowhere".to_owned()))
            .collect(),
    };
    request.accessibility_requirements = Some(TopologyRequirement {
        requisite: vec![nowhere],
        preferred: vec![],
    });
    let codes = [
        StatusCode::ResourceExhausted,
        StatusCode::InvalidArgument,
        StatusCode::OutOfRange,
    ];
    let because = "the only place that is allowed does not exist";
    check.refused(request, &codes, because).await;
    Ok(())
}
