//! Snapshots (CSI sections "CreateSnapshot", "DeleteSnapshot", "ListSnapshots", "GetSnapshot").
//! What is in them is checked with the copies made of them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::conformance::report::Level;
use crate::conformance::sound;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::{
    CreateSnapshotRequest, DeleteSnapshotRequest, GetSnapshotRequest, ListSnapshotsRequest,
    Snapshot,
};
use crate::ports::StatusCode;

use super::requests::{ABORTED, ALREADY_EXISTS, INVALID, NOT_FOUND, at_least};
use super::using::Used;

const CUTS: &[Need] = &[
    Need::Can(ControllerRpc::CreateDeleteSnapshot),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
const LISTS: &[Need] = &[Need::Can(ControllerRpc::ListSnapshots)];
const LISTS_CUT: &[Need] = &[
    Need::Can(ControllerRpc::ListSnapshots),
    Need::Can(ControllerRpc::CreateDeleteSnapshot),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
const GETS: &[Need] = &[Need::Can(ControllerRpc::GetSnapshot)];
const GETS_CUT: &[Need] = &[
    Need::Can(ControllerRpc::GetSnapshot),
    Need::Can(ControllerRpc::CreateDeleteSnapshot),
    Need::Can(ControllerRpc::CreateDeleteVolume),
];
/// How often a snapshot that is not ready is asked for again, and the pause between two.
const ATTEMPTS: u32 = 240;
const PAUSE: Duration = Duration::from_millis(500);
/// A list of more pages than this never ends.
const MOST_PAGES: usize = 2_000;

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Snapshot,
        "snapshot/arguments",
        "A snapshot without a name or without its volume's ID is refused",
        "CreateSnapshot",
        CUTS,
        Creates,
        arguments
    ),
    case!(
        Snapshot,
        "snapshot/unknown-volume",
        "A snapshot of a volume that does not exist is NOT_FOUND",
        "CreateSnapshot",
        CUTS,
        Creates,
        unknown_volume
    ),
    case!(
        Snapshot,
        "snapshot/create",
        "A snapshot is described as the specification wants, and becomes ready",
        "CreateSnapshot",
        CUTS,
        Creates,
        create
    ),
    case!(
        Snapshot,
        "snapshot/same-again",
        "The same snapshot again is the same snapshot",
        "CreateSnapshot",
        CUTS,
        Creates,
        same_again
    ),
    case!(
        Snapshot,
        "snapshot/longest-name",
        "A name of 128 bytes is taken, and stands for one snapshot",
        "CreateSnapshot",
        CUTS,
        Creates,
        longest_name
    ),
    case!(
        Snapshot,
        "snapshot/other-volume",
        "A taken name with another volume is refused",
        "CreateSnapshot Errors",
        CUTS,
        Creates,
        other_volume
    ),
    case!(
        Snapshot,
        "snapshot/several",
        "A volume has several snapshots, and each is deleted by itself",
        "CreateSnapshot",
        CUTS,
        Creates,
        several
    ),
    case!(
        Snapshot,
        "snapshot/delete",
        "Deleting a snapshot succeeds, again when it is gone, and needs an ID",
        "DeleteSnapshot",
        CUTS,
        Creates,
        delete
    ),
    case!(
        Snapshot,
        "snapshot/outlives-volume",
        "A volume with a snapshot is deleted without it, or stays untouched",
        "DeleteVolume",
        CUTS,
        Creates,
        outlives_volume
    ),
    case!(
        Snapshot,
        "snapshot/list",
        "Snapshots are listed, by volume and by ID too; what matches nothing is an empty list",
        "ListSnapshots",
        LISTS_CUT,
        Creates,
        list
    ),
    case!(
        Snapshot,
        "snapshot/pages",
        "Pages of snapshots hold their limit, end, and together show every snapshot",
        "ListSnapshots",
        LISTS_CUT,
        Creates,
        pages
    ),
    case!(
        Snapshot,
        "snapshot/bad-token",
        "A list that begins with a token that is none is refused with ABORTED",
        "ListSnapshots Errors",
        LISTS,
        Creates,
        bad_token
    ),
    case!(
        Snapshot,
        "snapshot/get",
        "A single snapshot is shown as it was created",
        "GetSnapshot",
        GETS_CUT,
        Creates,
        get
    ),
    case!(
        Snapshot,
        "snapshot/get-unknown",
        "A single snapshot that does not exist is NOT_FOUND",
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
            name: self.name(),
            secrets: self.secrets(),
            ..Default::default()
        }
    }

    /// A snapshot that is ready, to check something with.
    ///
    /// # Errors
    /// If it cannot be had: then the check says nothing.
    pub(super) async fn snapshot(&mut self, volume_id: &str) -> Result<Snapshot, Stop> {
        let request = self.snapshot_request(volume_id);
        self.ready_snapshot(request).await
    }

    async fn ready_snapshot(&mut self, request: CreateSnapshotRequest) -> Result<Snapshot, Stop> {
        for _ in 0..ATTEMPTS {
            let snapshot = self.prepare(request.clone()).await?.snapshot;
            let snapshot = snapshot.unwrap_or_default();
            if snapshot.snapshot_id.is_empty() {
                let why = "CreateSnapshot answered without a snapshot";
                return Err(Stop::Untried(why.to_owned()));
            }
            if snapshot.ready_to_use {
                return Ok(snapshot);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(Stop::Untried(
            "the snapshot does not become ready".to_owned(),
        ))
    }

    /// A snapshot of a volume in use. A plugin that cannot bring it to rest may refuse that; then it
    /// is cut out of use, and brought into use again.
    ///
    /// # Errors
    /// If it cannot be had: then the check says nothing.
    pub(super) async fn cut(&mut self, used: Used) -> Result<(Snapshot, Used), Stop> {
        let id = used.volume.volume_id.clone();
        let request = self.snapshot_request(&id);
        let refused = match self.call(request.clone()).await {
            Ok(_) => false,
            Err(failure) => failure.code() == Some(StatusCode::FailedPrecondition),
        };
        if !refused {
            return Ok((self.ready_snapshot(request).await?, used));
        }
        self.release(&used).await?;
        let snapshot = self.snapshot(&id).await?;
        let again = self.published(used.volume, used.capability).await?;
        Ok((snapshot, again))
    }

    fn delete_snapshot_request(&self, id: &str) -> DeleteSnapshotRequest {
        DeleteSnapshotRequest {
            snapshot_id: id.to_owned(),
            secrets: self.secrets(),
        }
    }

    pub(super) fn snapshots_of(&self, volume_id: &str) -> ListSnapshotsRequest {
        ListSnapshotsRequest {
            source_volume_id: volume_id.to_owned(),
            secrets: self.secrets(),
            ..Default::default()
        }
    }
}

async fn arguments(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let mut request = check.snapshot_request(&volume.volume_id);
    request.name.clear();
    check.refused(request, INVALID, "name is required").await;
    let request = check.snapshot_request("");
    check
        .refused(request, INVALID, "source_volume_id is required")
        .await;
    Ok(())
}

async fn unknown_volume(check: &mut Check<'_>) -> Ended {
    let request = check.snapshot_request("nomad-csi-check-no-such-volume");
    let codes = [StatusCode::NotFound, StatusCode::InvalidArgument];
    check
        .refused(request, &codes, "there is no such volume")
        .await;
    Ok(())
}

fn inspect(check: &mut Check<'_>, snapshot: &Snapshot, volume_id: &str) {
    check.problems(sound::id("snapshot_id", &snapshot.snapshot_id));
    let rule = "source_volume_id is the volume's";
    let source = &snapshot.source_volume_id;
    check.hold(source == volume_id, rule, source);
    let has_time = snapshot.creation_time.is_some_and(|time| time.seconds > 0);
    check.hold(has_time, "creation_time is set", "not set");
    let rule = "size_bytes is not negative";
    check.hold(
        snapshot.size_bytes >= 0,
        rule,
        &snapshot.size_bytes.to_string(),
    );
    if !snapshot.group_snapshot_id.is_empty() {
        let rule = "group_snapshot_id is of members of a group only";
        check.find(Level::Must, rule, &snapshot.group_snapshot_id);
    }
}

async fn create(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let request = check.snapshot_request(&volume.volume_id);
    let because = "the volume exists";
    let mut snapshot = Snapshot::default();
    for _ in 0..ATTEMPTS {
        let answer = check.must(request.clone(), because).await?;
        snapshot = answer.snapshot.unwrap_or_default();
        inspect(check, &snapshot, &volume.volume_id);
        if snapshot.ready_to_use || check.has_failed() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    check.hold(snapshot.ready_to_use, "ready_to_use becomes true", "false");
    Ok(())
}

async fn same_again(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let request = check.snapshot_request(&volume.volume_id);
    let first = check.prepare(request.clone()).await?;
    let first = first.snapshot.unwrap_or_default();
    let because = "the snapshot of that name is of that volume";
    let second = check
        .must(request, because)
        .await?
        .snapshot
        .unwrap_or_default();
    let rule = "one name never stands for two snapshots: the same snapshot_id";
    let got = format!("{} and {}", first.snapshot_id, second.snapshot_id);
    check.hold(first.snapshot_id == second.snapshot_id, rule, &got);
    let rule = "creation_time is that of the cut, and stays";
    let same = first.creation_time == second.creation_time;
    check.hold(same, rule, &format!("{:?}", second.creation_time));
    Ok(())
}

async fn longest_name(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let mut request = check.snapshot_request(&volume.volume_id);
    let missing = 128_usize.saturating_sub(request.name.len());
    request.name += &"n".repeat(missing);
    for because in ["a text may have 128 bytes", "it is the same name again"] {
        check.must(request.clone(), because).await?;
    }
    Ok(())
}

async fn other_volume(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let mut request = check.snapshot_request(&volume.volume_id);
    check.prepare(request.clone()).await?;
    let other = check.volume().await?;
    request.source_volume_id = other.volume_id;
    let because = "the snapshot of that name is of another volume";
    check.refused(request, ALREADY_EXISTS, because).await;
    Ok(())
}

async fn several(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let mut ids = vec![];
    for _ in 0..3 {
        let request = check.snapshot_request(&volume.volume_id);
        let answer = check
            .must(request, "a volume has any number of snapshots")
            .await?;
        ids.push(answer.snapshot.unwrap_or_default().snapshot_id);
    }
    let different: BTreeSet<_> = ids.iter().collect();
    let rule = "every name stands for a snapshot of its own";
    check.hold(different.len() == ids.len(), rule, &format!("{ids:?}"));
    let delete = check.delete_snapshot_request(&ids[1]);
    check.must(delete, "the snapshot is not in use").await?;
    if !check.profile().controller_has(ControllerRpc::ListSnapshots) {
        return Ok(());
    }
    let request = check.snapshots_of(&volume.volume_id);
    let answer = check.must(request, "the volume's snapshots").await?;
    let left: BTreeSet<String> = answer
        .entries
        .into_iter()
        .filter_map(|entry| entry.snapshot)
        .map(|snapshot| snapshot.snapshot_id)
        .collect();
    let expected = BTreeSet::from([ids[0].clone(), ids[2].clone()]);
    let rule = format!("the other two are still there: {expected:?}");
    check.hold(left == expected, &rule, &format!("{left:?}"));
    Ok(())
}

async fn delete(check: &mut Check<'_>) -> Ended {
    let request = check.delete_snapshot_request("");
    check
        .refused(request, INVALID, "snapshot_id is required")
        .await;
    let request = check.delete_snapshot_request("nomad-csi-check-no-such-snapshot");
    check
        .must(request, "what is not there is deleted already")
        .await?;
    let volume = check.volume().await?;
    let snapshot = check.snapshot(&volume.volume_id).await?;
    let request = check.delete_snapshot_request(&snapshot.snapshot_id);
    check
        .must(request.clone(), "the snapshot is not in use")
        .await?;
    check
        .must(request, "a repeated deletion finds it gone")
        .await?;
    Ok(())
}

async fn outlives_volume(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let snapshot = check.snapshot(&volume.volume_id).await?;
    let delete = check.delete_request(&volume.volume_id);
    match check.call(delete).await {
        Ok(_) => {
            let mut request = check.create_request();
            request.volume_content_source =
                Some(super::requests::from_snapshot(&snapshot.snapshot_id));
            let size = snapshot.size_bytes.max(check.setup().size);
            request.capacity_range = Some(at_least(size));
            let because =
                "the volume was deleted without its snapshot, which can still be restored";
            check.must(request, because).await?;
        }
        Err(failure) => {
            let rule = "OK, or FAILED_PRECONDITION since the volume has a snapshot";
            let refused = failure.code() == Some(StatusCode::FailedPrecondition);
            check.hold(refused, rule, &failure.to_string());
            let request = check.snapshot_request(&volume.volume_id);
            check.must(request, "the volume stayed untouched").await?;
        }
    }
    Ok(())
}

/// The IDs of the snapshots that a list shows.
async fn listed(
    check: &mut Check<'_>,
    request: ListSnapshotsRequest,
    because: &str,
) -> Result<Vec<String>, Stop> {
    let answer = check.must(request, because).await?;
    let mut ids = vec![];
    for snapshot in answer
        .entries
        .into_iter()
        .filter_map(|entry| entry.snapshot)
    {
        let has_time = snapshot.creation_time.is_some();
        check.hold(has_time, "creation_time is set", "not set");
        ids.push(snapshot.snapshot_id);
    }
    Ok(ids)
}

async fn list(check: &mut Check<'_>) -> Ended {
    let (volume, other) = (check.volume().await?, check.volume().await?);
    let ours = check.snapshot(&volume.volume_id).await?.snapshot_id;
    let others = check.snapshot(&other.volume_id).await?.snapshot_id;
    let by_volume = check.snapshots_of(&volume.volume_id);
    let ids = listed(check, by_volume, "snapshots of one volume").await?;
    check.hold(
        ids == [ours.clone()],
        &format!("only {ours}"),
        &format!("{ids:?}"),
    );
    let by_id = |id: &str, check: &Check<'_>| ListSnapshotsRequest {
        snapshot_id: id.to_owned(),
        ..check.snapshots_of("")
    };
    let request = by_id(&others, check);
    let ids = listed(check, request, "one snapshot").await?;
    check.hold(
        ids == [others.clone()],
        &format!("only {others}"),
        &format!("{ids:?}"),
    );
    let nothing = "a filter that matches nothing gives an empty list";
    let requests = [
        by_id("nomad-csi-check-no-such-snapshot", check),
        check.snapshots_of("nomad-csi-check-no-such-volume"),
    ];
    for request in requests {
        let ids = listed(check, request, nothing).await?;
        check.hold(ids.is_empty(), nothing, &format!("{ids:?}"));
    }
    // The specification does not say that both filters go together; every caller would think so.
    let both = ListSnapshotsRequest {
        snapshot_id: others.clone(),
        ..check.snapshots_of(&volume.volume_id)
    };
    let ids = listed(check, both, nothing).await?;
    let rule = "a snapshot that is of another volume is not listed as one of this";
    check.advise(ids.is_empty(), rule, &format!("{ids:?}"));
    Ok(())
}

async fn pages(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let mut ours = BTreeSet::new();
    for _ in 0..5 {
        ours.insert(check.snapshot(&volume.volume_id).await?.snapshot_id);
    }
    let mut shown = BTreeSet::new();
    let mut token = String::new();
    for _ in 0..MOST_PAGES {
        let request = ListSnapshotsRequest {
            max_entries: 2,
            starting_token: token.clone(),
            ..check.snapshots_of("")
        };
        let because = "a page begins with the token of the one before";
        let page = check.must(request, because).await?;
        let count = page.entries.len();
        check.hold(count <= 2, "at most 2 entries", &format!("{count} entries"));
        let snapshots = page.entries.into_iter().filter_map(|entry| entry.snapshot);
        shown.extend(snapshots.map(|snapshot| snapshot.snapshot_id));
        if page.next_token.is_empty() {
            let missing: Vec<_> = ours.difference(&shown).collect();
            let rule = "every snapshot is on some page";
            check.hold(missing.is_empty(), rule, &format!("{missing:?} on none"));
            return Ok(());
        }
        let rule = "next_token leads to another page";
        if !check.hold(
            page.next_token != token,
            rule,
            "the token of the page itself",
        ) {
            return Ok(());
        }
        token = page.next_token;
    }
    let got = format!("no end after {MOST_PAGES} pages");
    check.find(Level::Must, "the list ends", &got);
    Ok(())
}

async fn bad_token(check: &mut Check<'_>) -> Ended {
    let request = ListSnapshotsRequest {
        starting_token: "nomad-csi-check".to_owned(),
        ..check.snapshots_of("")
    };
    let because = "the token came from no list; the caller begins anew";
    check.refused(request, ABORTED, because).await;
    Ok(())
}

async fn get(check: &mut Check<'_>) -> Ended {
    let volume = check.volume().await?;
    let snapshot = check.snapshot(&volume.volume_id).await?;
    let request = GetSnapshotRequest {
        snapshot_id: snapshot.snapshot_id.clone(),
        secrets: check.secrets(),
    };
    let answer = check.must(request, "the snapshot exists").await?;
    let shown = answer.snapshot.unwrap_or_default();
    let rule = "the snapshot as it was created";
    check.hold(shown == snapshot, rule, &format!("{shown:?}"));
    Ok(())
}

async fn get_unknown(check: &mut Check<'_>) -> Ended {
    let request = |id: &str, check: &Check<'_>| GetSnapshotRequest {
        snapshot_id: id.to_owned(),
        secrets: check.secrets(),
    };
    let unknown = request("nomad-csi-check-no-such-snapshot", check);
    check
        .refused(unknown, NOT_FOUND, "there is no such snapshot")
        .await;
    let empty = request("", check);
    check
        .refused(empty, INVALID, "snapshot_id is required")
        .await;
    Ok(())
}
