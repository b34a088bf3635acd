//! Approval of changes, by a flag or by an answer on a terminal.

use super::error::WorkflowError;
use super::reporter::ApprovalPrompt;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::one_line;

/// The answer that approves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer<'a> {
    /// `y` or `yes`.
    Yes,
    /// Exactly this text: the ID of what is destroyed.
    Exactly(&'a str),
}

/// A change that `--yes` or a person approves.
#[derive(Debug)]
pub(super) struct Approval<'a> {
    /// The action that requires approval: ``delete volume `db` ``.
    pub(super) action: &'a str,
    /// The risk, for the line before the question and for the error.
    pub(super) details: Option<&'a str>,
    /// The question.
    pub(super) question: &'a str,
    /// The answer that approves.
    pub(super) answer: Answer<'a>,
}

/// Asks for approval.
///
/// # Errors
/// If the change is not approved, or a person cannot be asked.
pub(super) async fn require_approval(
    prompt: &dyn ApprovalPrompt,
    approval: Approval<'_>,
) -> Result<(), WorkflowError> {
    let is_asked = prompt.is_interactive();
    if is_asked && is_approved(prompt, approval.details, approval.question, approval.answer).await?
    {
        return Ok(());
    }
    let message = format!("cannot {}: approval is required", approval.action);
    let mut problem = Diagnostic::error(Code::CliApprovalNeeded, message);
    if is_asked {
        problem = problem.note("the answer did not approve it; nothing was changed");
    } else {
        if let Some(details) = approval.details {
            problem = problem.note(one_line(details));
        }
        problem = problem
            .note("standard input is not a terminal; nothing was changed")
            .help(format!("run `{}`", prompt.command_with_yes()));
    }
    Err(WorkflowError::approval_required([problem]))
}

/// A risk that a flag names, or that a person approves by typing an ID.
#[derive(Debug)]
pub(super) struct NamedApproval<'a> {
    /// The question on a terminal.
    pub(super) question: String,
    /// The ID to type.
    pub(super) id: &'a str,
    /// The problem if it is not approved.
    pub(super) problem: Diagnostic,
}

/// Asks for each approval on a terminal.
///
/// # Errors
/// All that were not approved.
pub(super) async fn require_named_approvals(
    prompt: &dyn ApprovalPrompt,
    approvals: impl IntoIterator<Item = NamedApproval<'_>>,
) -> Result<(), WorkflowError> {
    let mut missing = vec![];
    for approval in approvals {
        let is_approved = prompt.is_interactive()
            && is_approved(prompt, None, &approval.question, Answer::Exactly(approval.id)).await?;
        if !is_approved {
            missing.push(approval.problem);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(WorkflowError::approval_required(missing))
}

/// Asks a question, and returns whether the answer approves.
///
/// # Errors
/// If the user interrupts, or the answer cannot be read.
pub(super) async fn is_approved(
    prompt: &dyn ApprovalPrompt,
    details: Option<&str>,
    question: &str,
    answer: Answer<'_>,
) -> Result<bool, WorkflowError> {
    let question = one_line(question);
    let details = details.map(one_line);
    let given = prompt.ask(details.as_deref(), &question).await?;
    Ok(match answer {
        Answer::Yes => matches!(given.as_str(), "y" | "Y" | "yes"),
        Answer::Exactly(text) => given == text,
    })
}
