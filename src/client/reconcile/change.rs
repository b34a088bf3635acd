//! Creates or changes one volume: read it, record the step, call, read it back, record the result.
//!
//! After a change the volume is compared with the request. This detects a server that accepted a field
//! and dropped it. A call whose reply is lost is not repeated; its effect is read from the server.
//!
//! A server that passes the name of a volume on may answer a creation with the data of another one, also of one that is
//! created at the same moment. So the registrations of the data are listed after the creation, and if that fails, those that
//! were listed for the plan count. If there is another one, this one is removed again; of two at the same moment at most one
//! stays.

use std::sync::atomic::{AtomicBool, Ordering};

use super::execution::Execution;
use super::outcome::{Outcome, Status};
use super::precondition::recheck;
use super::record::Recorded;
use super::until_sent::{CONFIRMATION_PAUSES, Check, until_sent};
use super::volume_list::list_volumes_with_data;
use crate::ports::{ApiError, WithDocument, WriteReply};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{NamespacedId, UnresolvedRequest, Volume, VolumeRequest, shell_quoted};
use nomad_csi_plan::{
    IntentStep, MergeRules, NameRule, VolumeVersion, created_with_existing_data,
    created_with_known_data, remaining_differences,
};

/// The kind of a call that creates or changes a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// Creates the volume in the provider and registers it.
    Create,
    /// Registers the volume, or updates its registration.
    Register,
    /// Updates the registration, and the provider expands the volume.
    Expand,
}

/// A call that creates or changes a volume.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    kind: CallKind,
    desired: &'a UnresolvedRequest,
}

impl<'a> Call<'a> {
    /// A call that sends this request.
    pub(super) fn new(kind: CallKind, desired: &'a UnresolvedRequest) -> Self {
        Self { kind, desired }
    }

    fn step(self) -> IntentStep {
        match self.kind {
            CallKind::Create => IntentStep::Create,
            CallKind::Register => IntentStep::Register,
            CallKind::Expand => IntentStep::Expand,
        }
    }
}

/// The state that a call relies on.
#[derive(Clone, Copy)]
pub(super) enum Before {
    /// The volume has the version of the plan, which each attempt checks.
    Planned(VolumeVersion),
    /// The call completes a replacement, whose removal was confirmed right before: the first attempt needs no check,
    /// and an interrupt does not prevent it.
    Removed,
}

/// Creates or changes a volume.
pub(super) async fn change(
    execution: &Execution<'_>,
    key: &NamespacedId,
    before: Before,
    call: Call<'_>,
) -> Outcome {
    let (expected_version, replaces) = match before {
        Before::Planned(version) => (version, false),
        Before::Removed => (VolumeVersion::Absent, true),
    };
    let is_checked = AtomicBool::new(replaces);
    until_sent(execution.api, &execution.wait, key, async || {
        let check = Check::begin();
        if !is_checked.swap(false, Ordering::Relaxed)
            && let Err(status) = recheck(execution.api, key, expected_version).await
        {
            return Outcome::plain(status);
        }
        if execution.wait.stop.is_cancelled() && !replaces {
            return Outcome::plain(Status::NotStarted);
        }
        send(execution, key, expected_version, call, check).await
    })
    .await
}

/// Sends a call about a volume that was checked, and finds out how it ended.
async fn send(
    execution: &Execution<'_>,
    key: &NamespacedId,
    expected_version: VolumeVersion,
    call: Call<'_>,
    check: Check,
) -> Outcome {
    let Some(request) = execution.resolved.request(key) else {
        let message = format!("the secrets of volume {key} were not looked up", key = key.quoted());
        let failed = Diagnostic::error(Code::Internal, message);
        return Outcome::plain(Status::Failed(failed));
    };
    if let Err(refused) = execution.record.begin(key, call.step()).await {
        return Outcome::plain(Status::not_sent(refused));
    }
    if let Some(status) = check.too_old(key) {
        return Outcome::plain(status);
    }
    let sent = match call.kind {
        CallKind::Create => execution.api.create_volume(request).await,
        CallKind::Register | CallKind::Expand => execution.api.register_volume(request).await,
    };
    let outcome = match sent {
        Ok(reply) => read_back(execution, key, call, reply).await,
        Err(error) if error.code == Code::ApiOutcomeUnknown => {
            let outcome = confirm_change(execution, key, expected_version, call, error).await;
            if !outcome.status.is_success() {
                return outcome;
            }
            outcome
        }
        Err(error) => Outcome::plain(Status::not_sent(error.diagnostic())),
    };
    let outcome = match call.kind {
        CallKind::Create if !request.share && execution.rules.names == NameRule::AsRequested => {
            without_known_data(execution, key, outcome).await
        }
        CallKind::Create | CallKind::Register | CallKind::Expand => outcome,
    };
    record_outcome(execution, key, request, outcome).await
}

/// Removes the registration of a volume again that was created with the data of another volume.
async fn without_known_data(
    execution: &Execution<'_>,
    key: &NamespacedId,
    mut outcome: Outcome,
) -> Outcome {
    let Status::Done(reading) = &outcome.status else {
        return outcome;
    };
    let Some(reading) = reading else {
        let warning = unknown_data(key, Code::VolumeShared);
        outcome.warnings.push(warning);
        return outcome;
    };
    let volume = &reading.value;
    let known = match list_volumes_with_data(execution.api, volume.remote_id().as_str()).await {
        Ok(listed) => created_with_known_data(volume, &listed),
        Err(error) => {
            let warning = unknown_data(key, error.code).note(error.message);
            outcome.warnings.push(warning);
            created_with_known_data(volume, execution.registered)
        }
    };
    let Some(problem) = known.or_else(|| created_with_existing_data(volume, execution.existing))
    else {
        return outcome;
    };
    let problem = match execution.api.deregister_volume(key, false).await {
        Ok(()) => problem.note("its registration was removed again; the data is as it was"),
        Err(error) => problem
            .note(format!("its registration could not be removed again: {}", error.message))
            .help(format!(
                "remove the registration, and never the data: run `nomad-csi volume deregister {} --namespace {}`",
                shell_quoted(&key.id),
                shell_quoted(&key.namespace)
            )),
    };
    Outcome { status: Status::Failed(problem), warnings: outcome.warnings }
}

/// The warning for a volume that was created, and whose data may be that of another volume.
fn unknown_data(key: &NamespacedId, code: Code) -> Diagnostic {
    let message =
        format!("it is not known whether another volume has the data of volume {}", key.quoted());
    Diagnostic::warning(code, message).help(format!(
        "before a job uses it, run `nomad-csi volume doctor {} --namespace {}`: it names other volumes with the same data, unless both are for many writers",
        shell_quoted(&key.id),
        shell_quoted(&key.namespace)
    ))
}

/// Records how the step ended. A failure to record is a warning: the change is done.
async fn record_outcome(
    execution: &Execution<'_>,
    key: &NamespacedId,
    request: &VolumeRequest,
    mut outcome: Outcome,
) -> Outcome {
    let recorded = match &outcome.status {
        Status::Done(reading) => {
            Recorded::Applied { request, now: reading.as_ref().map(|reading| &reading.value) }
        }
        Status::Removed => Recorded::Removed,
        Status::Unchanged
        | Status::Blocked
        | Status::Stale(_)
        | Status::DependencyFailed(_)
        | Status::Failed(_)
        | Status::ServerUnreachable(_)
        | Status::NotStarted => Recorded::Nothing,
    };
    if let Err(problem) = execution.record.end(key, recorded).await {
        outcome.warnings.push(problem);
    }
    outcome
}

async fn read_back(
    execution: &Execution<'_>,
    key: &NamespacedId,
    call: Call<'_>,
    reply: WriteReply,
) -> Outcome {
    let server_warnings = reply.warnings.iter().map(|text| {
        let message = format!("the server returned a warning for volume {}", key.quoted());
        Diagnostic::warning(Code::ApplyServerWarning, message).note(text.clone())
    });
    let mut warnings: Vec<_> = server_warnings.collect();
    let reading = match execution.api.read_volume(key).await {
        Ok(Some(reading)) => reading,
        Ok(None) => {
            let message = format!(
                "the server accepted volume {key}, but does not have it",
                key = key.quoted()
            );
            let failed = Diagnostic::error(Code::ApplyNotAsWritten, message)
                .help("run the command again; another user may have removed the volume");
            return Outcome { status: Status::Failed(failed), warnings };
        }
        Err(error) => {
            let message =
                format!("volume {key} was written, but cannot be read back", key = key.quoted());
            let warning = Diagnostic::warning(error.code, message).note(error.message);
            warnings.push(warning);
            return Outcome { status: Status::Done(None), warnings };
        }
    };
    warnings.extend(not_as_written(execution.rules, call.desired, &reading.value));
    Outcome { status: Status::Done(Some(Box::new(reading))), warnings }
}

fn not_as_written(
    rules: MergeRules,
    request: &UnresolvedRequest,
    now: &Volume,
) -> Option<Diagnostic> {
    let fields = remaining_differences(request, now, rules);
    (!fields.is_empty()).then(|| {
        let key = now.key();
        let fields = fields.join(", ");
        let message = format!(
            "the server accepted volume {key}, but did not apply all fields: {fields}",
            key = key.quoted()
        );
        Diagnostic::warning(Code::ApplyNotAsWritten, message).help(format!(
            "run `nomad-csi volume status {} -o json` to compare",
            shell_quoted(&key.id)
        ))
    })
}

/// Looks for the change after a lost reply, four times within seven seconds.
async fn confirm_change(
    execution: &Execution<'_>,
    key: &NamespacedId,
    expected_version: VolumeVersion,
    call: Call<'_>,
    error: ApiError,
) -> Outcome {
    let (mut exists, mut away) = (None, None);
    for pause in CONFIRMATION_PAUSES {
        tokio::time::sleep(pause).await;
        match execution.api.read_volume(key).await {
            Ok(Some(reading))
                if has_arrived(execution.rules, expected_version, call.desired, &reading) =>
            {
                let message = format!(
                    "the server's reply was lost, but volume {key} has the change",
                    key = key.quoted()
                );
                let warning =
                    Diagnostic::warning(Code::ApiOutcomeUnknown, message).note(error.message);
                return Outcome {
                    status: Status::Done(Some(Box::new(reading))),
                    warnings: vec![warning],
                };
            }
            Ok(found) => exists = Some(found.is_some()),
            // The client has waited for the server.
            Err(unread) if unread.is_server_away() => {
                away = Some(unread.diagnostic());
                break;
            }
            Err(_) => {}
        }
    }
    let found = match exists {
        None => "the server cannot be reached to read the volume",
        Some(false) => {
            "the volume does not exist after 7 seconds; the server may still be creating it"
        }
        Some(true) => {
            "the volume is unchanged after 7 seconds; the server may still be changing it"
        }
    };
    let failed = error.diagnostic().note(found).help(
        "wait a moment, then run the same command again; it starts from the current state and repeats nothing",
    );
    Outcome { status: Status::Failed(failed), warnings: away.into_iter().collect() }
}

fn has_arrived(
    rules: MergeRules,
    expected_version: VolumeVersion,
    request: &UnresolvedRequest,
    reading: &WithDocument<Volume>,
) -> bool {
    let moved = expected_version != VolumeVersion::of(Some(&reading.value));
    moved && remaining_differences(request, &reading.value, rules).is_empty()
}
