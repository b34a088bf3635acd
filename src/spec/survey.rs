//! Surveys one text for an editor: what it is, which names it declares, and which it uses.
//!
//! Everything follows from the text alone, and positions are those in the text, so that a survey stays valid as long as its
//! text. A text that does not parse declares and uses nothing.

use std::ops::Range;

use super::expression::names::{Names, Reference, references};
use super::expression::tree::{Expr, ExprKind};
use super::expression::value::Kind;
use super::hcl_kind::{HclKind, looks_like_ours};
use super::outline::{NamedSet, set_of};
use super::parse::parse_with_expressions;
use super::schema::{CLASS, DEFAULTS, LOCALS, VARIABLE};
use super::syntax::Syntax;
use super::tree::{Entry, Node, Object, PlacedExpression, ScalarKind, Value};
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};

/// What a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextKind {
    /// Volumes, or declarations for them.
    Specification,
    /// A job.
    Job,
    /// White space and comments.
    #[default]
    Empty,
    /// The file of another program.
    Other,
}

/// The kinds of names that files declare for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameKind {
    /// `var.NAME`
    Variable,
    /// `local.NAME`
    Local,
    /// The name of a class.
    Class,
}

/// A name that a text declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredName {
    /// Its kind.
    pub kind: NameKind,
    /// The name.
    pub name: String,
    /// Its position.
    pub place: Range<usize>,
    /// The type of a variable, as written.
    pub type_text: Option<String>,
    /// The description of a variable.
    pub description: Option<String>,
    /// True if the value of a variable may not be shown.
    pub is_sensitive: bool,
}

/// A name that a text uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedName {
    /// Its kind.
    pub kind: NameKind,
    /// The name.
    pub name: String,
    /// Its position: that of `var.NAME` as a whole.
    pub place: Range<usize>,
}

/// What is known of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// What it is.
    pub kind: TextKind,
    /// True if it could be parsed.
    pub is_read: bool,
    /// True if it has a block at the top level.
    pub has_blocks: bool,
    /// The set that it names.
    pub set: Option<NamedSet>,
    /// The names that it declares.
    pub declared: Vec<DeclaredName>,
    /// The names that it uses.
    pub used: Vec<UsedName>,
}

/// Surveys a text.
pub fn survey(text: &str, syntax: Syntax) -> Survey {
    let syntax = match syntax {
        Syntax::Hcl if Syntax::looks_like_json(text) => Syntax::Json,
        syntax => syntax,
    };
    let (mut names, mut problems) = (Names::default(), Diagnostics::default());
    let source = SourceMap::default().add("", "");
    let parsed = parse_with_expressions(text, source, syntax, &mut names, &mut problems);
    let Ok(documents) = parsed else {
        let kind = if looks_like_ours(text) { TextKind::Specification } else { TextKind::Other };
        return Survey { kind, ..Survey::default() };
    };
    let mut found = Finder { text, names: &names, survey: Survey::default() };
    documents.iter().for_each(|document| found.document(document));
    let kinds: Vec<HclKind> = documents.iter().map(HclKind::of).collect();
    let is_any = |kind| kinds.contains(&kind);
    let kind = if is_any(HclKind::Specification) {
        TextKind::Specification
    } else if is_any(HclKind::Job) {
        TextKind::Job
    } else if is_any(HclKind::Other) {
        TextKind::Other
    } else {
        TextKind::Empty
    };
    let set = documents.iter().find_map(set_of);
    Survey { kind, is_read: true, set, ..found.survey }
}

struct Finder<'f> {
    text: &'f str,
    names: &'f Names,
    survey: Survey,
}

impl Finder<'_> {
    fn document(&mut self, document: &Object<'_>) {
        for entry in document.entries.iter().chain(&document.duplicates) {
            let key = &*entry.key.text;
            let is_block = ["volume", CLASS, DEFAULTS, VARIABLE, LOCALS].contains(&key);
            self.survey.has_blocks |= is_block;
            match (key, &entry.value.value) {
                (VARIABLE, Value::Object(_)) => self.named(entry, NameKind::Variable),
                (CLASS, Value::Object(_)) => self.named(entry, NameKind::Class),
                (LOCALS, Value::Object(locals)) => {
                    for local in &locals.entries {
                        let place = local.key.span.range();
                        self.declare(NameKind::Local, &local.key.text, place, None);
                    }
                }
                ("volume", Value::Object(block)) if entry.labels.is_empty() => {
                    let blocks = block.entries.iter().filter_map(|named| object_of(&named.value));
                    blocks.for_each(|block| self.chosen_class(block));
                }
                ("volume" | DEFAULTS, Value::Object(block)) => self.chosen_class(block),
                (_, _) => {}
            }
            self.uses(&entry.value);
        }
    }

    /// Notes the blocks of an entry: `class "fast" { … }`, or `class: {fast: {…}}`.
    fn named(&mut self, entry: &Entry<'_>, kind: NameKind) {
        let Value::Object(object) = &entry.value.value else {
            return;
        };
        match entry.labels.last() {
            Some(label) => self.declare(kind, &label.text, label.span.range(), Some(object)),
            None => {
                for named in &object.entries {
                    let place = named.key.span.range();
                    self.declare(kind, &named.key.text, place, object_of(&named.value));
                }
            }
        }
    }

    fn declare(
        &mut self,
        kind: NameKind,
        name: &str,
        place: Range<usize>,
        block: Option<&Object<'_>>,
    ) {
        let block = block.filter(|_| kind == NameKind::Variable);
        let field = |key: &str| {
            let entries = block.map_or(&[][..], |block| &block.entries);
            entries.iter().find(|entry| entry.key.text == key).map(|entry| &entry.value)
        };
        let source = |node: &Node<'_>| self.text.get(node.span.range()).unwrap_or_default();
        let written = |node: &Node<'_>| text_of(node).unwrap_or_else(|| source(node)).to_owned();
        let is_false = |node: &Node<'_>| matches!(&node.value, Value::Scalar(scalar) if scalar.text == "false");
        let declared = DeclaredName {
            kind,
            name: name.to_owned(),
            place,
            type_text: field("type").map(written),
            description: field("description").and_then(text_of).map(ToOwned::to_owned),
            is_sensitive: field("sensitive").is_some_and(|node| !is_false(node)),
        };
        self.survey.declared.push(declared);
    }

    /// Notes the class that a block takes, also if a condition decides.
    fn chosen_class(&mut self, block: &Object<'_>) {
        for entry in block.entries.iter().filter(|entry| entry.key.text == CLASS) {
            let mut add = |name: &str, place: Range<usize>| {
                let (kind, name) = (NameKind::Class, name.to_owned());
                self.survey.used.push(UsedName { kind, name, place });
            };
            if let Value::Expression(expression) = &entry.value.value {
                for_each_result(&expression.root, &mut |part| {
                    if let ExprKind::Constant(value) = &part.kind
                        && let Kind::Text(name) = &value.kind
                    {
                        add(name, expression.place_of(&part.at).range());
                    }
                });
            } else if let Some(name) = text_of(&entry.value) {
                add(name, entry.value.span.range());
            }
        }
    }

    fn uses(&mut self, node: &Node<'_>) {
        match &node.value {
            Value::Expression(expression) => self.names_in(expression),
            Value::List(items) => items.iter().for_each(|item| self.uses(item)),
            Value::Object(object) => {
                let entries = object.entries.iter().chain(&object.duplicates);
                entries.for_each(|entry| self.uses(&entry.value));
            }
            Value::Null
            | Value::Invalid
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown => {}
        }
    }

    fn names_in(&mut self, expression: &PlacedExpression) {
        for (reference, at) in references(&expression.root) {
            let (kind, name) = match reference {
                Reference::Variable(slot) => (NameKind::Variable, self.names.variable_name(slot)),
                Reference::Local(slot) => (NameKind::Local, self.names.local_name(slot)),
            };
            let place = expression.place_of(&at).range();
            self.survey.used.push(UsedName { kind, name: name.to_owned(), place });
        }
    }
}

/// Calls `see` for each expression that can be the value of an expression.
fn for_each_result(root: &Expr, see: &mut impl FnMut(&Expr)) {
    let mut waiting = vec![root];
    while let Some(next) = waiting.pop() {
        if let ExprKind::Condition(parts) = &next.kind {
            waiting.extend(parts.iter().skip(1));
        } else {
            see(next);
        }
    }
}

fn object_of<'n, 'a>(node: &'n Node<'a>) -> Option<&'n Object<'a>> {
    match &node.value {
        Value::Object(object) => Some(object),
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::List(_) => None,
    }
}

fn text_of<'n>(node: &'n Node<'_>) -> Option<&'n str> {
    match &node.value {
        Value::Scalar(scalar) if scalar.kind == ScalarKind::Text => Some(&scalar.text),
        Value::Null
        | Value::Invalid
        | Value::Scalar(_)
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_)
        | Value::List(_)
        | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HCL: &str = r#"
variable "env" {
  type        = string
  description = "dev or prod"
  sensitive   = true
}
locals {
  name = "a-${var.env}"
}
class "fast" {
  plugin_id = local.name
}
volume "db" {
  class = var.env == "prod" ? "fast" : "slow"
}
"#;

    const YAML: &str = r#"
variable:
  env: {type: string, description: dev or prod, sensitive: true}
locals:
  name: a-${var.env}
class:
  fast:
    plugin_id: ${local.name}
volume:
  db:
    class: '${var.env == "prod" ? "fast" : "slow"}'
"#;

    /// The same declarations in two syntaxes have the same names, at the places where the texts have them.
    #[test]
    fn names_are_found_where_they_are_written() {
        for (text, syntax) in [(HCL, Syntax::Hcl), (YAML, Syntax::Yaml)] {
            let found = survey(text, syntax);
            assert!(found.is_read && found.has_blocks);
            assert_eq!(found.kind, TextKind::Specification);
            let written = |place: &Range<usize>| text[place.clone()].trim_matches('"');
            let declared: Vec<_> =
                found.declared.iter().map(|one| (one.kind, written(&one.place))).collect();
            let (variable, local, class) = (NameKind::Variable, NameKind::Local, NameKind::Class);
            assert_eq!(declared, [(variable, "env"), (local, "name"), (class, "fast")]);
            let env = &found.declared[0];
            assert_eq!(env.type_text.as_deref(), Some("string"));
            assert_eq!(env.description.as_deref(), Some("dev or prod"));
            assert!(env.is_sensitive && !found.declared[1].is_sensitive);
            let mut used: Vec<_> = found
                .used
                .iter()
                .map(|one| (one.kind, one.name.as_str(), written(&one.place)))
                .collect();
            used.sort_unstable();
            assert_eq!(
                used,
                [
                    (variable, "env", "var.env"),
                    (variable, "env", "var.env"),
                    (local, "name", "local.name"),
                    (class, "fast", "fast"),
                    (class, "slow", "slow"),
                ]
            );
        }
    }

    #[test]
    fn a_text_is_of_a_kind_also_if_it_does_not_parse() {
        for (text, syntax, kind, is_read) in [
            ("", Syntax::Hcl, TextKind::Empty, true),
            ("# only a comment\n", Syntax::Yaml, TextKind::Empty, true),
            ("id = \"a\"\ntype = \"csi\"\n", Syntax::Hcl, TextKind::Specification, true),
            ("volume \"a\" {\n  capacity_min = \n", Syntax::Hcl, TextKind::Specification, false),
            ("job \"a\" {\n}\n", Syntax::Hcl, TextKind::Job, true),
            ("resource \"a\" \"b\" {\n}\n", Syntax::Hcl, TextKind::Other, true),
            ("resource \"a\" {\n", Syntax::Hcl, TextKind::Other, false),
            ("services: {a: {}}\n", Syntax::Yaml, TextKind::Other, true),
            ("{\"//\": \"note\", \"locals\": {}}", Syntax::Json, TextKind::Specification, true),
            ("x-a: 1\nclass: {a: {}}\n", Syntax::Yaml, TextKind::Specification, true),
            ("{\"id\": \"a\", \"plugin_id\": \"b\"}", Syntax::Hcl, TextKind::Specification, true),
        ] {
            let found = survey(text, syntax);
            assert_eq!((found.kind, found.is_read), (kind, is_read), "{text}");
        }
    }
}
