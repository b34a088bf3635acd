//! Why a command ended without doing its work.

use std::sync::Arc;

use super::exit::Exit;
use crate::diagnostic::{Diagnostic, Diagnostics, SourceMap};
use crate::ports::ApiError;

/// A command ended without doing its work.
#[derive(Debug)]
pub struct CliError {
    /// With which exit code.
    pub exit: Exit,
    /// What is said of it; empty if everything has been said.
    pub diagnostics: Diagnostics,
    /// The texts that it points into.
    pub sources: Arc<SourceMap>,
}

impl CliError {
    /// Nothing more to say.
    pub fn said(exit: Exit) -> Self {
        Self {
            exit,
            diagnostics: Diagnostics::default(),
            sources: Arc::default(),
        }
    }

    /// What is said points into these texts.
    #[must_use]
    pub fn in_texts(mut self, sources: impl Into<Arc<SourceMap>>) -> Self {
        self.sources = sources.into();
        self
    }

    /// Blocked, for these reasons.
    pub fn blocked(reasons: impl IntoIterator<Item = Diagnostic>) -> Self {
        Self {
            exit: Exit::Blocked,
            diagnostics: reasons.into_iter().collect(),
            sources: Arc::default(),
        }
    }

    /// Somebody has to agree.
    pub fn approval_needed(diagnostic: Diagnostic) -> Self {
        Self {
            exit: Exit::ApprovalNeeded,
            diagnostics: diagnostic.into(),
            sources: Arc::default(),
        }
    }
}

impl From<Diagnostic> for CliError {
    fn from(diagnostic: Diagnostic) -> Self {
        Self {
            exit: Exit::Error,
            diagnostics: diagnostic.into(),
            sources: Arc::default(),
        }
    }
}

impl From<Diagnostics> for CliError {
    fn from(diagnostics: Diagnostics) -> Self {
        Self {
            exit: Exit::Error,
            diagnostics,
            sources: Arc::default(),
        }
    }
}

impl From<ApiError> for CliError {
    fn from(error: ApiError) -> Self {
        error.diagnostic().into()
    }
}
