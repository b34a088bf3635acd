//! The error of a command.

use std::sync::Arc;

use super::exit::Exit;
use nomad_csi_client::ports::ApiError;
use nomad_csi_model::diagnostic::{Diagnostic, Diagnostics, SourceMap};

/// The error of a command.
#[derive(Debug)]
pub struct CliError {
    /// The exit code.
    pub exit: Exit,
    /// The diagnostics to print; empty if they are already printed.
    pub diagnostics: Diagnostics,
    /// The texts that the diagnostics refer to.
    pub sources: Arc<SourceMap>,
}

impl CliError {
    /// Returns an error whose diagnostics are already printed.
    pub fn already_reported(exit: Exit) -> Self {
        Self { exit, diagnostics: Diagnostics::default(), sources: Arc::default() }
    }

    /// Sets the texts that the diagnostics refer to.
    #[must_use]
    pub fn with_sources(mut self, sources: impl Into<Arc<SourceMap>>) -> Self {
        self.sources = sources.into();
        self
    }

    /// Returns an error with the exit code of a blocked change.
    pub fn blocked(reasons: impl IntoIterator<Item = Diagnostic>) -> Self {
        Self {
            exit: Exit::Blocked,
            diagnostics: reasons.into_iter().collect(),
            sources: Arc::default(),
        }
    }
}

impl From<Diagnostic> for CliError {
    fn from(diagnostic: Diagnostic) -> Self {
        Self { exit: Exit::Error, diagnostics: diagnostic.into(), sources: Arc::default() }
    }
}

impl From<Diagnostics> for CliError {
    fn from(diagnostics: Diagnostics) -> Self {
        Self { exit: Exit::Error, diagnostics, sources: Arc::default() }
    }
}

impl From<ApiError> for CliError {
    fn from(error: ApiError) -> Self {
        error.diagnostic().into()
    }
}
