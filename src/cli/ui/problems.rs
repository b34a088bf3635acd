//! Many diagnostics as one text, with repeated explanations printed once.
//!
//! A run over hundreds of volumes may find the same problem in each. Problems are of one kind if they
//! share their code, notes and help, and the text at their places. For a kind with several problems, the
//! first is printed in full, and each other problem is one line with its message and position. The lines
//! of a kind with many problems are folded into one with the positions.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::diagnostic::{render, render_short};
use super::printer::one_line;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Severity, SourceMap};

/// Up to this number, all problems of a kind are printed in full.
const FEW: usize = 3;
/// Up to this number, each problem of a kind has a line.
const LINES: usize = 12;
/// How many positions a folded line has.
const PLACES: usize = 40;

/// Returns all problems and their number, with colours and without a final line end.
pub(crate) fn problems_text(
    diagnostics: &Diagnostics,
    sources: &SourceMap,
    columns: usize,
) -> String {
    let mut kinds: HashMap<ProblemKind<'_>, Vec<&Diagnostic>> = HashMap::new();
    for diagnostic in diagnostics {
        kinds.entry(ProblemKind::of(diagnostic)).or_default().push(diagnostic);
    }
    let mut explained = HashSet::new();
    let mut text = String::new();
    let mut was_short = false;
    for diagnostic in diagnostics {
        let kind = ProblemKind::of(diagnostic);
        let alike = &kinds[&kind];
        let is_first = explained.insert(kind);
        let is_folded = alike.len() > LINES && alike.iter().all(|one| !one.labels.is_empty());
        if is_folded && !is_first {
            continue;
        }
        let is_short = alike.len() > FEW && !is_first;
        if !text.is_empty() {
            text.push_str(if is_short && was_short { "\n" } else { "\n\n" });
        }
        text.push_str(&if is_short {
            render_short(diagnostic, sources)
        } else {
            render(diagnostic, sources, columns)
        });
        if is_folded {
            text.push_str(&folded(&alike[1..], sources));
        }
        was_short = is_short;
    }
    if let Some(count) = count(diagnostics) {
        text.push_str("\n\n");
        text.push_str(&count);
    }
    text
}

/// Returns a line with the positions of like problems: `299 more: a.hcl:12, 30; b.hcl:2`.
fn folded(others: &[&Diagnostic], sources: &SourceMap) -> String {
    let mut lines: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let labels = others.iter().filter_map(|one| one.labels.first());
    for label in labels.take(PLACES) {
        let line = sources.location(label.span).line.to_string();
        let file = sources.name(label.span.source);
        lines.entry(file).or_default().push(line);
    }
    let files =
        lines.into_iter().map(|(file, lines)| format!("{}:{}", one_line(file), lines.join(", ")));
    let files: Vec<String> = files.collect();
    let more = match others.len().saturating_sub(PLACES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("\n{} more: {}{more}", others.len(), files.join("; "))
}

/// The parts that problems of one kind share.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ProblemKind<'a> {
    code: Code,
    severity: Severity,
    notes: &'a [String],
    help: &'a [String],
    block: Option<&'a str>,
    /// The message, the labels and the replacement of a problem that has text at its positions.
    own_text: Option<(&'a str, Vec<&'a str>, Option<&'a str>)>,
}

impl<'a> ProblemKind<'a> {
    fn of(diagnostic: &'a Diagnostic) -> Self {
        let Diagnostic { code, severity, labels, help, notes, block, replacement, message, trail } =
            diagnostic;
        let is_plain = trail.is_empty()
            && replacement.is_none()
            && labels.iter().all(|label| label.text.is_empty());
        Self {
            code: *code,
            severity: *severity,
            notes,
            help,
            block: block.as_deref(),
            own_text: (!is_plain).then(|| {
                let labels = labels.iter().map(|label| label.text.as_str());
                let replacement = replacement.as_ref().map(|one| one.text.as_str());
                (message.as_str(), labels.collect(), replacement)
            }),
        }
    }
}

/// Returns text such as `2 errors, 1 warning`, or `None` for a single problem.
fn count(diagnostics: &Diagnostics) -> Option<String> {
    let (errors, warnings) =
        (diagnostics.count(Severity::Error), diagnostics.count(Severity::Warning));
    let words = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        count => Some(format!("{count} {word}s")),
    };
    let parts: Vec<_> =
        [words(errors, "error"), words(warnings, "warning")].into_iter().flatten().collect();
    let shown = match diagnostics.omitted() {
        0 => String::new(),
        _ => format!(" ({} shown)", diagnostics.iter().count()),
    };
    (errors + warnings > 1).then(|| parts.join(", ") + &shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(diagnostics: &[Diagnostic], sources: &SourceMap) -> String {
        let diagnostics = diagnostics.iter().cloned().collect();
        let text = problems_text(&diagnostics, sources, 100);
        anstream::adapter::strip_str(&text).to_string()
    }

    fn protected(volume: &str) -> Diagnostic {
        Diagnostic::error(Code::PlanProtected, format!("volume {volume} is not removed"))
            .help("apply it once with `protect = false`")
    }

    #[test]
    fn a_few_problems_of_a_kind_are_printed_in_full() {
        let text = plain(&["a", "b", "c"].map(protected), &SourceMap::default());
        assert_eq!(text.matches("= help: apply it once").count(), 3, "{text}");
        assert!(text.ends_with("\n\n3 errors"), "{text}");
    }

    #[test]
    fn many_problems_of_a_kind_share_one_explanation_and_keep_their_positions() {
        let mut sources = SourceMap::default();
        let id = sources.add("a.hcl", "one\ntwo\n");
        let mut all = ["a", "b", "c", "d"].map(protected).to_vec();
        all[2] = protected("c").label(SourceMap::span(id, 4..7), "");
        let other = Diagnostic::warning(Code::SetNotFound, "set web owns nothing");
        all.insert(1, other);
        let expected = "\
error[plan/protected]: volume a is not removed
 |
 = help: apply it once with `protect = false`

warning[set/not-found]: set web owns nothing

error[plan/protected]: volume b is not removed
error[plan/protected]: volume c is not removed (a.hcl:2:1)
error[plan/protected]: volume d is not removed

4 errors, 1 warning";
        assert_eq!(plain(&all, &sources), expected);
    }

    /// A mistake that is copied into hundreds of volumes is one block, with the lines of all of them.
    #[test]
    fn many_like_mistakes_are_one_block() {
        let mut sources = SourceMap::default();
        let text = "plugn_id\n".repeat(300);
        let id = sources.add("a.hcl", text.as_str());
        let mistake = |at: usize| {
            let span = SourceMap::span(id, at * 9..at * 9 + 8);
            Diagnostic::error(Code::SpecUnknownField, "`plugn_id` is not a field of a volume")
                .label(span, "did you mean `plugin_id`?")
        };
        let all: Vec<Diagnostic> = (0..300).map(mistake).collect();
        let text = plain(&all, &sources);
        assert_eq!(text.matches("is not a field").count(), 1, "{text}");
        assert!(text.contains("\n299 more: a.hcl:2, 3, 4,"), "{text}");
        assert!(text.ends_with("41 and 259 more\n\n300 errors"), "{text}");
    }

    #[test]
    fn a_problem_with_its_own_label_is_printed_in_full() {
        let mut sources = SourceMap::default();
        let id = sources.add("a.hcl", "one\n");
        let all = ["a", "b", "c", "d", "e"].map(|volume| {
            let span = SourceMap::span(id, 0..3);
            protected(volume).label(span, format!("refers to {volume}"))
        });
        let text = plain(&all, &sources);
        assert_eq!(text.matches("refers to ").count(), 5, "{text}");
    }
}
