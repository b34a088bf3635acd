//! Checks of ListVolumes, ControllerGetVolume and GetCapacity.
//!
//! A list that changes between two pages may miss or repeat volumes (CSI section "ListVolumes"), so
//! that is no finding. Findings are a page above its limit, a list that never ends, and a missing
//! volume of ours that existed the whole time.

use std::collections::BTreeMap;

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use crate::finding::Level;
use crate::validity;
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::list_volumes_response::Entry;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::{
    ControllerGetVolumeRequest, GetCapacityRequest, ListVolumesRequest, Topology,
};

use super::requests::{ABORTED, INVALID, NOT_FOUND, mount};

const LISTS: &[Need] = &[Need::ControllerCapability(ControllerRpc::ListVolumes)];
const LISTS_CREATED: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::ListVolumes),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const GETS: &[Need] = &[Need::ControllerCapability(ControllerRpc::GetVolume)];
const GETS_CREATED: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::GetVolume),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const MEASURES: &[Need] = &[Need::ControllerCapability(ControllerRpc::GetCapacity)];
const MEASURES_TOPOLOGY: &[Need] =
    &[Need::ControllerCapability(ControllerRpc::GetCapacity), Need::Topology];
/// A list with more pages than this counts as endless.
const MAX_PAGES: usize = 2_000;

pub(crate) const CASES: &[Case] = &[
    case!(
        List,
        "list/volumes",
        "ListVolumes returns valid descriptions of all volumes",
        "ListVolumes",
        LISTS,
        Reads,
        volumes
    ),
    case!(
        List,
        "list/bad-token",
        "ListVolumes with an invalid starting_token fails with ABORTED",
        "ListVolumes Errors",
        LISTS,
        Creates,
        bad_token
    ),
    case!(
        List,
        "list/negative-limit",
        "ListVolumes with a negative max_entries is refused",
        "ListVolumes",
        LISTS,
        Creates,
        negative_limit
    ),
    case!(
        List,
        "list/presence",
        "ListVolumes includes a created volume and omits a deleted one",
        "ListVolumes",
        LISTS_CREATED,
        Creates,
        presence
    ),
    case!(
        List,
        "list/pages",
        "ListVolumes pages respect max_entries, end, and together include every volume",
        "ListVolumes",
        LISTS_CREATED,
        Creates,
        pages
    ),
    case!(
        List,
        "list/changing",
        "ListVolumes continues or returns ABORTED if volumes change between pages",
        "ListVolumes",
        LISTS_CREATED,
        Creates,
        changing
    ),
    case!(
        List,
        "list/get",
        "ControllerGetVolume returns the volume as created, with its condition if advertised",
        "ControllerGetVolume",
        GETS_CREATED,
        Creates,
        get
    ),
    case!(
        List,
        "list/get-unknown",
        "ControllerGetVolume of an unknown volume fails with NOT_FOUND",
        "ControllerGetVolume Errors",
        GETS,
        Reads,
        get_unknown
    ),
    case!(
        List,
        "list/capacity",
        "GetCapacity returns a capacity of at least 0 and a valid range of volume sizes",
        "GetCapacity",
        MEASURES,
        Reads,
        capacity
    ),
    case!(
        List,
        "list/no-capacity",
        "GetCapacity returns 0 for a topology that does not exist",
        "GetCapacity",
        MEASURES_TOPOLOGY,
        Reads,
        no_capacity
    ),
];

fn page_of(max_entries: i32, starting_token: &str) -> ListVolumesRequest {
    ListVolumesRequest { max_entries, starting_token: starting_token.to_owned() }
}

async fn volumes(check: &mut Check<'_>) -> CheckResult {
    let because = "an empty request lists all volumes";
    let response = check.call_ok(page_of(0, ""), because).await?;
    let has_topology = check.has_topology();
    for entry in &response.entries {
        check_entry(check, entry, has_topology);
    }
    Ok(())
}

fn check_entry(check: &mut Check<'_>, entry: &Entry, has_topology: bool) {
    let Some(volume) = &entry.volume else {
        check.add_finding(Level::Must, "every entry has a volume", "an entry without a volume");
        return;
    };
    check.add_problems(validity::volume(volume, has_topology));
    let status = entry.status.as_ref();
    let published = ControllerRpc::ListVolumesPublishedNodes;
    if check.plugin().controller_has(published) && status.is_none() {
        let rule = "status is set, because LIST_VOLUMES_PUBLISHED_NODES is advertised";
        check.add_finding(Level::Must, rule, "not set");
    }
    let has_condition = status.is_some_and(|status| status.volume_condition.is_some());
    if check.plugin().controller_has(ControllerRpc::VolumeCondition) && !has_condition {
        let rule = "status.volume_condition is set, because VOLUME_CONDITION is advertised";
        check.add_finding(Level::Must, rule, "not set");
    }
}

async fn bad_token(check: &mut Check<'_>) -> CheckResult {
    for token in ["nomad-csi-check", "\u{1f980}/../%00", "-1", "99999999999999999999"] {
        let because = "starting_token is invalid, so the caller must restart the list";
        check.call_refused(page_of(0, token), ABORTED, because).await;
    }
    Ok(())
}

async fn negative_limit(check: &mut Check<'_>) -> CheckResult {
    let because = "max_entries is negative";
    check.call_refused(page_of(-1, ""), INVALID, because).await;
    Ok(())
}

async fn presence(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let id = volume.volume_id;
    let counts = list_in_pages(check, 0).await?;
    let rule = "ListVolumes includes a created volume";
    check.expect(counts.contains_key(&id), rule, &format!("{id} is missing"));
    let delete = check.delete_request(&id);
    check.prepare(delete).await?;
    let counts = list_in_pages(check, 0).await?;
    let rule = "ListVolumes omits a deleted volume";
    check.expect(!counts.contains_key(&id), rule, &format!("{id} is listed"));
    Ok(())
}

/// Reads the list in pages of `limit` entries. Returns how often each volume occurs.
///
/// # Errors
/// Records a finding if a page fails or the list does not end.
async fn list_in_pages(
    check: &mut Check<'_>,
    limit: i32,
) -> Result<BTreeMap<String, usize>, StopReason> {
    let mut counts = BTreeMap::new();
    let mut token = String::new();
    for _ in 0..MAX_PAGES {
        let because = "starting_token is the next_token of the previous page";
        let page = check.call_ok(page_of(limit, &token), because).await?;
        expect_page_limit(check, limit, page.entries.len());
        for volume in page.entries.into_iter().filter_map(|entry| entry.volume) {
            *counts.entry(volume.volume_id).or_default() += 1;
        }
        if page.next_token.is_empty() {
            return Ok(counts);
        }
        let rule = "next_token differs from starting_token";
        if !check.expect(page.next_token != token, rule, "the same token") {
            return Err(StopReason::FindingRecorded);
        }
        token = page.next_token;
    }
    let got = format!("no end after {MAX_PAGES} pages");
    check.add_finding(Level::Must, "the list ends", &got);
    Err(StopReason::FindingRecorded)
}

/// Records a finding if a page has more entries than its limit.
fn expect_page_limit(check: &mut Check<'_>, limit: i32, entries: usize) {
    let max_entries = usize::try_from(limit).unwrap_or_default();
    let rule = format!("a page has at most max_entries entries ({limit})");
    check.expect(limit == 0 || entries <= max_entries, &rule, &format!("{entries} entries"));
}

async fn pages(check: &mut Check<'_>) -> CheckResult {
    let mut ours = vec![];
    for _ in 0..5 {
        ours.push(check.new_volume().await?.volume_id);
    }
    let counts = list_in_pages(check, 2).await?;
    let missing: Vec<_> = ours.iter().filter(|id| !counts.contains_key(*id)).collect();
    let rule = "every volume that exists the whole time is on a page";
    check.expect(missing.is_empty(), rule, &format!("{missing:?} on no page"));
    let twice: Vec<_> =
        ours.iter().filter(|id| counts.get(*id).is_some_and(|count| *count > 1)).collect();
    let rule = "no volume is on two pages if the volumes do not change";
    check.advise(twice.is_empty(), rule, &format!("{twice:?} on several pages"));
    Ok(())
}

async fn changing(check: &mut Check<'_>) -> CheckResult {
    let mut ours = vec![];
    for _ in 0..4 {
        ours.push(check.new_volume().await?.volume_id);
    }
    let because = "the request asks for a page of two entries";
    let first = check.call_ok(page_of(2, ""), because).await?;
    if first.next_token.is_empty() {
        let rule = "next_token is set, because more than max_entries volumes exist";
        check.add_finding(Level::Must, rule, "not set");
        return Ok(());
    }
    // The volume to which the token refers no longer exists afterwards.
    for id in &ours {
        let delete = check.delete_request(id);
        check.prepare(delete).await?;
    }
    check.new_volume().await?;
    match check.call(page_of(2, &first.next_token)).await {
        Ok(page) => expect_page_limit(check, 2, page.entries.len()),
        Err(failure) => {
            let rule = "OK, or ABORTED to make the caller restart the list";
            let aborted = failure.code() == Some(StatusCode::Aborted);
            check.expect(aborted, rule, &failure.to_string());
        }
    }
    Ok(())
}

async fn get(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let request = ControllerGetVolumeRequest { volume_id: volume.volume_id.clone() };
    let response = check.call_ok(request, "the volume exists").await?;
    let shown = response.volume.unwrap_or_default();
    let rule = "volume_id, volume_context and capacity_bytes are those of the created volume";
    let same = shown.volume_id == volume.volume_id
        && shown.volume_context == volume.volume_context
        && shown.capacity_bytes == volume.capacity_bytes;
    check.expect(same, rule, &format!("{shown:?}"));
    let Some(status) = response.status else {
        check.add_finding(Level::Must, "status is set", "not set");
        return Ok(());
    };
    if check.plugin().controller_has(ControllerRpc::VolumeCondition) {
        let rule = "status.volume_condition is set, because VOLUME_CONDITION is advertised";
        let condition = status.volume_condition;
        check.expect(condition.is_some(), rule, "not set");
        let abnormal = condition.filter(|condition| condition.abnormal);
        let rule = "a new volume is not abnormal";
        let got = format!("{:?}", abnormal.as_ref().map(|one| &one.message));
        check.advise(abnormal.is_none(), rule, &got);
    }
    Ok(())
}

async fn get_unknown(check: &mut Check<'_>) -> CheckResult {
    let request =
        ControllerGetVolumeRequest { volume_id: "nomad-csi-check-no-such-volume".to_owned() };
    check.call_refused(request, NOT_FOUND, "the volume does not exist").await;
    Ok(())
}

async fn capacity(check: &mut Check<'_>) -> CheckResult {
    let requests = [
        GetCapacityRequest::default(),
        GetCapacityRequest {
            volume_capabilities: vec![mount(Mode::SingleNodeWriter)],
            parameters: check.options().parameters.clone(),
            accessible_topology: check.node_topology(),
        },
    ];
    for request in requests {
        let because = "every field of the request is optional";
        let response = check.call_ok(request, because).await?;
        let available = response.available_capacity;
        let rule = "available_capacity is not negative";
        check.expect(available >= 0, rule, &available.to_string());
        if let (Some(smallest), Some(largest)) =
            (response.minimum_volume_size, response.maximum_volume_size)
        {
            let rule = "minimum_volume_size is at most maximum_volume_size";
            check.expect(smallest <= largest, rule, &format!("{smallest} and {largest}"));
        }
    }
    Ok(())
}

async fn no_capacity(check: &mut Check<'_>) -> CheckResult {
    let segments = check.node_topology().unwrap_or_default().segments;
    let unknown = |(key, _)| (key, "nomad-csi-check-nowhere".to_owned());
    let request = GetCapacityRequest {
        accessible_topology: Some(Topology {
            segments: segments.into_iter().map(unknown).collect(),
        }),
        ..Default::default()
    };
    if let Ok(response) = check.call(request).await {
        let available = response.available_capacity;
        let rule = "available_capacity is 0 for a topology that does not exist";
        check.advise(available == 0, rule, &available.to_string());
    }
    Ok(())
}
