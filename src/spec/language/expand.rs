//! Makes the volumes of `volume` blocks, one after the other.
//!
//! A block declares one volume, none with `enabled = false`, or as many as `count` or `for_each` say. Each takes its class
//! and the `defaults` of its file, is decoded, and its tree is dropped before the next one.

use std::sync::Arc;

use super::declarations::{Class, Declarations, VolumeBlock};
use super::layers::layered;
use crate::decode::{self, Document, NamedBlock, Reader, ScalarConversion};
use crate::origin::{Layer, Origin};
use crate::repeated::RepeatedProblems;
use crate::schema;
use crate::tree::{Entry, Node, Object, SpannedText, Value};
use crate::value_reader::ValueReader as _;
use crate::volume_spec::{MAX_VOLUMES, VolumeSpec, too_many_volumes};
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span, closest_match};

/// A block that declares no volume, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyBlock {
    /// The reason: "`enabled` of `audit` is `false`".
    pub reason: String,
    /// The position of the value.
    pub place: Span,
}

/// The volumes of all blocks.
#[derive(Default)]
pub(crate) struct Expansion {
    /// The volumes, each with the index of its document.
    pub(crate) volumes: Vec<(usize, VolumeSpec)>,
    /// The sets that documents name, with their positions.
    pub(crate) sets: Vec<(SetName, Span)>,
    /// Positions of values under unknown keys, which may be secrets.
    pub(crate) doubtful: Vec<Span>,
    /// The blocks that declare no volume.
    pub(crate) empty: Vec<EmptyBlock>,
}

/// Expands all blocks of a run. `room` is the number of volumes that the run may still have.
pub(crate) fn expand(
    declarations: &Declarations<'_, '_>,
    documents: &[Document<'_>],
    room: usize,
    diagnostics: &mut Diagnostics,
) -> Expansion {
    let mut expander =
        Expander { declarations, documents, room, diagnostics, found: Expansion::default() };
    expander.check_layers();
    let sets: Vec<_> = declarations.sets.iter().map(|(at, entry)| (*at, *entry)).collect();
    for (at, entry) in sets {
        let set = expander.set(at, entry);
        expander.found.sets.extend(set);
    }
    for block in &declarations.volumes {
        expander.block(block);
    }
    expander.found
}

struct Expander<'e, 't, 'a> {
    declarations: &'e Declarations<'t, 'a>,
    documents: &'e [Document<'e>],
    room: usize,
    diagnostics: &'e mut Diagnostics,
    found: Expansion,
}

/// The layers of one volume, the nearest one first, and where they come from.
struct Layers<'t, 'a> {
    objects: Vec<&'t Object<'a>>,
    origins: Vec<Layer>,
}

impl<'e, 't, 'a> Expander<'e, 't, 'a> {
    /// Returns the reader of a document, which also knows the texts of all others.
    fn reader<'r>(&'r mut self, document: usize) -> Option<Reader<'r>> {
        let own = self.documents.get(document)?;
        Some(Reader::new(own, self.documents, self.diagnostics))
    }

    /// Decodes the set that a document names.
    fn set(&mut self, document: usize, entry: &Entry<'a>) -> Option<(SetName, Span)> {
        self.reader(document)?.set(&[entry])
    }

    /// Expands one `volume` block.
    fn block(&mut self, block: &VolumeBlock<'t, 'a>) {
        if !self.is_enabled(block) {
            return;
        }
        let set = block.set.and_then(|entry| self.set(block.document, entry));
        let mut problems = RepeatedProblems::default();
        let origin = Origin { block: (&*block.block.label.text).into(), instance: None, layers: vec![] };
        if let Some(mut spec) = self.volume(block, origin, &mut problems) {
            spec.set = set;
            self.found.volumes.push((block.document, spec));
        }
        self.diagnostics.extend(problems.into_diagnostics());
    }

    /// Returns whether a block declares any volume.
    fn is_enabled(&mut self, block: &VolumeBlock<'t, 'a>) -> bool {
        let Some(entry) = self.unique(block, schema::ENABLED) else {
            return true;
        };
        let value = self.reader(block.document).map(|mut reader| reader.boolean(schema::ENABLED, &entry.value));
        if value.flatten() != Some(false) {
            return true;
        }
        let reason = format!("`enabled` of `{}` is `false`", block.block.label.text);
        self.found.empty.push(EmptyBlock { reason, place: entry.value.span });
        false
    }

    /// Returns the entry of a key of a block. Another one is an error.
    fn unique(&mut self, block: &VolumeBlock<'t, 'a>, key: &str) -> Option<&'t Entry<'a>> {
        let entries = block.block.object.entries.iter();
        let of_key: Vec<&'t Entry<'a>> = entries.filter(|entry| entry.key.text == key).collect();
        self.reader(block.document)?.single(&of_key)
    }

    /// Makes one volume of a block.
    fn volume(
        &mut self,
        block: &VolumeBlock<'t, 'a>,
        mut origin: Origin,
        problems: &mut RepeatedProblems,
    ) -> Option<VolumeSpec> {
        let own = &block.block;
        if self.room == 0 {
            return None;
        }
        let Layers { objects, origins } = self.layers(block)?;
        origin.layers = origins;
        let is_comment = |entry: &Entry<'_>| {
            let source = entry.key.span.source;
            let found = self.documents.iter().find(|document| document.source == source);
            entry.key.text == "//" && found.is_some_and(|document| document.syntax == crate::syntax::Syntax::Json)
        };
        let is_field = |entry: &Entry<'_>| {
            !schema::VOLUME_BLOCK.contains(&&*entry.key.text) && !is_comment(entry)
        };
        let mut entries = layered(&objects, is_field, |entry| vec![entry.clone()]);
        if origin.instance.is_some() {
            add_name(&mut entries, &origin, own.header);
        }
        let label = SpannedText { text: origin.id().into(), span: own.label.span };
        let object = Object { entries, duplicates: vec![] };
        let instance = NamedBlock { label: &label, header: own.header, object: &object };
        let document = self.documents.get(block.document)?;
        let mut found = Diagnostics::default();
        let (spec, doubtful) = decode::decode_volume(instance, (document, self.documents), &mut found);
        let id = spec.as_ref().map_or_else(|| origin.id(), |spec| spec.request.id.to_string());
        problems.add(&id, &origin, found);
        self.found.doubtful.extend(doubtful);
        let mut spec = spec?;
        self.room -= 1;
        if self.room == 0 {
            self.diagnostics.push(too_many_volumes().label(own.header, ""));
        }
        spec.origin = Some(Arc::new(origin));
        Some(spec)
    }

    /// Returns the layers of a block: its own fields, its class, and the `defaults` of its file.
    fn layers(&mut self, block: &VolumeBlock<'t, 'a>) -> Option<Layers<'t, 'a>> {
        let source = block.block.header.source;
        let defaults = self.declarations.defaults.get(&source).copied();
        let own = self.unique(block, schema::CLASS);
        let inherited = defaults.and_then(|defaults| class_of(defaults.object));
        let mut layers = Layers { objects: vec![block.block.object], origins: vec![] };
        let choice = own.or(inherited).filter(|entry| !matches!(entry.value.value, Value::Null));
        if let Some(choice) = choice {
            let name = self.reader(block.document)?.text(
                schema::CLASS,
                &choice.value,
                ScalarConversion::AsWritten,
            )?;
            let class = self.class(&name, choice.value.span)?;
            layers.objects.push(class.object);
            let (body, taken) = (class.body, choice.value.span);
            layers.origins.push(Layer { class: Some(name.into()), body, taken });
        }
        if let Some(defaults) = defaults {
            layers.objects.push(defaults.object);
            let (body, taken) = (defaults.body, defaults.header);
            layers.origins.push(Layer { class: None, body, taken });
        }
        Some(layers)
    }

    /// Returns a class. Reports an unknown one.
    fn class(&mut self, name: &str, at: Span) -> Option<&'e Class<'t, 'a>> {
        let found = self.declarations.classes.get(name);
        if found.is_none() {
            let problem = Diagnostic::error(Code::SpecUnknownClass, format!("unknown class `{name}`"));
            let near = closest_match(name, self.declarations.classes.keys().copied());
            let label = near.map_or_else(
                || "not declared".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            let problem = problem.label(at, label);
            self.diagnostics.push(problem.help(Code::SpecUnknownClass.advice()));
        }
        found
    }

    /// Checks classes and `defaults`, also those that no volume takes.
    fn check_layers(&mut self) {
        let classes = self.declarations.classes.values();
        let classes = classes.map(|class| (class.object, class.header.source, true));
        let defaults = self.declarations.defaults.values();
        let defaults = defaults.map(|fields| (fields.object, fields.header.source, false));
        for (object, source, is_class) in classes.chain(defaults) {
            let found = self.documents.binary_search_by_key(&source, |document| document.source);
            let Some(mut reader) = found.ok().and_then(|at| self.reader(at)) else {
                continue;
            };
            reader.layer(object, is_class);
            self.found.doubtful.extend(reader.possible_secrets);
        }
    }
}

/// Returns the entry with the class that `defaults` give.
fn class_of<'t, 'a>(defaults: &'t Object<'a>) -> Option<&'t Entry<'a>> {
    defaults.entries.iter().find(|entry| entry.key.text == schema::CLASS)
}

/// Names an instance if no layer does.
fn add_name(entries: &mut Vec<Entry<'_>>, origin: &Origin, header: Span) {
    let is_name = |entry: &Entry<'_>| entry.key.text.eq_ignore_ascii_case("name");
    if !entries.iter().any(is_name) {
        entries.push(Entry {
            key: SpannedText { text: "name".into(), span: header },
            labels: vec![],
            value: Node::text(origin.key(), header),
        });
    }
}
