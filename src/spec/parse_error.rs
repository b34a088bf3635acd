//! The reason why a text does not parse: a diagnostic without the text.

use std::ops::Range;

use nomad_csi_model::diagnostic::{Code, Diagnostic, SourceId, SourceMap};

/// The first syntax error of a text. Its messages quote keys and punctuation only, never values,
/// which may be secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParseError {
    pub(super) code: Code,
    pub(super) range: Range<usize>,
    pub(super) message: String,
    pub(super) label: String,
    /// The position of what the range repeats.
    pub(super) first: Option<Range<usize>>,
    pub(super) help: Option<String>,
    /// True if the text is invalid in HCL1 and in HCL2.
    pub(super) is_conclusive: bool,
    /// True if a quote is not closed by HCL1's rules.
    pub(super) is_of_quote: bool,
    /// True if `${` or `%{` in a text starts nothing valid.
    pub(super) is_of_reference: bool,
}

impl ParseError {
    pub(super) fn syntax(range: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            code: Code::SpecSyntax,
            range,
            message: message.into(),
            label: String::new(),
            first: None,
            help: None,
            is_conclusive: false,
            is_of_quote: false,
            is_of_reference: false,
        }
    }

    pub(super) fn too_deep(range: Range<usize>) -> Self {
        let message =
            format!("blocks and lists are nested more than {} levels deep", super::tree::MAX_DEPTH);
        Self { code: Code::SpecTooDeep, is_conclusive: true, ..Self::syntax(range, message) }
    }

    pub(super) fn too_many_values(range: Range<usize>) -> Self {
        let message = format!("the file has more than {} values and keys", super::tree::MAX_VALUES);
        Self { code: Code::SpecTooManyValues, is_conclusive: true, ..Self::syntax(range, message) }
            .help(Code::SpecTooManyValues.advice())
    }

    pub(super) fn certain(mut self) -> Self {
        self.is_conclusive = true;
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
        let diagnostic = match self.first {
            Some(first) => diagnostic.label(SourceMap::span(source, first), "first here"),
            None => diagnostic,
        };
        match self.help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }
}
