//! ListVolumes, ControllerGetVolume and GetCapacity (CSI sections of those names).
//!
//! A list that is paged while volumes come and go may miss some and show others twice ("ListVolumes"):
//! that is not held against a plugin. What is: a page above its limit, a list that never ends, and,
//! while nothing of ours changes, a volume of ours that is missing.

use std::collections::BTreeMap;

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::conformance::report::Level;
use crate::conformance::sound;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::list_volumes_response::Entry;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::{
    ControllerGetVolumeRequest, GetCapacityRequest, ListVolumesRequest, Topology,
};
use crate::ports::StatusCode;

use super::requests::{ABORTED, INVALID, NOT_FOUND, mount};

const LISTS: &[Need] = &[Need::Can(ControllerRpc::ListVolumes)];
const MADE: &[Need] = &[
    Need::Can(ControllerRpc::ListVolumes),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
const GETS: &[Need] = &[Need::Can(ControllerRpc::GetVolume)];
const GETS_MADE: &[Need] = &[
    Need::Can(ControllerRpc::GetVolume),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
const MEASURES: &[Need] = &[Need::Can(ControllerRpc::GetCapacity)];
const MEASURES_PLACES: &[Need] = &[Need::Can(ControllerRpc::GetCapacity), Need::Topology];
/// A list of more pages than this never ends.
const MOST_PAGES: usize = 2_000;

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        List,
        "list/volumes",
        "The list's volumes are described as the specification wants",
        "ListVolumes",
        LISTS,
        Reads,
        volumes
    ),
    case!(
        List,
        "list/bad-token",
        "A list that begins with a token that is none is refused with ABORTED",
        "ListVolumes Errors",
        LISTS,
        Creates,
        bad_token
    ),
    case!(
        List,
        "list/negative-limit",
        "A negative limit of entries is refused",
        "ListVolumes",
        LISTS,
        Creates,
        negative_limit
    ),
    case!(
        List,
        "list/presence",
        "A volume is in the list once it is created, and not once it is deleted",
        "ListVolumes",
        MADE,
        Creates,
        presence
    ),
    case!(
        List,
        "list/pages",
        "Pages hold their limit, end, and together show every volume",
        "ListVolumes",
        MADE,
        Creates,
        pages
    ),
    case!(
        List,
        "list/changing",
        "Paging goes on, or begins anew, when volumes come and go between pages",
        "ListVolumes",
        MADE,
        Creates,
        changing
    ),
    case!(
        List,
        "list/get",
        "A single volume is shown as it was created, with its condition where that is advertised",
        "ControllerGetVolume",
        GETS_MADE,
        Creates,
        get
    ),
    case!(
        List,
        "list/get-unknown",
        "A single volume that does not exist is NOT_FOUND",
        "ControllerGetVolume Errors",
        GETS,
        Reads,
        get_unknown
    ),
    case!(
        List,
        "list/capacity",
        "The capacity is not negative, and its least and greatest sizes fit together",
        "GetCapacity",
        MEASURES,
        Reads,
        capacity
    ),
    case!(
        List,
        "list/no-capacity",
        "There is no capacity at a place that does not exist",
        "GetCapacity",
        MEASURES_PLACES,
        Reads,
        no_capacity
    ),
];

fn page_of(max_entries: i32, starting_token: &str) -> ListVolumesRequest {
    ListVolumesRequest {
        max_entries,
        starting_token: starting_token.to_owned(),
    }
}

async fn volumes(check: &mut Check<'_>) -> Ended {
    let because = "an empty request lists all volumes";
    let answer = check.must(page_of(0, ""), because).await?;
    let has_topology = check.has_topology();
    for entry in &answer.entries {
        inspect(check, entry, has_topology);
    }
    Ok(())
}

fn inspect(check: &mut Check<'_>, entry: &Entry, has_topology: bool) {
    let Some(volume) = &entry.volume else {
        check.find(
            Level::Must,
            "every entry has a volume",
            "an entry without one",
        );
        return;
    };
    check.problems(sound::volume(volume, has_topology));
    let status = entry.status.as_ref();
    let published = ControllerRpc::ListVolumesPublishedNodes;
    if check.profile().controller_has(published) && status.is_none() {
        let rule = "status is set, since LIST_VOLUMES_PUBLISHED_NODES is advertised";
        check.find(Level::Must, rule, "not set");
    }
    let has_condition = status.is_some_and(|status| status.volume_condition.is_some());
    if check
        .profile()
        .controller_has(ControllerRpc::VolumeCondition)
        && !has_condition
    {
        let rule = "status.volume_condition is set, since VOLUME_CONDITION is advertised";
        check.find(Level::Must, rule, "not set");
    }
}

async fn bad_token(check: &mut Check<'_>) -> Ended {
    for token in [
        "nomad-csi-check",
        "\u{1f980}/../%00",
        "-1",
        "99999999999999999999",
    ] {
        let because = "the token came from no list; the caller begins anew";
        check.refused(page_of(0, token), ABORTED, because).await;
    }
    Ok(())
}

async fn negative_limit(check: &mut Check<'_>) -> Ended {
    let because = "max_entries is never negative";
    check.refused(page_of(-1, ""), INVALID, because).await;
    Ok(())
}

async fn presence(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let id = volume.volume_id;
    let counts = all(check, 0).await?;
    let rule = "a volume that was created is in the list";
    check.hold(counts.contains_key(&id), rule, &format!("{id} is missing"));
    let delete = check.delete_request(&id);
    check.prepare(delete).await?;
    let counts = all(check, 0).await?;
    let rule = "a volume that was deleted is not in the list";
    check.hold(!counts.contains_key(&id), rule, &format!("{id} is listed"));
    Ok(())
}

/// Reads the whole list in pages of `limit` entries: how often each volume was shown.
///
/// # Errors
/// If a page fails, or the list does not end; both are findings.
async fn all(check: &mut Check<'_>, limit: i32) -> Result<BTreeMap<String, usize>, Stop> {
    let mut counts = BTreeMap::new();
    let mut token = String::new();
    for _ in 0..MOST_PAGES {
        let because = "a page begins with the token of the one before";
        let page = check.must(page_of(limit, &token), because).await?;
        held(check, limit, page.entries.len());
        for volume in page.entries.into_iter().filter_map(|entry| entry.volume) {
            *counts.entry(volume.volume_id).or_default() += 1;
        }
        if page.next_token.is_empty() {
            return Ok(counts);
        }
        let rule = "next_token leads to another page";
        if !check.hold(
            page.next_token != token,
            rule,
            "the token of the page itself",
        ) {
            return Err(Stop::Found);
        }
        token = page.next_token;
    }
    let got = format!("no end after {MOST_PAGES} pages");
    check.find(Level::Must, "the list ends", &got);
    Err(Stop::Found)
}

/// A page never has more entries than its limit.
fn held(check: &mut Check<'_>, limit: i32, entries: usize) {
    let most = usize::try_from(limit).unwrap_or_default();
    let rule = format!("at most {limit} entries");
    check.hold(
        limit == 0 || entries <= most,
        &rule,
        &format!("{entries} entries"),
    );
}

async fn pages(check: &mut Check<'_>) -> Ended {
    let mut ours = vec![];
    for _ in 0..5 {
        ours.push(check.volume().await?.volume_id);
    }
    let counts = all(check, 2).await?;
    let missing: Vec<_> = ours.iter().filter(|id| !counts.contains_key(*id)).collect();
    let rule = "every volume that is there all the time is on some page";
    check.hold(missing.is_empty(), rule, &format!("{missing:?} on none"));
    let twice: Vec<_> = ours
        .iter()
        .filter(|id| counts.get(*id).is_some_and(|count| *count > 1))
        .collect();
    let rule = "no volume is on two pages while nothing changes";
    check.advise(twice.is_empty(), rule, &format!("{twice:?} on several"));
    Ok(())
}

async fn changing(check: &mut Check<'_>) -> Ended {
    let mut ours = vec![];
    for _ in 0..4 {
        ours.push(check.volume().await?.volume_id);
    }
    let because = "a page of two entries";
    let first = check.must(page_of(2, ""), because).await?;
    if first.next_token.is_empty() {
        let rule = "next_token is set, since there are more volumes than max_entries";
        check.find(Level::Must, rule, "not set");
        return Ok(());
    }
    // Whatever the token stands for is gone now.
    for id in &ours {
        let delete = check.delete_request(id);
        check.prepare(delete).await?;
    }
    check.volume().await?;
    match check.call(page_of(2, &first.next_token)).await {
        Ok(page) => held(check, 2, page.entries.len()),
        Err(failure) => {
            let rule = "OK, or ABORTED so that the caller begins anew";
            let aborted = failure.code() == Some(StatusCode::Aborted);
            check.hold(aborted, rule, &failure.to_string());
        }
    }
    Ok(())
}

async fn get(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let request = ControllerGetVolumeRequest {
        volume_id: volume.volume_id.clone(),
    };
    let answer = check.must(request, "the volume exists").await?;
    let shown = answer.volume.unwrap_or_default();
    let rule = "the volume that was asked for, with the context and size that it was created with";
    let same = shown.volume_id == volume.volume_id
        && shown.volume_context == volume.volume_context
        && shown.capacity_bytes == volume.capacity_bytes;
    check.hold(same, rule, &format!("{shown:?}"));
    let Some(status) = answer.status else {
        check.find(Level::Must, "status is set", "not set");
        return Ok(());
    };
    if check
        .profile()
        .controller_has(ControllerRpc::VolumeCondition)
    {
        let rule = "status.volume_condition is set, since VOLUME_CONDITION is advertised";
        let condition = status.volume_condition;
        check.hold(condition.is_some(), rule, "not set");
        let abnormal = condition.filter(|condition| condition.abnormal);
        let rule = "a volume that has just been created is in order";
        let got = format!("{:?}", abnormal.as_ref().map(|one| &one.message));
        check.advise(abnormal.is_none(), rule, &got);
    }
    Ok(())
}

async fn get_unknown(check: &mut Check<'_>) -> Ended {
    let request = ControllerGetVolumeRequest {
        volume_id: "nomad-csi-check-no-such-volume".to_owned(),
    };
    check
        .refused(request, NOT_FOUND, "there is no such volume")
        .await;
    Ok(())
}

async fn capacity(check: &mut Check<'_>) -> Ended {
    let requests = [
        GetCapacityRequest::default(),
        GetCapacityRequest {
            volume_capabilities: vec![mount(Mode::SingleNodeWriter)],
            parameters: check.setup().parameters.clone(),
            accessible_topology: check.place(),
        },
    ];
    for request in requests {
        let because = "every field of the request is optional";
        let answer = check.must(request, because).await?;
        let available = answer.available_capacity;
        let rule = "available_capacity is not negative";
        check.hold(available >= 0, rule, &available.to_string());
        if let (Some(least), Some(greatest)) =
            (answer.minimum_volume_size, answer.maximum_volume_size)
        {
            let rule = "minimum_volume_size is at most maximum_volume_size";
            check.hold(least <= greatest, rule, &format!("{least} and {greatest}"));
        }
    }
    Ok(())
}

async fn no_capacity(check: &mut Check<'_>) -> Ended {
    let segments = check.place().unwrap_or_default().segments;
    let nowhere = |(key, _)| (key, "nomad-csi-check-nowhere".to_owned());
    let request = GetCapacityRequest {
        accessible_topology: Some(Topology {
            segments: segments.into_iter().map(nowhere).collect(),
        }),
        ..Default::default()
    };
    if let Ok(answer) = check.call(request).await {
        let available = answer.available_capacity;
        let rule = "0: nothing can be created at a place that does not exist";
        check.advise(available == 0, rule, &available.to_string());
    }
    Ok(())
}
