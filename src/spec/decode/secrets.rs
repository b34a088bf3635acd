//! `secrets`: keys with values, or with references to them.
//!
//! A reference is `env("NAME")` or `file("PATH")` in HCL, `{env: NAME}` or `{file: PATH}` in YAML and
//! JSON. Nothing is looked up here: whether a variable is set is asked right before a request is sent.
//! Nomad's own reader refuses references (`nomad-http-api` 5.5: "nested maps or lists are errors"), so
//! no file means something else there.

use std::collections::BTreeMap;

use super::reader::Reader;
use crate::diagnostic::{Code, Diagnostic, Span, nearest};
use crate::model::{Secret, SecretRef, SecretRefs};
use crate::spec::syntax::Syntax;
use crate::spec::tree::{Entry, Node, Object, Reference, ReferenceSource, Value};

impl Reader<'_> {
    /// Whether these entries say that nobody knows the value; beside another it makes no sense.
    pub(super) fn is_unknown(&mut self, entries: &[&Entry<'_>]) -> bool {
        let syntax = self.document.syntax;
        let unknown = |entry: &&&Entry<'_>| entry.value.is_unknown(syntax);
        let Some(first) = entries.iter().find(unknown) else {
            return false;
        };
        for other in entries
            .iter()
            .filter(|entry| !entry.value.is_unknown(syntax))
        {
            let key = &first.key.text;
            let message = format!("`{key}` is given, and `unknown` too");
            self.diagnostics.push(
                Diagnostic::error(Code::SpecDuplicateField, message)
                    .label(other.key.span, "given here")
                    .label(first.key.span, "unknown here"),
            );
        }
        true
    }

    /// All secrets, and where the value of each was written.
    pub(super) fn secrets(
        &mut self,
        entries: &[&Entry<'_>],
    ) -> (Option<SecretRefs>, BTreeMap<String, Span>) {
        let mut spans = BTreeMap::new();
        let secrets = self.map_of(entries, |reader, map, pair| {
            spans.insert(pair.key.text.to_string(), pair.value.span);
            reader.secret(map, pair)
        });
        (secrets.map(SecretRefs::from_iter), spans)
    }

    fn secret(&mut self, map: &str, pair: &Entry<'_>) -> Option<SecretRef> {
        match &pair.value.value {
            Value::Object(_) if self.document.syntax == Syntax::Hcl => {
                self.refuse_labels(pair);
                self.not_a_secret(pair);
                None
            }
            Value::Object(object) => {
                self.refuse_labels(pair);
                match pair.value.as_reference() {
                    Some(reference) => self.reference(&pair.value, &reference),
                    None => {
                        self.no_reference(pair, object);
                        None
                    }
                }
            }
            Value::Reference(reference) => {
                self.refuse_labels(pair);
                self.reference(&pair.value, reference)
            }
            Value::List(_) | Value::Unknown => {
                self.not_a_secret(pair);
                None
            }
            Value::Null | Value::Broken | Value::Scalar(_) => {
                let text = self.map_value(map, pair)?;
                Some(SecretRef::Literal(Secret::new(text)))
            }
        }
    }

    fn reference(&mut self, node: &Node<'_>, reference: &Reference<'_>) -> Option<SecretRef> {
        let argument = &*reference.argument;
        let problem = match reference.source {
            _ if argument.is_empty() => Some("it is empty"),
            _ if argument.contains('\0') => Some("it holds a zero byte"),
            ReferenceSource::Env if argument.contains('=') => Some("it holds `=`"),
            ReferenceSource::Env | ReferenceSource::File => None,
        };
        let (what, found) = match reference.source {
            ReferenceSource::Env => ("a variable's name", SecretRef::Env(argument.to_owned())),
            ReferenceSource::File => ("a path", SecretRef::File(argument.to_owned())),
        };
        let Some(problem) = problem else {
            return Some(found);
        };
        let message = format!("this is not {what}: {problem}");
        self.error(Code::SpecSecretReference, message, node.span);
        None
    }

    /// A value that is neither a text nor a reference.
    fn not_a_secret(&mut self, pair: &Entry<'_>) {
        let key = &pair.key.text;
        let kind = pair.value.kind_name(self.document.syntax);
        let message = format!("`{key}` is {kind}, and a text or a reference is needed");
        let help = self.reference_help();
        self.diagnostics.push(
            Diagnostic::error(Code::SpecWrongType, message)
                .label(pair.key.span, "a text or a reference should stand here")
                .help(help),
        );
    }

    /// An object that is no reference: another source, several, or no text to ask it for.
    fn no_reference(&mut self, pair: &Entry<'_>, object: &Object<'_>) {
        let [only] = &object.entries[..] else {
            return self.not_a_secret(pair);
        };
        let source = &*only.key.text;
        let words = ReferenceSource::ALL.map(ReferenceSource::as_str);
        let diagnostic = if ReferenceSource::parse(source).is_some() {
            let message = format!(
                "`{source}` is {}, and a text is needed",
                only.value.kind_name(self.document.syntax)
            );
            Diagnostic::error(Code::SpecWrongType, message)
                .label(only.key.span, "a text should stand here")
        } else {
            let message = format!("`{source}` is not a source of secrets");
            let label = nearest(source, words).map_or_else(
                || "known are `env` and `file`".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            Diagnostic::error(Code::SpecSecretReference, message).label(only.key.span, label)
        };
        let help = self.reference_help();
        self.diagnostics.push(diagnostic.help(help));
    }

    /// How a reference is written in this file.
    fn reference_help(&self) -> &'static str {
        match self.document.syntax {
            Syntax::Hcl => "a reference is `env(\"NAME\")` or `file(\"PATH\")`",
            Syntax::Yaml => "a reference is `{env: NAME}` or `{file: PATH}`",
            Syntax::Json => "a reference is `{\"env\": \"NAME\"}` or `{\"file\": \"PATH\"}`",
        }
    }
}
