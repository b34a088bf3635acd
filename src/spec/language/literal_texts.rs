//! Warns of texts of a flat document that look like expressions, beside documents of the language.
//!
//! A document in Nomad's flat form keeps its texts as they are, also if another document of its file is one of the language.

use crate::tree::{Node, Object, ScalarKind, Value};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span};

/// What an expression without quotes begins with.
const ROOTS: [&str; 5] = ["var.", "local.", "each.", "count.", "volume."];

/// Warns of the texts of a flat document that would be evaluated in one of the language.
pub(crate) fn warn_of_literals(document: &Object<'_>, diagnostics: &mut Diagnostics) {
    let mut found = vec![];
    for entry in &document.entries {
        add_literals(&entry.value, &mut found);
    }
    let Some((first, others)) = found.split_first() else {
        return;
    };
    let message = match others.len() {
        0 => "a text of a flat document is not evaluated".to_owned(),
        others => format!("{} texts of a flat document are not evaluated", others + 1),
    };
    diagnostics.push(
        Diagnostic::warning(Code::SpecLiteralTemplate, message)
            .label(*first, "sent literally")
            .note("only documents with blocks such as `volume` and `locals` are evaluated")
            .help(
                "write the volume under `volume:` and its name, as the other documents of the file",
            ),
    );
}

fn add_literals(node: &Node<'_>, found: &mut Vec<Span>) {
    match &node.value {
        Value::Scalar(scalar) if scalar.kind == ScalarKind::Text && is_expression(&scalar.text) => {
            found.push(node.span);
        }
        Value::List(items) => items.iter().for_each(|item| add_literals(item, found)),
        Value::Object(object) => {
            object.entries.iter().for_each(|entry| add_literals(&entry.value, found));
        }
        Value::Scalar(_)
        | Value::Null
        | Value::Invalid
        | Value::Reference(_)
        | Value::Unknown
        | Value::Expression(_) => {}
    }
}

/// Returns whether a text has `${` or `%{`, or is a name of the language.
fn is_expression(text: &str) -> bool {
    let is_name = || {
        let name = ROOTS.iter().find_map(|root| text.strip_prefix(root));
        name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
    };
    text.contains("${") || text.contains("%{") || is_name()
}
