//! `volume delete` and `volume deregister`: check all volumes, ask for approval, remove each.
//!
//! Nomad deletes the data before it checks for claims. So everything is checked before anything is
//! sent: claims, also those that the server dropped too early ([`super::dropped_claims`]), other users of the same data
//! ([`super::taken_data`]), and sets that protect a volume. If one volume cannot be removed, none is. Right before its removal each volume is checked again, and it is not
//! removed if it has changed. Volumes are found and removed side by side, as many as the context allows, and reported in
//! their order. If the server stops responding, a removal that was certainly not sent waits
//! for it; if the server stays away, nothing more begins.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{StreamExt as _, stream};

use super::approval::{Answer, Approval, NamedApproval, require_approval, require_named_approvals};
use super::claim_explanation::{explained, stuck_claims};
use super::context::WorkflowContext;
use super::dropped_claims::CountedClaims;
use super::error::{FailureKind, Failures, WorkflowError};
use super::find_volume::{
    VolumeLookup, ambiguous_volume, look_up_volume, removed_volume_not_found,
};
use super::ledger_access::LedgerAccess;
use super::removal_ownership::check_ownership;
use super::reporter::ApprovalPrompt;
use super::taken_data::{Objection, check_destruction};
use crate::reconcile::execution::StepWait;
use crate::reconcile::outcome::{Outcome, Status};
use crate::reconcile::reconnect::Reconnect;
use crate::reconcile::record::Unrecorded;
use crate::reconcile::remove::{check_removable, send_removal};
use crate::reconcile::seen_nodes::seen_nodes;
use crate::reconcile::until_sent::{Check, until_sent};
use crate::reconcile::volume_list::list_all_volumes;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Severity, SourceMap};
use nomad_csi_model::{AllocId, Namespace, NamespacedId, Secrets, Volume, one_line};
use nomad_csi_plan::{
    CUTS_OFF, ClaimDrops, CutOffs, Plan, Removal, VolumeVersion, forced_claims_warning,
    removal_problems,
};

/// Volumes to remove.
pub struct RemovalRequest<'a> {
    /// The IDs of the volumes.
    pub ids: &'a [String],
    /// The namespace to find them in, or all.
    pub scope: Namespace,
    /// How they are removed.
    pub removal: Removal,
    /// True if the removal is approved without a question.
    pub is_approved: bool,
    /// The approved cut-offs: allocations that lose their claims, and allocations and nodes whose tasks lose
    /// the data.
    pub cut_off: CutOffs,
    /// True if a volume that does not exist is a success.
    pub if_exists: bool,
    /// The secrets for the plugin.
    pub secrets: Secrets,
    /// The ledger whose sets may protect the volumes; `None` to ignore sets.
    pub ledger: Option<LedgerAccess>,
}

/// Removes volumes. Reports each.
///
/// # Errors
/// If a volume cannot be removed, the removal is not approved, or the server refuses.
pub async fn remove_volumes(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    request: &RemovalRequest<'_>,
) -> Result<(), WorkflowError> {
    let finding = find_volumes(context, request);
    let volumes = context.unless_interrupted(finding).await??;
    if volumes.is_empty() {
        return Ok(());
    }
    let counting = CountedClaims::of(context, &volumes);
    let counted = context.unless_interrupted(counting).await??;
    report_unread(context, request.removal, &counted)?;
    if let Removal::Deregister { .. } = request.removal {
        let claiming = counted.volumes.iter().flat_map(Volume::claiming_allocs);
        let claiming = claiming.map(AllocId::as_str).collect();
        refuse_unused_approvals(request, &claiming, "it claims none of the volumes")?;
    }
    check_volumes(context, request, &counted).await?;
    if let Some(access) = &request.ledger {
        check_ownership(context, access, &volumes).await?;
    }
    let cut_off = approve_cut_offs(context, prompt, request, &counted.volumes).await?;
    for volume in &volumes {
        approve(prompt, request, volume).await?;
    }
    let mut failures = Failures::default();
    let server_is_away = AtomicBool::new(false);
    let removals = volumes.iter().map(async |volume| {
        if context.is_interrupted() || server_is_away.load(Ordering::Relaxed) {
            return (volume, None);
        }
        let outcome = remove_volume(context, request, volume, &cut_off).await;
        if outcome.met_server_away() {
            server_is_away.store(true, Ordering::Relaxed);
        }
        (volume, Some(outcome))
    });
    let mut removals = pin!(stream::iter(removals).buffered(context.parallelism.max(1)));
    while let Some((volume, outcome)) = removals.next().await {
        let Some(outcome) = outcome else {
            let line = format!("volume {}: not started", volume.key());
            context.reporter.status(&line);
            failures.add(match server_is_away.load(Ordering::Relaxed) {
                true => FailureKind::Failed,
                false => FailureKind::Interrupted,
            });
            continue;
        };
        report_removal(context, request.removal, volume, outcome, &mut failures);
    }
    failures.into_result()
}

/// Nothing is deleted and no claim is dropped unless it is known who may write.
fn report_unread(
    context: &WorkflowContext<'_>,
    removal: Removal,
    counted: &CountedClaims,
) -> Result<(), WorkflowError> {
    let (kind, what): (fn(Code, String) -> Diagnostic, _) = match removal {
        Removal::Delete => (Diagnostic::error, "deleted"),
        Removal::Deregister { force: true } => (Diagnostic::error, "deregistered"),
        Removal::Deregister { force: false } => (Diagnostic::warning, "deregistered"),
    };
    match counted.unread(kind, what) {
        None => Ok(()),
        Some(problem) if problem.severity == Severity::Error => {
            Err(WorkflowError::blocked([problem]))
        }
        Some(warning) => {
            context.reporter.diagnostic(warning);
            Ok(())
        }
    }
}

/// Returns each volume once.
async fn find_volumes(
    context: &WorkflowContext<'_>,
    request: &RemovalRequest<'_>,
) -> Result<Vec<Volume>, WorkflowError> {
    let (api, scope) = (context.api, &request.scope);
    let mut volumes: Vec<Volume> = vec![];
    let mut problems = vec![];
    let lookups = request.ids.iter().map(async |id| (id, look_up_volume(api, scope, id).await));
    let mut lookups = pin!(stream::iter(lookups).buffered(context.parallelism.max(1)));
    while let Some((id, found)) = lookups.next().await {
        match found? {
            VolumeLookup::Found(volume)
                if volumes.iter().any(|other| other.key() == volume.key()) => {}
            VolumeLookup::Found(volume) => volumes.push(*volume),
            VolumeLookup::NotFound if request.if_exists => {
                let line = format!("volume {id}: does not exist, nothing to do");
                context.reporter.status(&line);
            }
            VolumeLookup::NotFound => {
                problems.push(removed_volume_not_found(api, scope, id).await);
            }
            VolumeLookup::Ambiguous(namespaces) => problems.push(ambiguous_volume(id, &namespaces)),
        }
    }
    if problems.is_empty() {
        return Ok(volumes);
    }
    Err(problems.into_iter().collect::<Diagnostics>().into())
}

/// Checks that every volume can be removed. Looks for other registrations of its data in all namespaces.
async fn check_volumes(
    context: &WorkflowContext<'_>,
    request: &RemovalRequest<'_>,
    counted: &CountedClaims,
) -> Result<(), WorkflowError> {
    let (removal, volumes) = (request.removal, counted.volumes.as_slice());
    let others = match removal {
        Removal::Delete => {
            let listing = list_all_volumes(context.api);
            context.unless_interrupted(listing).await??
        }
        Removal::Deregister { .. } => vec![],
    };
    let reading = claim_drops(context, removal, volumes);
    let drops = context.unless_interrupted(reading).await?;
    // Which claims a person cuts off is asked for after everything else is checked.
    let drops = ClaimDrops { cut_off: unapproved_allocs(&drops, volumes), ..drops };
    let mut problems: Vec<Diagnostic> = vec![];
    for volume in volumes {
        for problem in removal_problems(volume, removal, &others, &drops) {
            let problem = counted.explain(problem);
            let is_forced = removal == Removal::Deregister { force: true };
            let explains = problem.code == Code::VolumeInUse && !is_forced;
            problems.push(if explains {
                explain_claims(context, volume, problem).await?
            } else {
                problem
            });
        }
    }
    if removal == Removal::Delete {
        let objections = context.unless_interrupted(check_destruction(context, volumes)).await??;
        let approvals = objections.iter().filter_map(|one| one.approved_by.clone());
        let needed: Vec<String> = approvals.collect();
        problems.extend(Objection::remaining(objections, &request.cut_off));
        WorkflowError::refused(problems)?;
        let needed = needed.iter().map(String::as_str).collect();
        return refuse_unused_approvals(request, &needed, "the removal does not need it");
    }
    WorkflowError::refused(problems)?;
    if let Removal::Deregister { force: true } = removal {
        let warnings: Diagnostics = volumes.iter().filter_map(forced_claims_warning).collect();
        context.reporter.diagnostics(&warnings, &SourceMap::default());
    }
    Ok(())
}

/// Returns what decides which claims a forced removal drops; nothing is read for another removal.
async fn claim_drops(
    context: &WorkflowContext<'_>,
    removal: Removal,
    volumes: &[Volume],
) -> ClaimDrops {
    match removal {
        Removal::Deregister { force: true } => {
            ClaimDrops { nodes: seen_nodes(context.api, volumes).await, cut_off: BTreeSet::new() }
        }
        Removal::Deregister { force: false } | Removal::Delete => ClaimDrops::default(),
    }
}

fn unapproved_allocs(drops: &ClaimDrops, volumes: &[Volume]) -> BTreeSet<AllocId> {
    let unapproved = volumes.iter().flat_map(|volume| drops.unapproved(volume));
    unapproved.map(|claim| claim.id).collect()
}

/// Refuses approvals that the removal does not need. An approval that stays in a script would approve a later run that no
/// person has seen.
fn refuse_unused_approvals(
    request: &RemovalRequest<'_>,
    needed: &BTreeSet<&str>,
    why: &str,
) -> Result<(), WorkflowError> {
    let unused = request.cut_off.iter().filter(|id| !needed.contains(id));
    let problems: Vec<Diagnostic> = unused
        .map(|id| {
            let id = one_line(id);
            let message = format!("cannot approve `{CUTS_OFF}` for `{id}`: {why}");
            let problem = Diagnostic::error(Code::CliInvalidValue, message);
            match needed.iter().find(|full| full.starts_with(&id)) {
                Some(full) => {
                    problem.help(format!("did you mean `{full}`? The approval needs the full ID"))
                }
                None => problem.help(format!("remove `--approve {CUTS_OFF}:{id}`")),
            }
        })
        .collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(problems.into_iter().collect::<Diagnostics>().into())
}

/// Asks for each allocation that only a person can cut off, and returns all that are approved.
async fn approve_cut_offs(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    request: &RemovalRequest<'_>,
    volumes: &[Volume],
) -> Result<BTreeSet<AllocId>, WorkflowError> {
    let reading = claim_drops(context, request.removal, volumes);
    let mut drops = context.unless_interrupted(reading).await?;
    drops.cut_off = request.cut_off.iter().map(AllocId::new).collect();
    let claims: Vec<_> = volumes
        .iter()
        .flat_map(|volume| drops.unapproved(volume).into_iter().map(move |claim| (volume, claim)))
        .collect();
    let approvals = claims.iter().map(|(volume, claim)| NamedApproval {
        question: format!(
            "{claim}; {}. If its tasks still run, two write to volume {}. Type {} to drop its claim: ",
            drops.why(claim),
            volume.key(),
            claim.id
        ),
        id: claim.id.as_str(),
        problem: drops.approval_needed(volume, claim),
    });
    require_named_approvals(prompt, approvals).await?;
    let mut cut_off = drops.cut_off;
    cut_off.extend(claims.into_iter().map(|(_, claim)| claim.id));
    Ok(cut_off)
}

/// Adds why claims of ended allocations are not released.
async fn explain_claims(
    context: &WorkflowContext<'_>,
    volume: &Volume,
    problem: Diagnostic,
) -> Result<Diagnostic, WorkflowError> {
    let reading = stuck_claims(context.api, volume, context.clock.now());
    let findings = context.unless_interrupted(reading).await?;
    Ok(explained(problem, &findings))
}

async fn approve(
    prompt: &dyn ApprovalPrompt,
    request: &RemovalRequest<'_>,
    volume: &Volume,
) -> Result<(), WorkflowError> {
    if request.is_approved {
        return Ok(());
    }
    let what = description(volume);
    let id = volume.id.as_str();
    let key = volume.key().quoted();
    let approval = match request.removal {
        Removal::Delete => Approval {
            action: &format!("delete volume {key}"),
            details: Some(&format!("{what}: the provider destroys its data")),
            question: &format!("Type {id} to delete it: "),
            answer: Answer::Exactly(id),
        },
        Removal::Deregister { .. } => Approval {
            action: &format!("deregister volume {key}"),
            details: Some(&format!("{what}: its data stays in the storage provider")),
            question: "Deregister it? [y/N] ",
            answer: Answer::Yes,
        },
    };
    require_approval(prompt, approval).await
}

/// Describes a volume in enough detail to recognise it.
fn description(volume: &Volume) -> String {
    let size = if volume.capacity.is_zero() {
        String::new()
    } else {
        format!(", {}", volume.capacity.binary())
    };
    one_line(&format!(
        "volume {} in namespace {} (plugin {}, external ID {}{size})",
        volume.id,
        volume.namespace,
        volume.plugin_id,
        volume.remote_id()
    ))
}

/// Removes one volume, and waits for the server if the request was certainly not sent.
async fn remove_volume(
    context: &WorkflowContext<'_>,
    request: &RemovalRequest<'_>,
    volume: &Volume,
    cut_off: &BTreeSet<AllocId>,
) -> Outcome {
    let (api, key, removal) = (context.api, volume.key(), request.removal);
    let version = VolumeVersion::of(Some(volume));
    let reconnect = Reconnect::waiting(context.server_wait);
    let progress = context.reporter.progress(&Plan::default());
    let wait = StepWait { reconnect: &reconnect, progress: &*progress, stop: context.interrupt };
    until_sent(api, &wait, &key, async || {
        let check = Check::begin();
        let drops = ClaimDrops {
            cut_off: cut_off.clone(),
            ..claim_drops(context, removal, std::slice::from_ref(volume)).await
        };
        if let Some(refused) = dropped_since(context, removal, volume, &drops).await {
            return refused;
        }
        match check_removable(api, &key, version, removal, &drops).await {
            Ok(None) => Outcome::plain(Status::Unchanged),
            Ok(Some(_)) if context.is_interrupted() => Outcome::plain(Status::NotStarted),
            Ok(Some(_)) => {
                send_removal(api, &Unrecorded, &key, removal, &request.secrets, check).await
            }
            Err(outcome) => outcome,
        }
    })
    .await
}

/// Returns why a volume is not removed whose claims were dropped while a person was asked.
async fn dropped_since(
    context: &WorkflowContext<'_>,
    removal: Removal,
    volume: &Volume,
    drops: &ClaimDrops,
) -> Option<Outcome> {
    let counted = match CountedClaims::of(context, std::slice::from_ref(volume)).await {
        Ok(counted) => counted,
        Err(error) => {
            let mut problems = error.diagnostics.into_iter();
            let status = Status::Failed(problems.next()?);
            return Some(Outcome { status, warnings: problems.collect() });
        }
    };
    let claimed = counted.volumes.first()?;
    let problem = removal_problems(claimed, removal, &[], drops).into_iter().next()?;
    Some(Outcome::plain(Status::Stale(counted.explain(problem))))
}

/// Adds which volume a failure before its request is about, such as that of a reading that is about none.
fn naming(key: &NamespacedId, done: &str, why: Diagnostic) -> Diagnostic {
    let key = key.quoted();
    let names_it = why.message.contains(&key) || why.notes.iter().any(|note| note.contains(&key));
    match names_it {
        true => why,
        false => why.note(format!("volume {key} was not {done}")),
    }
}

/// Reports how the removal of a volume ended.
fn report_removal(
    context: &WorkflowContext<'_>,
    removal: Removal,
    volume: &Volume,
    outcome: Outcome,
    failures: &mut Failures,
) {
    let status = |done: &str| {
        let line = format!("volume {}: {done}", volume.key());
        context.reporter.status(&line);
    };
    let done = match removal {
        Removal::Delete => "deleted",
        Removal::Deregister { .. } => "deregistered",
    };
    let mut problems = outcome.warnings;
    match outcome.status {
        Status::Stale(why) | Status::DependencyFailed(why) => {
            problems.insert(0, why);
            failures.add(FailureKind::Blocked);
        }
        Status::Failed(why) | Status::ServerUnreachable(why) => {
            problems.insert(0, naming(&volume.key(), done, why));
            failures.add(FailureKind::Failed);
        }
        Status::NotStarted => {
            status("not started");
            failures.add(FailureKind::Interrupted);
        }
        Status::Unchanged => status("no longer exists"),
        Status::Removed | Status::Done(_) | Status::Blocked => status(done),
    }
    let problems: Diagnostics = problems.into_iter().collect();
    context.reporter.diagnostics(&problems, &SourceMap::default());
}
