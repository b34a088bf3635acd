//! Which volumes a document declares: one in Nomad's flat form, or one per `volume` block.

use std::collections::BTreeMap;

use super::reader::{Document, Reader};
use super::volume::Form;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap, Span};
use crate::model::SetName;
use crate::spec::schema;
use crate::spec::syntax::Syntax;
use crate::spec::tree::{Entry, Object, Value, Word};
use crate::spec::volume_spec::VolumeSpec;

/// What all documents of one text say.
#[derive(Default)]
pub(in crate::spec) struct Decoded {
    pub(in crate::spec) volumes: Vec<VolumeSpec>,
    /// The sets that are named, and where.
    pub(in crate::spec) sets: Vec<(SetName, Span)>,
    /// Places of values that may be secrets because nobody knows what their key means.
    pub(in crate::spec) doubtful: Vec<Span>,
}

/// Decodes all documents of one text. One that names its set may declare no volume: whether that is
/// enough is for whoever reads all texts.
pub(in crate::spec) fn decode(
    documents: &[Object<'_>],
    document: &Document<'_>,
    diagnostics: &mut Diagnostics,
) -> Decoded {
    let mut reader = Reader {
        document,
        diagnostics,
        doubtful: vec![],
    };
    let said_before = reader.diagnostics.iter().count();
    let mut decoded = Decoded::default();
    let mut aliases = BTreeMap::new();
    for object in documents {
        reader.object(object, &mut aliases, &mut decoded);
    }
    let says_nothing = decoded.volumes.is_empty() && decoded.sets.is_empty();
    if says_nothing && reader.diagnostics.iter().count() == said_before {
        let start = SourceMap::span(document.source, 0..0);
        reader.diagnostics.push(
            Diagnostic::error(Code::SpecNoVolume, "the file declares no volume").label(start, ""),
        );
    }
    decoded.doubtful = reader.doubtful;
    decoded
}

const UNDER_VOLUME: &str =
    "under `volume` stand names, and under each name the fields of that volume";

impl Reader<'_> {
    fn object<'t>(
        &mut self,
        object: &'t Object<'_>,
        aliases: &mut BTreeMap<&'t str, Span>,
        decoded: &mut Decoded,
    ) {
        let entries = || {
            object
                .entries
                .iter()
                .filter(|entry| !self.is_comment(entry))
        };
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
        if let Some(first) = flat.first() {
            self.diagnostics.push(
                Diagnostic::error(
                    Code::SpecMixedForms,
                    format!("`{}` stands beside `volume` blocks", first.key.text),
                )
                .label(first.key.span, "belongs into one of the blocks")
                .label(blocks[0].key.span, "a `volume` block"),
            );
        }
        for entry in blocks {
            self.volume_block(entry, aliases, specs);
        }
    }

    /// The volume whose fields are the file. A file without even one of a volume's keys is something
    /// else, and nothing is called missing there.
    fn flat(&mut self, entries: &[&Entry<'_>]) -> Option<VolumeSpec> {
        let is_field = |entry: &&Entry<'_>| schema::volume_field(&entry.key.text).is_some();
        if entries.iter().any(is_field) {
            return self.volume(entries, Form::Flat);
        }
        for entry in entries {
            self.unknown_volume_key(entry, Form::Flat);
        }
        None
    }

    fn volume_block<'t>(
        &mut self,
        entry: &'t Entry<'_>,
        aliases: &mut BTreeMap<&'t str, Span>,
        specs: &mut Vec<VolumeSpec>,
    ) {
        let Some(object) = self.block(entry) else {
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
                let span = others
                    .iter()
                    .fold(others[0].span, |span, label| span.to(label.span));
                self.error(Code::SpecUnexpectedLabel, "`volume` takes one label", span);
            }
        }
    }

    /// Fields that stand where a volume's name should.
    fn nameless(&mut self, block: &Entry<'_>, field: &Entry<'_>) {
        let diagnostic =
            Diagnostic::error(Code::SpecWrongType, "a volume under `volume` has no name");
        self.diagnostics.push(match self.document.syntax {
            Syntax::Hcl => diagnostic
                .label(block.key.span, "its name should follow here")
                .help("write `volume \"NAME\" { … }`"),
            Syntax::Yaml | Syntax::Json => diagnostic
                .label(field.key.span, "a name should stand above this")
                .help(UNDER_VOLUME),
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
            "`{}` under `volume` is {}",
            inner.key.text,
            inner.value.kind_name(self.document.syntax)
        );
        self.diagnostics.push(
            Diagnostic::error(Code::SpecWrongType, message)
                .label(inner.key.span, "the volume's fields should stand here")
                .help(UNDER_VOLUME),
        );
    }

    fn aliased<'t>(
        &mut self,
        alias: &'t Word<'_>,
        header: Span,
        object: &'t Object<'_>,
        aliases: &mut BTreeMap<&'t str, Span>,
    ) -> Option<VolumeSpec> {
        let first = *aliases.entry(&*alias.text).or_insert(header);
        if first != header {
            let message = format!("two `volume` blocks are called `{}`", alias.text);
            self.diagnostics.push(
                Diagnostic::error(Code::SpecDuplicateField, message)
                    .label(header, "here again")
                    .label(first, "first here"),
            );
        }
        let entries: Vec<_> = {
            let entries = object.entries.iter();
            entries.filter(|entry| !self.is_comment(entry)).collect()
        };
        self.volume(&entries, Form::Block { alias, header })
    }
}
