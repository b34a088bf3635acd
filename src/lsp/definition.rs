//! Finds what declares a name, and what uses it: variables, local values and classes.

use std::path::Path;

use super::analysis::{AnalysedText, Analysis};
use super::cursor::Target;
use super::cursor_hcl::hcl_outline;
use super::find_cursor::cursor_at;
use super::positions::{Lines, Position};
use super::protocol::Location;
use super::uri::uri_of;
use super::workspace::Workspace;
use nomad_csi_spec::{NameKind, Syntax};

/// A name under the cursor, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameAt {
    pub(crate) kind: NameKind,
    pub(crate) name: String,
    pub(crate) place: std::ops::Range<usize>,
}

/// Returns the name at an offset of a text.
pub(crate) fn name_at(text: &AnalysedText, offset: usize) -> Option<NameAt> {
    let is_here = |place: &std::ops::Range<usize>| place.start <= offset && offset <= place.end;
    let used = text.survey.used.iter().map(|one| (one.kind, &one.name, &one.place));
    let declared = text.survey.declared.iter().map(|one| (one.kind, &one.name, &one.place));
    if let Some((kind, name, place)) = used.chain(declared).find(|(_, _, place)| is_here(place)) {
        return Some(NameAt { kind, name: name.clone(), place: place.clone() });
    }
    // A text that does not parse has words.
    let Target::Expression(_, written) = cursor_at(&text.text, text.syntax, offset).target else {
        return None;
    };
    let word = text.text.get(written.range.clone())?;
    let mut parts = word.split('.');
    let kind = match parts.next()? {
        "var" => NameKind::Variable,
        "local" => NameKind::Local,
        _ => return None,
    };
    let name = parts.next().filter(|name| !name.is_empty())?.to_owned();
    Some(NameAt { kind, name, place: written.range })
}

/// Returns the names that a text declares, with their places: all of them if it parses, else what can be read.
pub(crate) fn declarations(text: &AnalysedText) -> Vec<(NameKind, String, std::ops::Range<usize>)> {
    if text.survey.is_read || text.syntax != Syntax::Hcl {
        let all = text.survey.declared.iter();
        return all.map(|one| (one.kind, one.name.clone(), one.place.clone())).collect();
    }
    let found = hcl_outline(&text.text).declared.into_iter();
    found
        .filter_map(|(kind, place)| Some((kind, text.text.get(place.clone())?.to_owned(), place)))
        .collect()
}

/// Returns where the name at a position is declared.
pub(crate) fn definitions(
    workspace: &Workspace,
    analysis: &Analysis,
    path: &Path,
    position: Position,
) -> Vec<Location> {
    let Some(at) = name_at_position(workspace, analysis, path, position) else {
        return vec![];
    };
    locations(workspace, analysis, |text| declared_places(text, &at))
}

/// Returns where the name at a position is used, and where it is declared if asked for.
pub(crate) fn uses(
    workspace: &Workspace,
    analysis: &Analysis,
    path: &Path,
    position: Position,
    includes_declaration: bool,
) -> Vec<Location> {
    let Some(at) = name_at_position(workspace, analysis, path, position) else {
        return vec![];
    };
    locations(workspace, analysis, |text| {
        let declared = declared_places(text, &at).into_iter().filter(|_| includes_declaration);
        let used = text.survey.used.iter();
        let used = used.filter(|one| one.kind == at.kind && one.name == at.name);
        declared.chain(used.map(|one| one.place.clone())).collect()
    })
}

fn name_at_position(
    workspace: &Workspace,
    analysis: &Analysis,
    path: &Path,
    position: Position,
) -> Option<NameAt> {
    let text = analysis.text(path)?;
    let offset = Lines::new(&text.text, workspace.encoding).offset(position);
    name_at(text, offset)
}

fn declared_places(text: &AnalysedText, at: &NameAt) -> Vec<std::ops::Range<usize>> {
    let all = declarations(text).into_iter();
    all.filter(|(kind, name, _)| *kind == at.kind && *name == at.name)
        .map(|(_, _, place)| place)
        .collect()
}

fn locations(
    workspace: &Workspace,
    analysis: &Analysis,
    places: impl Fn(&AnalysedText) -> Vec<std::ops::Range<usize>>,
) -> Vec<Location> {
    let mut found = vec![];
    for text in &analysis.texts {
        let of_text = places(text);
        if of_text.is_empty() {
            continue;
        }
        let lines = Lines::new(&text.text, workspace.encoding);
        let uri = uri_of(&text.path);
        let of_text = of_text.iter().map(|place| lines.range(place));
        found.extend(of_text.map(|range| Location { uri: uri.clone(), range }));
    }
    found
}
