//! Hides what may be secret in the difference that a format makes.
//!
//! A difference shows lines that no problem is about. So more is hidden than for a problem: also the comments, and the values
//! under keys and in variables whose names only may be those of secrets. The format changes white space only, so what is
//! hidden in the old text is found in the new one by its place among the tokens.

use std::ops::Range;
use std::sync::Arc;

use super::defaults::Defaults;
use super::format::ReadHcl;
use super::hcl_kind::HclKind;
use super::job_text::hide_job_secrets;
use super::language::{GivenVariables, declared_variables};
use super::mask::{is_sensitive, may_name_secret};
use super::mask_text::possible_secrets;
use super::parse::read;
use super::schema;
use super::syntax::Syntax;
use super::tree::{Entry, Node, Object, Value};
use super::variable_file;
use nomad_csi_model::diagnostic::{Diagnostics, SourceId, SourceMap, Span};

/// A text and its formatted form, for output.
pub(super) struct ShownTexts {
    pub(super) old: Arc<str>,
    pub(super) new: Arc<str>,
}

/// Returns both texts with everything hidden that may be secret.
pub(super) fn shown_texts(sources: &mut SourceMap, source: SourceId, new: &str) -> ShownTexts {
    let text = Arc::clone(sources.text(source));
    let mut new_sources = SourceMap::default();
    let new_source = new_sources.add(sources.name(source), new);
    let read_old = ReadHcl::of(&text, source);
    let read_new = ReadHcl::of(new, new_source);
    let moved = match (&read_old, &read_new) {
        (Ok(old), Ok(new)) => Moved::between(old, new),
        (Ok(_) | Err(_), _) => None,
    };
    match (&read_old, moved) {
        (Ok(old), Some(moved)) => {
            hide_secrets(sources, source, old, &moved.old);
            for range in sources.hidden_ranges(source) {
                let range = moved.range(range);
                new_sources.hide(SourceMap::span(new_source, range));
            }
        }
        (Ok(_) | Err(_), _) => {
            sources.hide(SourceMap::span(source, 0..text.len()));
            new_sources.hide(SourceMap::span(new_source, 0..new.len()));
        }
    }
    ShownTexts { old: sources.redacted_text(source), new: new_sources.redacted_text(new_source) }
}

/// The places of the tokens of a text and of its formatted form.
struct Moved {
    old: Vec<Range<usize>>,
    new: Vec<Range<usize>>,
}

impl Moved {
    /// Returns the places; `None` if the texts have other tokens.
    fn between(old: &ReadHcl<'_>, new: &ReadHcl<'_>) -> Option<Self> {
        let places = |read: &ReadHcl<'_>| -> Vec<Range<usize>> {
            let mark = read.mark_length();
            let places = read.places().into_iter();
            places.map(|place| place.start + mark..place.end + mark).collect()
        };
        let (old, new) = (places(old), places(new));
        let mut pairs = old.iter().zip(&new);
        let is_same = old.len() == new.len() && pairs.all(|(old, new)| old.len() == new.len());
        is_same.then_some(Self { old, new })
    }

    /// Returns where a range of the old text is in the new one. White space at its ends is not hidden.
    fn range(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.old.partition_point(|place| place.end <= range.start);
        let end = self.old.partition_point(|place| place.start < range.end);
        let (Some(old_first), Some(new_first)) = (self.old.get(first), self.new.get(first)) else {
            return 0..0;
        };
        let last = end.checked_sub(1).filter(|last| *last >= first);
        let ends = last.and_then(|last| Some((self.old.get(last)?, self.new.get(last)?)));
        let Some((old_last, new_last)) = ends else {
            return 0..0;
        };
        let start = new_first.start + range.start.saturating_sub(old_first.start);
        start..new_last.start + (range.end - old_last.start).min(new_last.len())
    }
}

/// Hides what problems hide, and what has a doubtful name.
fn hide_secrets(
    sources: &mut SourceMap,
    source: SourceId,
    text: &ReadHcl<'_>,
    places: &[Range<usize>],
) {
    let whole = Arc::clone(sources.text(source));
    if variable_file::is_named_so(sources.name(source)) {
        return sources.hide(SourceMap::span(source, 0..whole.len()));
    }
    let body = &text.placed.body;
    let mut ignored = Diagnostics::default();
    let given = GivenVariables::default();
    match HclKind::of(body) {
        HclKind::Specification | HclKind::Empty => {
            let defaults = Defaults::default();
            read(sources, &[(source, Syntax::Hcl)], &given, &defaults, &mut ignored);
        }
        HclKind::Job => hide_job_secrets(sources, source, Syntax::Hcl),
        // All of its values may be secret: those of a file of variables.
        HclKind::Other => sources.hide(SourceMap::span(source, 0..whole.len())),
    }
    let mut hidden = vec![];
    let mark = text.mark_length();
    let mut hide = |span: Span| hidden.push(span.range().start + mark..span.range().end + mark);
    for_each_doubtful(body, &mut hide);
    for variable in declared_variables(body) {
        if variable.is_sensitive || may_be_secret(variable.name) {
            variable.defaults.iter().for_each(|default| hide(default.span));
        }
    }
    for place in joined_comments(&whole, places) {
        let written = whole.get(place.clone()).unwrap_or_default();
        if !is_plain(written) {
            let found = possible_secrets(written, Syntax::Hcl).into_iter();
            hidden.extend(found.map(|range| place.start + range.start..place.start + range.end));
        }
    }
    hidden.sort_unstable_by_key(|range| range.start);
    for range in hidden {
        sources.hide(SourceMap::span(source, range));
    }
}

/// Returns the places with one range for comments that follow each other: one may name what the next one has.
fn joined_comments(text: &str, places: &[Range<usize>]) -> Vec<Range<usize>> {
    let is_comment = |place: &Range<usize>| {
        let written = text.get(place.clone()).unwrap_or_default();
        ["#", "//", "/*"].iter().any(|marker| written.starts_with(marker))
    };
    let mut joined: Vec<Range<usize>> = vec![];
    let mut follows_comment = false;
    for place in places {
        let is_comment = is_comment(place);
        match joined.last_mut() {
            Some(last) if is_comment && follows_comment => last.end = place.end,
            Some(_) | None => joined.push(place.clone()),
        }
        follows_comment = is_comment;
    }
    joined
}

fn may_be_secret(key: &str) -> bool {
    is_sensitive(key) || !schema::is_key(key) && may_name_secret(key)
}

/// Calls `hide` for the values under keys that may be those of secrets.
fn for_each_doubtful(object: &Object<'_>, hide: &mut impl FnMut(Span)) {
    for entry in object.entries.iter().chain(&object.duplicates) {
        let is_label = entry.labels.iter().any(|label| may_be_secret(&label.text));
        if is_sensitive(&entry.key.text) {
            // What is under `secrets` is hidden by its own rule, which shows the keys.
            continue;
        }
        match (may_be_secret(&entry.key.text), &entry.value.value) {
            (true, Value::Reference(_)) => {}
            (true, _) => hide(entry.value.span),
            (false, _) if is_label && is_field(entry) => hide(entry.value.span),
            (false, _) => each_inner(&entry.value, hide),
        }
    }
}

/// Returns whether an entry has a single value.
fn is_field(entry: &Entry<'_>) -> bool {
    !entry.value.is_object()
}

fn each_inner(node: &Node<'_>, hide: &mut impl FnMut(Span)) {
    match &node.value {
        Value::Object(object) => for_each_doubtful(object, hide),
        Value::List(items) => items.iter().for_each(|item| each_inner(item, hide)),
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_) => {}
    }
}

/// Returns whether a token is a word or a reference to a secret, which tells its name only.
fn is_plain(written: &str) -> bool {
    let is_word = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
    let inner = written.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let is_reference = ["env(", "file(", "nomad_var("].iter().any(|name| {
        let arguments = written.strip_prefix(name);
        arguments.is_some_and(|rest| rest.matches('(').count() == 0 && !rest.contains('$'))
    });
    is_word(inner.unwrap_or(written)) || is_reference
}

#[cfg(test)]
mod tests {
    use super::super::format::formatted;
    use super::super::format_difference::format_difference;
    use super::*;

    fn difference(name: &str, text: &str) -> String {
        let mut sources = SourceMap::default();
        let source = sources.add(name, text);
        let (_, new) = formatted(text, source).expect("the text parses");
        let new = new.expect("the text can be formatted");
        assert_ne!(new, text, "nothing to show: {text}");
        format_difference(name, &mut sources, source, &new)
    }

    #[test]
    fn a_difference_shows_no_secret() {
        for text in [
            "id=\"a\"\nplugin_id=\"b\"\nsecrets {\npassword=\"hunter2\"\nuser = \"hunter2\"\n}\n",
            "plugin_id=\"b\"\nsecrets={a=\"hunter2\",b=\"x\"}\n",
            "plugin_id=\"b\"\nsecrets {\n  a = \"x\" # hunter2\n}\nid=1\n",
            "plugin_id=\"b\"\nmount_options {\nmount_flags=[\"hunter2\"]\n}\n",
            "plugin_id=\"b\"\nsercets {\na=\"hunter2\"\n}\n",
            "plugin_id=\"b\"\nparameters {\napi_key=\"hunter2\"\n}\n",
            "plugin_id=\"b\"\n# password=hunter2\n",
            "plugin_id=\"b\"\n# The password:\n# hunter2\n",
            "plugin_id=\"b\"\nparameters {\nnote=<<EOT\n  password: hunter2\nEOT\n}\n",
            "plugin_id=\"b\"\nparameters {\nnote=\"user=a,password=hunter2\"\n}\n",
            "variable \"x\" {\ndefault=\"hunter2\"\nsensitive=true\n}\n",
            "variable \"x\" {\ndefault={a=[\"hunter2\"]}\nsensitive = 1 == 1\n}\n",
            "variable \"x\" {\ndefault=\"a${\"hunter2\"}\"\nsensitive=true\n}\n",
            "variable \"db_password\" {\ndefault=\"hunter2\"\n}\n",
            "variable {\nx {\ndefault=\"hunter2\"\nsensitive=true\n}\n}\n",
            "locals {\ntoken=\"hunter2\"\n}\n",
            "locals {\ndb_pw=\"a${\"hunter2\"}\"\n}\n",
            "volume \"a\" {\nsecrets {\na=\"hunter2${1}\"\n}\n}\n",
            "volume \"a\" {\ncount=2\nsecrets = merge({a=\"hunter2\"}, {})\nid=1\n}\n",
            "job \"a\" {\ngroup \"b\" {\ntask \"c\" {\nenv {\nA=\"hunter2\"\n}\n}\n}\n}\n",
            "job \"a\" {\nvault_token=\"hunter2\"\n}\n",
            "db=\"hunter2\"\n",
        ] {
            let shown = difference("a.vars.hcl", text);
            assert!(shown.contains("@@"), "{text}");
            assert!(!shown.contains("hunter2"), "{text}\n{shown}");
        }
    }

    #[test]
    fn a_difference_shows_what_is_no_secret() {
        let text = "id=\"db\"\nplugin_id = \"b\"\nsecrets {\na = env( \"A\" )\n  b=\"x\"\n}\nname=1\n# Note.\n";
        let expected = "--- x.hcl\n+++ x.hcl\n@@ -1,8 +1,8 @@\n-id=\"db\"\n\
            +id        = \"db\"\n plugin_id = \"b\"\n secrets {\n-a = env( \"A\" )\n-  b=***\n\
            +  a = env( \"A\" )\n+  b = ***\n }\n-name=1\n+name = 1\n # Note.\n";
        assert_eq!(difference("x.hcl", text), expected);
    }
}
