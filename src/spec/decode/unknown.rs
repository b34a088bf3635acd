//! Keys that no volume has: what they may have been meant to be.

use super::reader::Reader;
use super::volume::Form;
use crate::diagnostic::{Code, Diagnostic, nearest};
use crate::spec::mask;
use crate::spec::schema::{self, Field};
use crate::spec::syntax::Syntax;
use crate::spec::tree::{Entry, Value};

impl Reader<'_> {
    /// A key at the level of the volume's own fields; gives the field that was meant.
    pub(super) fn unknown_volume_key(
        &mut self,
        entry: &Entry<'_>,
        form: Form<'_, '_>,
    ) -> Option<&'static str> {
        let key = &*entry.key.text;
        let is_block = matches!(form, Form::Block { .. });
        if is_block && key == "config" {
            self.nested_config(entry);
            return None;
        }
        if !is_block && entry.value.is_object() && nearest(key, ["volume"]).is_some() {
            self.unknown_diagnostic(entry, "a specification", Some("volume"), "");
            return None;
        }
        let unknown = |message: String| Diagnostic::error(Code::SpecUnknownField, message);
        let span = entry.key.span;
        let special = match key {
            "per_alloc" | "sticky" => Some(
                unknown(format!("`{key}` is not a field of a volume"))
                    .label(span, "")
                    .help("it belongs into the `volume` block of a job"),
            ),
            "job" => Some(
                unknown("this is a job, not a volume".to_owned())
                    .label(span, "")
                    .help("a job claims volumes; a specification declares them"),
            ),
            schema::SET => Some(
                unknown("`set` stands beside the volumes, not in one of them".to_owned())
                    .label(span, "move this to the top level of the file"),
            ),
            "size" | "storage" => Some(
                unknown(format!("`{key}` is not a key of a volume"))
                    .label(span, "this would have no effect")
                    .help(SIZE_HELP),
            ),
            _ => schema::volume_field(key).map(|field| {
                unknown(format!("`{}` stands in a `volume` block only", field.key))
                    .label(span, "not a field of a flat file")
            }),
        };
        if let Some(special) = special {
            self.diagnostics.push(special);
            let aliased = key.eq_ignore_ascii_case("source").then_some("id");
            return aliased;
        }
        if !schema::SERVER_FIELDS
            .iter()
            .any(|name| name.eq_ignore_ascii_case(key))
        {
            return self.unknown_or_misplaced(entry);
        }
        let diagnostic =
            Diagnostic::error(Code::SpecServerField, format!("only a server sets `{key}`"))
                .label(span, "remove this");
        self.diagnostics
            .push(if key.eq_ignore_ascii_case("capacity") {
                diagnostic.help(SIZE_HELP)
            } else {
                diagnostic
            });
        None
    }

    /// A key that no volume has at this level, but maybe one of its blocks has.
    fn unknown_or_misplaced(&mut self, entry: &Entry<'_>) -> Option<&'static str> {
        let key = &*entry.key.text;
        let of = |fields: &'static [Field]| nearest(key, fields.iter().map(|field| field.key));
        let block = [
            ("capability", schema::CAPABILITY),
            ("mount_options", schema::MOUNT_OPTIONS),
        ]
        .into_iter()
        .find_map(|(block, fields)| of(fields).map(|near| (block, near)));
        let own = schema::by_api_name(schema::VOLUME, key).or_else(|| of(schema::VOLUME));
        match (own, block) {
            (None, Some((block, near))) => {
                self.doubt(entry, Some(near));
                self.diagnostics.push(
                    Diagnostic::error(
                        Code::SpecUnknownField,
                        format!("`{key}` is not a key of a volume"),
                    )
                    .label(entry.key.span, "Nomad ignores this here")
                    .help(format!("write `{near}` under `{block}`")),
                );
                None
            }
            (own, _) => {
                let no_hint = "this would have no effect";
                self.unknown_diagnostic(entry, "a volume", own, no_hint);
                own
            }
        }
    }

    /// A key that none of `fields` has; gives the one that was meant.
    pub(super) fn unknown_key(
        &mut self,
        entry: &Entry<'_>,
        place: &str,
        fields: &'static [Field],
    ) -> Option<&'static str> {
        let key = &*entry.key.text;
        let keys = || fields.iter().map(|field| field.key);
        let near = schema::by_api_name(fields, key)
            .or_else(|| nearest(key, keys()))
            .or_else(|| by_part(keys(), key));
        let known: Vec<_> = keys().map(|key| format!("`{key}`")).collect();
        let known = format!("known are {}", known.join(" and "));
        self.unknown_diagnostic(entry, place, near, &known);
        near
    }

    /// A key that is none of `keys`.
    pub(super) fn unknown_in(&mut self, entry: &Entry<'_>, place: &str, keys: &[&'static str]) {
        let near = nearest(&entry.key.text, keys.iter().copied());
        self.unknown_diagnostic(entry, place, near.or(keys.last().copied()), "");
    }

    /// `no_hint` stands at the key if nobody knows what it was meant to be.
    fn unknown_diagnostic(
        &mut self,
        entry: &Entry<'_>,
        place: &str,
        near: Option<&'static str>,
        no_hint: &str,
    ) {
        let key = &*entry.key.text;
        let span = entry.key.span;
        self.doubt(entry, near);
        let diagnostic = Diagnostic::error(
            Code::SpecUnknownField,
            format!("`{key}` is not a key of {place}"),
        );
        self.diagnostics.push(match near {
            Some(near) => {
                let quoted = self.like(span, near);
                diagnostic
                    .label(span, format!("did you mean `{near}`?"))
                    .replace(span, quoted, "a key of a similar name exists")
            }
            None => diagnostic.label(span, no_hint),
        });
    }

    /// Hides what stands under an unknown key, unless it was meant to be a key that holds no secret.
    fn doubt(&mut self, entry: &Entry<'_>, meant: Option<&str>) {
        if meant.is_none_or(mask::is_sensitive) {
            entry
                .value
                .for_each_scalar(&mut |value| self.doubtful.push(value));
        }
    }

    /// The form that Nomad's jobs had before 0.9: `config { source = … }`.
    fn nested_config(&mut self, entry: &Entry<'_>) {
        let span = entry.key.span;
        let diagnostic = Diagnostic::error(
            Code::SpecNestedConfig,
            "`config` is the old form: its fields stand directly in the `volume` block",
        )
        .label(span, "remove this level");
        let diagnostic = match self.unnested(entry) {
            Some(text) => diagnostic.replace(span.to(entry.value.span), text, "without `config`"),
            None => diagnostic,
        };
        self.diagnostics.push(diagnostic);
    }

    /// What stands in a block, moved to where the block itself stands.
    fn unnested(&self, entry: &Entry<'_>) -> Option<String> {
        let Value::Object(object) = &entry.value.value else {
            return None;
        };
        if object
            .entries
            .iter()
            .any(|inner| mask::is_sensitive(&inner.key.text))
        {
            return None;
        }
        let block = self.written(entry.value.span);
        let inside = match self.document.syntax {
            Syntax::Yaml if !block.starts_with('{') => block,
            Syntax::Yaml | Syntax::Hcl | Syntax::Json => {
                block.strip_prefix('{')?.strip_suffix('}')?
            }
        };
        let start = entry.key.span.start as usize;
        let before = &self.document.text[..start];
        let line = &before[before.rfind('\n').map_or(0, |at| at + 1)..];
        let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
        Some(moved_to(inside, &indent))
    }
}

const SIZE_HELP: &str = "the size that is wanted is said with `capacity_min` and `capacity_max`";

/// The one key of which a word is a part: `flags` of `mount_flags`.
fn by_part(keys: impl Iterator<Item = &'static str>, word: &str) -> Option<&'static str> {
    let has = |key: &&str| key.split('_').any(|part| part.eq_ignore_ascii_case(word));
    let mut found = keys.filter(has);
    found.next().filter(|_| found.next().is_none())
}

/// Lines with another indentation, and the same among themselves; the first has none.
fn moved_to(text: &str, indent: &str) -> String {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let (first, others) = text.split_once('\n').unwrap_or((text, ""));
    let others: Vec<_> = others
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let least = others.iter().map(|line| indentation(line)).min();
    let others = others
        .iter()
        .map(|line| line[least.unwrap_or_default()..].trim_end());
    let all = std::iter::once(first.trim()).chain(others);
    let said: Vec<_> = all.filter(|line| !line.is_empty()).collect();
    said.join(&format!("\n{indent}"))
}
