//! The common part of the decoders of volumes and of jobs: finding the value of a key, and the errors about keys and values.
//!
//! The two differ in how numbers become text and in what may be repeated, as Nomad's readers do. Their errors do not.

use super::schema;
use super::syntax::Syntax;
use super::tree::{Entry, Node, Object, Value};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span};

/// A decoder of one document.
pub(crate) trait ValueReader {
    /// Returns the text of the document.
    fn document_text(&self) -> &str;

    /// Returns the syntax of the document.
    fn syntax(&self) -> Syntax;

    /// Returns the problems that were found.
    fn diagnostics(&mut self) -> &mut Diagnostics;

    /// Returns the syntax of the text in which a node stands: that of the document, unless nodes of several texts meet.
    fn syntax_at(&self, _span: Span) -> Syntax {
        self.syntax()
    }

    /// Returns the source text of a span.
    fn source_text(&self, span: Span) -> &str {
        self.document_text().get(span.range()).unwrap_or_default()
    }

    /// Quotes a word like the text at `span`.
    fn quoted_like(&self, span: Span, word: &str) -> String {
        match self.source_text(span).chars().next() {
            Some(quote @ ('"' | '\'')) => format!("{quote}{word}{quote}"),
            _ => word.to_owned(),
        }
    }

    /// Returns whether an entry is a comment, which JSON writes as a key `//`.
    fn is_comment(&self, entry: &Entry<'_>) -> bool {
        self.syntax_at(entry.key.span) == Syntax::Json && entry.key.text == "//"
    }

    /// Returns whether a top-level entry declares nothing.
    fn declares_nothing(&self, entry: &Entry<'_>) -> bool {
        schema::declares_nothing(&entry.key.text, self.syntax_at(entry.key.span))
    }

    /// Returns the error about a value of another type than its field's.
    fn type_problem(&self, key: &str, node: &Node<'_>, expected: &str) -> Diagnostic {
        let is = node.kind_name(self.syntax_at(node.span));
        Diagnostic::error(Code::SpecWrongType, format!("`{key}` is {is}, not {expected}"))
            .label(node.span, format!("expected {expected}"))
    }

    /// Reports a value of another type than its field's.
    fn wrong_type(&mut self, key: &str, node: &Node<'_>, expected: &str) {
        let problem = self.type_problem(key, node, expected);
        self.diagnostics().push(problem);
    }

    /// Returns the first entry of a key that must be unique, and reports the others under `key`, the correct spelling.
    fn first_of<'t, 'a>(&mut self, key: &str, entries: &[&'t Entry<'a>]) -> Option<&'t Entry<'a>> {
        let (first, others) = entries.split_first()?;
        for other in others {
            let problem =
                Diagnostic::error(Code::SpecDuplicateField, format!("duplicate field `{key}`"))
                    .label(other.key.span, "repeated here")
                    .label(first.key.span, "first here");
            self.diagnostics().push(problem);
        }
        Some(first)
    }

    /// Returns the object of an entry; `None` if it is missing (`null` or an empty list). Reports any other value.
    fn object_of<'t, 'a>(&mut self, entry: &'t Entry<'a>) -> Option<&'t Object<'a>> {
        match &entry.value.value {
            Value::Object(object) => Some(object),
            Value::Null | Value::Invalid => None,
            Value::List(items) if items.is_empty() => None,
            Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::List(_) => {
                let expected = self.syntax_at(entry.value.span).object_name();
                self.wrong_type(&entry.key.text, &entry.value, expected);
                None
            }
        }
    }

    /// Adds the label and the replacement of a word that resembles another one. `kind` names it: "field".
    fn suggested(&self, problem: Diagnostic, span: Span, near: &str, kind: &str) -> Diagnostic {
        problem.label(span, format!("did you mean `{near}`?")).replace(
            span,
            self.quoted_like(span, near),
            format!("a similar {kind} exists"),
        )
    }

    /// Reports a word that is not in a fixed set, and suggests the one that it resembles. `kind` names it: "access mode".
    fn unknown_word(
        &mut self,
        code: Code,
        kind: &str,
        (node, text): (&Node<'_>, &str),
        near: Option<&str>,
        all: &[&str],
    ) {
        let problem = Diagnostic::error(code, format!("unknown {kind} `{text}`"));
        let problem = match near.filter(|_| !text.is_empty()) {
            Some(near) => self.suggested(problem, node.span, near, kind),
            None => {
                let known: Vec<_> = all.iter().map(|word| format!("`{word}`")).collect();
                problem.label(node.span, format!("expected one of {}", known.join(", ")))
            }
        };
        self.diagnostics().push(problem);
    }
}

/// Returns the position of a field: of its value, or of its key if the value has several lines.
pub(crate) fn field_span(entry: &Entry<'_>) -> Span {
    match &entry.value.value {
        Value::Scalar(_)
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::Invalid => entry.value.span,
        Value::Null | Value::List(_) | Value::Object(_) => entry.key.span,
    }
}
