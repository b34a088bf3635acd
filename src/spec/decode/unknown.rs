//! Reports unknown keys and suggests similar ones.

use super::reader::Reader;
use super::volume::VolumeForm;
use crate::mask;
use crate::schema::{self, Field};
use crate::syntax::Syntax;
use crate::tree::{Entry, Value};
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
    ) -> Option<&'static str> {
        let key = &*entry.key.text;
        let is_block = matches!(form, VolumeForm::Block { .. });
        if is_block && key == "config" {
            self.nested_config(entry);
            return None;
        }
        if !is_block && entry.value.is_object() && closest_match(key, ["volume"]).is_some() {
            self.unknown_diagnostic(entry, "a specification", Some("volume"), "");
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
            let aliased = key.eq_ignore_ascii_case("source").then_some("id");
            return aliased;
        }
        if !schema::SERVER_FIELDS.iter().any(|name| name.eq_ignore_ascii_case(key)) {
            return self.unknown_or_misplaced(entry);
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
    fn unknown_or_misplaced(&mut self, entry: &Entry<'_>) -> Option<&'static str> {
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
        let own = schema::by_api_name(schema::VOLUME, key).or_else(|| of(schema::VOLUME));
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
                let no_hint = "no effect";
                self.unknown_diagnostic(entry, "a volume", own, no_hint);
                own
            }
        }
    }

    /// Reports a key that is not in `fields`. Returns the one that it resembles.
    pub(super) fn unknown_key(
        &mut self,
        entry: &Entry<'_>,
        place: &str,
        fields: &'static [Field],
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
        self.unknown_diagnostic(entry, place, near, &known);
        near
    }

    /// Reports a key that is not in `keys`.
    pub(crate) fn unknown_in(&mut self, entry: &Entry<'_>, place: &str, keys: &[&'static str]) {
        let near = closest_match(&entry.key.text, keys.iter().copied());
        self.unknown_diagnostic(entry, place, near.or(keys.last().copied()), "");
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
