//! Says what is under the cursor: the row of a key, the value of a variable, what a function returns.
//!
//! A value is shown only if `render --values` would show it; of a sensitive variable, nothing is.

use std::path::Path;

use super::analysis::{AnalysedText, Analysis};
use super::cursor::Target;
use super::definition::{NameAt, name_at};
use super::find_cursor::cursor_at;
use super::positions::{Lines, Position};
use super::protocol::{Hover, Markup};
use super::workspace::Workspace;
use nomad_csi_model::diagnostic::Span;
use nomad_csi_spec::{FUNCTIONS, KnownKey, NameKind, known_keys};

/// Returns what is known of what is at a position.
pub(crate) fn hover(
    workspace: &Workspace,
    analysis: &Analysis,
    path: &Path,
    position: Position,
) -> Option<Hover> {
    let text = analysis.text(path)?;
    let lines = Lines::new(&text.text, workspace.encoding);
    let offset = lines.offset(position);
    if let Some(at) = name_at(text, offset) {
        let value = name_text(workspace, analysis, &at);
        return Some(markdown(value, lines.range(&at.place)));
    }
    let cursor = cursor_at(&text.text, text.syntax, offset);
    let (value, range) = match &cursor.target {
        Target::Nothing | Target::Value(..) => return None,
        Target::Key(written) => {
            let word = text.text.get(written.range.clone())?;
            let known = key_at(text, &cursor.path(), word)?;
            (key_text(&known), written.range.clone())
        }
        Target::Expression(_, written) => {
            let word = text.text.get(written.range.clone())?;
            (word_text(word)?, written.range.clone())
        }
    };
    Some(markdown(value, lines.range(&range)))
}

fn markdown(value: String, range: super::positions::Range) -> Hover {
    Hover { contents: Markup { kind: "markdown", value }, range }
}

fn key_at(text: &AnalysedText, path: &[&str], word: &str) -> Option<KnownKey> {
    let known = known_keys(path, text.survey.has_blocks).into_iter();
    let mut of_flat = known_keys(path, false).into_iter();
    known.into_iter().chain(of_flat.by_ref()).find(|known| known.key.eq_ignore_ascii_case(word))
}

/// Returns a key as `explain` shows it.
pub(crate) fn key_text(known: &KnownKey) -> String {
    let Some(field) = known.field else {
        return format!("**{}**\n\n{}", known.key, known.doc);
    };
    let default = match field.default {
        "required" => "Required.".to_owned(),
        other => format!("Default: {other}."),
    };
    format!(
        "**{}**: {}\n\n{} {default}\n\nCan change: {}.",
        known.key, field.kind, field.doc, field.mutability
    )
}

fn name_text(workspace: &Workspace, analysis: &Analysis, at: &NameAt) -> String {
    let declared = analysis.texts.iter().find_map(|text| {
        let mut all = text.survey.declared.iter();
        let found = all.find(|one| one.kind == at.kind && one.name == at.name)?;
        Some((text, found))
    });
    let word = match at.kind {
        NameKind::Variable => "variable",
        NameKind::Local => "local value",
        NameKind::Class => "class",
    };
    let mut lines = vec![format!("**{}**: {word}", at.name)];
    let Some((text, found)) = declared else {
        lines.push("No file that can be read declares it.".to_owned());
        return lines.join("\n\n");
    };
    lines.extend(found.description.clone());
    lines.extend(found.type_text.as_ref().map(|kind| format!("Type: `{}`", one_line(kind))));
    if at.kind == NameKind::Variable {
        lines.push(value_text(workspace, analysis, &at.name, found.is_sensitive));
    }
    let span: Span = nomad_csi_model::diagnostic::SourceMap::span(text.source, found.place.clone());
    let line = analysis.sources.location(span).line;
    lines.push(format!("Declared at {}:{line}", workspace.shown(&text.path)));
    lines.join("\n\n")
}

fn value_text(
    workspace: &Workspace,
    analysis: &Analysis,
    name: &str,
    is_sensitive: bool,
) -> String {
    if is_sensitive {
        return "Its value is sensitive, and not shown.".to_owned();
    }
    let Some(variable) = analysis.variables.iter().find(|variable| variable.name == name) else {
        return "It has no value here: what depends on it is not evaluated.".to_owned();
    };
    let from = match variable.place {
        Some(place) => {
            let line = analysis.sources.location(place).line;
            let file = analysis.sources.name(place.source);
            format!("{} at {}:{line}", variable.from, file)
        }
        None => variable.from.clone(),
    };
    let _ = workspace;
    match &variable.value {
        Some(value) => format!("Value: `{}`, from {from}", one_line(value)),
        None => "Its value may be secret, and is not shown.".to_owned(),
    }
}

/// Limit of the characters of a value.
const LONGEST: usize = 200;

fn one_line(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST + 1).collect();
    match plain.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &plain[..at]),
        None => plain,
    }
}

/// Names that are not declared, each with its meaning.
pub(crate) const NAMES: [(&str, &str); 6] = [
    ("each.key", "The key of this item of `for_each`."),
    ("each.value", "The value of this item of `for_each`."),
    ("count.index", "The index of this volume of `count`, from 0."),
    ("volume.label", "The label of the block: `pg`."),
    ("volume.key", "The ID in a form that providers accept in names: `pg-0`."),
    ("volume.id", "The ID of the volume: `pg[0]`."),
];

/// The sources of secrets, each with its meaning.
pub(crate) const SOURCES: [(&str, &str); 3] = [
    ("env", "The secret is in an environment variable when it is sent."),
    ("file", "The secret is in a file, relative to this one, when it is sent."),
    ("nomad_var", "The secret is an item of a Nomad variable when it is sent."),
];

fn word_text(word: &str) -> Option<String> {
    if let Some(function) = FUNCTIONS.iter().find(|function| function.name == word) {
        return Some(format!(
            "**{}**({}) → {}\n\n{}\n\n`{}` is `{}`",
            function.name,
            function.parameters,
            function.result,
            function.summary,
            function.example,
            function.example_result
        ));
    }
    let all = NAMES.iter().chain(&SOURCES);
    let (name, doc) = all.copied().find(|(name, _)| *name == word)?;
    Some(format!("**{name}**\n\n{doc}"))
}
