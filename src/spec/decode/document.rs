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
    let mut reader = Reader { document, diagnostics, volume_count: 0, possible_secrets: vec![] };
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

const UNDER_VOLUME: &str = "write the volume's name under `volume`, and its fields under the name";

impl Reader<'_> {
    fn object<'t>(
        &mut self,
        object: &'t Object<'_>,
        aliases: &mut BTreeMap<&'t str, Span>,
        decoded: &mut Decoded,
    ) {
        let entries = || object.entries.iter().filter(|entry| !self.is_comment(entry));
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
            flat.into_iter().filter(|entry| !self.report_not_supported(entry)).collect();
        if let Some(first) = outside.first() {
            self.diagnostics.push(
                Diagnostic::error(
                    Code::SpecMixedForms,
                    format!("`{}` is outside the `volume` blocks", first.key.text),
                )
                .label(first.key.span, "move this into a `volume` block")
                .label(blocks[0].key.span, "a `volume` block"),
            );
        }
        for entry in blocks {
            self.volume_block(entry, aliases, specs);
        }
    }

    /// Decodes the volume of a flat file. A file without any field of a volume reports no missing
    /// fields.
    fn flat(&mut self, entries: &[&Entry<'_>]) -> Option<VolumeSpec> {
        let is_field = |entry: &&Entry<'_>| schema::volume_field(&entry.key.text).is_some();
        if entries.iter().any(is_field) {
            return self.volume(entries, VolumeForm::Flat);
        }
        for entry in entries {
            self.unknown_volume_key(entry, VolumeForm::Flat);
        }
        None
    }

    fn volume_block<'t>(
        &mut self,
        entry: &'t Entry<'_>,
        aliases: &mut BTreeMap<&'t str, Span>,
        specs: &mut Vec<VolumeSpec>,
    ) {
        let Some(object) = self.object_of(entry) else {
            return;
        };
        match &entry.labels[..] {
            [alias] => {
                let header = entry.key.span.to(alias.span);
                specs.extend(self.aliased(alias, header, object, aliases));
            }
            [] => {
                let of_volume = |inner: &&Entry<'_>| {
                    !inner.value.is_object() && schema::volume_field(&inner.key.text).is_some()
                };
                if let Some(field) = object.entries.iter().find(of_volume) {
                    self.nameless(entry, field);
                    return;
                }
                for inner in &object.entries {
                    if inner.value.is_object() || !self.is_comment(inner) {
                        self.inner_block(inner, aliases, specs);
                    }
                }
            }
            [_, others @ ..] => {
                let span = others.iter().fold(others[0].span, |span, label| span.to(label.span));
                self.error(Code::SpecUnexpectedLabel, "`volume` requires exactly one label", span);
            }
        }
    }

    /// Reports fields in place of a volume's name.
    fn nameless(&mut self, block: &Entry<'_>, field: &Entry<'_>) {
        let diagnostic =
            Diagnostic::error(Code::SpecWrongType, "a volume under `volume` has no name");
        self.diagnostics.push(match self.document.syntax {
            Syntax::Hcl => diagnostic
                .label(block.key.span, "expected a name here")
                .help("write `volume \"NAME\" { … }`"),
            Syntax::Yaml | Syntax::Json => {
                diagnostic.label(field.key.span, "expected a name above this").help(UNDER_VOLUME)
            }
        });
    }

    /// `ALIAS: {…}` under `volume:`.
    fn inner_block<'t>(
        &mut self,
        inner: &'t Entry<'_>,
        aliases: &mut BTreeMap<&'t str, Span>,
        specs: &mut Vec<VolumeSpec>,
    ) {
        self.refuse_labels(inner);
        if let Value::Object(object) = &inner.value.value {
            specs.extend(self.aliased(&inner.key, inner.key.span, object, aliases));
            return;
        }
        let message = format!(
            "`{}` under `volume` is {}, not the fields of a volume",
            inner.key.text,
            inner.value.kind_name(self.document.syntax)
        );
        self.diagnostics.push(
            Diagnostic::error(Code::SpecWrongType, message)
                .label(inner.key.span, "expected the volume's fields")
                .help(UNDER_VOLUME),
        );
    }

    fn aliased<'t>(
        &mut self,
        alias: &'t SpannedText<'_>,
        header: Span,
        object: &'t Object<'_>,
        aliases: &mut BTreeMap<&'t str, Span>,
    ) -> Option<VolumeSpec> {
        let first = *aliases.entry(&*alias.text).or_insert(header);
        if first != header {
            let message = format!("duplicate `volume` block `{}`", alias.text);
            self.diagnostics.push(
                Diagnostic::error(Code::SpecDuplicateField, message)
                    .label(header, "repeated here")
                    .label(first, "first here"),
            );
        }
        let entries: Vec<_> = {
            let entries = object.entries.iter();
            entries.filter(|entry| !self.is_comment(entry)).collect()
        };
        self.volume(&entries, VolumeForm::Block { alias, header })
    }
}
