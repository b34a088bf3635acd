//! Assigns the entries of a block to the keys that Nomad knows, and reports all others.

use std::collections::BTreeSet;

use crate::job::place::{JobPlace, JobPlaces};
use crate::job::schema::{self, Form, Handling, Key};
use crate::value_reader::{ValueReader, field_span};
use crate::{Entry, Object, Syntax, Value};
use nomad_csi_model::PartEffect;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span, closest_match};

/// Decodes the values of one job.
pub(super) struct FieldReader<'d> {
    pub(super) text: &'d str,
    pub(super) syntax: Syntax,
    pub(super) diagnostics: &'d mut Diagnostics,
    pub(super) places: JobPlaces,
    /// Keys that are ignored, each once, with the first position of one of them.
    pub(super) ignored: BTreeSet<&'static str>,
    pub(super) first_ignored: Option<Span>,
    /// Positions of ignored values, in which expressions do not matter.
    pub(super) ignored_spans: Vec<Span>,
}

/// A block with its name, from its label or from the key of an object.
pub(super) struct Named<'t, 'a> {
    pub(super) name: String,
    /// The position of the key and the name.
    pub(super) header: Span,
    pub(super) object: &'t Object<'a>,
}

/// The entries of one block by key.
pub(super) struct Fields<'t, 'a> {
    pub(super) place: JobPlace,
    entries: Vec<(&'static str, &'t Entry<'a>)>,
}

impl<'t, 'a> Fields<'t, 'a> {
    /// Returns all entries of a key.
    pub(super) fn all(&self, key: &str) -> Vec<&'t Entry<'a>> {
        let of_key = self.entries.iter().filter(|(name, _)| *name == key);
        of_key.map(|(_, entry)| *entry).collect()
    }
}

impl ValueReader for FieldReader<'_> {
    fn document_text(&self) -> &str {
        self.text
    }

    fn syntax(&self) -> Syntax {
        self.syntax
    }

    fn diagnostics(&mut self) -> &mut Diagnostics {
        self.diagnostics
    }
}

impl<'t, 'a> FieldReader<'_> {
    pub(super) fn error(
        &mut self,
        code: Code,
        message: impl Into<String>,
        span: Span,
        label: &str,
    ) {
        let error = Diagnostic::error(code, message).label(span, label);
        self.diagnostics.push(error);
    }

    /// Assigns the entries of a block. A misspelt key is read as the key that it resembles, so the
    /// key is not reported as missing. `what` names the block in messages: "a group".
    pub(super) fn fields(
        &mut self,
        object: &'t Object<'a>,
        keys: &'static [Key],
        what: &str,
        place: JobPlace,
    ) -> Fields<'t, 'a> {
        let mut fields = Fields { place, entries: Vec::with_capacity(object.entries.len()) };
        let mut misspelt = vec![];
        let given: BTreeSet<&str> = object.entries.iter().map(|entry| &*entry.key.text).collect();
        for entry in &object.entries {
            let key = &*entry.key.text;
            match keys.iter().find(|known| known.name == key) {
                _ if self.is_comment(entry) => {}
                Some(known) => match known.handling {
                    Handling::Read => {
                        self.check_form(entry, known);
                        fields.entries.push((known.name, entry));
                    }
                    Handling::Ignored => self.ignore(entry, known),
                    Handling::Refused(decides) => self.refuse(entry, known, decides),
                },
                None if key == "dynamic" => self.dynamic(entry),
                None if key == "config" && keys == schema::VOLUME => {
                    misspelt.extend(self.nested_config(entry));
                }
                None => {
                    let meant = self.unknown_key(entry, keys, what, &given);
                    misspelt.extend(meant.map(|key| (key, entry)));
                }
            }
        }
        let read: BTreeSet<&str> = fields.entries.iter().map(|(key, _)| *key).collect();
        misspelt.retain(|(key, _)| !read.contains(key));
        fields.entries.extend(misspelt);
        for (key, entry) in &fields.entries {
            let place = fields.place.field(key);
            self.places.insert(place, field_span(entry));
        }
        fields
    }

    /// Returns whether an entry of HCL is written with `=`.
    fn is_assigned(&self, entry: &Entry<'_>) -> bool {
        let between = entry.key.span.range().end..entry.value.span.range().start;
        let is_hcl = self.syntax == Syntax::Hcl;
        is_hcl && self.text.get(between).is_some_and(|text| text.contains('='))
    }

    fn check_form(&mut self, entry: &Entry<'_>, known: &Key) {
        let key = known.name;
        if known.form == Form::Block && self.is_assigned(entry) {
            let message = format!("`{key}` is a block, not a value");
            self.error(Code::SpecWrongType, message, entry.key.span, "write it without `=`");
        }
    }

    /// Notes a part that is not carried out. A declaration has no effect by itself: each use of it is an error.
    fn ignore(&mut self, entry: &Entry<'_>, known: &Key) {
        self.ignored_spans.push(entry.key.span.to(entry.value.span));
        if schema::DECLARATIONS.contains(&known.name) {
            return;
        }
        self.ignored.insert(known.name);
        self.first_ignored.get_or_insert(entry.key.span);
    }

    /// Reports a part whose loss could change what happens to volumes. One that is null says nothing.
    fn refuse(&mut self, entry: &Entry<'_>, known: &Key, decides: PartEffect) {
        self.ignored_spans.push(entry.key.span.to(entry.value.span));
        if matches!(entry.value.value, Value::Null) {
            return;
        }
        let (name, decides) = (known.name, decides.as_str());
        let message = format!("`{name}` is not supported: it decides {decides}");
        self.diagnostics.push(
            Diagnostic::error(Code::JobNotSupported, message)
                .label(entry.key.span, "this program cannot carry it out")
                .help(Code::JobNotSupported.advice()),
        );
    }

    fn dynamic(&mut self, entry: &Entry<'_>) {
        self.diagnostics.push(
            Diagnostic::error(
                Code::JobExpression,
                "cannot evaluate a `dynamic` block: expressions are not supported in job files",
            )
            .label(entry.key.span, "not evaluated")
            .help("write each block that it stands for, or render the file: `nomad job run -output FILE` prints JSON that is read here"),
        );
        self.ignored_spans.push(entry.key.span.to(entry.value.span));
    }

    /// Reports the form of a volume before Nomad 0.9, `config { source = … }` (B82). Returns its
    /// fields, so that they are not reported as missing.
    fn nested_config(&mut self, entry: &'t Entry<'a>) -> Vec<(&'static str, &'t Entry<'a>)> {
        let message = "`config` is obsolete: its fields belong directly in the `volume` block";
        let span = entry.key.span;
        self.error(Code::SpecNestedConfig, message, span, "remove this level");
        let Value::Object(object) = &entry.value.value else {
            return vec![];
        };
        let known =
            |inner: &Entry<'_>| schema::VOLUME.iter().find(|key| key.name == inner.key.text);
        let fields = object.entries.iter();
        fields.filter_map(|inner| Some((known(inner)?.name, inner))).collect()
    }

    fn unknown_key(
        &mut self,
        entry: &Entry<'_>,
        keys: &'static [Key],
        what: &str,
        given: &BTreeSet<&str>,
    ) -> Option<&'static str> {
        let key = &*entry.key.text;
        let span = entry.key.span;
        self.ignored_spans.push(span.to(entry.value.span));
        if keys == schema::FILE
            && let Some((what, help)) = of_other_file(key)
        {
            self.diagnostics.push(
                Diagnostic::error(
                    Code::SpecOtherForm,
                    format!("`{key}` is {what}, not of a job file"),
                )
                .label(span, "Nomad refuses this")
                .help(help),
            );
            return None;
        }
        let message = format!("`{key}` is not a field of {what}");
        let problem = Diagnostic::error(Code::SpecUnknownField, message);
        if self.diagnostics.is_full() {
            self.diagnostics.push(problem.label(span, "Nomad refuses this"));
            return None;
        }
        let plain = key.to_ascii_lowercase().replace('-', "_");
        let is_block = entry.value.is_object();
        // A suggestion must not lead to the next error.
        let known = || {
            let possible = keys.iter().filter(|known| match (known.handling, known.form) {
                (Handling::Refused(_), _) => false,
                (Handling::Read | Handling::Ignored, Form::Value) => {
                    !is_block && !given.contains(known.name)
                }
                (Handling::Read | Handling::Ignored, Form::Block | Form::Map) => is_block,
            });
            possible.map(|known| known.name)
        };
        let near = known().find(|name| *name == plain);
        let near = near.or_else(|| closest_match(key, known()));
        self.diagnostics.push(match near {
            Some(near) => self.suggested(problem, span, near, "field"),
            None => problem.label(span, "Nomad refuses this"),
        });
        near
    }

    /// Returns the entry of a key that must be unique. A repetition is an error.
    pub(super) fn single(&mut self, fields: &Fields<'t, 'a>, key: &str) -> Option<&'t Entry<'a>> {
        self.first_of(key, &fields.all(key))
    }

    /// Returns the object of a block without a label; `None` if it is missing or no object.
    pub(super) fn block(&mut self, entry: &'t Entry<'a>) -> Option<&'t Object<'a>> {
        if let Some(label) = entry.labels.first() {
            let message = format!("`{}` cannot have a label", entry.key.text);
            self.error(Code::SpecUnexpectedLabel, message, label.span, "remove this");
        }
        self.object_of(entry)
    }

    /// Returns the object of the only block of a key.
    pub(super) fn single_block(
        &mut self,
        fields: &Fields<'t, 'a>,
        key: &str,
    ) -> Option<&'t Object<'a>> {
        let entry = self.single(fields, key)?;
        self.block(entry)
    }

    /// Returns the blocks of a key with their names: `group "a" { … }`, or in YAML and JSON the
    /// entries of an object, `group: {a: {…}}`.
    pub(super) fn named(&mut self, fields: &Fields<'t, 'a>, key: &str) -> Vec<Named<'t, 'a>> {
        let mut found = vec![];
        for entry in fields.all(key) {
            match &entry.labels[..] {
                [label] => {
                    found.extend(self.object_of(entry).map(|object| Named {
                        name: label.text.to_string(),
                        header: entry.key.span.to(label.span),
                        object,
                    }));
                }
                [] if self.syntax == Syntax::Hcl => {
                    let message = format!("a `{key}` block requires a name");
                    let label = format!("write `{key} \"NAME\"`");
                    self.error(Code::JobName, message, entry.key.span, &label);
                }
                [] => self.named_in(entry, &mut found),
                [_, second, ..] => {
                    let message = format!("a `{key}` block has one name");
                    self.error(Code::SpecUnexpectedLabel, message, second.span, "remove this");
                }
            }
        }
        found
    }

    fn named_in(&mut self, entry: &'t Entry<'a>, found: &mut Vec<Named<'t, 'a>>) {
        let Some(object) = self.object_of(entry) else {
            return;
        };
        for inner in &object.entries {
            found.extend(self.object_of(inner).map(|object| Named {
                name: inner.key.text.to_string(),
                header: inner.key.span,
                object,
            }));
        }
    }
}

/// Returns what a key at the top level of another file is, and what to do about it.
fn of_other_file(key: &str) -> Option<(&'static str, &'static str)> {
    Some(match key {
        "resource" | "data" | "provider" | "terraform" | "module" | "output" => (
            "a block of Terraform",
            "write the job itself: the text that the argument `jobspec` of `nomad_job` has",
        ),
        "plugin_id" | "capability" | "external_id" | "capacity_min" | "capacity_max" => {
            ("a field of a volume", "check a specification of volumes with `nomad-csi validate`")
        }
        "class" | "defaults" => (
            "a block of specifications of volumes",
            "check specifications with `nomad-csi validate`",
        ),
        _ => return None,
    })
}
