//! Errors of the journal and of the key as diagnostics.

use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::private::NotPrivate;
use nomad_csi_server::JournalError;
use nomad_csi_server::store::KeyError;

/// An unusable key as a diagnostic.
pub(super) fn key_problem(error: &KeyError) -> Diagnostics {
    with_cause(Diagnostic::error(error.code(), error.to_string()), error)
}

/// An unusable journal as a diagnostic.
pub(super) fn journal_problem(error: &JournalError) -> Diagnostics {
    with_cause(Diagnostic::error(error.kind.code(), error.to_string()), error)
}

/// Adds the cause of an error, and what to do about a file that is not private.
pub(super) fn with_cause(
    problem: Diagnostic,
    error: &(dyn std::error::Error + 'static),
) -> Diagnostics {
    let problem = match error.source() {
        Some(source) => problem.note(source.to_string()),
        None => problem,
    };
    match NotPrivate::find(error) {
        Some(refused) => {
            Diagnostic { code: Code::FileNotPrivate, ..problem.help(refused.help()) }.into()
        }
        None => problem.into(),
    }
}
