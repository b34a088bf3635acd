//! Approval of changes, by a flag or by an answer on a terminal.

use super::error::WorkflowError;
use super::reporter::ApprovalPrompt;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::one_line;

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
    /// What did not happen: `nothing was removed`.
    pub(super) unchanged: &'static str,
    /// What requires approval: `delete volume …`.
    pub(super) action: &'a str,
    /// What a refused approval is about: `the plan`.
    pub(super) subject: &'a str,
    /// A line before the question.
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
    let Approval {
        unchanged,
        action,
        subject,
        ..
    } = approval;
    if !prompt.is_interactive() {
        let message = format!("{unchanged}: approval is required to {action}");
        let problem = Diagnostic::error(Code::CliApprovalNeeded, message)
            .note("standard input is not a terminal")
            .help(format!("run: {}", prompt.command_with_yes()));
        return Err(WorkflowError::approval_required([problem]));
    }
    if is_approved(prompt, approval.details, approval.question, approval.answer).await? {
        return Ok(());
    }
    let message = format!("{unchanged}: {subject} was not approved");
    let problem = Diagnostic::error(Code::CliApprovalNeeded, message);
    Err(WorkflowError::approval_required([problem]))
}

/// A risk that a flag names, or that a person approves by typing an ID.
#[derive(Debug)]
pub(super) struct NamedApproval<'a> {
    /// The question on a terminal.
    pub(super) question: String,
    /// The ID to type.
    pub(super) id: &'a str,
    /// What is wrong if it is not approved.
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
            && is_approved(
                prompt,
                None,
                &approval.question,
                Answer::Exactly(approval.id),
            )
            .await?;
        if !is_approved {
            missing.push(approval.problem);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(WorkflowError::approval_required(missing))
}

async fn is_approved(
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
