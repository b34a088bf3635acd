//! Collects what the documents of a run declare, and reports what is declared twice.

use std::collections::BTreeMap;

use super::walk::for_each_key;
use crate::decode::{BlockKind, Document, NamedBlock, Reader};
use crate::schema;
use crate::tree::{Entry, Node, Object, SpannedText, Value};
use crate::value_reader::ValueReader as _;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, Span};

/// The keys at the top level of a document that make it one of the language.
const LANGUAGE_BLOCKS: [&str; 5] =
    ["volume", schema::CLASS, schema::DEFAULTS, schema::VARIABLE, schema::LOCALS];

const VOLUME_HELP: &str = "write a plain label, and the ID in the block: `source = \"…\"`";
const CLASS_HELP: &str = "write a plain name, and choose it in the volume: `class = …`";
const KEY_HELP: &str = "write the map as an expression: `merge({ (KEY) = VALUE })`";

/// What a template of a label or a key would name.
const VALUES: [&str; 5] = ["var.", "local.", "each.", "count.", "volume."];

/// Refuses a label or a key that looks like a template: it is not evaluated, and the text itself is hardly meant.
fn refuse_template(name: &SpannedText<'_>, help: &str, diagnostics: &mut Diagnostics) {
    let mut templates = name.text.split("${").skip(1);
    if templates.any(|rest| VALUES.iter().any(|value| rest.contains(value))) {
        let message = "a label or key is not evaluated";
        let problem = Diagnostic::error(Code::SpecExpression, message);
        diagnostics.push(problem.label(name.span, "a template").help(help));
    }
}

/// Calls `see` for the fields of a top-level key whose values may have keys of their author.
fn for_each_field<'t, 'a>(entry: &'t Entry<'a>, see: &mut impl FnMut(&'t Entry<'a>)) {
    let Value::Object(object) = &entry.value.value else {
        return;
    };
    let is_named = entry.labels.is_empty() && !is_single_block(&entry.key.text);
    for inner in &object.entries {
        match &inner.value.value {
            // The names of blocks are checked as labels.
            Value::Object(block) if is_named => block.entries.iter().for_each(&mut *see),
            _ => see(inner),
        }
    }
}

/// Returns whether there is one block of this name, without a label.
fn is_single_block(key: &str) -> bool {
    matches!(key, schema::DEFAULTS | schema::LOCALS)
}

/// Returns whether a document has a block of the language, or names a set and nothing else. A single value under the key of a
/// block is none.
pub(crate) fn is_of_language(document: &Object<'_>) -> bool {
    let is_set = |entry: &Entry<'_>| entry.key.text.eq_ignore_ascii_case(schema::SET);
    let is_note =
        |entry: &Entry<'_>| entry.key.text == "//" || entry.key.text.starts_with(schema::EXTENSION);
    let names_only_set = document.entries.iter().any(is_set)
        && document.entries.iter().all(|entry| is_set(entry) || is_note(entry));
    names_only_set
        || document.entries.iter().any(|entry| {
            let key = &*entry.key.text;
            let is_block = !entry.labels.is_empty()
                || matches!(entry.value.value, Value::Object(_) | Value::Null | Value::List(_));
            key.eq_ignore_ascii_case("volume") || LANGUAGE_BLOCKS.contains(&key) && is_block
        })
}

/// Returns whether a document of the language has more than `volume` blocks with literal fields.
pub(crate) fn needs_expansion(document: &Object<'_>) -> bool {
    let is_volume = |entry: &Entry<'_>| entry.key.text.eq_ignore_ascii_case("volume");
    document.entries.iter().any(|entry| match is_volume(entry) {
        true => has_instance_key(&entry.value.value, 0) || entry.value.has_expression(),
        false if entry.key.text.eq_ignore_ascii_case(schema::SET) => entry.value.has_expression(),
        false => LANGUAGE_BLOCKS.contains(&&*entry.key.text),
    })
}

/// Returns whether a `volume` block, or one of those in it, has a key that decides about its instances or its layers.
fn has_instance_key(value: &Value<'_>, level: usize) -> bool {
    let Value::Object(object) = value else {
        return false;
    };
    object.entries.iter().any(|entry| {
        schema::VOLUME_BLOCK.contains(&&*entry.key.text)
            || level == 0 && has_instance_key(&entry.value.value, 1)
    })
}

/// A variable as far as it must be known to hide its values.
pub(crate) struct DeclaredVariable<'t> {
    pub(crate) name: &'t str,
    /// True if it may be sensitive.
    pub(crate) is_sensitive: bool,
    pub(crate) defaults: Vec<&'t Node<'t>>,
}

/// Returns the variables that a document declares, also in blocks with mistakes.
pub(crate) fn declared_variables<'t>(document: &'t Object<'_>) -> Vec<DeclaredVariable<'t>> {
    let entries = document.entries.iter().chain(&document.duplicates);
    let mut found = vec![];
    for entry in entries.filter(|entry| entry.key.text == schema::VARIABLE) {
        let Value::Object(object) = &entry.value.value else {
            continue;
        };
        match entry.labels.last() {
            Some(label) => found.push(declared(&label.text, object)),
            None => {
                for inner in object.entries.iter().chain(&object.duplicates) {
                    if let Value::Object(object) = &inner.value.value {
                        found.push(declared(&inner.key.text, object));
                    }
                }
            }
        }
    }
    found
}

fn declared<'t>(name: &'t str, variable: &'t Object<'_>) -> DeclaredVariable<'t> {
    let entries = || variable.entries.iter().chain(&variable.duplicates);
    let is_known = |key: &str| schema::VARIABLE_FIELDS.contains(&key);
    let is_false =
        |node: &Node<'_>| matches!(&node.value, Value::Scalar(scalar) if scalar.text == "false");
    // A misspelt key may be `sensitive`.
    let is_sensitive = entries().any(|entry| match &*entry.key.text {
        "sensitive" => !is_false(&entry.value),
        key => !is_known(key) && key != "//",
    });
    let defaults =
        entries().filter(|entry| entry.key.text == "default" || !is_known(&entry.key.text));
    let defaults = defaults.map(|entry| &entry.value).collect();
    DeclaredVariable { name, is_sensitive, defaults }
}

/// A variable.
pub(super) struct Variable<'t, 'a> {
    pub(super) header: Span,
    pub(super) kind: Option<&'t Entry<'a>>,
    /// The type as the file writes it.
    pub(super) kind_source: String,
    /// Its default: one entry, or the items of a list of objects.
    pub(super) default: Vec<&'t Entry<'a>>,
    pub(super) is_sensitive: bool,
    pub(super) validations: Vec<&'t Object<'a>>,
}

/// A local value: its entry, or its entries if it is a list of objects.
pub(super) struct Local<'t, 'a> {
    pub(super) entries: Vec<&'t Entry<'a>>,
}

/// A class.
pub(super) struct Class<'t, 'a> {
    pub(super) object: &'t Object<'a>,
    /// The position of its header.
    pub(super) header: Span,
    /// The position of its fields.
    pub(super) body: Span,
}

/// The `defaults` of one file.
#[derive(Clone, Copy)]
pub(super) struct DefaultFields<'t, 'a> {
    pub(super) object: &'t Object<'a>,
    pub(super) header: Span,
    pub(super) body: Span,
}

/// A `volume` block and the file in which it stands.
pub(super) struct VolumeBlock<'t, 'a> {
    /// The index of its document in the run.
    pub(super) document: usize,
    /// The index of its object in the run.
    pub(super) object: usize,
    pub(super) block: NamedBlock<'t, 'a>,
}

/// What the documents of a run declare.
#[derive(Default)]
pub(crate) struct Declarations<'t, 'a> {
    pub(super) variables: BTreeMap<&'t str, Variable<'t, 'a>>,
    pub(super) locals: BTreeMap<&'t str, Local<'t, 'a>>,
    pub(super) classes: BTreeMap<&'t str, Class<'t, 'a>>,
    pub(super) defaults: BTreeMap<SourceId, DefaultFields<'t, 'a>>,
    pub(super) volumes: Vec<VolumeBlock<'t, 'a>>,
    /// The `set` keys, each with the indexes of its document and of its object.
    pub(super) sets: Vec<(usize, usize, &'t Entry<'a>)>,
    /// True if there are more variables, local values and classes than a run can have, which is reported.
    is_full: bool,
}

/// Limit of the variables, local values and classes of a run.
const MAX_DECLARATIONS: usize = 10_000;

impl<'t, 'a> Declarations<'t, 'a> {
    /// Returns whether a variable, a local value or a class can be added. Reports the first one that cannot.
    fn has_room(&mut self, at: Span, diagnostics: &mut Diagnostics) -> bool {
        let count = self.variables.len() + self.locals.len() + self.classes.len();
        if count < MAX_DECLARATIONS {
            return true;
        }
        if !std::mem::replace(&mut self.is_full, true) {
            let message = "the files declare more than 10,000 variables, local values and classes";
            diagnostics.push(
                Diagnostic::error(Code::SpecEvaluationLimit, message)
                    .label(at, "the first one that is too many")
                    .help("use maps for similar values, or run one command per set"),
            );
        }
        false
    }

    /// Adds what one object of a document declares. `labels` are those of the `volume` blocks of its text so far.
    pub(crate) fn add(
        &mut self,
        (index, at): (usize, usize),
        object: &'t Object<'a>,
        document: &Document<'_>,
        labels: &mut BTreeMap<&'t str, Span>,
        diagnostics: &mut Diagnostics,
    ) {
        let mut reader = Reader::new(document, &[], diagnostics);
        let is_set = |entry: &&Entry<'_>| entry.key.text.eq_ignore_ascii_case(schema::SET);
        let sets: Vec<_> = object.entries.iter().filter(is_set).collect();
        let set = reader.single(&sets);
        self.sets.extend(set.map(|entry| (index, at, entry)));
        let mut outside = vec![];
        for entry in &object.entries {
            if reader.declares_nothing(entry) || is_set(&entry) {
                continue;
            }
            match &*entry.key.text {
                key if key.eq_ignore_ascii_case("volume") => {
                    for block in reader.named_blocks(entry, BlockKind::Volume) {
                        refuse_template(block.label, VOLUME_HELP, reader.diagnostics);
                        reader.unique_label(&block, labels);
                        self.volumes.push(VolumeBlock { document: index, object: at, block });
                    }
                }
                schema::CLASS => {
                    for block in reader.named_blocks(entry, BlockKind::Class) {
                        refuse_template(block.label, CLASS_HELP, reader.diagnostics);
                        self.class(&block, entry, reader.diagnostics);
                    }
                }
                schema::DEFAULTS => {
                    reader.refuse_labels(entry);
                    if let Some(object) = reader.object_of(entry) {
                        self.default_fields(document.source, object, entry, reader.diagnostics);
                    }
                }
                schema::VARIABLE => {
                    for block in reader.named_blocks(entry, BlockKind::Variable) {
                        self.variable(&block, &mut reader);
                    }
                }
                schema::LOCALS => {
                    reader.refuse_labels(entry);
                    if let Some(object) = reader.object_of(entry) {
                        self.locals(object, &mut reader);
                    }
                }
                _ => outside.push(entry),
            }
        }
        for entry in &object.entries {
            if reader.declares_nothing(entry) {
                continue;
            }
            for_each_field(entry, &mut |field| {
                for_each_key(&field.value, &mut |key| {
                    refuse_template(key, KEY_HELP, reader.diagnostics);
                });
            });
        }
        let is_block = |entry: &&Entry<'_>| {
            let key = &*entry.key.text;
            key.eq_ignore_ascii_case("volume") || LANGUAGE_BLOCKS.contains(&key)
        };
        if let (Some(first), Some(block)) = (outside.first(), object.entries.iter().find(is_block))
        {
            reader.outside_of_blocks(first, block.key.span);
        }
    }

    fn variable(&mut self, block: &NamedBlock<'t, 'a>, reader: &mut Reader<'_>) {
        let NamedBlock { label, header, object } = *block;
        let name: &'t str = &label.text;
        let mut find = |key: &str| {
            let entries = object.entries.iter();
            let of_key: Vec<&'t Entry<'a>> =
                entries.filter(|entry| entry.key.text == key).collect();
            reader.single(&of_key)
        };
        let [kind, sensitive, _] = ["type", "sensitive", "description"].map(&mut find);
        let default: Vec<&'t Entry<'a>> =
            object.entries.iter().filter(|entry| entry.key.text == "default").collect();
        let is_list = default.iter().all(|entry| {
            entry.list.is_some() && Some(entry.list) == default.first().map(|first| first.list)
        });
        let default = match is_list {
            true => default,
            false => find("default").into_iter().collect(),
        };
        let is_sensitive = sensitive.is_some_and(|entry| {
            // Unknown means sensitive.
            reader.boolean("sensitive", &entry.value).unwrap_or(true)
        });
        let validations = object.entries.iter().filter(|entry| entry.key.text == "validation");
        let validations: Vec<_> =
            validations.filter_map(|entry| Some((entry, reader.object_of(entry)?))).collect();
        for (entry, validation) in &validations {
            for inner in &validation.entries {
                if !schema::VALIDATION_FIELDS.contains(&&*inner.key.text)
                    && !reader.is_comment(inner)
                {
                    reader.unknown_in(inner, "a validation", &schema::VALIDATION_FIELDS);
                }
            }
            if !validation.entries.iter().any(|inner| inner.key.text == "condition") {
                let message = "`condition` is missing in this validation";
                reader.error(Code::SpecMissingField, message, entry.key.span);
            }
        }
        let validations = validations.into_iter().map(|(_, object)| object).collect();
        for entry in &object.entries {
            if !schema::VARIABLE_FIELDS.contains(&&*entry.key.text) && !reader.is_comment(entry) {
                reader.unknown_in(entry, "a variable", &schema::VARIABLE_FIELDS);
            }
        }
        if let Some(problem) = name_problem(name) {
            reader.error(
                Code::SpecSyntax,
                format!("invalid name of a variable `{name}`: {problem}"),
                label.span,
            );
        }
        if let Some(first) = self.variables.get(name) {
            let problem = declared_twice(&format!("variable `{name}`"), header, first.header);
            reader.diagnostics.push(problem);
            return;
        }
        if !self.has_room(header, reader.diagnostics) {
            return;
        }
        let kind_source =
            kind.map(|entry| reader.source_text(entry.value.span).to_owned()).unwrap_or_default();
        let variable = Variable { header, kind, kind_source, default, is_sensitive, validations };
        self.variables.insert(name, variable);
    }

    fn locals(&mut self, object: &'t Object<'a>, reader: &mut Reader<'_>) {
        for entry in &object.entries {
            if reader.is_comment(entry) {
                continue;
            }
            reader.refuse_labels(entry);
            let name: &'t str = &entry.key.text;
            if !self.locals.contains_key(name) && !self.has_room(entry.key.span, reader.diagnostics)
            {
                return;
            }
            match self.locals.get_mut(name) {
                None => {
                    self.locals.insert(name, Local { entries: vec![entry] });
                }
                Some(local) => match local.entries.first() {
                    Some(first) if first.list.is_some() && first.list == entry.list => {
                        local.entries.push(entry);
                    }
                    Some(first) => {
                        let what = format!("local value `{name}`");
                        let problem = declared_twice(&what, entry.key.span, first.key.span);
                        reader.diagnostics.push(problem);
                    }
                    None => {}
                },
            }
        }
    }

    fn class(
        &mut self,
        block: &NamedBlock<'t, 'a>,
        entry: &Entry<'_>,
        diagnostics: &mut Diagnostics,
    ) {
        let NamedBlock { label, header, object } = *block;
        let name: &'t str = &label.text;
        if let Some(first) = self.classes.get(name) {
            diagnostics.push(declared_twice(&format!("class `{name}`"), header, first.header));
            return;
        }
        if !self.has_room(header, diagnostics) {
            return;
        }
        // Under `class:` each class has a body of its own, which begins after its key.
        let body = match entry.labels.is_empty() {
            false => entry.value.span,
            true => body_of(object, header),
        };
        self.classes.insert(name, Class { object, header, body });
    }

    fn default_fields(
        &mut self,
        source: SourceId,
        object: &'t Object<'a>,
        entry: &Entry<'_>,
        diagnostics: &mut Diagnostics,
    ) {
        let header = entry.key.span;
        if let Some(first) = self.defaults.get(&source) {
            diagnostics.push(declared_twice("`defaults`", header, first.header));
            return;
        }
        let body = entry.value.span;
        self.defaults.insert(source, DefaultFields { object, header, body });
    }
}

/// Returns the position of the fields of an object.
fn body_of(object: &Object<'_>, header: Span) -> Span {
    let last = object.entries.last();
    last.map_or(header, |entry| header.to(entry.key.span).to(entry.value.span))
}

/// Returns what is wrong with the name of a variable, which is part of the name of an environment variable.
fn name_problem(name: &str) -> Option<&'static str> {
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (!is_word || !starts).then_some("it has letters, digits and `_`, and starts with no digit")
}

fn declared_twice(what: &str, again: Span, first: Span) -> Diagnostic {
    Diagnostic::error(Code::SpecDuplicateDeclaration, format!("{what} is declared twice"))
        .label(again, "repeated here")
        .label(first, "first here")
}
