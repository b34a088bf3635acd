//! Reads what must be known of a text before the texts of a command are divided into runs: the set that it names, and the
//! variables that it declares.
//!
//! Only the top level of a document names a set. The name may be an expression, which nothing evaluates here.

use std::sync::Arc;

use super::expression::names::Names;
use super::language::declared_variables;
use super::parse::parse_with_expressions;
use super::schema;
use super::syntax::Syntax;
use super::tree::{Object, Value};
use nomad_csi_model::diagnostic::{Diagnostics, SourceId, SourceMap};

/// The outline of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The set that it names.
    pub set: Option<NamedSet>,
    /// The names of the variables that it declares.
    pub variables: Vec<String>,
}

/// The set that a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedSet {
    /// A name that is written out.
    Literal(String),
    /// An expression, or a value that is no name.
    Evaluated,
}

/// Returns the outline of a text. It is empty for a text that does not parse, and for a withheld one, because nothing may be
/// learned of it.
pub fn outline(sources: &SourceMap, source: SourceId, syntax: Syntax) -> Outline {
    let text = Arc::clone(sources.text(source));
    let has = |word: &str| {
        text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    let may_have_one = has(schema::SET) || has(schema::VARIABLE) || text.contains('\\');
    if sources.is_withheld(source) || !may_have_one {
        return Outline::default();
    }
    let syntax = match syntax {
        Syntax::Hcl if Syntax::looks_like_json(&text) => Syntax::Json,
        syntax => syntax,
    };
    let (mut names, mut problems) = (Names::default(), Diagnostics::default());
    let parsed = parse_with_expressions(&text, source, syntax, &mut names, &mut problems);
    let Ok(documents) = parsed else {
        return Outline::default();
    };
    let variables = documents.iter().flat_map(declared_variables);
    Outline {
        set: documents.iter().find_map(set_of),
        variables: variables.map(|variable| variable.name.to_owned()).collect(),
    }
}

pub(super) fn set_of(document: &Object<'_>) -> Option<NamedSet> {
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
        outline(&sources, source, syntax).set
    }

    #[test]
    fn only_the_top_level_of_a_text_names_a_set() {
        let literal = |text: &str| Some(NamedSet::Literal(text.to_owned()));
        for (text, syntax, expected) in [
            ("set = \"a\"\n", Syntax::Hcl, literal("a")),
            ("SET = \"a\"\n", Syntax::Hcl, literal("a")),
            ("{\"s\\u0065t\": \"a\"}", Syntax::Json, literal("a")),
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
        assert_eq!(outline(&sources, source, Syntax::Hcl), Outline::default());
    }

    #[test]
    fn a_text_says_which_variables_it_declares() {
        let mut sources = SourceMap::default();
        let hcl = "variable \"a\" {}\nvariable \"b\" {\n  type = string\n}\n";
        let yaml = "variable:\n  c: {}\n---\nvariable:\n  d: {type: string}\n";
        let mut names = vec![];
        for (text, syntax) in [(hcl, Syntax::Hcl), (yaml, Syntax::Yaml)] {
            let source = sources.add("file", text);
            names.extend(outline(&sources, source, syntax).variables);
        }
        assert_eq!(names, ["a", "b", "c", "d"]);
    }
}
