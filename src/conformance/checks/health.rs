//! Checks of the health of volumes and storage, since CSI 1.13.
//!
//! A plugin may report any condition, so a condition is no finding. Findings are statuses that no
//! orchestrator can use: without a reason, listed twice, or of another volume.

use std::collections::BTreeSet;

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::Check;
use crate::finding::Level;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::node_service_capability::rpc::Type as NodeRpc;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::{
    ControllerGetVolumeHealthRequest, ControllerListVolumeHealthRequest,
    NodeGetStorageHealthRequest, NodeGetVolumeHealthRequest, VolumeHealth,
};

use super::requests::{ABORTED, INVALID, NOT_FOUND, mount};
use super::volume_use::VolumeUse;

const GETS: &[Need] = &[Need::ControllerCapability(ControllerRpc::GetVolumeHealth)];
const GETS_CREATED: &[Need] = &[
    Need::ControllerCapability(ControllerRpc::GetVolumeHealth),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const LISTS: &[Need] = &[Need::ControllerCapability(ControllerRpc::ListVolumeHealth)];
const NODE: &[Need] = &[Need::NodeCapability(NodeRpc::GetVolumeHealth)];
const NODE_CREATED: &[Need] = &[
    Need::NodeCapability(NodeRpc::GetVolumeHealth),
    Need::ControllerCapability(ControllerRpc::CreateDeleteVolume),
];
const STORAGE: &[Need] = &[Need::NodeCapability(NodeRpc::GetStorageHealth)];
/// A list with more pages than this counts as endless.
const MAX_PAGES: usize = 2_000;
const UNKNOWN: &str = "nomad-csi-check-no-such-volume";

pub(crate) const CASES: &[Case] = &[
    case!(
        Health,
        "health/get",
        "ControllerGetVolumeHealth returns valid statuses of the requested volume",
        "ControllerGetVolumeHealth",
        GETS_CREATED,
        Creates,
        get
    ),
    case!(
        Health,
        "health/get-unknown",
        "ControllerGetVolumeHealth of an unknown volume fails with NOT_FOUND",
        "ControllerGetVolumeHealth Errors",
        GETS,
        Reads,
        get_unknown
    ),
    case!(
        Health,
        "health/list",
        "ControllerListVolumeHealth pages respect max_entries, end, and have valid statuses",
        "ControllerListVolumeHealth",
        LISTS,
        Reads,
        list
    ),
    case!(
        Health,
        "health/bad-token",
        "ControllerListVolumeHealth with an invalid starting_token fails with ABORTED",
        "ControllerListVolumeHealth Errors",
        LISTS,
        Creates,
        bad_token
    ),
    case!(
        Health,
        "health/node",
        "NodeGetVolumeHealth returns valid statuses of a published volume, with and without paths",
        "NodeGetVolumeHealth",
        NODE_CREATED,
        Creates,
        node
    ),
    case!(
        Health,
        "health/node-unknown",
        "NodeGetVolumeHealth of an unknown volume fails with NOT_FOUND",
        "NodeGetVolumeHealth Errors",
        NODE,
        Reads,
        node_unknown
    ),
    case!(
        Health,
        "health/storage",
        "NodeGetStorageHealth returns valid statuses",
        "NodeGetStorageHealth",
        STORAGE,
        Reads,
        storage
    ),
];

fn get_request(check: &Check<'_>, id: &str) -> ControllerGetVolumeHealthRequest {
    ControllerGetVolumeHealthRequest { volume_id: id.to_owned(), secrets: check.secrets() }
}

async fn get(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let request = get_request(check, &volume.volume_id);
    let response = check.call_ok(request, "the volume exists").await?;
    check_requested(check, response.volume_health, &volume.volume_id);
    Ok(())
}

async fn get_unknown(check: &mut Check<'_>) -> CheckResult {
    let request = get_request(check, "");
    let because = "volume_id is required";
    check.call_refused(request, INVALID, because).await;
    let request = get_request(check, UNKNOWN);
    let because = "the volume does not exist";
    check.call_refused(request, NOT_FOUND, because).await;
    Ok(())
}

fn page(check: &Check<'_>, max_entries: i32, token: &str) -> ControllerListVolumeHealthRequest {
    ControllerListVolumeHealthRequest {
        max_entries,
        starting_token: token.to_owned(),
        secrets: check.secrets(),
    }
}

async fn list(check: &mut Check<'_>) -> CheckResult {
    let request = page(check, -1, "");
    let because = "max_entries is negative";
    check.call_refused(request, INVALID, because).await;
    let mut token = String::new();
    for _ in 0..MAX_PAGES {
        let request = page(check, 1, &token);
        let because = "starting_token is the next_token of the previous page";
        let response = check.call_ok(request, because).await?;
        let rule = "a page has at most max_entries entries (1)";
        let got = format!("{} entries", response.entries.len());
        check.expect(response.entries.len() <= 1, rule, &got);
        for health in &response.entries {
            check_health(check, health);
        }
        if response.next_token.is_empty() {
            return Ok(());
        }
        let rule = "next_token differs from starting_token";
        if !check.expect(response.next_token != token, rule, "the same token") {
            return Ok(());
        }
        token = response.next_token;
    }
    let got = format!("no end after {MAX_PAGES} pages");
    check.add_finding(Level::Must, "the list ends", &got);
    Ok(())
}

async fn bad_token(check: &mut Check<'_>) -> CheckResult {
    for token in ["nomad-csi-check", "\u{1f980}/../%00", "-1"] {
        let request = page(check, 0, token);
        let because = "starting_token is invalid, so the caller must restart the list";
        check.call_refused(request, ABORTED, because).await;
    }
    Ok(())
}

fn node_request(used: &VolumeUse) -> NodeGetVolumeHealthRequest {
    NodeGetVolumeHealthRequest {
        volume_id: used.volume.volume_id.clone(),
        volume_publish_path: used.target.clone(),
        staging_target_path: used.staging.clone(),
    }
}

async fn node(check: &mut Check<'_>) -> CheckResult {
    let used = check.new_published(mount(Mode::SingleNodeWriter)).await?;
    let id = used.volume.volume_id.clone();
    let because = "the volume is published at this path";
    let response = check.call_ok(node_request(&used), because).await?;
    check_requested(check, response.volume_health, &id);
    let request = NodeGetVolumeHealthRequest { volume_id: id.clone(), ..Default::default() };
    let because = "both paths are optional";
    let response = check.call_ok(request, because).await?;
    check_requested(check, response.volume_health, &id);
    Ok(())
}

async fn node_unknown(check: &mut Check<'_>) -> CheckResult {
    let because = "volume_id is required";
    let request = NodeGetVolumeHealthRequest::default();
    check.call_refused(request, INVALID, because).await;
    let request =
        NodeGetVolumeHealthRequest { volume_id: UNKNOWN.to_owned(), ..Default::default() };
    let because = "the volume does not exist";
    check.call_refused(request, NOT_FOUND, because).await;
    Ok(())
}

async fn storage(check: &mut Check<'_>) -> CheckResult {
    let request = NodeGetStorageHealthRequest { secrets: check.secrets() };
    let response = check.call_ok(request, "every field is optional").await?;
    let entries = &response.backend_health;
    for entry in entries {
        check_status(check, entry.status, &entry.reason);
    }
    let rule = "no two entries have the same status, reason and volume_capability";
    let is_repeated = (1..entries.len()).any(|at| {
        let same = |other: usize| {
            (entries[other].status, &entries[other].reason)
                == (entries[at].status, &entries[at].reason)
                && entries[other].volume_capability == entries[at].volume_capability
        };
        (0..at).any(same)
    });
    check.expect(!is_repeated, rule, &format!("{entries:?}"));
    Ok(())
}

fn check_requested(check: &mut Check<'_>, health: Option<VolumeHealth>, id: &str) {
    let Some(health) = health else {
        check.add_finding(Level::Must, "volume_health is set", "not set");
        return;
    };
    let rule = "volume_id is the ID of the requested volume";
    check.expect(health.volume_id == id, rule, &health.volume_id);
    check_health(check, &health);
}

fn check_health(check: &mut Check<'_>, health: &VolumeHealth) {
    check.expect(!health.volume_id.is_empty(), "volume_id is set", "empty");
    let mut seen = BTreeSet::new();
    for entry in &health.health_statuses {
        check_status(check, entry.status, &entry.reason);
        let rule = "no two statuses of a volume have the same status and reason";
        let is_new = seen.insert((entry.status, &entry.reason));
        check.expect(is_new, rule, &entry.reason);
    }
}

fn check_status(check: &mut Check<'_>, status: i32, reason: &str) {
    check.expect(status != 0, "status is set", "not set");
    check.expect(!reason.is_empty(), "reason is set", "empty");
    let is_camel_case = reason.starts_with(|c: char| c.is_ascii_uppercase())
        && reason.chars().all(|c| c.is_ascii_alphanumeric());
    let rule = "reason is a word in CamelCase";
    check.advise(reason.is_empty() || is_camel_case, rule, reason);
}
