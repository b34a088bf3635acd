//! Group snapshots (CSI section "GroupController"): all of their volumes, or nothing.

use std::collections::BTreeSet;

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::{
    CreateVolumeGroupSnapshotRequest, DeleteSnapshotRequest, DeleteVolumeGroupSnapshotRequest,
    GetVolumeGroupSnapshotRequest, VolumeGroupSnapshot,
};
use crate::ports::StatusCode;

use super::requests::{ALREADY_EXISTS, INVALID, NOT_FOUND, from_snapshot};

const NEEDS: &[Need] = &[
    Need::GroupSnapshots,
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
const SINGLES: &[Need] = &[
    Need::GroupSnapshots,
    Need::Can(ControllerRpc::CreateDeleteSnapshot),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
const LISTS: &[Need] = &[
    Need::GroupSnapshots,
    Need::Can(ControllerRpc::ListSnapshots),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Group,
        "group/arguments",
        "A group snapshot without a name or without volumes is refused",
        "CreateVolumeGroupSnapshot",
        NEEDS,
        Creates,
        arguments
    ),
    case!(
        Group,
        "group/create",
        "A group snapshot has a member of every volume, and the same request again gives the same one",
        "CreateVolumeGroupSnapshot",
        NEEDS,
        Creates,
        create
    ),
    case!(
        Group,
        "group/other-volumes",
        "A taken name with other volumes is refused",
        "CreateVolumeGroupSnapshot Errors",
        NEEDS,
        Creates,
        other_volumes
    ),
    case!(
        Group,
        "group/nothing",
        "A group snapshot that fails leaves no member behind",
        "CreateVolumeGroupSnapshot",
        LISTS,
        Creates,
        nothing
    ),
    case!(
        Group,
        "group/get",
        "A group snapshot is shown as it was created, and not with other members",
        "GetVolumeGroupSnapshot",
        NEEDS,
        Creates,
        get
    ),
    case!(
        Group,
        "group/restore",
        "A member of a group snapshot is restored by itself",
        "CreateVolumeGroupSnapshot",
        SINGLES,
        Creates,
        restore
    ),
    case!(
        Group,
        "group/delete",
        "A group snapshot is deleted with its members, again when it is gone, and needs an ID",
        "DeleteVolumeGroupSnapshot",
        NEEDS,
        Creates,
        delete
    ),
    case!(
        Group,
        "group/member",
        "A member of a group snapshot is not deleted by itself",
        "DeleteSnapshot Errors",
        SINGLES,
        Creates,
        member
    ),
];

fn request(check: &mut Check<'_>, volumes: &[String]) -> CreateVolumeGroupSnapshotRequest {
    CreateVolumeGroupSnapshotRequest {
        name: check.name(),
        source_volume_ids: volumes.to_vec(),
        secrets: check.secrets(),
        ..Default::default()
    }
}

async fn two_volumes(check: &mut Check<'_>) -> Result<Vec<String>, Stop> {
    let (one, other) = (check.volume().await?, check.volume().await?);
    Ok(vec![one.volume_id, other.volume_id])
}

/// A group snapshot of two volumes, to check something with.
async fn group(check: &mut Check<'_>) -> Result<VolumeGroupSnapshot, Stop> {
    let volumes = two_volumes(check).await?;
    let wanted = request(check, &volumes);
    let answer = check.prepare(wanted).await?.group_snapshot;
    answer.ok_or_else(|| {
        Stop::Untried("CreateVolumeGroupSnapshot answered without a group snapshot".to_owned())
    })
}

fn members(group: &VolumeGroupSnapshot) -> Vec<String> {
    let snapshots = group.snapshots.iter();
    snapshots
        .map(|snapshot| snapshot.snapshot_id.clone())
        .collect()
}

async fn arguments(check: &mut Check<'_>) -> Ended {
    let volumes = two_volumes(check).await?;
    let mut wanted = request(check, &volumes);
    wanted.name.clear();
    check.refused(wanted, INVALID, "name is required").await;
    let wanted = request(check, &[]);
    let because = "at least one source_volume_id is required";
    check.refused(wanted, INVALID, because).await;
    Ok(())
}

async fn create(check: &mut Check<'_>) -> Ended {
    let volumes = two_volumes(check).await?;
    let wanted = request(check, &volumes);
    let answer = check.must(wanted.clone(), "both volumes exist").await?;
    let first = answer.group_snapshot.unwrap_or_default();
    inspect(check, &first, &volumes);
    let because = "the group snapshot of that name is of those volumes";
    let answer = check.must(wanted, because).await?;
    let second = answer.group_snapshot.unwrap_or_default();
    let rule = "one name never stands for two group snapshots: the same IDs";
    let ids = |group: &VolumeGroupSnapshot| BTreeSet::from_iter(members(group));
    let same = first.group_snapshot_id == second.group_snapshot_id && ids(&first) == ids(&second);
    check.hold(same, rule, &format!("{:?}", ids(&second)));
    Ok(())
}

fn inspect(check: &mut Check<'_>, group: &VolumeGroupSnapshot, volumes: &[String]) {
    let id = &group.group_snapshot_id;
    check.hold(!id.is_empty(), "group_snapshot_id is set", "empty");
    let has_time = group.creation_time.is_some();
    check.hold(has_time, "creation_time is set", "not set");
    let sources: BTreeSet<&String> = group
        .snapshots
        .iter()
        .map(|snapshot| &snapshot.source_volume_id)
        .collect();
    let rule = "there is one member of every volume";
    let complete = sources == volumes.iter().collect() && group.snapshots.len() == volumes.len();
    check.hold(complete, rule, &format!("{sources:?}"));
    let rule = "every member carries group_snapshot_id";
    let carried = group
        .snapshots
        .iter()
        .all(|one| one.group_snapshot_id == *id);
    check.hold(carried, rule, "a member without it");
    let rule = "ready_to_use is false while a member is not ready";
    let all_ready = group.snapshots.iter().all(|one| one.ready_to_use);
    check.hold(!group.ready_to_use || all_ready, rule, "true");
}

async fn other_volumes(check: &mut Check<'_>) -> Ended {
    let volumes = two_volumes(check).await?;
    let mut wanted = request(check, &volumes);
    check.prepare(wanted.clone()).await?;
    wanted.source_volume_ids.pop();
    let because = "the group snapshot of that name is of other volumes";
    check.refused(wanted, ALREADY_EXISTS, because).await;
    Ok(())
}

async fn nothing(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?.volume_id;
    let unknown = "nomad-csi-check-no-such-volume".to_owned();
    let wanted = request(check, &[volume.clone(), unknown]);
    let codes = [
        StatusCode::NotFound,
        StatusCode::InvalidArgument,
        StatusCode::FailedPrecondition,
    ];
    check
        .refused(wanted, &codes, "one of the volumes does not exist")
        .await;
    let list = check.snapshots_of(&volume);
    let answer = check.must(list, "snapshots of one volume").await?;
    let count = answer.entries.len();
    let rule = "a group snapshot that failed left no member behind";
    check.hold(
        count == 0,
        rule,
        &format!("{count} snapshots of the other volume"),
    );
    Ok(())
}

fn get_request(check: &Check<'_>, id: &str, members: &[String]) -> GetVolumeGroupSnapshotRequest {
    GetVolumeGroupSnapshotRequest {
        group_snapshot_id: id.to_owned(),
        snapshot_ids: members.to_vec(),
        secrets: check.secrets(),
    }
}

async fn get(check: &mut Check<'_>) -> Ended {
    let group = group(check).await?;
    let ids = members(&group);
    let wanted = get_request(check, &group.group_snapshot_id, &ids);
    let answer = check.must(wanted, "the group snapshot exists").await?;
    let shown = answer.group_snapshot.unwrap_or_default();
    let same = shown.group_snapshot_id == group.group_snapshot_id
        && BTreeSet::from_iter(members(&shown)) == BTreeSet::from_iter(ids);
    check.hold(
        same,
        "the group snapshot as it was created",
        &format!("{shown:?}"),
    );
    let wanted = get_request(check, "nomad-csi-check-no-such-group", &[]);
    check
        .refused(wanted, NOT_FOUND, "there is no such group snapshot")
        .await;
    let wanted = get_request(check, "", &[]);
    check
        .refused(wanted, INVALID, "group_snapshot_id is required")
        .await;
    let stranger = ["nomad-csi-check-no-such-snapshot".to_owned()];
    let wanted = get_request(check, &group.group_snapshot_id, &stranger);
    if check.call(wanted).await.is_ok() {
        let rule = "INVALID_ARGUMENT: snapshot_ids are not the members";
        check.advise(false, rule, "OK");
    }
    Ok(())
}

async fn restore(check: &mut Check<'_>) -> Ended {
    let group = group(check).await?;
    let ids = members(&group);
    let mut wanted = check.create_request();
    wanted.volume_content_source = ids.first().map(|id| from_snapshot(id));
    check
        .must(wanted, "members are snapshots like others")
        .await?;
    Ok(())
}

async fn delete(check: &mut Check<'_>) -> Ended {
    let group = group(check).await?;
    let request =
        |id: &str, members: &[String], check: &Check<'_>| DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: id.to_owned(),
            snapshot_ids: members.to_vec(),
            secrets: check.secrets(),
        };
    let empty = request("", &[], check);
    check
        .refused(empty, INVALID, "group_snapshot_id is required")
        .await;
    let unknown = request("nomad-csi-check-no-such-group", &[], check);
    check
        .must(unknown, "what is not there is deleted already")
        .await?;
    let ids = members(&group);
    let wanted = request(&group.group_snapshot_id, &ids, check);
    check
        .must(wanted.clone(), "the group snapshot is not in use")
        .await?;
    check
        .must(wanted, "a repeated deletion finds it gone")
        .await?;
    if check.profile().controller_has(ControllerRpc::ListSnapshots) {
        for snapshot in &group.snapshots {
            let list = check.snapshots_of(&snapshot.source_volume_id);
            let answer = check.must(list, "snapshots of one volume").await?;
            let gone = answer.entries.is_empty();
            check.hold(
                gone,
                "the members are deleted with their group",
                "still listed",
            );
        }
    }
    Ok(())
}

async fn member(check: &mut Check<'_>) -> Ended {
    let group = group(check).await?;
    let ids = members(&group);
    let wanted = DeleteSnapshotRequest {
        snapshot_id: ids.first().cloned().unwrap_or_default(),
        secrets: check.secrets(),
    };
    let because = "the snapshot belongs to a group";
    check.refused(wanted, INVALID, because).await;
    Ok(())
}
