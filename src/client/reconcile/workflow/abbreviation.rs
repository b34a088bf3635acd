//! Confirms the start of an ID where a command changes something.
//!
//! The start of an ID names another object as soon as the one that was meant is gone. So a person
//! confirms on a terminal what it names, and elsewhere only the full ID acts.

use super::approval::{Answer, is_approved};
use super::error::WorkflowError;
use super::reporter::ApprovalPrompt;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::one_line;

/// A change of an object that may have been named by the start of its ID.
pub(super) struct AbbreviatedChange<'a> {
    /// The verb and the kind of object: `stop job`.
    pub(super) action: &'a str,
    /// The full ID.
    pub(super) id: &'a str,
    /// The typed text.
    pub(super) typed: &'a str,
}

/// Asks whether the object was meant. A full ID needs no question.
///
/// # Errors
/// If the change is not confirmed, or a person cannot be asked.
pub(super) async fn require_meant(
    prompt: &dyn ApprovalPrompt,
    change: AbbreviatedChange<'_>,
) -> Result<(), WorkflowError> {
    let AbbreviatedChange { action, id, typed } = change;
    if id == typed {
        return Ok(());
    }
    let (id, typed) = (one_line(id), one_line(typed));
    let is_asked = prompt.is_interactive();
    if is_asked {
        let question = format!("`{typed}` is the start of an ID: {action} `{id}`? [y/N] ");
        if is_approved(prompt, None, &question, Answer::Yes).await? {
            return Ok(());
        }
    }
    let message = format!("cannot {action} `{id}`: `{typed}` is only the start of its ID");
    let reason = match is_asked {
        true => "the answer did not confirm it; nothing was changed",
        false => "standard input is not a terminal; nothing was changed",
    };
    let problem = Diagnostic::error(Code::CliAbbreviatedId, message)
        .note(reason)
        .help(format!("use the full ID `{id}`, if you mean it"));
    Err(WorkflowError::approval_required([problem]))
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use async_trait::async_trait;

    use super::*;
    use crate::reconcile::workflow::FailureKind;

    /// Answers each question in the same way. Without an answer, no person is there.
    struct Person {
        answer: Option<&'static str>,
        asked: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl ApprovalPrompt for Person {
        fn is_interactive(&self) -> bool {
            self.answer.is_some()
        }

        async fn ask(&self, _: Option<&str>, question: &str) -> Result<String, WorkflowError> {
            self.asked.lock().push(question.to_owned());
            Ok(self.answer.unwrap_or_default().to_owned())
        }

        fn command_with_yes(&self) -> String {
            unreachable!("there is no flag that confirms an abbreviation")
        }
    }

    #[tokio::test]
    async fn only_a_person_confirms_the_start_of_an_id() {
        for (typed, answer, is_done, questions) in [
            ("web-db", None, true, 0),
            ("web-db", Some("n"), true, 0),
            ("web", Some("y"), true, 1),
            ("web", Some(""), false, 1),
            ("web", Some("web-db"), false, 1),
            ("web", None, false, 0),
            ("", None, false, 0),
        ] {
            let person = Person { answer, asked: Mutex::default() };
            let change = AbbreviatedChange { action: "stop job", id: "web-db", typed };
            let done = require_meant(&person, change).await;
            assert_eq!(done.is_ok(), is_done, "{typed:?} {answer:?}");
            assert_eq!(person.asked.into_inner().len(), questions);
            if let Err(refused) = done {
                assert_eq!(refused.kind, FailureKind::ApprovalRequired);
                let codes: Vec<_> = refused.diagnostics.iter().map(|one| one.code).collect();
                assert_eq!(codes, [Code::CliAbbreviatedId]);
            }
        }
    }
}
