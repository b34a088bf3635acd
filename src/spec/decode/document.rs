//! Decodes the volumes of a document: one in Nomad's flat form, or one per `volume` block.

use std::collections::BTreeMap;

use super::reader::{Document, Reader};
use super::volume::VolumeForm;
use crate::schema;
use crate::syntax::Syntax;
use crate::tree::{Entry, Object, SpannedText, Value};
use crate::value_reader::ValueReader as _;
use crate::volume_spec::VolumeSpec;
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap, Span};

/// The content of all documents of one text.
#[derive(Default)]
pub(crate) struct Decoded {
    pub(crate) volumes: Vec<VolumeSpec>,
    /// The named sets, with their positions.
    pub(crate) sets: Vec<(SetName, Span)>,
    /// Positions of values under unknown keys, which may be secrets.
    pub(crate) doubtful: Vec<Span>,
}

/// Decodes all documents of one text. A text that names a set may declare no volume.
pub(crate) fn decode(
    documents: &[Object<'_>],
    document: &Document<'_>,
    diagnostics: &mut Diagnostics,
) -> Decoded {
    let mut reader = Reader::new(document, &[], diagnostics);
    let count_before = problem_count(reader.diagnostics);
    let mut decoded = Decoded::default();
    let mut aliases = BTreeMap::new();
    for object in documents {
        reader.object(object, &mut aliases, &mut decoded);
    }
    let is_empty = decoded.volumes.is_empty() && decoded.sets.is_empty();
    if is_empty && problem_count(reader.diagnostics) == count_before {
        let start = SourceMap::span(document.source, 0..0);
        reader.diagnostics.push(
            Diagnostic::error(Code::SpecNoVolume, "the file declares no volume").label(start, ""),
        );
    }
    decoded.doubtful = reader.possible_secrets;
    decoded
}

fn problem_count(diagnostics: &Diagnostics) -> usize {
    diagnostics.iter().count() + diagnostics.omitted()
}

impl Reader<'_> {
    fn object<'t>(
        &mut self,
        object: &'t Object<'_>,
        aliases: &mut BTreeMap<&'t str, Span>,
        decoded: &mut Decoded,
    ) {
        let entries = || object.entries.iter().filter(|entry| !self.declares_nothing(entry));
        let is =
            |key: &'static str| move |entry: &&Entry<'_>| entry.key.text.eq_ignore_ascii_case(key);
        let (sets, others): (Vec<&Entry<'_>>, Vec<_>) = entries().partition(is(schema::SET));
        let set = self.set(&sets);
        let before = decoded.volumes.len();
        self.volumes(others, aliases, &mut decoded.volumes);
        for spec in decoded.volumes.iter_mut().skip(before) {
            spec.set.clone_from(&set);
        }
        decoded.sets.extend(set);
    }

    fn volumes<'t, 'a>(
        &mut self,
        entries: Vec<&'t Entry<'a>>,
        aliases: &mut BTreeMap<&'t str, Span>,
        specs: &mut Vec<VolumeSpec>,
    ) {
        let is_block = |entry: &&Entry<'_>| entry.key.text.eq_ignore_ascii_case("volume");
        let (blocks, flat): (Vec<&Entry<'_>>, Vec<_>) = entries.into_iter().partition(is_block);
        if blocks.is_empty() {
            specs.extend(self.flat(&flat));
            return;
        }
        let outside: Vec<&Entry<'_>> =
            flat.into_iter().filter(|entry| !self.report_misplaced(entry)).collect();
        if let (Some(first), Some(block)) = (outside.first(), blocks.first()) {
            self.outside_of_blocks(first, block.key.span);
        }
        for entry in blocks {
            self.volume_block(entry, aliases, specs);
        }
    }

    /// Reports a field of a volume at the top level of a file with blocks.
    pub(crate) fn outside_of_blocks(&mut self, entry: &Entry<'_>, block: Span) {
        let message = format!("`{}` is outside the `volume` blocks", entry.key.text);
        let problem = Diagnostic::error(Code::SpecMixedForms, message);
        self.diagnostics.push(
            problem
                .label(entry.key.span, "move this into a `volume` block")
                .label(block, "a block"),
        );
    }

    /// Decodes the volume of a flat file. A file without any field of a volume reports no missing
    /// fields.
    fn flat(&mut self, entries: &[&Entry<'_>]) -> Option<VolumeSpec> {
        let is_field = |entry: &&Entry<'_>| schema::volume_field(&entry.key.text).is_some();
        if entries.iter().any(is_field) {
            return self.volume(entries, VolumeForm::Flat);
        }
        for entry in entries {
            self.unknown_volume_key(entry, VolumeForm::Flat, entries);
        }
        None
    }

    fn volume_block<'t>(
        &mut self,
        entry: &'t Entry<'_>,
        aliases: &mut BTreeMap<&'t str, Span>,
        specs: &mut Vec<VolumeSpec>,
    ) {
        for block in self.named_blocks(entry, BlockKind::Volume) {
            specs.extend(self.aliased(block, aliases));
        }
    }

    /// Returns the blocks of an entry: `volume "NAME" {…}`, or each `NAME: {…}` under `volume:`. Reports what is neither.
    pub(crate) fn named_blocks<'t, 'a>(
        &mut self,
        entry: &'t Entry<'a>,
        kind: BlockKind,
    ) -> Vec<NamedBlock<'t, 'a>> {
        let Some(object) = self.object_of(entry) else {
            return vec![];
        };
        match &entry.labels[..] {
            [label] => vec![NamedBlock { label, header: entry.key.span.to(label.span), object }],
            [] => {
                let is_field = |inner: &&Entry<'_>| {
                    !inner.value.is_object() && kind.has_field(&inner.key.text)
                };
                if let Some(field) = object.entries.iter().find(is_field) {
                    self.nameless(entry, field, kind);
                    return vec![];
                }
                let inner = object.entries.iter();
                let blocks: Vec<_> = inner
                    .filter(|inner| inner.value.is_object() || !self.is_comment(inner))
                    .collect();
                blocks.into_iter().filter_map(|inner| self.inner_block(inner, kind)).collect()
            }
            [_, others @ ..] => {
                let span = others.iter().fold(others[0].span, |span, label| span.to(label.span));
                let message = format!("`{}` requires exactly one label", kind.key());
                self.error(Code::SpecUnexpectedLabel, message, span);
                vec![]
            }
        }
    }

    /// Reports fields in place of a block's name.
    fn nameless(&mut self, block: &Entry<'_>, field: &Entry<'_>, kind: BlockKind) {
        let (key, noun) = (kind.key(), kind.noun());
        let message = format!("{noun} under `{key}` has no name");
        let diagnostic = Diagnostic::error(Code::SpecWrongType, message);
        self.diagnostics.push(match self.document.syntax {
            Syntax::Hcl => diagnostic
                .label(block.key.span, "expected a name here")
                .help(format!("write `{key} \"NAME\" {{ … }}`")),
            Syntax::Yaml | Syntax::Json => {
                diagnostic.label(field.key.span, "expected a name above this").help(under(kind))
            }
        });
    }

    /// Returns `NAME: {…}` under `volume:`.
    fn inner_block<'t, 'a>(
        &mut self,
        inner: &'t Entry<'a>,
        kind: BlockKind,
    ) -> Option<NamedBlock<'t, 'a>> {
        self.refuse_labels(inner);
        if let Value::Object(object) = &inner.value.value {
            return Some(NamedBlock { label: &inner.key, header: inner.key.span, object });
        }
        let (key, owner) = (kind.key(), kind.owner());
        let message = format!(
            "`{}` under `{key}` is {}, not the fields of {}",
            inner.key.text,
            inner.value.kind_name(self.document.syntax),
            kind.noun(),
        );
        self.diagnostics.push(
            Diagnostic::error(Code::SpecWrongType, message)
                .label(inner.key.span, format!("expected the {owner}'s fields"))
                .help(under(kind)),
        );
        None
    }

    /// Reports a block whose name another block of the text has.
    pub(crate) fn unique_label<'t>(
        &mut self,
        block: &NamedBlock<'t, '_>,
        labels: &mut BTreeMap<&'t str, Span>,
    ) {
        let first = *labels.entry(&*block.label.text).or_insert(block.header);
        if first != block.header {
            let message = format!("duplicate `volume` block `{}`", block.label.text);
            self.diagnostics.push(
                Diagnostic::error(Code::SpecDuplicateField, message)
                    .label(block.header, "repeated here")
                    .label(first, "first here"),
            );
        }
    }

    fn aliased<'t>(
        &mut self,
        block: NamedBlock<'t, '_>,
        labels: &mut BTreeMap<&'t str, Span>,
    ) -> Option<VolumeSpec> {
        self.unique_label(&block, labels);
        let NamedBlock { label: alias, header, object } = block;
        let entries: Vec<_> = {
            let entries = object.entries.iter();
            entries.filter(|entry| !self.is_comment(entry)).collect()
        };
        self.volume(&entries, VolumeForm::Block { alias, header })
    }
}

/// A block with a name, which is its label in HCL and its key elsewhere.
#[derive(Clone, Copy)]
pub(crate) struct NamedBlock<'t, 'a> {
    pub(crate) label: &'t SpannedText<'a>,
    /// The position of key and label.
    pub(crate) header: Span,
    pub(crate) object: &'t Object<'a>,
}

/// The kinds of blocks with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Volume,
    Class,
    Variable,
}

impl BlockKind {
    const fn key(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Class => "class",
            Self::Variable => "variable",
        }
    }

    /// Returns the word for one of them.
    const fn noun(self) -> &'static str {
        match self {
            Self::Volume => "a volume",
            Self::Class => "a class",
            Self::Variable => "a variable",
        }
    }

    /// Returns the word for the owner of a field.
    const fn owner(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Class => "class",
            Self::Variable => "variable",
        }
    }

    fn has_field(self, key: &str) -> bool {
        match self {
            Self::Volume | Self::Class => schema::volume_field(key).is_some(),
            Self::Variable => schema::VARIABLE_FIELDS.contains(&key),
        }
    }
}

fn under(kind: BlockKind) -> String {
    let (key, owner) = (kind.key(), kind.owner());
    format!("write the {owner}'s name under `{key}`, and its fields under the name")
}

/// Decodes the volume of a block of the language, whose entries may come from several texts. Returns also the positions of
/// values under unknown keys, which may be secrets.
pub(crate) fn decode_volume(
    block: NamedBlock<'_, '_>,
    (document, others): (&Document<'_>, &[Document<'_>]),
    diagnostics: &mut Diagnostics,
) -> (Option<VolumeSpec>, Vec<Span>) {
    let mut reader = Reader::new(document, others, diagnostics);
    let entries: Vec<_> = block.object.entries.iter().collect();
    let form = VolumeForm::Block { alias: block.label, header: block.header };
    let spec = reader.volume(&entries, form);
    (spec, reader.possible_secrets)
}
