//! Reports unknown keys and suggests similar ones.

use super::reader::Reader;
use super::terraform_key::terraform_key;
use super::volume::VolumeForm;
use crate::mask;
use crate::schema::{self, Field, Kind};
use crate::syntax::Syntax;
use crate::tree::{Entry, Node, Object, Value};
use crate::value_reader::ValueReader as _;
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};

/// Returns where a key of the language belongs.
fn of_language(key: &str) -> Option<&'static str> {
    match key {
        "count" | "for_each" | "class" | "enabled" => {
            Some("write the volume as a `volume` block, and the key directly in the block")
        }
        "variable" | "locals" | "defaults" => {
            Some("write it as a block at the top level of the file, beside `volume` blocks")
        }
        _ => None,
    }
}

impl Reader<'_> {
    /// Reports an unknown key of a volume. Returns the field that it resembles.
    pub(super) fn unknown_volume_key(
        &mut self,
        entry: &Entry<'_>,
        form: VolumeForm<'_, '_>,
        siblings: &[&Entry<'_>],
    ) -> Option<&'static str> {
        let key = &*entry.key.text;
        let is_block = matches!(form, VolumeForm::Block { .. });
        if is_block && key == "config" {
            self.nested_config(entry);
            return None;
        }
        if !is_block && entry.value.is_object() && closest_match(key, ["volume"]).is_some() {
            self.similar_to_volume(entry);
            return None;
        }
        let unknown = |message: String| Diagnostic::error(Code::SpecUnknownField, message);
        let span = entry.key.span;
        let special = match key {
            "per_alloc" | "sticky" => Some(
                unknown(format!("`{key}` is not a field of a volume"))
                    .label(span, "")
                    .help("move it to the `volume` block of a job"),
            ),
            _ if self.report_misplaced(entry) => return None,
            "job" => Some(
                unknown("this is a job, not a volume".to_owned())
                    .label(span, "")
                    .help("submit jobs with `nomad job run`: a specification declares volumes"),
            ),
            schema::SET => Some(
                unknown("`set` belongs at the top level, not in a volume".to_owned())
                    .label(span, "move this to the top level of the file"),
            ),
            "volume_id" => {
                let problem = unknown(format!("`{key}` is not a field of a volume"));
                let key = if is_block { "source" } else { "id" };
                let has_other = || siblings.iter().any(|entry| entry.key.text == key);
                Some(match self.diagnostics.is_full() || form.is_layer() || has_other() {
                    true => problem.label(span, "no effect"),
                    false => self.suggested(problem, span, key, "field"),
                })
            }
            _ if let Some(help) = terraform_key(key) => Some(
                unknown(format!("`{key}` is an argument of Terraform, not a field of a volume"))
                    .label(span, "no effect")
                    .help(help),
            ),
            "size" | "storage" => Some(
                unknown(format!("`{key}` is not a field of a volume"))
                    .label(span, "no effect")
                    .help(SIZE_HELP),
            ),
            _ => schema::volume_field(key).map(|field| {
                unknown(format!("`{}` is allowed only in a `volume` block", field.key))
                    .label(span, "not a field of a flat file")
            }),
        };
        if let Some(special) = special {
            self.diagnostics.push(special);
            let is_alias = key.eq_ignore_ascii_case("source") || key == "volume_id";
            let aliased = is_alias.then_some("id");
            return aliased;
        }
        if !schema::SERVER_FIELDS.iter().any(|name| name.eq_ignore_ascii_case(key)) {
            return self.unknown_or_misplaced(entry, form, siblings);
        }
        let diagnostic =
            Diagnostic::error(Code::SpecServerField, format!("only a server sets `{key}`"))
                .label(span, "remove this");
        self.diagnostics.push(if key.eq_ignore_ascii_case("capacity") {
            diagnostic.help(SIZE_HELP)
        } else {
            diagnostic
        });
        None
    }

    /// Reports a key that no volume has, or that belongs in one of its blocks.
    fn unknown_or_misplaced(
        &mut self,
        entry: &Entry<'_>,
        form: VolumeForm<'_, '_>,
        siblings: &[&Entry<'_>],
    ) -> Option<&'static str> {
        if self.diagnostics.is_full() {
            self.unknown_diagnostic(entry, "a volume", None, "");
            return None;
        }
        let key = &*entry.key.text;
        let of =
            |fields: &'static [Field]| closest_match(key, fields.iter().map(|field| field.key));
        let block = [("capability", schema::CAPABILITY), ("mount_options", schema::MOUNT_OPTIONS)]
            .into_iter()
            .find_map(|(block, fields)| of(fields).map(|near| (block, near)));
        let is_allowed = |key: &&'static str| {
            let field = schema::volume_field(key);
            let is_own = schema::NOT_INHERITABLE.contains(key);
            field.is_some_and(|field| form.allows(field.place)) && !(form.is_layer() && is_own)
        };
        let own = schema::by_api_name(schema::VOLUME, key).or_else(|| of(schema::VOLUME));
        let own = own.filter(is_allowed);
        match (own, block) {
            (None, Some((block, near))) => {
                self.hide_possible_secrets(entry, Some(near));
                self.diagnostics.push(
                    Diagnostic::error(
                        Code::SpecUnknownField,
                        format!("`{key}` is not a field of a volume"),
                    )
                    .label(entry.key.span, "Nomad ignores this here")
                    .help(format!("write `{near}` under `{block}`")),
                );
                None
            }
            (own, _) => {
                let hint = own.map(|near| Hint::of(near, schema::VOLUME, entry, siblings));
                self.unknown_with_hint(entry, "a volume", hint.as_ref(), "no effect")
            }
        }
    }

    /// Reports a key that is not in `fields`. Returns the one that it resembles.
    pub(super) fn unknown_key(
        &mut self,
        entry: &Entry<'_>,
        place: &str,
        fields: &'static [Field],
        siblings: &Object<'_>,
    ) -> Option<&'static str> {
        if self.diagnostics.is_full() {
            self.unknown_diagnostic(entry, place, None, "");
            return None;
        }
        let key = &*entry.key.text;
        let keys = || fields.iter().map(|field| field.key);
        let near = schema::by_api_name(fields, key)
            .or_else(|| closest_match(key, keys()))
            .or_else(|| by_part(keys(), key));
        let known: Vec<_> = keys().map(|key| format!("`{key}`")).collect();
        let known = format!("expected {}", known.join(" or "));
        let siblings: Vec<_> = siblings.entries.iter().collect();
        let hint = near.map(|near| Hint::of(near, fields, entry, &siblings));
        self.unknown_with_hint(entry, place, hint.as_ref(), &known)
    }

    /// Reports an unknown key, and suggests another one only if it is possible there. Returns it.
    fn unknown_with_hint(
        &mut self,
        entry: &Entry<'_>,
        place: &str,
        hint: Option<&Hint>,
        no_hint: &str,
    ) -> Option<&'static str> {
        match hint {
            None => {
                self.unknown_diagnostic(entry, place, None, no_hint);
                None
            }
            Some(Hint::Key(near)) => {
                self.unknown_diagnostic(entry, place, Some(near), no_hint);
                Some(*near)
            }
            Some(Hint::GivenAlready(near)) => {
                self.hide_possible_secrets(entry, Some(near));
                let label = format!("no effect: `{near}` is given too");
                self.not_a_field(entry, place, &label);
                Some(*near)
            }
            Some(Hint::OtherKind(near, kind)) => {
                self.hide_possible_secrets(entry, Some(near));
                let label = format!("no effect; `{near}` is similar, and takes {kind}");
                self.not_a_field(entry, place, &label);
                None
            }
        }
    }

    fn not_a_field(&mut self, entry: &Entry<'_>, place: &str, label: &str) {
        let message = format!("`{}` is not a field of {place}", entry.key.text);
        let problem = Diagnostic::error(Code::SpecUnknownField, message);
        self.diagnostics.push(problem.label(entry.key.span, label));
    }

    /// Reports a key that resembles `volume`. Under `volume`, each volume has a name.
    fn similar_to_volume(&mut self, entry: &Entry<'_>) {
        let Value::Object(object) = &entry.value.value else {
            return;
        };
        let is_named = match entry.labels.len() {
            0 => object.entries.iter().all(|inner| inner.value.is_object()),
            count => count == 1,
        };
        if is_named && entry.list.is_none() {
            return self.unknown_diagnostic(entry, "a specification", Some("volume"), "");
        }
        self.hide_possible_secrets(entry, None);
        let message = format!("`{}` is not a field of a specification", entry.key.text);
        let is_known = self.diagnostics.iter().any(|one| one.message == message);
        // The items of a list have one key.
        if is_known && entry.list.is_some() {
            return;
        }
        let help = match self.document.syntax {
            Syntax::Hcl => "write each volume as a block with a name: `volume \"NAME\" { … }`",
            Syntax::Yaml => "write each volume under its name: `volume: {NAME: {…}}`",
            Syntax::Json => "write each volume under its name: `\"volume\": {\"NAME\": {…}}`",
        };
        let problem = Diagnostic::error(Code::SpecUnknownField, message);
        self.diagnostics.push(problem.label(entry.key.span, "no effect").help(help));
    }

    /// Reports a key that is not in `keys`.
    pub(crate) fn unknown_in(&mut self, entry: &Entry<'_>, place: &str, keys: &[&'static str]) {
        let near = closest_match(&entry.key.text, keys.iter().copied());
        let near = near.or_else(|| match keys {
            // The only key that is possible.
            [only] if entry.value.is_object() => Some(*only),
            _ => None,
        });
        let known: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
        self.unknown_diagnostic(entry, place, near, &format!("expected {}", known.join(" or ")));
    }

    /// Reports an unknown key. `no_hint` is its label if it resembles no other key.
    fn unknown_diagnostic(
        &mut self,
        entry: &Entry<'_>,
        place: &str,
        near: Option<&'static str>,
        no_hint: &str,
    ) {
        let key = &*entry.key.text;
        let span = entry.key.span;
        if self.report_misplaced(entry) {
            return;
        }
        self.hide_possible_secrets(entry, near);
        let diagnostic =
            Diagnostic::error(Code::SpecUnknownField, format!("`{key}` is not a field of {place}"));
        self.diagnostics.push(match near {
            Some(near) => self.suggested(diagnostic, span, near, "field"),
            None => diagnostic.label(span, no_hint),
        });
    }

    /// Reports a key of the language in a place where Nomad would drop it. Returns whether it is one.
    pub(super) fn report_misplaced(&mut self, entry: &Entry<'_>) -> bool {
        let key = &*entry.key.text;
        let Some(help) = of_language(key) else {
            return false;
        };
        // A variable may have a secret default; the other keys take numbers and names.
        if entry.value.is_object() {
            self.hide_possible_secrets(entry, None);
        }
        let message = format!("`{key}` has no effect here");
        let problem = Diagnostic::error(Code::SpecUnknownField, message);
        let problem = problem.label(entry.key.span, "").help(help);
        self.diagnostics.push(problem);
        true
    }

    /// Hides the values under an unknown key that may be secrets. Not those of a key that resembles one
    /// without secrets, and not the single value of a key with a harmless name, unless the text has
    /// secrets: a wrong indentation moves a secret out of its block.
    fn hide_possible_secrets(&mut self, entry: &Entry<'_>, meant: Option<&str>) {
        let is_single = matches!(entry.value.value, Value::Scalar(_));
        let is_plain =
            is_single && !self.document.has_secrets && !mask::may_name_secret(&entry.key.text);
        let is_hidden = match meant {
            Some(meant) => mask::is_sensitive(meant),
            None => !is_plain,
        };
        if is_hidden {
            entry.value.for_each_scalar(&mut |value| self.possible_secrets.push(value));
        }
    }

    /// Reports the obsolete form of Nomad before 0.9: `config { source = … }`.
    fn nested_config(&mut self, entry: &Entry<'_>) {
        let span = entry.key.span;
        let diagnostic = Diagnostic::error(
            Code::SpecNestedConfig,
            "`config` is obsolete: its fields belong directly in the `volume` block",
        )
        .label(span, "remove this level");
        let diagnostic = match self.unnested(entry) {
            Some(text) => diagnostic.replace(span.to(entry.value.span), text, "remove `config`"),
            None => diagnostic,
        };
        self.diagnostics.push(diagnostic);
    }

    /// Returns the content of a block with the indentation of the block itself.
    fn unnested(&self, entry: &Entry<'_>) -> Option<String> {
        let Value::Object(object) = &entry.value.value else {
            return None;
        };
        if object.entries.iter().any(|inner| mask::is_sensitive(&inner.key.text)) {
            return None;
        }
        let block = self.source_text(entry.value.span);
        let inside = match self.syntax_at(entry.key.span) {
            Syntax::Yaml if !block.starts_with('{') => block,
            Syntax::Yaml | Syntax::Hcl | Syntax::Json => {
                block.strip_prefix('{')?.strip_suffix('}')?
            }
        };
        let start = entry.key.span.start as usize;
        let before = &self.text_at(entry.key.span)[..start];
        let line = &before[before.rfind('\n').map_or(0, |at| at + 1)..];
        let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
        Some(reindented(inside, &indent))
    }
}

/// What a key that is similar to an unknown one is good for.
enum Hint {
    /// It can take the place of the unknown key.
    Key(&'static str),
    /// The block has it, and only once.
    GivenAlready(&'static str),
    /// It takes a value of another kind.
    OtherKind(&'static str, Kind),
}

impl Hint {
    fn of(
        near: &'static str,
        fields: &'static [Field],
        entry: &Entry<'_>,
        siblings: &[&Entry<'_>],
    ) -> Self {
        let Some(field) = fields.iter().find(|field| field.key == near) else {
            return Self::Key(near);
        };
        let is_repeatable = matches!(field.kind, Kind::TextMap | Kind::Blocks);
        let is_given = siblings.iter().any(|one| one.key.text.eq_ignore_ascii_case(near));
        match (fits(field.kind, &entry.value.value), is_given && !is_repeatable) {
            (false, _) => Self::OtherKind(near, field.kind),
            (true, true) => Self::GivenAlready(near),
            (true, false) => Self::Key(near),
        }
    }
}

/// Returns whether a value may be one of a field's. That of an expression is not known.
fn fits(kind: Kind, value: &Value<'_>) -> bool {
    let is_block = match value {
        Value::Null | Value::Invalid | Value::Expression(_) | Value::Unknown => return true,
        Value::Object(_) => true,
        Value::List(items) => {
            let is_list_of_texts = !items.iter().any(Node::is_object);
            return match kind {
                Kind::TextList => is_list_of_texts,
                Kind::Block | Kind::Blocks | Kind::TextMap => items.is_empty(),
                Kind::Text | Kind::Size | Kind::Boolean => false,
            };
        }
        Value::Scalar(_) | Value::Reference(_) => false,
    };
    match kind {
        Kind::Block | Kind::Blocks | Kind::TextMap => is_block,
        Kind::Text | Kind::Size | Kind::Boolean | Kind::TextList => !is_block,
    }
}

const SIZE_HELP: &str = "set the size with `capacity_min` and `capacity_max`";

/// Returns the only key that contains a word: `mount_flags` for `flags`.
fn by_part(keys: impl Iterator<Item = &'static str>, word: &str) -> Option<&'static str> {
    let has = |key: &&str| key.split('_').any(|part| part.eq_ignore_ascii_case(word));
    let mut found = keys.filter(has);
    found.next().filter(|_| found.next().is_none())
}

/// Changes the indentation of lines, except the first, and keeps their relative indentation.
fn reindented(text: &str, indent: &str) -> String {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let (first, others) = text.split_once('\n').unwrap_or((text, ""));
    let others: Vec<_> = others.lines().filter(|line| !line.trim().is_empty()).collect();
    let smallest = others.iter().map(|line| indentation(line)).min();
    let others = others.iter().map(|line| line[smallest.unwrap_or_default()..].trim_end());
    let all = std::iter::once(first.trim()).chain(others);
    let lines: Vec<_> = all.filter(|line| !line.is_empty()).collect();
    lines.join(&format!("\n{indent}"))
}
