//! Why a volume cannot be expanded.

use super::expand_request::ExpandRequest;
use super::plan_request::PreparedPlan;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{HiddenField, NamespacedId, shell_quoted};
use nomad_csi_plan::{Action, OmittedMap, PlannedVolume};

/// Returns every reason why the volume cannot be expanded.
pub(super) fn expand_problems(
    request: &ExpandRequest<'_>,
    prepared: &PreparedPlan,
    planned: &PlannedVolume,
) -> Vec<Diagnostic> {
    let key = &planned.key;
    let reasons = planned.action.reasons().iter().cloned();
    let mut problems: Vec<Diagnostic> = reasons
        .map(|reason| match reason.code {
            Code::PlanHiddenValue => hidden_flags(key, reason, request.is_from_file),
            _ => reason,
        })
        .collect();
    if let Action::WaitingForClaims(wait) = &planned.action
        && let Some(problem) = problems.pop()
    {
        let claims = wait.claims.iter();
        problems.push(claims.fold(problem, |problem, claim| problem.note(claim.to_string())));
    }
    match &planned.action {
        Action::Update(update) | Action::Expand(update) => {
            let fields = update.changes.iter().map(|change| change.field);
            let others: Vec<_> = fields.filter(|field| !field.starts_with("capacity")).collect();
            if !others.is_empty() {
                let message = format!(
                    "cannot expand volume {key}: the file changes other fields too: {}",
                    others.join(", "),
                    key = key.quoted()
                );
                let problem = Diagnostic::error(Code::PlanOtherChanges, message);
                problems.push(problem.help("run `nomad-csi apply` to apply the whole file"));
            }
        }
        Action::RegisterAgain(again) if again.replaces.is_some() => {
            let message = format!(
                "cannot expand volume {key}: the server has other data under this name",
                key = key.quoted()
            );
            let problem = Diagnostic::error(Code::PlanDataChanged, message);
            problems.push(problem.help("run `nomad-csi plan` to see which data"));
        }
        Action::Create(_)
        | Action::Register(_)
        | Action::RegisterAgain(_)
        | Action::Recreate(_)
        | Action::Replace(_) => {
            let message =
                format!("cannot expand volume {key}: it no longer exists", key = key.quoted());
            problems.push(Diagnostic::error(Code::PlanStale, message));
        }
        Action::Unchanged
        | Action::WaitingForClaims(_)
        | Action::Blocked(_)
        | Action::Deregister
        | Action::DeleteData => {}
    }
    let clears_secrets = prepared.rules.omitted_secrets == OmittedMap::Clear;
    let accepts_secrets = request.accepted_losses.contains(&HiddenField::Secrets);
    if !request.is_from_file && clears_secrets && !accepts_secrets {
        problems.push(unknown_secrets(key));
    }
    problems
}

/// Rewrites a plan's reason for a request that only changes the size.
fn hidden_flags(key: &NamespacedId, reason: Diagnostic, is_from_file: bool) -> Diagnostic {
    let message = format!(
        "cannot expand volume {key}: this would clear its mount flags, which the server hides",
        key = key.quoted()
    );
    let problem = Diagnostic::error(Code::PlanHiddenValue, message);
    let accept = "to clear the mount flags, add `--accept-loss mount_flags`";
    if !is_from_file {
        return problem.help(give_file(key)).help(accept);
    }
    Diagnostic {
        labels: reason.labels,
        ..problem.help("declare the mount flags in the file, or write `mount_options {}` for none")
    }
    .help(accept)
}

/// A file can declare that a volume has no secrets. The server does not show it (W20).
fn unknown_secrets(key: &NamespacedId) -> Diagnostic {
    let message = format!(
        "cannot expand volume {key}: this would clear its secrets, and the server hides whether it has any",
        key = key.quoted()
    );
    Diagnostic::error(Code::PlanHiddenValue, message)
        .note("Nomad replaces stored secrets even if the request has none")
        .help(give_file(key))
        .help("if the volume has no secrets, add `--accept-loss secrets`")
}

fn give_file(key: &NamespacedId) -> String {
    format!(
        "give the file that declares the volume: `nomad-csi volume expand {} -f FILE`",
        shell_quoted(&key.id)
    )
}
