//! Checks of concurrent calls, and of calls repeated after a lost connection (CSI sections
//! "Concurrency" and "Timeouts").
//!
//! An orchestrator keeps at most one call in flight per volume, but can break this rule after a
//! crash. The plugin then handles the second call or returns ABORTED. In either case one name yields
//! one volume, and the repeated call returns it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::answers;
use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use crate::finding::Level;
use crate::resources::TrackedCall;
use nomad_csi_csi::CallFailure;
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::controller_service_capability::rpc::Type as ControllerRpc;
use nomad_csi_proto::{CreateVolumeRequest, CreateVolumeResponse};

const NEEDS: &[Need] = &[Need::ControllerCapability(ControllerRpc::CreateDeleteVolume)];
/// The number of concurrent calls.
const CONCURRENT_CALLS: usize = 8;
/// Attempts of a call that another call blocks, and the pause between two attempts.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

pub(crate) const CASES: &[Case] = &[
    case!(
        Concurrency,
        "concurrency/same-name",
        "Eight concurrent CreateVolume calls with the same name create one volume",
        "Concurrency",
        NEEDS,
        Creates,
        same_name
    ),
    case!(
        Concurrency,
        "concurrency/other-names",
        "Eight concurrent CreateVolume calls with different names create eight volumes",
        "Concurrency",
        NEEDS,
        Creates,
        other_names
    ),
    case!(
        Concurrency,
        "concurrency/delete",
        "Eight concurrent DeleteVolume calls for the same volume delete it",
        "Concurrency",
        NEEDS,
        Creates,
        delete
    ),
    case!(
        Concurrency,
        "concurrency/cut-connection",
        "CreateVolume repeated after a lost connection creates one volume",
        "Timeouts",
        NEEDS,
        Creates,
        cut_connection
    ),
];

impl Check<'_> {
    /// Repeats a call until no other call blocks it.
    ///
    /// # Errors
    /// Records a finding if the plugin refuses the call or blocks every attempt.
    pub(super) async fn retry_until_ok<C: TrackedCall>(
        &mut self,
        request: C,
        because: &str,
    ) -> Result<C::Response, StopReason> {
        for _ in 1..ATTEMPTS {
            match self.call(request.clone()).await {
                Ok(response) => return Ok(response),
                Err(failure) if answers::is_transient(&failure) => tokio::time::sleep(PAUSE).await,
                Err(_) => break,
            }
        }
        self.call_ok(request, because).await
    }
}

fn ids(responses: &[Result<CreateVolumeResponse, CallFailure>]) -> BTreeSet<String> {
    let volumes = responses.iter().flatten().filter_map(|response| response.volume.as_ref());
    volumes.map(|volume| volume.volume_id.clone()).collect()
}

async fn same_name(check: &mut Check<'_>) -> CheckResult {
    let request = check.create_request();
    let responses = check.call_concurrently(vec![request.clone(); CONCURRENT_CALLS]).await;
    let rule = "OK, or ABORTED because another call is creating the same volume";
    expect_ok_or_aborted(check, &responses, rule);
    let because = "no other call is creating the volume";
    let response = check.retry_until_ok(request, because).await?;
    expect_one_volume(check, &responses, response);
    Ok(())
}

fn expect_ok_or_aborted<T>(
    check: &mut Check<'_>,
    responses: &[Result<T, CallFailure>],
    rule: &str,
) {
    let bad = responses
        .iter()
        .filter_map(|response| response.as_ref().err())
        .find(|failure| failure.code() != Some(StatusCode::Aborted));
    if let Some(failure) = bad {
        check.add_finding(Level::Must, rule, &failure.to_string());
    }
}

fn expect_one_volume(
    check: &mut Check<'_>,
    responses: &[Result<CreateVolumeResponse, CallFailure>],
    last: CreateVolumeResponse,
) {
    let mut all = ids(responses);
    all.extend(last.volume.map(|volume| volume.volume_id));
    let rule = "one name never yields two volumes";
    check.expect(all.len() == 1, rule, &format!("{all:?}"));
}

async fn other_names(check: &mut Check<'_>) -> CheckResult {
    let requests: Vec<CreateVolumeRequest> =
        (0..CONCURRENT_CALLS).map(|_| check.create_request()).collect();
    let responses = check.call_concurrently(requests).await;
    let rule = "OK: concurrent calls for different volumes do not block each other";
    for response in &responses {
        if let Err(failure) = response {
            check.add_finding(Level::Must, rule, &failure.to_string());
        }
    }
    let all = ids(&responses);
    let succeeded = responses.iter().flatten().count();
    let rule = "every name yields its own volume";
    check.expect(all.len() == succeeded, rule, &format!("{all:?}"));
    Ok(())
}

async fn delete(check: &mut Check<'_>) -> CheckResult {
    let volume = check.new_volume().await?;
    let request = check.delete_request(&volume.volume_id);
    let responses = check.call_concurrently(vec![request.clone(); CONCURRENT_CALLS]).await;
    let rule = "OK, or ABORTED because another call is deleting the same volume";
    expect_ok_or_aborted(check, &responses, rule);
    check.retry_until_ok(request, "the volume is already deleted").await?;
    Ok(())
}

async fn cut_connection(check: &mut Check<'_>) -> CheckResult {
    for _ in 0..3 {
        let request = check.create_request();
        check.call_and_disconnect(request.clone()).await?;
        let because =
            "a call repeated after a lost connection completes what the first one started";
        let first = check.retry_until_ok(request.clone(), because).await?;
        let because = "a volume of that name with the same arguments already exists";
        let second = check.retry_until_ok(request, because).await?;
        expect_one_volume(check, &[Ok(first)], second);
    }
    Ok(())
}
