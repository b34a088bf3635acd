//! Decodes `secrets`: keys with values, or with references to values.
//!
//! A reference is `env("NAME")`, `file("PATH")` or `nomad_var("PATH", "KEY")` in HCL, `{env: NAME}`,
//! `{file: PATH}` or `{nomad_var: [PATH, KEY]}` in YAML and JSON. It is resolved right before a
//! request, not here. Nomad's own reader refuses references, so no file means something else there.

use std::collections::BTreeMap;

use super::reader::Reader;
use crate::syntax::Syntax;
use crate::tree::{Entry, Node, Object, ReferenceSource, SecretReference, Value};
use crate::value_reader::ValueReader as _;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span, closest_match};
use nomad_csi_model::{Secret, SecretRef, SecretRefs};

impl Reader<'_> {
    /// Returns whether a field is `unknown`. A value beside it is an error.
    pub(super) fn is_unknown(&mut self, entries: &[&Entry<'_>]) -> bool {
        let unknown = |entry: &&Entry<'_>| entry.value.is_unknown(self.syntax_at(entry.value.span));
        let Some(first) = entries.iter().find(|entry| unknown(entry)) else {
            return false;
        };
        let others: Vec<_> = entries.iter().filter(|entry| !unknown(entry)).collect();
        for other in others {
            let key = &first.key.text;
            let message = format!("`{key}` has a value and is also `unknown`");
            self.diagnostics.push(
                Diagnostic::error(Code::SpecDuplicateField, message)
                    .label(other.key.span, "given here")
                    .label(first.key.span, "unknown here"),
            );
        }
        true
    }

    /// Decodes all secrets, with the positions of their values.
    pub(super) fn secrets(
        &mut self,
        entries: &[&Entry<'_>],
    ) -> (Option<SecretRefs>, BTreeMap<String, Span>) {
        let mut spans = BTreeMap::new();
        let secrets = self.map_of(entries, |reader, map, pair| {
            // A relative path starts at the file in which the reference is written.
            let place = match &pair.value.value {
                Value::Reference(reference) => reference.place.unwrap_or(pair.value.span),
                Value::Null
                | Value::Invalid
                | Value::Scalar(_)
                | Value::Unknown
                | Value::Expression(_)
                | Value::List(_)
                | Value::Object(_) => pair.value.span,
            };
            spans.insert(pair.key.text.to_string(), place);
            reader.secret(map, pair)
        });
        (secrets.map(SecretRefs::from_iter), spans)
    }

    fn secret(&mut self, map: &str, pair: &Entry<'_>) -> Option<SecretRef> {
        match &pair.value.value {
            Value::Object(_) if self.syntax_at(pair.value.span) == Syntax::Hcl => {
                self.refuse_labels(pair);
                self.not_a_secret(pair);
                None
            }
            Value::Object(object) => {
                self.refuse_labels(pair);
                match pair.value.as_reference() {
                    // The values of an expression all have its position, and none of where they were written.
                    Some(reference)
                        if reference.source == ReferenceSource::File
                            && object.entries.iter().all(|one| one.key.span == pair.value.span) =>
                    {
                        self.computed_path(&pair.value);
                        None
                    }
                    Some(reference) => self.reference(&pair.value, &reference),
                    None => {
                        self.invalid_reference(pair, object);
                        None
                    }
                }
            }
            Value::Reference(reference) => {
                self.refuse_labels(pair);
                self.reference(&pair.value, reference)
            }
            Value::List(_) | Value::Unknown | Value::Expression(_) => {
                self.not_a_secret(pair);
                None
            }
            Value::Null | Value::Invalid | Value::Scalar(_) => {
                let text = self.map_value(map, pair)?;
                Some(SecretRef::Literal(Secret::new(text)))
            }
        }
    }

    fn reference(&mut self, node: &Node<'_>, reference: &SecretReference<'_>) -> Option<SecretRef> {
        let mut arguments = reference.arguments.iter().map(ToString::to_string);
        let (first, second) = (arguments.next()?, arguments.next());
        let has = |c: char| first.contains(c) || second.as_ref().is_some_and(|it| it.contains(c));
        let problem = match reference.source {
            _ if first.is_empty() || second.as_deref() == Some("") => Some("it is empty"),
            _ if has('\0') => Some("it holds a zero byte"),
            ReferenceSource::Env if has('=') => Some("it holds `=`"),
            ReferenceSource::Env | ReferenceSource::File | ReferenceSource::NomadVar => None,
        };
        let (what, found) = match reference.source {
            ReferenceSource::Env => ("variable name", SecretRef::Env(first)),
            ReferenceSource::File => ("path", SecretRef::File(first)),
            ReferenceSource::NomadVar => {
                let (path, key) = (first, second?);
                ("path or key", SecretRef::NomadVar { path, key })
            }
        };
        let Some(problem) = problem else {
            return Some(found);
        };
        let message = format!("invalid {what}: {problem}");
        self.error(Code::SpecSecretReference, message, node.span);
        None
    }

    /// Reports the path of a file in a map that an expression made: nothing says at which directory it starts.
    fn computed_path(&mut self, node: &Node<'_>) {
        let message =
            "a map of an expression cannot name a file: its path starts at no known directory";
        self.diagnostics.push(
            Diagnostic::error(Code::SpecSecretReference, message)
                .label(node.span, "has `file` as a key")
                .help("write the reference as a call: `${file(\"PATH\")}`"),
        );
    }

    /// Reports a value that is neither a text nor a reference.
    fn not_a_secret(&mut self, pair: &Entry<'_>) {
        let key = &pair.key.text;
        let kind = pair.value.kind_name(self.syntax_at(pair.value.span));
        let message = format!("`{key}` is {kind}, not a text or a reference");
        let help = self.reference_help(pair.value.span);
        self.diagnostics.push(
            Diagnostic::error(Code::SpecWrongType, message)
                .label(pair.key.span, "expected a text or a reference")
                .help(help),
        );
    }

    /// Reports an object that is not a reference.
    fn invalid_reference(&mut self, pair: &Entry<'_>, object: &Object<'_>) {
        let [only] = &object.entries[..] else {
            return self.not_a_secret(pair);
        };
        let source = &*only.key.text;
        let words = ReferenceSource::ALL.map(ReferenceSource::as_str);
        let diagnostic = if let Some(known) = ReferenceSource::parse(source) {
            let expected = match known.argument_count() {
                1 => "a text",
                _ => "a list of two texts",
            };
            let kind = only.value.kind_name(self.syntax_at(only.value.span));
            let message = format!("`{source}` is {kind}, not {expected}");
            let label = format!("expected {expected}");
            Diagnostic::error(Code::SpecWrongType, message).label(only.key.span, label)
        } else if ReferenceSource::is_planned(source) {
            let message = format!("`{source}` is not supported yet as a source of secrets");
            Diagnostic::error(Code::SpecSecretReference, message).label(only.key.span, "")
        } else {
            let message = format!("unknown source of secrets `{source}`");
            let label = closest_match(source, words).map_or_else(
                || "expected `env`, `file` or `nomad_var`".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            Diagnostic::error(Code::SpecSecretReference, message).label(only.key.span, label)
        };
        let help = self.reference_help(pair.value.span);
        self.diagnostics.push(diagnostic.help(help));
    }

    /// Returns the help on references in this syntax.
    fn reference_help(&self, span: Span) -> &'static str {
        match self.syntax_at(span) {
            Syntax::Hcl => {
                "write a reference as `env(\"NAME\")`, `file(\"PATH\")` or `nomad_var(\"PATH\", \"KEY\")`"
            }
            Syntax::Yaml => {
                "write a reference as `{env: NAME}`, `{file: PATH}` or `{nomad_var: [PATH, KEY]}`"
            }
            Syntax::Json => {
                "write a reference as `{\"env\": \"NAME\"}`, `{\"file\": \"PATH\"}` or `{\"nomad_var\": [\"PATH\", \"KEY\"]}`"
            }
        }
    }
}
