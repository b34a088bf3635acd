//! Looks up the secrets of everything that a plan sends, and of the volumes whose secrets a set takes as they
//! are in the files.

use super::context::WorkflowContext;
use super::error::{FailureKind, WorkflowError};
use super::specifications::Specifications;
use crate::reconcile::resolve::{Resolved, Unresolved, known_secrets, resolve};
use crate::reconcile::secret_variables::SecretVariables;
use nomad_csi_plan::{LedgerSet, Plan, takes_secrets};

/// Looks up the secrets of everything that the plan sends, and reports problems. Adds the secrets that `set`
/// takes as they are in the files, as far as they have values.
///
/// # Errors
/// If a secret has no value, or the user interrupts. Nothing may be sent then.
pub(super) async fn look_up_secrets(
    context: &WorkflowContext<'_>,
    specifications: &Specifications,
    plan: &Plan,
    set: Option<&LedgerSet>,
) -> Result<Resolved, WorkflowError> {
    let sent = plan.volumes.iter().filter_map(|planned| {
        let (spec, request) = (planned.spec.as_ref()?, planned.request()?);
        Some(Unresolved::new(spec, request.clone(), |span| specifications.directory_at(span)))
    });
    let sent: Vec<Unresolved> = sent.collect();
    let taken = plan.volumes.iter().filter_map(|planned| {
        let spec = planned.spec.as_ref()?;
        let is_taken = set.is_some_and(|set| takes_secrets(planned, set));
        is_taken.then(|| {
            Unresolved::new(spec, spec.request.clone(), |span| specifications.directory_at(span))
        })
    });
    let taken: Vec<Unresolved> = taken.collect();
    let reporter = context.reporter;
    let looking_up = async {
        let requests = sent.iter().map(|one| &one.request);
        let variables = SecretVariables::read(context.api, requests).await;
        let (resolved, warnings) = resolve(sent, context.secrets.clone(), variables).await?;
        let requests = taken.iter().map(|one| &one.request);
        let variables = SecretVariables::read(context.api, requests).await;
        let taken = known_secrets(taken, context.secrets.clone(), variables).await;
        Ok((resolved.taking(taken), warnings))
    };
    match context.unless_interrupted(looking_up).await? {
        Ok((resolved, warnings)) => {
            reporter.diagnostics(&warnings, &specifications.sources);
            Ok(resolved)
        }
        Err(missing) => {
            reporter.diagnostics(&missing, &specifications.sources);
            reporter.status("nothing was changed: secrets are missing");
            Err(WorkflowError::reported(FailureKind::Failed))
        }
    }
}
