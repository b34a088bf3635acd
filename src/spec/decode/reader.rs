//! Converts values to the types of their fields, and reports values that do not fit.

use std::collections::BTreeMap;

use crate::defaults::Defaults;
use crate::syntax::Syntax;
use crate::tree::{Entry, Node, Scalar, ScalarKind, Value};
use crate::value_reader::ValueReader;
use crate::{hcl1, mask};
use nomad_csi_model::Bytes;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, Span};

/// The text of a tree.
pub(crate) struct Document<'d> {
    pub(crate) text: &'d str,
    pub(crate) source: SourceId,
    pub(crate) syntax: Syntax,
    pub(crate) defaults: &'d Defaults,
    /// True if it has a key of secrets, whose values may stand under a wrong key.
    pub(crate) has_secrets: bool,
}

/// How a number or a boolean becomes text. YAML always keeps the source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarConversion {
    /// By value, as in Nomad at the top level and in maps: `007` is `7`, `true` is `1`.
    ByValue,
    /// As written, as in Nomad in `mount_options` and `segments`.
    AsWritten,
}

/// Decodes the values of one document.
pub(crate) struct Reader<'d> {
    pub(crate) document: &'d Document<'d>,
    /// The documents whose classes a volume can take, in the order of their sources.
    pub(super) others: &'d [Document<'d>],
    pub(crate) diagnostics: &'d mut Diagnostics,
    pub(super) volume_count: usize,
    /// Positions of values under unknown keys, which may be secrets.
    pub(crate) possible_secrets: Vec<Span>,
}

impl ValueReader for Reader<'_> {
    fn document_text(&self) -> &str {
        self.document.text
    }

    fn syntax(&self) -> Syntax {
        self.document.syntax
    }

    fn syntax_at(&self, span: Span) -> Syntax {
        self.document_at(span).syntax
    }

    fn source_text(&self, span: Span) -> &str {
        self.text_at(span).get(span.range()).unwrap_or_default()
    }

    fn diagnostics(&mut self) -> &mut Diagnostics {
        self.diagnostics
    }

    fn wrong_type(&mut self, key: &str, node: &Node<'_>, expected: &str) {
        let problem = self.type_problem(key, node, expected);
        self.diagnostics.push(match &node.value {
            Value::Reference(_) => problem.help("use references for values in `secrets` only"),
            Value::Unknown | Value::Expression(_) => problem.help(
                "use `unknown` for `secrets` and `mount_flags` only: servers return all other fields",
            ),
            Value::Null | Value::Invalid | Value::Scalar(_) | Value::List(_) | Value::Object(_) => {
                problem
            }
        });
    }
}

impl<'d> Reader<'d> {
    pub(crate) fn new(
        document: &'d Document<'d>,
        others: &'d [Document<'d>],
        diagnostics: &'d mut Diagnostics,
    ) -> Self {
        Self { document, others, diagnostics, volume_count: 0, possible_secrets: vec![] }
    }
}

impl Reader<'_> {
    /// Returns the document in which a span is.
    fn document_at(&self, span: Span) -> &Document<'_> {
        if span.source == self.document.source {
            return self.document;
        }
        let found = self.others.binary_search_by_key(&span.source, |document| document.source);
        found.ok().and_then(|at| self.others.get(at)).unwrap_or(self.document)
    }

    /// Returns the text in which a span is.
    pub(super) fn text_at(&self, span: Span) -> &str {
        self.document_at(span).text
    }

    pub(crate) fn error(&mut self, code: Code, message: impl Into<String>, span: Span) {
        self.diagnostics.push(Diagnostic::error(code, message).label(span, ""));
    }

    /// Returns the entry of a key that must be unique; any other entry is an error.
    pub(crate) fn single<'t, 'a>(&mut self, entries: &[&'t Entry<'a>]) -> Option<&'t Entry<'a>> {
        let key = &entries.first()?.key.text;
        let first = self.first_of(key, entries)?;
        self.refuse_labels(first);
        Some(first)
    }

    /// Refuses labels, because Nomad silently drops a labelled block.
    pub(crate) fn refuse_labels(&mut self, entry: &Entry<'_>) {
        let [first, .., last] = &entry.labels[..] else {
            if let [label] = &entry.labels[..] {
                self.refuse_label(entry, label.span);
            }
            return;
        };
        self.refuse_label(entry, first.span.to(last.span));
    }

    fn refuse_label(&mut self, entry: &Entry<'_>, span: Span) {
        let message = format!("`{}` cannot have a label", entry.key.text);
        self.diagnostics
            .push(Diagnostic::error(Code::SpecUnexpectedLabel, message).label(span, "remove this"));
    }

    /// Decodes a text; `None` if it is missing or invalid. Reports an invalid one.
    pub(crate) fn text(
        &mut self,
        key: &str,
        node: &Node<'_>,
        reading: ScalarConversion,
    ) -> Option<String> {
        match &node.value {
            Value::Null | Value::Invalid => None,
            Value::Scalar(scalar) => self.scalar_text(key, node.span, scalar, reading),
            Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::List(_)
            | Value::Object(_) => {
                self.wrong_type(key, node, "a text");
                None
            }
        }
    }

    fn scalar_text(
        &mut self,
        key: &str,
        span: Span,
        scalar: &Scalar<'_>,
        reading: ScalarConversion,
    ) -> Option<String> {
        let as_written =
            reading == ScalarConversion::AsWritten || self.syntax_at(span) == Syntax::Yaml;
        match scalar.kind {
            ScalarKind::Number if !as_written => self.number_text(key, span, &scalar.text),
            ScalarKind::Boolean if !as_written => {
                let text = if scalar.text == "true" { "1" } else { "0" };
                self.warn_of_conversion(Code::SpecBooleanAsText, key, span, text);
                Some(text.to_owned())
            }
            ScalarKind::Text | ScalarKind::Number | ScalarKind::Boolean => {
                Some(scalar.text.to_string())
            }
        }
    }

    fn number_text(&mut self, key: &str, span: Span, written: &str) -> Option<String> {
        let Some(text) = hcl1::evaluate(written) else {
            let message = format!("the number in `{key}` is too large for Nomad");
            self.diagnostics.push(
                Diagnostic::error(Code::SpecWrongType, message).label(span, "put it in quotes"),
            );
            return None;
        };
        if text != written {
            self.warn_of_conversion(Code::SpecNumberAsText, key, span, &text);
        }
        Some(text)
    }

    fn warn_of_conversion(&mut self, code: Code, key: &str, span: Span, text: &str) {
        let message = if mask::is_sensitive(key) {
            format!("Nomad does not send the value of `{key}` as written")
        } else {
            format!("Nomad sends the value of `{key}` as `{text}`")
        };
        self.diagnostics.push(
            Diagnostic::warning(code, message)
                .label(span, "changed by Nomad")
                .help("put the intended value in quotes"),
        );
    }

    /// Decodes a size; `None` if it is missing or invalid. Reports an invalid one.
    pub(super) fn size(&mut self, key: &str, node: &Node<'_>) -> Option<Bytes> {
        let text = match &node.value {
            Value::Null | Value::Invalid => return None,
            Value::Scalar(scalar) if scalar.kind != ScalarKind::Boolean => &scalar.text,
            Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::List(_)
            | Value::Object(_) => {
                self.wrong_type(key, node, "a size");
                return None;
            }
        };
        if text.is_empty() {
            return None;
        }
        match Bytes::parse(text) {
            Ok(size) => Some(size),
            Err(problem) => {
                let message = format!("invalid size in `{key}`: {problem}");
                self.diagnostics.push(
                    Diagnostic::error(Code::SpecInvalidSize, message)
                        .label(node.span, "expected a size such as `10GiB`, `20G` or `1048576`"),
                );
                None
            }
        }
    }

    /// Decodes a boolean.
    pub(crate) fn boolean(&mut self, key: &str, node: &Node<'_>) -> Option<bool> {
        match &node.value {
            Value::Null | Value::Invalid => None,
            Value::Scalar(scalar) if scalar.kind == ScalarKind::Boolean => {
                Some(scalar.text.eq_ignore_ascii_case("true"))
            }
            Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::List(_)
            | Value::Object(_) => {
                self.wrong_type(key, node, "`true` or `false`");
                None
            }
        }
    }

    /// Decodes the texts of all blocks of a key; `None` without a block.
    pub(super) fn text_map(&mut self, entries: &[&Entry<'_>]) -> Option<BTreeMap<String, String>> {
        self.map_of(entries, Self::map_value)
    }

    /// Decodes the pairs of all blocks of a key with `read`; `None` without a block.
    pub(super) fn map_of<T>(
        &mut self,
        entries: &[&Entry<'_>],
        mut read: impl FnMut(&mut Self, &str, &Entry<'_>) -> Option<T>,
    ) -> Option<BTreeMap<String, T>> {
        self.warn_of_repetition(entries);
        let mut map: Option<BTreeMap<String, T>> = None;
        let mut places = BTreeMap::new();
        for entry in entries {
            self.refuse_labels(entry);
            if matches!(&entry.value.value, Value::List(items) if items.is_empty()) {
                map.get_or_insert_default();
            }
            let Some(object) = self.object_of(entry) else {
                continue;
            };
            let map = map.get_or_insert_default();
            for pair in &object.entries {
                let first = *places.entry(&*pair.key.text).or_insert(pair.key.span);
                if first != pair.key.span {
                    self.duplicate_pair(&entry.key.text, &pair.key.text, [pair.key.span, first]);
                } else if let Some(value) = read(self, &entry.key.text, pair) {
                    map.insert(pair.key.text.to_string(), value);
                }
            }
        }
        map
    }

    fn duplicate_pair(&mut self, map: &str, key: &str, [again, first]: [Span; 2]) {
        self.diagnostics.push(
            Diagnostic::error(
                Code::SpecDuplicateField,
                format!("duplicate key `{key}` in `{map}`"),
            )
            .label(again, "repeated here")
            .label(first, "first here"),
        );
    }

    /// Decodes the text of one pair. Reports a missing one.
    pub(super) fn map_value(&mut self, map: &str, pair: &Entry<'_>) -> Option<String> {
        self.refuse_labels(pair);
        match &pair.value.value {
            Value::Null if self.syntax_at(pair.value.span) == Syntax::Json => Some(String::new()),
            Value::Null => {
                let key = &pair.key.text;
                let message = format!("`{key}` in `{map}` has no value");
                self.diagnostics.push(
                    Diagnostic::error(Code::SpecWrongType, message)
                        .label(pair.key.span, "write `\"\"` for an empty text"),
                );
                None
            }
            Value::Scalar(scalar) => {
                let name = if mask::is_sensitive(map) { map } else { &pair.key.text };
                self.scalar_text(name, pair.value.span, scalar, ScalarConversion::ByValue)
            }
            Value::Invalid => None,
            Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::List(_)
            | Value::Object(_) => {
                self.wrong_type(&pair.key.text, &pair.value, "a text");
                None
            }
        }
    }

    /// Warns of a repeated key in JSON: Nomad keeps all values, other programs keep one.
    pub(super) fn warn_of_repetition(&mut self, entries: &[&Entry<'_>]) {
        for pair in entries.windows(2) {
            let is_json = self.syntax_at(pair[1].key.span) == Syntax::Json;
            if is_json && pair[0].key.span != pair[1].key.span {
                let key = &pair[1].key.text;
                let message =
                    format!("duplicate key `{key}`: Nomad keeps both, other programs keep one");
                self.diagnostics.push(
                    Diagnostic::warning(Code::SpecLenientJson, message)
                        .label(pair[1].key.span, "repeated here")
                        .label(pair[0].key.span, "first here")
                        .help("write one key with a list"),
                );
            }
        }
    }
}
