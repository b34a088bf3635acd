//! SnapshotMetadata (CSI section "SnapshotMetadata Service RPC"): which blocks of a snapshot are
//! there, and which differ between two. Of block volumes, so only with `--block`.

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::{
    BlockMetadata, GetMetadataAllocatedRequest, GetMetadataAllocatedResponse,
    GetMetadataDeltaRequest,
};
use crate::ports::StatusCode;

use super::requests::{INVALID, NOT_FOUND, block};

const NEEDS: &[Need] = &[
    Need::Block,
    Need::SnapshotMetadata,
    Need::Can(ControllerRpc::CreateDeleteSnapshot),
    Need::Can(ControllerRpc::CreateDeleteVolume),
    Need::Node,
];

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Metadata,
        "metadata/arguments",
        "Blocks of a snapshot need its ID, a snapshot that exists, and an offset within it",
        "GetMetadataAllocated Errors",
        NEEDS,
        Creates,
        arguments
    ),
    case!(
        Metadata,
        "metadata/allocated",
        "The blocks of a snapshot ascend, lie within the volume, and include what was written",
        "GetMetadataAllocated",
        NEEDS,
        Creates,
        allocated
    ),
    case!(
        Metadata,
        "metadata/delta",
        "Blocks that differ between two snapshots include what was written between them",
        "GetMetadataDelta",
        NEEDS,
        Creates,
        delta
    ),
];

fn allocated_request(check: &Check<'_>, id: &str, offset: i64) -> GetMetadataAllocatedRequest {
    GetMetadataAllocatedRequest {
        snapshot_id: id.to_owned(),
        starting_offset: offset,
        max_results: 0,
        secrets: check.secrets(),
    }
}

async fn arguments(check: &mut Check<'_>) -> Ended {
    let volume = check.volume_for(block(Mode::SingleNodeWriter)).await?;
    let snapshot = check.snapshot(&volume.volume_id).await?.snapshot_id;
    let beyond = volume
        .capacity_bytes
        .max(check.setup().size)
        .saturating_mul(2);
    for (id, offset, codes, because) in [
        ("", 0, INVALID, "snapshot_id is required"),
        (
            "nomad-csi-check-no-such-snapshot",
            0,
            NOT_FOUND,
            "there is no such snapshot",
        ),
        (
            snapshot.as_str(),
            -1,
            &[StatusCode::OutOfRange, StatusCode::InvalidArgument][..],
            "starting_offset is negative",
        ),
        (
            snapshot.as_str(),
            beyond,
            &[StatusCode::OutOfRange][..],
            "starting_offset is beyond the volume",
        ),
    ] {
        let request = allocated_request(check, id, offset);
        let answer = check.stream(request).await;
        check.hold_refused(&answer, codes, because);
    }
    Ok(())
}

/// Writes down what is wrong with ranges in themselves, and whether they include the first block.
fn inspect(check: &mut Check<'_>, ranges: &[BlockMetadata], capacity: i64) -> bool {
    let mut end = 0;
    for range in ranges {
        let got = format!("{range:?} after {end}");
        let ascends = range.byte_offset >= end && range.size_bytes > 0;
        check.hold(ascends, "blocks ascend and do not overlap", &got);
        end = range.byte_offset.saturating_add(range.size_bytes);
    }
    let rule = format!("no block lies beyond the volume's {capacity} bytes");
    check.hold(capacity == 0 || end <= capacity, &rule, &end.to_string());
    ranges
        .first()
        .is_some_and(|range| range.byte_offset == 0 && range.size_bytes > 0)
}

fn ranges(messages: &[GetMetadataAllocatedResponse]) -> Vec<BlockMetadata> {
    let lists = messages
        .iter()
        .map(|message| message.block_metadata.clone());
    lists.flatten().collect()
}

/// # Errors
/// If it fails: that is a finding.
async fn snapshot_blocks(check: &mut Check<'_>, id: &str) -> Result<bool, Stop> {
    let request = allocated_request(check, id, 0);
    let messages = match check.stream(request).await {
        Ok(messages) => messages,
        failed @ Err(_) => {
            check.hold_ok(&failed, "the snapshot exists");
            return Err(Stop::Found);
        }
    };
    let capacity = messages.first().map_or(0, |one| one.volume_capacity_bytes);
    let constant = messages
        .iter()
        .all(|one| one.volume_capacity_bytes == capacity);
    let rule = "volume_capacity_bytes is the same in every message";
    check.hold(constant, rule, "different ones");
    Ok(inspect(check, &ranges(&messages), capacity))
}

async fn allocated(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(block(Mode::SingleNodeWriter)).await?;
    check.write(&used, "at the start").await?;
    let (snapshot, _) = check.cut(used).await?;
    let includes = snapshot_blocks(check, &snapshot.snapshot_id).await?;
    let rule = "the block that was written is among them";
    check.hold(includes, rule, "the first block is not");
    Ok(())
}

async fn delta(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(block(Mode::SingleNodeWriter)).await?;
    check.write(&used, "before").await?;
    let (base, used) = check.cut(used).await?;
    check.write(&used, "between").await?;
    let (target, _) = check.cut(used).await?;
    let request = GetMetadataDeltaRequest {
        base_snapshot_id: base.snapshot_id,
        target_snapshot_id: target.snapshot_id,
        starting_offset: 0,
        max_results: 0,
        secrets: check.secrets(),
    };
    let answer = check.stream(request).await;
    if let Err(failure) = &answer
        && failure.code() == Some(StatusCode::FailedPrecondition)
    {
        let why = "the plugin does not track changed blocks of this volume";
        return Err(Stop::NotDemanded(why.to_owned()));
    }
    check.hold_ok(&answer, "both snapshots are of the same volume");
    let messages = answer.unwrap_or_default();
    let capacity = messages.first().map_or(0, |one| one.volume_capacity_bytes);
    let lists = messages.into_iter().map(|message| message.block_metadata);
    let all: Vec<BlockMetadata> = lists.flatten().collect();
    let includes = inspect(check, &all, capacity);
    let rule = "the block that was written between the two is among them";
    check.hold(includes, rule, "the first block is not");
    Ok(())
}
