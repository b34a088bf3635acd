//! Finds out whether a text names a set, before the texts of a command are divided into runs.
//!
//! Only the top level of a document names one. The name itself may be an expression, which nothing evaluates here.

use std::sync::Arc;

use super::expression::names::Names;
use super::parse::parse_with_expressions;
use super::schema;
use super::syntax::Syntax;
use super::tree::{Object, Value};
use nomad_csi_model::diagnostic::{Diagnostics, SourceId, SourceMap};

/// The set that a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedSet {
    /// A name that is written out.
    Literal(String),
    /// An expression, or a value that is no name.
    Evaluated,
}

/// Returns the set that a text names; `None` also for a text that does not parse. A withheld text names none, because
/// nothing may be learned of it.
pub fn named_set(sources: &SourceMap, source: SourceId, syntax: Syntax) -> Option<NamedSet> {
    let text = Arc::clone(sources.text(source));
    if sources.is_withheld(source) || !text.contains(schema::SET) {
        return None;
    }
    let syntax = match syntax {
        Syntax::Hcl if Syntax::looks_like_json(&text) => Syntax::Json,
        syntax => syntax,
    };
    let (mut names, mut problems) = (Names::default(), Diagnostics::default());
    let documents =
        parse_with_expressions(&text, source, syntax, &mut names, &mut problems).ok()?;
    documents.iter().find_map(set_of)
}

fn set_of(document: &Object<'_>) -> Option<NamedSet> {
    let is_set = |key: &str| key.eq_ignore_ascii_case(schema::SET);
    let entry = document.entries.iter().find(|entry| is_set(&entry.key.text))?;
    Some(match &entry.value.value {
        Value::Scalar(scalar) => NamedSet::Literal(scalar.text.clone().into_owned()),
        Value::Null
        | Value::Invalid
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::List(_)
        | Value::Object(_) => NamedSet::Evaluated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str, syntax: Syntax) -> Option<NamedSet> {
        let mut sources = SourceMap::default();
        let source = sources.add("file", text);
        named_set(&sources, source, syntax)
    }

    #[test]
    fn only_the_top_level_of_a_text_names_a_set() {
        let literal = |text: &str| Some(NamedSet::Literal(text.to_owned()));
        for (text, syntax, expected) in [
            ("set = \"a\"\n", Syntax::Hcl, literal("a")),
            ("{\"set\": \"a\"}", Syntax::Hcl, literal("a")),
            ("{\"set\": \"a\"}", Syntax::Json, literal("a")),
            ("set: a\nid: b\n", Syntax::Yaml, literal("a")),
            ("id: b\n---\nset: a\n", Syntax::Yaml, literal("a")),
            (
                "set = \"team-${var.e}\"\nvariable \"e\" {\n}\n",
                Syntax::Hcl,
                Some(NamedSet::Evaluated),
            ),
            ("set: team-${var.e}\nvariable:\n  e: {}\n", Syntax::Yaml, Some(NamedSet::Evaluated)),
            ("set = \"team-${var.e}\"\n", Syntax::Hcl, Some(NamedSet::Evaluated)),
            ("set: team-${var.e}\n", Syntax::Yaml, Some(NamedSet::Evaluated)),
            ("set = [\"a\"]\n", Syntax::Hcl, Some(NamedSet::Evaluated)),
            ("volume \"v\" {\n  set = \"a\"\n}\n", Syntax::Hcl, None),
            ("id = \"set\"\n", Syntax::Hcl, None),
            ("# set = \"a\"\n", Syntax::Hcl, None),
            ("set = \"a\n", Syntax::Hcl, None),
            ("id: b\n", Syntax::Yaml, None),
        ] {
            assert_eq!(named(text, syntax), expected, "{text}");
        }
    }

    #[test]
    fn a_withheld_text_names_no_set() {
        let mut sources = SourceMap::default();
        let source = sources.add("file", "set = \"a\"\n");
        sources.withhold(source);
        assert_eq!(named_set(&sources, source, Syntax::Hcl), None);
    }
}
