//! Checks of CreateSnapshot, DeleteSnapshot, ListSnapshots and GetSnapshot. `copy` checks the data of
//! snapshots.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use crate::finding::Level;
use crate::validity;
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::plugin_capability::service::Type as Service;
use nomad_csi_proto::{
    CreateSnapshotRequest, DeleteSnapshotRequest, GetSnapshotRequest, ListSnapshotsRequest,
    Snapshot,
};

use super::requests::{ABORTED, ALREADY_EXISTS, INVALID, NOT_FOUND, at_least};
use super::volume_use::VolumeUse;

const CREATES: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::CreateDeleteSnapshot),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const PLACES: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::CreateDeleteSnapshot),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
    Need::SnapshotTopology,
];
const LISTS: &[Need] = &[Need::ControllerCapability(ControllerRpc::ListSnapshots)];
const LISTS_CREATED: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::ListSnapshots),
    Need::ControllerCapability(ControllerRpc::CreateDeleteSnapshot),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const GETS: &[Need] = &[Need::ControllerCapability(ControllerRpc::GetSnapshot)];
const GETS_CREATED: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::GetSnapshot),
    Need::ControllerCapability(ControllerRpc::CreateDeleteSnapshot),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
/// Attempts until a snapshot must be ready, and the pause between two attempts.
const ATTEMPTS: u32 = 240;
const PAUSE: Duration = Duration::from_millis(500);
/// A list with more pages than this counts as endless.
const MAX_PAGES: usize = 2_000;

pub(crate) const CASES: &[Case] = &[
    case!(
        Snapshot,
        "snapshot/arguments",
        "CreateSnapshot without a name or a source volume is refused",
        "CreateSnapshot",
        CREATES,
        Creates,
        arguments
    ),
    case!(
        Snapshot,
        "snapshot/unknown-volume",
        "CreateSnapshot of an unknown volume fails with NOT_FOUND",
        "CreateSnapshot",
        CREATES,
        Creates,
        unknown_volume
    ),
    case!(
        Snapshot,
        "snapshot/create",
        "CreateSnapshot returns a valid description of a snapshot that becomes ready",
        "CreateSnapshot",
        CREATES,
        Creates,
        create
    ),
    case!(
        Snapshot,
        "snapshot/place",
        "CreateSnapshot returns a snapshot that is usable where the request requires it",
        "CreateSnapshot",
        PLACES,
        Creates,
        place
    ),
    case!(
        Snapshot,
        "snapshot/same-again",
        "A repeated CreateSnapshot call returns the same snapshot",
        "CreateSnapshot",
        CREATES,
        Creates,
        same_again
    ),
    case!(
        Snapshot,
        "snapshot/longest-name",
        "CreateSnapshot accepts a name of 128 bytes, and is idempotent with it",
        "CreateSnapshot",
        CREATES,
        Creates,
        longest_name
    ),
    case!(
        Snapshot,
        "snapshot/other-volume",
        "CreateSnapshot with an existing name and another volume is refused",
        "CreateSnapshot Errors",
        CREATES,
        Creates,
        other_volume
    ),
    case!(
        Snapshot,
        "snapshot/several",
        "CreateSnapshot creates several snapshots of a volume, and DeleteSnapshot deletes only one",
        "CreateSnapshot",
        CREATES,
        Creates,
        several
    ),
    case!(
        Snapshot,
        "snapshot/delete",
        "DeleteSnapshot is idempotent and requires an ID",
        "DeleteSnapshot",
        CREATES,
        Creates,
        delete
    ),
    case!(
        Snapshot,
        "snapshot/outlives-volume",
        "DeleteVolume keeps the snapshots of the volume, or is refused",
        "DeleteVolume",
        CREATES,
        Creates,
        outlives_volume
    ),
    case!(
        Snapshot,
        "snapshot/list",
        "ListSnapshots filters by volume and by ID, and returns an empty list without a match",
        "ListSnapshots",
        LISTS_CREATED,
        Creates,
        list
    ),
    case!(
        Snapshot,
        "snapshot/pages",
        "ListSnapshots pages respect max_entries, end, and together include every snapshot",
        "ListSnapshots",
        LISTS_CREATED,
        Creates,
        pages
    ),
    case!(
        Snapshot,
        "snapshot/bad-token",
        "ListSnapshots with an invalid starting_token fails with ABORTED",
        "ListSnapshots Errors",
        LISTS,
        Creates,
        bad_token
    ),
    case!(
        Snapshot,
        "snapshot/get",
        "GetSnapshot returns the snapshot as it was created",
        "GetSnapshot",
        GETS_CREATED,
        Creates,
        get
    ),
    case!(
        Snapshot,
        "snapshot/get-unknown",
        "GetSnapshot of an unknown snapshot fails with NOT_FOUND",
        "GetSnapshot Errors",
        GETS,
        Reads,
        get_unknown
    ),
];

impl Check<'_> {
    pub(super) fn snapshot_request(&mut self, volume_id: &str) -> CreateSnapshotRequest {
        CreateSnapshotRequest {
            source_volume_id: volume_id.to_owned(),
            name: self.unique_name(),
            secrets: self.secrets(),
            ..Default::default()
        }
    }

    /// Creates a snapshot for use in a check, and waits until it is ready.
    ///
    /// # Errors
    /// Stops the check as not run if a call fails.
    pub(super) async fn new_snapshot(&mut self, volume_id: &str) -> Result<Snapshot, StopReason> {
        let request = self.snapshot_request(volume_id);
        self.ready_snapshot(request).await
    }

    async fn ready_snapshot(
        &mut self,
        request: CreateSnapshotRequest,
    ) -> Result<Snapshot, StopReason> {
        for _ in 0..ATTEMPTS {
            let snapshot = self.prepare(request.clone()).await?.snapshot;
            let snapshot = snapshot.unwrap_or_default();
            if snapshot.snapshot_id.is_empty() {
                let why = "CreateSnapshot returned no snapshot";
                return Err(StopReason::NotRun(why.to_owned()));
            }
            if snapshot.ready_to_use {
                return Ok(snapshot);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(StopReason::NotRun("the snapshot did not become ready".to_owned()))
    }

    /// Creates a snapshot of a published volume. If the plugin refuses that, takes the snapshot
    /// while the volume is unpublished, and publishes the volume again.
    ///
    /// # Errors
    /// Stops the check as not run if a call fails.
    pub(super) async fn snapshot_in_use(
        &mut self,
        used: VolumeUse,
    ) -> Result<(Snapshot, VolumeUse), StopReason> {
        let id = used.volume.volume_id.clone();
        let request = self.snapshot_request(&id);
        let refused = match self.call(request.clone()).await {
            Ok(_) => false,
            Err(failure) => failure.code() == Some(StatusCode::FailedPrecondition),
        };
        if !refused {
            return Ok((self.ready_snapshot(request).await?, used));
        }
        self.end_use(&used).await?;
        let snapshot = self.new_snapshot(&id).await?;
        let again = self.published(used.volume, used.capability).await?;
        Ok((snapshot, again))
    }

    fn delete_snapshot_request(&self, id: &str) -> DeleteSnapshotRequest {
        DeleteSnapshotRequest { snapshot_id: id.to_owned(), secrets: self.secrets() }
    }

    pub(super) fn list_snapshots_request(&self, volume_id: &str) -> ListSnapshotsRequest {
        ListSnapshotsRequest {
            source_volume_id: volume_id.to_owned(),
            secrets: self.secrets(),
            ..Default::default()
        }
    }
}

async fn arguments(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let mut request = check.snapshot_request(&volume.volume_id);
    request.name.clear();
    check.call_refused(request, INVALID, "name is required").await;
    let request = check.snapshot_request("");
    check.call_refused(request, INVALID, "source_volume_id is required").await;
    Ok(())
}

async fn unknown_volume(check: &mut Check<'_>) -> CheckResult {
    let request = check.snapshot_request("nomad-csi-check-no-such-volume");
    let codes = [StatusCode::NotFound, StatusCode::InvalidArgument];
    check.call_refused(request, &codes, "the volume does not exist").await;
    Ok(())
}

fn check_snapshot(check: &mut Check<'_>, snapshot: &Snapshot, volume_id: &str) {
    check.add_problems(validity::id("snapshot_id", &snapshot.snapshot_id));
    let rule = "source_volume_id is the ID of the volume";
    let source = &snapshot.source_volume_id;
    check.expect(source == volume_id, rule, source);
    let has_time = snapshot.creation_time.is_some_and(|time| time.seconds > 0);
    check.expect(has_time, "creation_time is set", "not set");
    let rule = "size_bytes is not negative";
    check.expect(snapshot.size_bytes >= 0, rule, &snapshot.size_bytes.to_string());
    let has_places = check.plugin().has_service(Service::SnapshotAccessibilityConstraints);
    if !has_places && !snapshot.accessible_topology.is_empty() {
        let rule = "accessible_topology is set only with SNAPSHOT_ACCESSIBILITY_CONSTRAINTS";
        check.add_finding(Level::Must, rule, "set");
    }
    if !snapshot.group_snapshot_id.is_empty() {
        let rule = "group_snapshot_id is set only for members of a group snapshot";
        check.add_finding(Level::Must, rule, &snapshot.group_snapshot_id);
    }
}

async fn create(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let request = check.snapshot_request(&volume.volume_id);
    let because = "the volume exists";
    let mut snapshot = Snapshot::default();
    for _ in 0..ATTEMPTS {
        let response = check.call_ok(request.clone(), because).await?;
        snapshot = response.snapshot.unwrap_or_default();
        check_snapshot(check, &snapshot, &volume.volume_id);
        if snapshot.ready_to_use || check.has_failed() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    check.expect(snapshot.ready_to_use, "ready_to_use becomes true", "false");
    Ok(())
}

async fn place(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let mut request = check.snapshot_request(&volume.volume_id);
    request.accessibility_requirements = check.topology_requirement();
    let because = "the snapshot is required where the volume is";
    let response = check.call_ok(request, because).await?;
    let places = response.snapshot.unwrap_or_default().accessible_topology;
    let node = check.node_topology().unwrap_or_default();
    let rule = "accessible_topology has a topology of the requirement, or is not set";
    let is_usable = places.is_empty()
        || places.iter().any(|place| {
            let mut segments = place.segments.iter();
            segments.all(|(key, value)| node.segments.get(key) == Some(value))
        });
    check.expect(is_usable, rule, &format!("{places:?}"));
    Ok(())
}

async fn same_again(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let request = check.snapshot_request(&volume.volume_id);
    let first = check.prepare(request.clone()).await?;
    let first = first.snapshot.unwrap_or_default();
    let because = "a snapshot of that name and that volume already exists";
    let second = check.call_ok(request, because).await?.snapshot.unwrap_or_default();
    let rule = "snapshot_id is the same: one name never yields two snapshots";
    let got = format!("{} and {}", first.snapshot_id, second.snapshot_id);
    check.expect(first.snapshot_id == second.snapshot_id, rule, &got);
    let rule = "creation_time of a snapshot never changes";
    let same = first.creation_time == second.creation_time;
    check.expect(same, rule, &format!("{:?}", second.creation_time));
    Ok(())
}

async fn longest_name(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let mut request = check.snapshot_request(&volume.volume_id);
    let missing = 128_usize.saturating_sub(request.name.len());
    request.name += &"n".repeat(missing);
    for because in ["a string field accepts 128 bytes", "a snapshot of that name already exists"] {
        check.call_ok(request.clone(), because).await?;
    }
    Ok(())
}

async fn other_volume(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let mut request = check.snapshot_request(&volume.volume_id);
    check.prepare(request.clone()).await?;
    let other = check.new_volume().await?;
    request.source_volume_id = other.volume_id;
    let because = "the existing snapshot of that name is of another volume";
    check.call_refused(request, ALREADY_EXISTS, because).await;
    Ok(())
}

async fn several(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let mut ids = vec![];
    for _ in 0..3 {
        let request = check.snapshot_request(&volume.volume_id);
        let response = check.call_ok(request, "a volume can have several snapshots").await?;
        ids.push(response.snapshot.unwrap_or_default().snapshot_id);
    }
    let different: BTreeSet<_> = ids.iter().collect();
    let rule = "every name yields its own snapshot";
    check.expect(different.len() == ids.len(), rule, &format!("{ids:?}"));
    let delete = check.delete_snapshot_request(&ids[1]);
    check.call_ok(delete, "the snapshot is not in use").await?;
    if !check.plugin().controller_has(ControllerRpc::ListSnapshots) {
        return Ok(());
    }
    let request = check.list_snapshots_request(&volume.volume_id);
    let response = check.call_ok(request, "ListSnapshots accepts a volume filter").await?;
    let left: BTreeSet<String> = response
        .entries
        .into_iter()
        .filter_map(|entry| entry.snapshot)
        .map(|snapshot| snapshot.snapshot_id)
        .collect();
    let expected = BTreeSet::from([ids[0].clone(), ids[2].clone()]);
    let rule = format!("DeleteSnapshot leaves the other snapshots: {expected:?}");
    check.expect(left == expected, &rule, &format!("{left:?}"));
    Ok(())
}

async fn delete(check: &mut Check<'_>) -> CheckResult {
    let request = check.delete_snapshot_request("");
    check.call_refused(request, INVALID, "snapshot_id is required").await;
    let request = check.delete_snapshot_request("nomad-csi-check-no-such-snapshot");
    check.call_ok(request, "a snapshot that does not exist counts as deleted").await?;
    let volume = check.new_volume().await?;
    let snapshot = check.new_snapshot(&volume.volume_id).await?;
    let request = check.delete_snapshot_request(&snapshot.snapshot_id);
    check.call_ok(request.clone(), "the snapshot is not in use").await?;
    check.call_ok(request, "the snapshot is already deleted").await?;
    Ok(())
}

async fn outlives_volume(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let snapshot = check.new_snapshot(&volume.volume_id).await?;
    let delete = check.delete_request(&volume.volume_id);
    match check.call(delete).await {
        Ok(_) => {
            let mut request = check.create_request();
            request.volume_content_source =
                Some(super::requests::from_snapshot(&snapshot.snapshot_id));
            let size = snapshot.size_bytes.max(check.options().size);
            request.capacity_range = Some(at_least(size));
            let because = "DeleteVolume kept the snapshot, so it can be restored";
            check.call_ok(request, because).await?;
        }
        Err(failure) => {
            let rule = "OK, or FAILED_PRECONDITION because the volume has a snapshot";
            let refused = failure.code() == Some(StatusCode::FailedPrecondition);
            check.expect(refused, rule, &failure.to_string());
            let request = check.snapshot_request(&volume.volume_id);
            check.call_ok(request, "a refused DeleteVolume leaves the volume usable").await?;
        }
    }
    Ok(())
}

/// Calls ListSnapshots and returns the IDs.
async fn listed(
    check: &mut Check<'_>,
    request: ListSnapshotsRequest,
    because: &str,
) -> Result<Vec<String>, StopReason> {
    let response = check.call_ok(request, because).await?;
    let mut ids = vec![];
    for snapshot in response.entries.into_iter().filter_map(|entry| entry.snapshot) {
        let has_time = snapshot.creation_time.is_some();
        check.expect(has_time, "creation_time is set", "not set");
        ids.push(snapshot.snapshot_id);
    }
    Ok(ids)
}

async fn list(check: &mut Check<'_>) -> CheckResult {
    let (volume, other) = (check.new_volume().await?, check.new_volume().await?);
    let ours = check.new_snapshot(&volume.volume_id).await?.snapshot_id;
    let others = check.new_snapshot(&other.volume_id).await?.snapshot_id;
    let by_volume = check.list_snapshots_request(&volume.volume_id);
    let ids = listed(check, by_volume, "ListSnapshots accepts a volume filter").await?;
    check.expect(
        ids == [ours.clone()],
        &format!("the list contains only {ours}"),
        &format!("{ids:?}"),
    );
    let by_id = |id: &str, check: &Check<'_>| ListSnapshotsRequest {
        snapshot_id: id.to_owned(),
        ..check.list_snapshots_request("")
    };
    let request = by_id(&others, check);
    let ids = listed(check, request, "ListSnapshots accepts an ID filter").await?;
    check.expect(
        ids == [others.clone()],
        &format!("the list contains only {others}"),
        &format!("{ids:?}"),
    );
    let nothing = "a filter without a match returns an empty list";
    let requests = [
        by_id("nomad-csi-check-no-such-snapshot", check),
        check.list_snapshots_request("nomad-csi-check-no-such-volume"),
    ];
    for request in requests {
        let ids = listed(check, request, nothing).await?;
        check.expect(ids.is_empty(), nothing, &format!("{ids:?}"));
    }
    // The specification does not define both filters together, but every caller expects their AND.
    let both = ListSnapshotsRequest {
        snapshot_id: others.clone(),
        ..check.list_snapshots_request(&volume.volume_id)
    };
    let ids = listed(check, both, nothing).await?;
    let rule = "with both filters set, the list omits snapshots of other volumes";
    check.advise(ids.is_empty(), rule, &format!("{ids:?}"));
    Ok(())
}

async fn pages(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let mut ours = BTreeSet::new();
    for _ in 0..5 {
        ours.insert(check.new_snapshot(&volume.volume_id).await?.snapshot_id);
    }
    let mut shown = BTreeSet::new();
    let mut token = String::new();
    for _ in 0..MAX_PAGES {
        let request = ListSnapshotsRequest {
            max_entries: 2,
            starting_token: token.clone(),
            ..check.list_snapshots_request("")
        };
        let because = "starting_token is the next_token of the previous page";
        let page = check.call_ok(request, because).await?;
        let count = page.entries.len();
        check.expect(
            count <= 2,
            "a page has at most max_entries entries (2)",
            &format!("{count} entries"),
        );
        let snapshots = page.entries.into_iter().filter_map(|entry| entry.snapshot);
        shown.extend(snapshots.map(|snapshot| snapshot.snapshot_id));
        if page.next_token.is_empty() {
            let missing: Vec<_> = ours.difference(&shown).collect();
            let rule = "every snapshot is on a page";
            check.expect(missing.is_empty(), rule, &format!("{missing:?} on no page"));
            return Ok(());
        }
        let rule = "next_token differs from starting_token";
        if !check.expect(page.next_token != token, rule, "the same token") {
            return Ok(());
        }
        token = page.next_token;
    }
    let got = format!("no end after {MAX_PAGES} pages");
    check.add_finding(Level::Must, "the list ends", &got);
    Ok(())
}

async fn bad_token(check: &mut Check<'_>) -> CheckResult {
    let request = ListSnapshotsRequest {
        starting_token: "nomad-csi-check".to_owned(),
        ..check.list_snapshots_request("")
    };
    let because = "starting_token is invalid, so the caller must restart the list";
    check.call_refused(request, ABORTED, because).await;
    Ok(())
}

async fn get(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let snapshot = check.new_snapshot(&volume.volume_id).await?;
    let request =
        GetSnapshotRequest { snapshot_id: snapshot.snapshot_id.clone(), secrets: check.secrets() };
    let response = check.call_ok(request, "the snapshot exists").await?;
    let shown = response.snapshot.unwrap_or_default();
    let rule = "the snapshot has not changed since its creation";
    check.expect(shown == snapshot, rule, &format!("{shown:?}"));
    Ok(())
}

async fn get_unknown(check: &mut Check<'_>) -> CheckResult {
    let request = |id: &str, check: &Check<'_>| GetSnapshotRequest {
        snapshot_id: id.to_owned(),
        secrets: check.secrets(),
    };
    let unknown = request("nomad-csi-check-no-such-snapshot", check);
    check.call_refused(unknown, NOT_FOUND, "the snapshot does not exist").await;
    let empty = request("", check);
    check.call_refused(empty, INVALID, "snapshot_id is required").await;
    Ok(())
}
