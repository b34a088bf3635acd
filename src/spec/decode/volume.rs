//! Decodes the fields of one volume.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::reader::{Reader, ScalarConversion};
use crate::schema::{self, FieldPlacement, Kind};
use crate::tree::{Entry, Object, SpannedText, Value};
use crate::value_reader::{ValueReader as _, field_span};
use crate::volume_spec::{MAX_VOLUMES, VolumeSpec, too_many_volumes};
use nomad_csi_model::diagnostic::{Code, Diagnostic, SourceMap, Span, closest_match};
use nomad_csi_model::{
    Bytes, FieldRef, HiddenField, Namespace, NamespacedId, PluginId, UnresolvedRequest,
    VolumeField, VolumeId,
};

/// The form of a volume in a file.
#[derive(Clone, Copy)]
pub(super) enum VolumeForm<'t, 'a> {
    /// The fields are at the top level of the file.
    Flat,
    /// The fields are in a `volume` block.
    Block { alias: &'t SpannedText<'a>, header: Span },
}

impl VolumeForm<'_, '_> {
    /// Returns whether the fields are those of a class or of `defaults`, which have no name here.
    pub(super) fn is_layer(self) -> bool {
        matches!(self, Self::Block { alias, .. } if alias.text.is_empty())
    }

    pub(super) fn allows(self, place: FieldPlacement) -> bool {
        match (self, place) {
            (Self::Block { .. }, _) | (Self::Flat, FieldPlacement::Anywhere) => true,
            (Self::Flat, FieldPlacement::VolumeBlock) => false,
        }
    }
}

/// The entries of one volume by field, with the position of each field.
pub(super) struct Fields<'t, 'a> {
    entries: Vec<(&'static str, &'t Entry<'a>)>,
    spans: BTreeMap<&'static str, Span>,
}

impl<'t, 'a> Fields<'t, 'a> {
    fn add(&mut self, key: &'static str, entry: &'t Entry<'a>) {
        self.entries.push((key, entry));
        if !is_empty(entry) {
            self.spans.entry(key).or_insert(field_span(entry));
        }
    }

    /// Returns all entries of a field.
    pub(super) fn all(&self, key: &str) -> Vec<&'t Entry<'a>> {
        let of_key = self.entries.iter().filter(|(field, _)| *field == key);
        of_key.map(|(_, entry)| *entry).collect()
    }
}

fn is_empty(entry: &Entry<'_>) -> bool {
    match &entry.value.value {
        Value::Null => true,
        Value::Scalar(scalar) => scalar.text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Invalid
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::Object(_) => false,
    }
}

impl<'t, 'a> Reader<'_> {
    /// Decodes a volume; `None` if it is not a CSI volume, or one too many.
    pub(super) fn volume(
        &mut self,
        entries: &[&'t Entry<'a>],
        form: VolumeForm<'t, 'a>,
    ) -> Option<VolumeSpec> {
        if !self.is_csi(entries) {
            return None;
        }
        let mut fields = self.fields(entries, form);
        let span = match form {
            VolumeForm::Block { header, .. } => header,
            VolumeForm::Flat => {
                let named = fields.all("id").first().or(entries.first()).copied();
                named.map(|entry| entry.key.span.to(field_span(entry)))?
            }
        };
        if fields.all("type").is_empty() {
            let csi = self.document.syntax.pair("type", "csi");
            self.missing("type", span, &format!("`{csi}`"));
        }
        if self.is_too_many(span) {
            return None;
        }
        let id = VolumeId::new(self.id(&mut fields, form, span));
        if !fields.spans.contains_key(schema::REQUIRED) {
            let entry = fields.all(schema::REQUIRED).first().copied();
            let place = entry.map_or(span, field_span);
            let is_null = entry.is_some_and(|entry| matches!(entry.value.value, Value::Null));
            match (form, is_null) {
                (VolumeForm::Block { .. }, true) => self.diagnostics.push(
                    Diagnostic::error(Code::SpecMissingField, "`plugin_id` is missing: it is null")
                        .label(place, "null removes the value of a class and of `defaults`")
                        .help("remove this key, or write the plugin's ID"),
                ),
                (VolumeForm::Block { .. } | VolumeForm::Flat, _) => {
                    self.missing(schema::REQUIRED, place, "the plugin's ID");
                }
            }
        }
        let namespace = self.text_field(&fields, "namespace");
        let namespace_given = namespace.is_some();
        let default = || self.document.defaults.namespace.clone();
        let namespace = namespace.map_or_else(default, Namespace::new);
        let spec = self.values(&fields, NamespacedId::new(namespace, id));
        Some(VolumeSpec { namespace_given, span, fields: fields.spans, ..spec })
    }

    /// Decodes the values of all fields that do not identify the volume.
    fn values(&mut self, fields: &Fields<'t, 'a>, key: NamespacedId) -> VolumeSpec {
        let (capabilities, capability_spans) = self.capabilities(&fields.all("capability"));
        let mut request = UnresolvedRequest::new(key, PluginId::new(""), capabilities);
        for row in schema::VOLUME {
            self.set_field(row, fields, &mut request);
        }
        let secrets = fields.all("secrets");
        let unknown_secrets = self.is_unknown(&secrets);
        let (secrets, secret_spans) =
            if unknown_secrets { (None, BTreeMap::new()) } else { self.secrets(&secrets) };
        request.secrets = secrets;
        let (mount_options, unknown_flags) = self.mount_options(&fields.all("mount_options"));
        request.mount_options = mount_options;
        request.topology_request = self.topology_request(&fields.all("topology_request"));
        let unknown =
            [(HiddenField::Secrets, unknown_secrets), (HiddenField::MountFlags, unknown_flags)];
        let read_only = self.boolean_field(fields, "read_only");
        let protect = self.boolean_field(fields, "protect");
        let ignore = self.ignore(&fields.all("ignore"));
        VolumeSpec {
            request,
            namespace_given: false,
            read_only,
            protect,
            ignore,
            unknown: unknown
                .into_iter()
                .filter_map(|(field, is_unknown)| is_unknown.then_some(field))
                .collect(),
            set: None,
            span: SourceMap::span(self.document.source, 0..0),
            fields: BTreeMap::new(),
            capability_spans,
            secret_spans,
            origin: None,
        }
    }

    /// Checks the fields of a class or of `defaults` without a volume: their keys, and their literal values.
    pub(crate) fn layer(&mut self, object: &'t Object<'a>, is_class: bool) {
        let entries: Vec<_> =
            object.entries.iter().filter(|entry| !self.is_comment(entry)).collect();
        let (own, others): (Vec<&Entry<'a>>, Vec<_>) = entries.into_iter().partition(|entry| {
            let key = &*entry.key.text;
            schema::NOT_INHERITABLE.iter().any(|word| word.eq_ignore_ascii_case(key))
                || is_class && key == schema::CLASS
        });
        for entry in own {
            self.not_inheritable(entry, is_class);
        }
        let fields_of_volume: Vec<_> =
            others.into_iter().filter(|entry| entry.key.text != schema::CLASS).collect();
        let origin = SpannedText {
            text: Cow::Borrowed(""),
            span: SourceMap::span(self.document.source, 0..0),
        };
        let form = VolumeForm::Block { alias: &origin, header: origin.span };
        let mut fields = self.fields(&fields_of_volume, form);
        fields.entries.retain(|(_, entry)| !entry.value.has_expression());
        if !fields.all("type").is_empty() {
            self.is_csi(&fields.all("type"));
        }
        self.values(&fields, NamespacedId::new(Namespace::default(), VolumeId::new("")));
    }

    /// Reports a key that only one volume can have.
    fn not_inheritable(&mut self, entry: &Entry<'_>, is_class: bool) {
        let key = &entry.key.text;
        let message = match (&**key, is_class) {
            (schema::CLASS, _) => "a class cannot take a class".to_owned(),
            (_, true) => {
                format!(
                    "`{key}` belongs in a `volume` block: a class would give it to several volumes"
                )
            }
            (_, false) => {
                format!(
                    "`{key}` belongs in a `volume` block: `defaults` would give it to several volumes"
                )
            }
        };
        let problem = Diagnostic::error(Code::SpecNotInheritable, message);
        let label = if is_class { "not for a class" } else { "not for `defaults`" };
        self.diagnostics.push(problem.label(entry.key.span, label));
    }

    /// Decodes a field whose value has no form of its own: a text, a size or a map.
    fn set_field(
        &mut self,
        row: &schema::Field,
        fields: &Fields<'t, 'a>,
        request: &mut UnresolvedRequest,
    ) {
        let Some(field) = VolumeField::of_key(row.key) else {
            return;
        };
        match row.kind {
            Kind::Text => {
                if let Some(text) = self.text_field(fields, row.key) {
                    request.set_field(field, FieldRef::Text(&text));
                }
            }
            Kind::Size => {
                if let Some(size) = self.size_field(fields, row.key) {
                    request.set_field(field, FieldRef::Size(size));
                }
            }
            Kind::TextMap => {
                if let Some(map) = self.text_map(&fields.all(row.key)) {
                    request.set_field(field, FieldRef::Map(&map));
                }
            }
            Kind::Boolean | Kind::TextList | Kind::Block | Kind::Blocks => {}
        }
    }

    /// Counts a volume. Reports the first one beyond the limit.
    fn is_too_many(&mut self, span: Span) -> bool {
        self.volume_count += 1;
        if self.volume_count == MAX_VOLUMES + 1 {
            self.diagnostics.push(too_many_volumes().label(span, ""));
        }
        self.volume_count > MAX_VOLUMES
    }

    /// Assigns entries to fields. A misspelt key is read as the field that it resembles, so its
    /// value is checked and the field is not reported as missing.
    fn fields(&mut self, entries: &[&'t Entry<'a>], form: VolumeForm<'t, 'a>) -> Fields<'t, 'a> {
        let mut fields =
            Fields { entries: Vec::with_capacity(entries.len()), spans: BTreeMap::new() };
        let mut misspelt = vec![];
        for entry in entries {
            match schema::volume_field(&entry.key.text) {
                Some(field) if form.allows(field.place) => fields.add(field.key, entry),
                Some(_) | None => {
                    let meant = self.unknown_volume_key(entry, form, entries);
                    misspelt.extend(meant.map(|key| (key, *entry)));
                }
            }
        }
        let given: BTreeSet<_> = fields.entries.iter().map(|(key, _)| *key).collect();
        misspelt.retain(|(key, _)| !given.contains(key));
        for (key, entry) in misspelt {
            fields.add(key, entry);
        }
        if let Some(source) = fields.spans.get("source").copied() {
            fields.spans.entry("id").or_insert(source);
        }
        fields
    }

    /// Decodes the ID: `id`, `source`, or the block's label.
    fn id(&mut self, fields: &mut Fields<'t, 'a>, form: VolumeForm<'t, 'a>, span: Span) -> String {
        let [id, source] = ["id", "source"].map(|key| self.single(&fields.all(key)));
        if let (Some(id), Some(source)) = (id, source) {
            self.diagnostics.push(
                Diagnostic::error(
                    Code::SpecDuplicateField,
                    "`id` and `source` both set the volume's ID",
                )
                .label(source.key.span, "repeated here")
                .label(id.key.span, "first here"),
            );
        }
        let entry = id.or(source);
        let is_null = entry.is_none_or(|entry| matches!(entry.value.value, Value::Null));
        match (entry, form) {
            (_, VolumeForm::Block { alias, .. }) if is_null => alias.text.to_string(),
            (Some(entry), _) if !is_empty(entry) => {
                let text = self.text("id", &entry.value, ScalarConversion::ByValue);
                if text.is_none() {
                    fields.spans.remove("id");
                }
                text.unwrap_or_default()
            }
            (Some(_) | None, _) => {
                let span = entry.map_or(span, field_span);
                self.missing("id", span, "the volume's ID");
                String::new()
            }
        }
    }

    /// Decodes a text. An empty one counts as missing, as in Nomad.
    fn text_field(&mut self, fields: &Fields<'t, 'a>, key: &str) -> Option<String> {
        let entry = self.single(&fields.all(key))?;
        let text = self.text(key, &entry.value, ScalarConversion::ByValue)?;
        (!text.is_empty()).then_some(text)
    }

    fn size_field(&mut self, fields: &Fields<'t, 'a>, key: &str) -> Option<Bytes> {
        let entry = self.single(&fields.all(key))?;
        self.size(key, &entry.value)
    }

    fn boolean_field(&mut self, fields: &Fields<'t, 'a>, key: &str) -> Option<bool> {
        let entry = self.single(&fields.all(key))?;
        self.boolean(key, &entry.value)
    }

    fn missing(&mut self, key: &str, span: Span, what: &str) {
        self.diagnostics.push(
            Diagnostic::error(Code::SpecMissingField, format!("`{key}` is missing"))
                .label(span, format!("add {what}")),
        );
    }

    /// Returns whether the volume's type is `csi` or missing. Reports any other type.
    fn is_csi(&mut self, entries: &[&'t Entry<'a>]) -> bool {
        let is_type = |entry: &&&Entry<'_>| entry.key.text.eq_ignore_ascii_case("type");
        let types: Vec<_> = entries.iter().copied().filter(|entry| is_type(&entry)).collect();
        let Some(entry) = self.single(&types) else {
            return true;
        };
        let Some(text) = self.text("type", &entry.value, ScalarConversion::AsWritten) else {
            return true;
        };
        if text.eq_ignore_ascii_case("csi") {
            return true;
        }
        let span = entry.value.span;
        if text.eq_ignore_ascii_case("host") {
            self.diagnostics.push(
                Diagnostic::error(
                    Code::SpecVolumeType,
                    "host volumes are not supported: this program manages CSI volumes",
                )
                .label(span, "not `csi`")
                .help("use `nomad volume` for host volumes"),
            );
            return false;
        }
        let diagnostic =
            Diagnostic::error(Code::SpecVolumeType, format!("unknown volume type `{text}`"));
        self.diagnostics.push(match closest_match(&text, ["csi"]) {
            Some(_) => diagnostic.label(span, "did you mean `csi`?"),
            None => diagnostic.label(span, "expected `csi`"),
        });
        true
    }
}
