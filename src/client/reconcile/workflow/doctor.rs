//! `volume doctor`: what is wrong with volumes, and what helps. Runs safe remedies on request.
//!
//! A remedy is safe if the server itself refuses it where data could be lost: detaching a volume from a
//! node where no allocation uses it. Everything else needs a person.

use super::approval::{Answer, Approval, require_approval};
use super::context::WorkflowContext;
use super::creations::pending_creations;
use super::detach::detach_volume;
use super::error::{Failures, WorkflowError};
use super::find_volume::find_volume;
use super::reporter::ApprovalPrompt;
use crate::ports::{ApiError, VolumeQuery};
use crate::reconcile::provider_lists::LIST_TIMEOUT;
use crate::reconcile::volume_facts::{FactOptions, FactReading};
use crate::reconcile::volume_list::read_listed_volumes;
use nomad_csi_model::diagnostic::SourceMap;
use nomad_csi_model::{Namespace, NamespacedId, NodeId, Volume};
use nomad_csi_plan::doctor::{Finding, SafeFix, creation_finding, diagnose};

/// The volumes to diagnose.
#[derive(Clone, Debug)]
pub struct DoctorRequest<'a> {
    /// One volume, or all of the scope.
    pub id: Option<&'a str>,
    /// The namespace, or all.
    pub scope: Namespace,
    /// True if the providers are asked which volumes they have.
    pub asks_providers: bool,
}

/// The findings about one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeDiagnosis {
    /// The volume.
    pub volume: NamespacedId,
    /// The problems, the most severe first. Empty if there are none.
    pub findings: Vec<Finding>,
}

/// The findings about volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoctorReport {
    /// Each volume, sorted by namespace and ID.
    pub volumes: Vec<VolumeDiagnosis>,
    /// The parts that could not be read, and why.
    pub unread: Vec<String>,
}

/// Diagnoses volumes. Changes nothing.
///
/// # Errors
/// If a volume does not exist, the server cannot be read, or the user interrupts.
pub async fn diagnose_volumes(
    context: &WorkflowContext<'_>,
    request: &DoctorRequest<'_>,
) -> Result<DoctorReport, WorkflowError> {
    let creations = pending_creations(context.api, &request.scope);
    let creations = context.unless_interrupted(creations).await??;
    let mut creations: Vec<_> = creations.into_iter().map(|one| one.value).collect();
    if let Some(id) = request.id {
        creations.retain(|creation| creation.volume.id.as_str() == id);
    }
    let volumes = match request.id {
        Some(_) if !creations.is_empty() => vec![],
        Some(id) => vec![find_volume(context, &request.scope, id).await?],
        None => {
            let reading = all_volumes(context, &request.scope);
            context.unless_interrupted(reading).await??
        }
    };
    let options = FactOptions {
        provider_limit: LIST_TIMEOUT,
        asks_providers: request.asks_providers,
        reads_evaluations: true,
        reads_health: true,
        parallelism: context.parallelism,
        now: context.clock.now(),
    };
    let reading = FactReading::read(context.api, &volumes, options);
    let reading = context.unless_interrupted(reading).await??;
    let diagnosed = volumes.iter().map(|volume| VolumeDiagnosis {
        volume: volume.key(),
        findings: diagnose(&reading.facts(volume)),
    });
    let pending = creations.iter().map(|creation| VolumeDiagnosis {
        volume: creation.volume.clone(),
        findings: vec![creation_finding(creation, options.now)],
    });
    let mut volumes: Vec<_> = diagnosed.chain(pending).collect();
    volumes.sort_by(|one, other| one.volume.cmp(&other.volume));
    Ok(DoctorReport { volumes, unread: reading.unread })
}

async fn all_volumes(
    context: &WorkflowContext<'_>,
    scope: &Namespace,
) -> Result<Vec<Volume>, ApiError> {
    let query = VolumeQuery { namespace: scope.clone(), prefix: None, plugin: None, filter: None };
    read_listed_volumes(context.api, &query, context.parallelism).await
}

/// Runs the safe remedy of every finding that has one, after approval. Returns whether it changed
/// anything.
///
/// # Errors
/// If it is not approved, or a remedy fails; the other remedies run nevertheless.
pub async fn fix_findings(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    report: &DoctorReport,
    is_approved: bool,
) -> Result<bool, WorkflowError> {
    let fixes = safe_fixes(report);
    if fixes.is_empty() {
        let line = "no finding has a remedy that is safe without a person; nothing was changed";
        context.reporter.status(line);
        return Ok(false);
    }
    if !is_approved {
        let what: Vec<_> = fixes
            .iter()
            .map(|(volume, node)| format!("volume {volume} is detached from node {node}"))
            .collect();
        let approval = Approval {
            action: "fix volumes",
            details: Some(&what.join("; ")),
            question: "Run these remedies? [y/N] ",
            answer: Answer::Yes,
        };
        require_approval(prompt, approval).await?;
    }
    let mut failures = Failures::default();
    for (volume, node) in &fixes {
        if context.is_interrupted() {
            return Err(WorkflowError::interrupted());
        }
        let (scope, id) = (&volume.namespace, volume.id.as_str());
        if let Err(error) = detach_volume(context, prompt, scope, id, node.as_str()).await {
            let sources = SourceMap::default();
            context.reporter.diagnostics(&error.diagnostics, &sources);
            failures.add(error.kind);
        }
    }
    failures.into_result()?;
    Ok(true)
}

fn safe_fixes(report: &DoctorReport) -> Vec<(NamespacedId, NodeId)> {
    let mut fixes = vec![];
    for diagnosis in &report.volumes {
        for fix in diagnosis.findings.iter().filter_map(Finding::safe_fix) {
            let SafeFix::Detach(node) = fix;
            let fix = (diagnosis.volume.clone(), node.clone());
            if !fixes.contains(&fix) {
                fixes.push(fix);
            }
        }
    }
    fixes
}
