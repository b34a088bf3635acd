//! Why a text could not be read: a diagnostic in the making, without the text it is about.

use std::ops::Range;

use crate::diagnostic::{Code, Diagnostic, SourceId, SourceMap};

/// The first thing that is wrong with a text. Its sentences quote keys and punctuation only, never a
/// value, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) code: Code,
    pub(super) range: Range<usize>,
    pub(super) message: String,
    pub(super) label: String,
    pub(super) help: Option<String>,
    /// Whether no other grammar could make sense of what stands there.
    pub(super) certain: bool,
}

impl Problem {
    pub(super) fn syntax(range: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            code: Code::SpecSyntax,
            range,
            message: message.into(),
            label: String::new(),
            help: None,
            certain: false,
        }
    }

    pub(super) fn too_deep(range: Range<usize>) -> Self {
        let message = format!(
            "blocks and lists lie more than {} deep in each other",
            super::tree::MAX_DEPTH
        );
        Self {
            code: Code::SpecTooDeep,
            certain: true,
            ..Self::syntax(range, message)
        }
    }

    pub(super) fn certain(mut self) -> Self {
        self.certain = true;
        self
    }

    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) fn into_diagnostic(self, source: SourceId) -> Diagnostic {
        let diagnostic = Diagnostic::error(self.code, self.message)
            .label(SourceMap::span(source, self.range), self.label);
        match self.help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }
}
