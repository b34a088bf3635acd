//! Decodes capabilities and mount options.

use super::reader::{Reader, ScalarConversion};
use crate::schema;
use crate::tree::{Entry, Node, Object, Value};
use crate::value_reader::ValueReader as _;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span, closest_match};
use nomad_csi_model::{AccessMode, AttachmentMode, Capability, MountOptions};

/// Other names of access modes: from CSI, Kubernetes, and the template of Nomad up to 1.9.
const ACCESS_MODE_ALIASES: &[(&str, AccessMode)] = &[
    ("single-node-reader", AccessMode::SingleNodeReaderOnly),
    ("multi-node-reader", AccessMode::MultiNodeReaderOnly),
    ("single-node-single-writer", AccessMode::SingleNodeWriter),
    ("single-node-multi-writer", AccessMode::SingleNodeWriter),
    ("readwriteonce", AccessMode::SingleNodeWriter),
    ("readwriteoncepod", AccessMode::SingleNodeWriter),
    ("rwo", AccessMode::SingleNodeWriter),
    ("readonlymany", AccessMode::MultiNodeReaderOnly),
    ("rox", AccessMode::MultiNodeReaderOnly),
    ("readwritemany", AccessMode::MultiNodeMultiWriter),
    ("rwx", AccessMode::MultiNodeMultiWriter),
];

/// Other names of attachment modes.
const ATTACHMENT_MODE_ALIASES: &[(&str, AttachmentMode)] = &[
    ("filesystem", AttachmentMode::FileSystem),
    ("fs", AttachmentMode::FileSystem),
    ("mount", AttachmentMode::FileSystem),
    ("block", AttachmentMode::BlockDevice),
    ("device", AttachmentMode::BlockDevice),
];

impl Reader<'_> {
    /// Decodes all capabilities with their positions. If one is invalid, returns none, so no rule
    /// checks an incomplete list.
    pub(super) fn capabilities(&mut self, entries: &[&Entry<'_>]) -> (Vec<Capability>, Vec<Span>) {
        self.warn_of_repetition(entries);
        let mut complete = true;
        let mut read = vec![];
        for (at, entry) in entries.iter().enumerate() {
            self.refuse_labels(entry);
            if let Some(object) = self.object_of(entry) {
                match self.capability(entry, object) {
                    Some(capability) => {
                        let in_list = is_of_list(entries, at);
                        let first = object.entries.first().filter(|_| in_list);
                        read.push((capability, first.map_or(entry.key.span, |one| one.key.span)));
                    }
                    None => complete = false,
                }
            }
        }
        if complete { read.into_iter().unzip() } else { (vec![], vec![]) }
    }

    fn capability(&mut self, entry: &Entry<'_>, object: &Object<'_>) -> Option<Capability> {
        let [access, attachment] = self.entries_of(object, "a capability", schema::CAPABILITY);
        let access = self.mode(entry, &access, "access_mode", |reader, node, text| {
            AccessMode::parse(text).or_else(|| {
                let all = AccessMode::ALL.map(AccessMode::as_str);
                let meant = alias_in(ACCESS_MODE_ALIASES, text).map(AccessMode::as_str);
                reader.unknown_mode(Code::SpecUnknownAccessMode, node, text, &all, meant);
                None
            })
        });
        let attachment = self.mode(entry, &attachment, "attachment_mode", |reader, node, text| {
            AttachmentMode::parse(text).or_else(|| {
                let all = AttachmentMode::ALL.map(AttachmentMode::as_str);
                let meant = alias_in(ATTACHMENT_MODE_ALIASES, text).map(AttachmentMode::as_str);
                reader.unknown_mode(Code::SpecUnknownAttachmentMode, node, text, &all, meant);
                None
            })
        });
        Some(Capability { access_mode: access?, attachment_mode: attachment? })
    }

    fn mode<T>(
        &mut self,
        capability: &Entry<'_>,
        entries: &[&Entry<'_>],
        key: &str,
        parse: impl FnOnce(&mut Self, &Node<'_>, &str) -> Option<T>,
    ) -> Option<T> {
        let found = self.single(entries);
        let node = found.map(|entry| &entry.value);
        match node {
            Some(node) if matches!(node.value, Value::Invalid) => None,
            Some(node) if !matches!(node.value, Value::Null) => {
                let text = self.text(key, node, ScalarConversion::ByValue)?;
                parse(self, node, &text)
            }
            Some(_) | None => {
                self.diagnostics.push(
                    Diagnostic::error(
                        Code::SpecMissingField,
                        format!("`{key}` is missing in this capability"),
                    )
                    .label(capability.key.span, format!("add `{key}`")),
                );
                None
            }
        }
    }

    fn unknown_mode(
        &mut self,
        code: Code,
        node: &Node<'_>,
        text: &str,
        all: &[&'static str],
        meant: Option<&'static str>,
    ) {
        let kind =
            if code == Code::SpecUnknownAccessMode { "access mode" } else { "attachment mode" };
        let begun = || all.iter().find(|mode| mode.starts_with(text)).copied();
        let near = meant
            .or_else(begun)
            .or_else(|| closest_match(&text.replace('_', "-"), all.iter().copied()));
        self.unknown_word(code, kind, (node, text), near, all);
    }

    /// Decodes mount options, and whether their flags are `unknown`. Nomad would ignore a second
    /// block.
    pub(super) fn mount_options(&mut self, entries: &[&Entry<'_>]) -> (Option<MountOptions>, bool) {
        let object = self.single(entries).and_then(|entry| self.object_of(entry));
        let Some(object) = object else {
            return (None, false);
        };
        let [types, flags] = self.entries_of(object, "`mount_options`", schema::MOUNT_OPTIONS);
        let fs_type = self
            .single(&types)
            .and_then(|entry| self.text("fs_type", &entry.value, ScalarConversion::AsWritten));
        let unknown = self.is_unknown(&flags);
        let mut mount_flags = vec![];
        for entry in flags {
            self.refuse_labels(entry);
            if !entry.value.is_unknown(self.syntax_at(entry.value.span)) {
                self.mount_flags(entry, &mut mount_flags);
            }
        }
        let options = MountOptions { fs_type: fs_type.unwrap_or_default(), mount_flags };
        (Some(options), unknown)
    }

    fn mount_flags(&mut self, entry: &Entry<'_>, flags: &mut Vec<String>) {
        match &entry.value.value {
            Value::List(items) => {
                for item in items {
                    flags.extend(self.text("mount_flags", item, ScalarConversion::AsWritten));
                }
            }
            Value::Null | Value::Invalid => {}
            Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::Object(_) => {
                self.wrong_type("mount_flags", &entry.value, "a list of texts");
            }
        }
    }

    /// Returns the entries of a block's two keys. Any other key is an error, and is read as the key
    /// that it resembles. Keys in blocks are case-sensitive.
    pub(super) fn entries_of<'t, 'a>(
        &mut self,
        object: &'t Object<'a>,
        place: &str,
        fields: &'static [schema::Field],
    ) -> [Vec<&'t Entry<'a>>; 2] {
        let of = |key: &str| fields.iter().take(2).position(|field| field.key == key);
        let mut known = [vec![], vec![]];
        let mut misspelt = vec![];
        for entry in &object.entries {
            match of(&entry.key.text) {
                Some(at) => known[at].push(entry),
                None if self.is_comment(entry) => {}
                None => {
                    let meant = self.unknown_key(entry, place, fields, object).and_then(of);
                    misspelt.extend(meant.map(|at| (at, entry)));
                }
            }
        }
        misspelt.retain(|(at, _)| known[*at].is_empty());
        for (at, entry) in misspelt {
            known[at].push(entry);
        }
        known
    }
}

/// Returns whether an entry comes from a list, whose entries share the position of one key.
fn is_of_list(entries: &[&Entry<'_>], at: usize) -> bool {
    let place = |at: usize| entries.get(at).map(|entry| entry.key.span);
    let neighbours = [at.checked_sub(1).and_then(place), place(at + 1)];
    neighbours.iter().flatten().any(|other| Some(*other) == place(at))
}

fn alias_in<T: Copy>(words: &[(&str, T)], text: &str) -> Option<T> {
    let text = text.to_lowercase().replace('_', "-");
    let found = words.iter().find(|(word, _)| *word == text || *word == text.replace('-', ""));
    found.map(|(_, mode)| *mode)
}
