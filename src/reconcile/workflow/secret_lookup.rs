//! Looks up the secrets of everything that a plan sends.

use super::context::WorkflowContext;
use super::error::{FailureKind, WorkflowError};
use super::specifications::Specifications;
use crate::plan::Plan;
use crate::reconcile::resolve::{Resolved, Unresolved, resolve};
use crate::reconcile::secret_variables::SecretVariables;

/// Looks up the secrets of everything that the plan sends, and reports problems.
///
/// # Errors
/// If a secret has no value, or the user interrupts. Nothing may be sent then.
pub(super) async fn look_up_secrets(
    context: &WorkflowContext<'_>,
    specifications: &Specifications,
    plan: &Plan,
) -> Result<Resolved, WorkflowError> {
    let sent = plan.volumes.iter().filter_map(|planned| {
        let (spec, request) = (planned.spec.as_ref()?, planned.request()?);
        let directory = specifications.directory_of(spec);
        Some(Unresolved::new(spec, request.clone(), directory))
    });
    let sent: Vec<Unresolved> = sent.collect();
    let reporter = context.reporter;
    let looking_up = async {
        let requests = sent.iter().map(|one| &one.request);
        let variables = SecretVariables::read(context.api, requests).await;
        resolve(sent, context.secrets.clone(), variables).await
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
