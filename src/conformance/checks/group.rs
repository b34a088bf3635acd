//! Checks of group snapshots: a group snapshot covers all its volumes, or fails and leaves nothing.

use std::collections::BTreeSet;

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::{
    CreateVolumeGroupSnapshotRequest, DeleteSnapshotRequest, DeleteVolumeGroupSnapshotRequest,
    GetVolumeGroupSnapshotRequest, VolumeGroupSnapshot,
};

use super::requests::{ALREADY_EXISTS, INVALID, NOT_FOUND, from_snapshot};

const NEEDS: &[Need] =
    &[Need::GroupSnapshots, Need::ControllerCapability(ControllerRpc::CreateDeleteVolume)];
const SINGLES: &[Need] = &[
    Need::GroupSnapshots,
    Need::ControllerCapability(ControllerRpc::CreateDeleteSnapshot),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const LISTS: &[Need] = &[
    Need::GroupSnapshots,
    Need::ControllerCapability(ControllerRpc::ListSnapshots),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];

pub(crate) const CASES: &[Case] = &[
    case!(
        Group,
        "group/arguments",
        "CreateVolumeGroupSnapshot without a name or without volumes is refused",
        "CreateVolumeGroupSnapshot",
        NEEDS,
        Creates,
        arguments
    ),
    case!(
        Group,
        "group/create",
        "CreateVolumeGroupSnapshot covers every volume, and a repeated call returns the same members",
        "CreateVolumeGroupSnapshot",
        NEEDS,
        Creates,
        create
    ),
    case!(
        Group,
        "group/other-volumes",
        "CreateVolumeGroupSnapshot with an existing name and other volumes is refused",
        "CreateVolumeGroupSnapshot Errors",
        NEEDS,
        Creates,
        other_volumes
    ),
    case!(
        Group,
        "group/nothing",
        "A failed CreateVolumeGroupSnapshot leaves no snapshot behind",
        "CreateVolumeGroupSnapshot",
        LISTS,
        Creates,
        nothing
    ),
    case!(
        Group,
        "group/get",
        "GetVolumeGroupSnapshot returns the group snapshot as created, and refuses other members",
        "GetVolumeGroupSnapshot",
        NEEDS,
        Creates,
        get
    ),
    case!(
        Group,
        "group/restore",
        "CreateVolume restores a single member of a group snapshot",
        "CreateVolumeGroupSnapshot",
        SINGLES,
        Creates,
        restore
    ),
    case!(
        Group,
        "group/delete",
        "DeleteVolumeGroupSnapshot deletes all members, is idempotent, and requires an ID",
        "DeleteVolumeGroupSnapshot",
        NEEDS,
        Creates,
        delete
    ),
    case!(
        Group,
        "group/member",
        "DeleteSnapshot refuses a member of a group snapshot",
        "DeleteSnapshot Errors",
        SINGLES,
        Creates,
        member
    ),
];

fn request(check: &mut Check<'_>, volumes: &[String]) -> CreateVolumeGroupSnapshotRequest {
    CreateVolumeGroupSnapshotRequest {
        name: check.unique_name(),
        source_volume_ids: volumes.to_vec(),
        secrets: check.secrets(),
        ..Default::default()
    }
}

async fn two_volumes(check: &mut Check<'_>) -> Result<Vec<String>, StopReason> {
    let (one, other) = (check.new_volume().await?, check.new_volume().await?);
    Ok(vec![one.volume_id, other.volume_id])
}

/// Returns a new group snapshot of two volumes.
async fn group(check: &mut Check<'_>) -> Result<VolumeGroupSnapshot, StopReason> {
    let volumes = two_volumes(check).await?;
    let desired = request(check, &volumes);
    let response = check.prepare(desired).await?.group_snapshot;
    response.ok_or_else(|| {
        StopReason::NotRun("CreateVolumeGroupSnapshot returned no group snapshot".to_owned())
    })
}

fn members(group: &VolumeGroupSnapshot) -> Vec<String> {
    let snapshots = group.snapshots.iter();
    snapshots.map(|snapshot| snapshot.snapshot_id.clone()).collect()
}

async fn arguments(check: &mut Check<'_>) -> CheckResult {
    let volumes = two_volumes(check).await?;
    let mut desired = request(check, &volumes);
    desired.name.clear();
    check.call_refused(desired, INVALID, "name is required").await;
    let desired = request(check, &[]);
    let because = "at least one source_volume_id is required";
    check.call_refused(desired, INVALID, because).await;
    Ok(())
}

async fn create(check: &mut Check<'_>) -> CheckResult {
    let volumes = two_volumes(check).await?;
    let desired = request(check, &volumes);
    let response = check.call_ok(desired.clone(), "both volumes exist").await?;
    let first = response.group_snapshot.unwrap_or_default();
    check_group(check, &first, &volumes);
    let because = "a group snapshot of that name and those volumes already exists";
    let response = check.call_ok(desired, because).await?;
    let second = response.group_snapshot.unwrap_or_default();
    let rule = "all IDs are the same: one name never yields two group snapshots";
    let ids = |group: &VolumeGroupSnapshot| BTreeSet::from_iter(members(group));
    let same = first.group_snapshot_id == second.group_snapshot_id && ids(&first) == ids(&second);
    check.expect(same, rule, &format!("{:?}", ids(&second)));
    Ok(())
}

fn check_group(check: &mut Check<'_>, group: &VolumeGroupSnapshot, volumes: &[String]) {
    let id = &group.group_snapshot_id;
    check.expect(!id.is_empty(), "group_snapshot_id is set", "empty");
    let has_time = group.creation_time.is_some();
    check.expect(has_time, "creation_time is set", "not set");
    let sources: BTreeSet<&String> =
        group.snapshots.iter().map(|snapshot| &snapshot.source_volume_id).collect();
    let rule = "the group snapshot has exactly one member per volume";
    let complete = sources == volumes.iter().collect() && group.snapshots.len() == volumes.len();
    check.expect(complete, rule, &format!("{sources:?}"));
    let rule = "every member has the group_snapshot_id of the group snapshot";
    let carried = group.snapshots.iter().all(|one| one.group_snapshot_id == *id);
    check.expect(carried, rule, "a member has another group_snapshot_id, or none");
    let rule = "ready_to_use is false while a member is not ready";
    let all_ready = group.snapshots.iter().all(|one| one.ready_to_use);
    check.expect(!group.ready_to_use || all_ready, rule, "true");
}

async fn other_volumes(check: &mut Check<'_>) -> CheckResult {
    let volumes = two_volumes(check).await?;
    let mut desired = request(check, &volumes);
    check.prepare(desired.clone()).await?;
    desired.source_volume_ids.pop();
    let because = "the existing group snapshot of that name has other volumes";
    check.call_refused(desired, ALREADY_EXISTS, because).await;
    Ok(())
}

async fn nothing(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?.volume_id;
    let unknown = "nomad-csi-check-no-such-volume".to_owned();
    let desired = request(check, &[volume.clone(), unknown]);
    let codes = [StatusCode::NotFound, StatusCode::InvalidArgument, StatusCode::FailedPrecondition];
    check.call_refused(desired, &codes, "one of the volumes does not exist").await;
    let list = check.list_snapshots_request(&volume);
    let response = check.call_ok(list, "ListSnapshots accepts a volume filter").await?;
    let count = response.entries.len();
    let rule = "a failed group snapshot leaves no member behind";
    check.expect(count == 0, rule, &format!("number of snapshots of the existing volume: {count}"));
    Ok(())
}

fn get_request(check: &Check<'_>, id: &str, members: &[String]) -> GetVolumeGroupSnapshotRequest {
    GetVolumeGroupSnapshotRequest {
        group_snapshot_id: id.to_owned(),
        snapshot_ids: members.to_vec(),
        secrets: check.secrets(),
    }
}

async fn get(check: &mut Check<'_>) -> CheckResult {
    let group = group(check).await?;
    let ids = members(&group);
    let desired = get_request(check, &group.group_snapshot_id, &ids);
    let response = check.call_ok(desired, "the group snapshot exists").await?;
    let shown = response.group_snapshot.unwrap_or_default();
    let same = shown.group_snapshot_id == group.group_snapshot_id
        && BTreeSet::from_iter(members(&shown)) == BTreeSet::from_iter(ids);
    check.expect(
        same,
        "the group snapshot has not changed since its creation",
        &format!("{shown:?}"),
    );
    let desired = get_request(check, "nomad-csi-check-no-such-group", &[]);
    check.call_refused(desired, NOT_FOUND, "the group snapshot does not exist").await;
    let desired = get_request(check, "", &[]);
    check.call_refused(desired, INVALID, "group_snapshot_id is required").await;
    let wrong_members = ["nomad-csi-check-no-such-snapshot".to_owned()];
    let desired = get_request(check, &group.group_snapshot_id, &wrong_members);
    if check.call(desired).await.is_ok() {
        let rule = "INVALID_ARGUMENT: snapshot_ids does not match the members";
        check.advise(false, rule, "OK");
    }
    Ok(())
}

async fn restore(check: &mut Check<'_>) -> CheckResult {
    let group = group(check).await?;
    let ids = members(&group);
    let mut desired = check.create_request();
    desired.volume_content_source = ids.first().map(|id| from_snapshot(id));
    check
        .call_ok(desired, "a member of a group snapshot can be restored like any other snapshot")
        .await?;
    Ok(())
}

async fn delete(check: &mut Check<'_>) -> CheckResult {
    let group = group(check).await?;
    let request =
        |id: &str, members: &[String], check: &Check<'_>| DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: id.to_owned(),
            snapshot_ids: members.to_vec(),
            secrets: check.secrets(),
        };
    let empty = request("", &[], check);
    check.call_refused(empty, INVALID, "group_snapshot_id is required").await;
    let unknown = request("nomad-csi-check-no-such-group", &[], check);
    check.call_ok(unknown, "a group snapshot that does not exist counts as deleted").await?;
    let ids = members(&group);
    let desired = request(&group.group_snapshot_id, &ids, check);
    check.call_ok(desired.clone(), "the group snapshot is not in use").await?;
    check.call_ok(desired, "the group snapshot is already deleted").await?;
    if check.plugin().controller_has(ControllerRpc::ListSnapshots) {
        for snapshot in &group.snapshots {
            let list = check.list_snapshots_request(&snapshot.source_volume_id);
            let response = check.call_ok(list, "ListSnapshots accepts a volume filter").await?;
            let gone = response.entries.is_empty();
            check.expect(
                gone,
                "the members are deleted with their group snapshot",
                "ListSnapshots still returns a member",
            );
        }
    }
    Ok(())
}

async fn member(check: &mut Check<'_>) -> CheckResult {
    let group = group(check).await?;
    let ids = members(&group);
    let desired = DeleteSnapshotRequest {
        snapshot_id: ids.first().cloned().unwrap_or_default(),
        secrets: check.secrets(),
    };
    let because = "the snapshot is a member of a group snapshot";
    check.call_refused(desired, INVALID, because).await;
    Ok(())
}
