//! Why a volume is not expanded, in the words of somebody who wants a size and nothing else.

use crate::cli::args::ExpandArguments;
use crate::cli::commands::prepare::Prepared;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::NamespacedId;
use crate::plan::{Action, HiddenField, OmittedMap, Planned};

/// Why it is not done: everything at once.
pub(super) fn problems(
    arguments: &ExpandArguments,
    prepared: &Prepared,
    planned: &Planned,
) -> Vec<Diagnostic> {
    let key = &planned.key;
    let reasons = planned.action.reasons().iter().cloned();
    let mut problems: Vec<Diagnostic> = reasons
        .map(|reason| match reason.code {
            Code::PlanHiddenValue => hidden_flags(key, reason, arguments.files.is_empty()),
            _ => reason,
        })
        .collect();
    if let Action::Waits(wait) = &planned.action
        && let Some(problem) = problems.pop()
    {
        let holders = wait.holders.iter();
        problems.push(holders.fold(problem, |problem, holder| problem.note(holder.to_string())));
    }
    match &planned.action {
        Action::Update(update) | Action::Expand(update) => {
            let fields = update.changes.iter().map(|change| change.field);
            let others: Vec<_> = fields
                .filter(|field| !field.starts_with("capacity"))
                .collect();
            if !others.is_empty() {
                let message = format!(
                    "volume {key} is not expanded: the file changes more than its size: {}",
                    others.join(", ")
                );
                let problem = Diagnostic::error(Code::PlanOtherChanges, message);
                problems.push(problem.help(
                    "`nomad-csi apply` does everything that the file says; `plan` shows it before",
                ));
            }
        }
        Action::Create(_) | Action::Register(_) | Action::Replace(_) => {
            let message = format!("volume {key} is not expanded: it is gone");
            problems.push(Diagnostic::error(Code::PlanStale, message));
        }
        Action::Unchanged
        | Action::Waits(_)
        | Action::Blocked(_)
        | Action::Deregister
        | Action::DeleteData => {}
    }
    let erases = prepared.rules.omitted_secrets == OmittedMap::Wipe;
    let accepted = arguments.accept_loss.contains(&HiddenField::Secrets);
    if arguments.files.is_empty() && erases && !accepted {
        problems.push(unknown_secrets(key));
    }
    problems
}

/// A plan's reason, as it is for somebody who wants a size and nothing else.
fn hidden_flags(key: &NamespacedId, reason: Diagnostic, is_by_size: bool) -> Diagnostic {
    let message = format!(
        "volume {key} is not expanded: this would erase its mount flags, which the server hides"
    );
    let problem = Diagnostic::error(Code::PlanHiddenValue, message);
    let accept = "if they may be lost, add `--accept-loss mount_flags`";
    if is_by_size {
        let file = format!(
            "give the file that declares the volume: `nomad-csi volume expand {} -f FILE`",
            key.id
        );
        return problem.help(file).help(accept);
    }
    Diagnostic {
        labels: reason.labels,
        ..problem.help("give them in the file, or write `mount_options {}` if there shall be none")
    }
    .help(accept)
}

/// A file can say that there are none, the server says nothing (W20).
fn unknown_secrets(key: &NamespacedId) -> Diagnostic {
    let message = format!(
        "volume {key} is not expanded: this would erase its secrets, if it has any, and the server hides whether it has"
    );
    Diagnostic::error(Code::PlanHiddenValue, message)
        .note("a new size is sent together with everything else, and Nomad replaces the stored secrets also by none")
        .help(format!(
            "give the file that declares the volume: `nomad-csi volume expand {} -f FILE`",
            key.id
        ))
        .help("if you know that it has no secrets, add `--accept-loss secrets`")
}
