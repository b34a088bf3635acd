//! Checks of the SnapshotMetadata service: which blocks of a snapshot are allocated, and which differ
//! between two snapshots. They need block volumes, so they run only with `--block`.

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::{
    BlockMetadata, GetMetadataAllocatedRequest, GetMetadataAllocatedResponse,
    GetMetadataDeltaRequest,
};

use super::requests::{INVALID, NOT_FOUND, block};

const NEEDS: &[Need] = &[
    Need::BlockVolumes,
    Need::SnapshotMetadata,
    Need::ControllerCapability(ControllerRpc::CreateDeleteSnapshot),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
    Need::NodeService,
];

pub(crate) const CASES: &[Case] = &[
    case!(
        Metadata,
        "metadata/arguments",
        "GetMetadataAllocated requires an existing snapshot and an offset within the volume",
        "GetMetadataAllocated Errors",
        NEEDS,
        Creates,
        arguments
    ),
    case!(
        Metadata,
        "metadata/allocated",
        "GetMetadataAllocated returns ascending blocks within the volume, with the written one",
        "GetMetadataAllocated",
        NEEDS,
        Creates,
        allocated
    ),
    case!(
        Metadata,
        "metadata/delta",
        "GetMetadataDelta returns the blocks that were written between two snapshots",
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

async fn arguments(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume_with(block(Mode::SingleNodeWriter)).await?;
    let snapshot = check.new_snapshot(&volume.volume_id).await?.snapshot_id;
    let beyond = volume.capacity_bytes.max(check.options().size).saturating_mul(2);
    for (id, offset, codes, because) in [
        ("", 0, INVALID, "snapshot_id is required"),
        ("nomad-csi-check-no-such-snapshot", 0, NOT_FOUND, "the snapshot does not exist"),
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
            "starting_offset is beyond the end of the volume",
        ),
    ] {
        let request = allocated_request(check, id, offset);
        let response = check.stream(request).await;
        check.expect_refusal(&response, codes, because);
    }
    Ok(())
}

/// Records what is wrong with `ranges`. Returns whether they include the first block.
fn check_ranges(check: &mut Check<'_>, ranges: &[BlockMetadata], capacity: i64) -> bool {
    let mut end = 0;
    for range in ranges {
        let got = format!("{range:?} after offset {end}");
        let ascends = range.byte_offset >= end && range.size_bytes > 0;
        check.expect(ascends, "blocks ascend and do not overlap", &got);
        end = range.byte_offset.saturating_add(range.size_bytes);
    }
    let rule = format!("no block is beyond the {capacity} bytes of the volume");
    check.expect(capacity == 0 || end <= capacity, &rule, &end.to_string());
    ranges.first().is_some_and(|range| range.byte_offset == 0 && range.size_bytes > 0)
}

fn ranges(messages: &[GetMetadataAllocatedResponse]) -> Vec<BlockMetadata> {
    let lists = messages.iter().map(|message| message.block_metadata.clone());
    lists.flatten().collect()
}

/// # Errors
/// Records a finding if the call fails.
async fn snapshot_blocks(check: &mut Check<'_>, id: &str) -> Result<bool, StopReason> {
    let request = allocated_request(check, id, 0);
    let messages = match check.stream(request).await {
        Ok(messages) => messages,
        failed @ Err(_) => {
            check.expect_ok(&failed, "the snapshot exists");
            return Err(StopReason::FindingRecorded);
        }
    };
    let capacity = messages.first().map_or(0, |one| one.volume_capacity_bytes);
    let constant = messages.iter().all(|one| one.volume_capacity_bytes == capacity);
    let rule = "volume_capacity_bytes is the same in every message";
    check.expect(constant, rule, "different values");
    Ok(check_ranges(check, &ranges(&messages), capacity))
}

async fn allocated(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(block(Mode::SingleNodeWriter)).await?;
    check.write_data(&used, "at the start").await?;
    let (snapshot, _) = check.snapshot_in_use(used).await?;
    let includes = snapshot_blocks(check, &snapshot.snapshot_id).await?;
    let rule = "the response includes the written block";
    check.expect(includes, rule, "the first block is missing");
    Ok(())
}

async fn delta(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(block(Mode::SingleNodeWriter)).await?;
    check.write_data(&used, "before").await?;
    let (base, used) = check.snapshot_in_use(used).await?;
    check.write_data(&used, "between").await?;
    let (target, _) = check.snapshot_in_use(used).await?;
    let request = GetMetadataDeltaRequest {
        base_snapshot_id: base.snapshot_id,
        target_snapshot_id: target.snapshot_id,
        starting_offset: 0,
        max_results: 0,
        secrets: check.secrets(),
    };
    let response = check.stream(request).await;
    if let Err(failure) = &response
        && failure.code() == Some(StatusCode::FailedPrecondition)
    {
        let why = "the plugin does not track changed blocks of this volume";
        return Err(StopReason::NotApplicable(why.to_owned()));
    }
    check.expect_ok(&response, "both snapshots are of the same volume");
    let messages = response.unwrap_or_default();
    let capacity = messages.first().map_or(0, |one| one.volume_capacity_bytes);
    let lists = messages.into_iter().map(|message| message.block_metadata);
    let all: Vec<BlockMetadata> = lists.flatten().collect();
    let includes = check_ranges(check, &all, capacity);
    let rule = "the response includes the block written between the snapshots";
    check.expect(includes, rule, "the first block is missing");
    Ok(())
}
