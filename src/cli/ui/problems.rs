//! Many diagnostics as one text, with repeated explanations printed once.
//!
//! A run over hundreds of volumes may find the same problem in each. Problems are of one kind if they
//! share their code, notes and help. For a kind with many problems, the first is printed in full. Each
//! other problem is one line with its message and position.

use std::collections::{HashMap, HashSet};

use super::diagnostic::{render, render_short};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Severity, SourceMap};

/// Up to this number, all problems of a kind are printed in full.
const FEW: usize = 3;

/// Returns all problems and their number, with colours and without a final line end.
pub(crate) fn problems_text(
    diagnostics: &Diagnostics,
    sources: &SourceMap,
    columns: usize,
) -> String {
    let mut sizes: HashMap<ProblemKind<'_>, usize> = HashMap::new();
    for kind in diagnostics.iter().filter_map(ProblemKind::of) {
        *sizes.entry(kind).or_default() += 1;
    }
    let mut explained = HashSet::new();
    let mut text = String::new();
    let mut was_short = false;
    for diagnostic in diagnostics {
        let many = ProblemKind::of(diagnostic).filter(|kind| sizes[kind] > FEW);
        let is_short = many.is_some_and(|kind| !explained.insert(kind));
        if !text.is_empty() {
            text.push_str(if is_short && was_short { "\n" } else { "\n\n" });
        }
        text.push_str(&if is_short {
            render_short(diagnostic, sources)
        } else {
            render(diagnostic, sources, columns)
        });
        was_short = is_short;
    }
    if let Some(count) = count(diagnostics) {
        text.push_str("\n\n");
        text.push_str(&count);
    }
    text
}

/// The parts that problems of one kind share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ProblemKind<'a> {
    code: Code,
    severity: Severity,
    notes: &'a [String],
    help: &'a [String],
}

impl<'a> ProblemKind<'a> {
    /// Returns `None` if the diagnostic has text of its own at its positions.
    fn of(diagnostic: &'a Diagnostic) -> Option<Self> {
        let Diagnostic {
            code,
            severity,
            labels,
            help,
            notes,
            replacement,
            message: _,
        } = diagnostic;
        let is_plain = replacement.is_none() && labels.iter().all(|label| label.text.is_empty());
        is_plain.then_some(Self {
            code: *code,
            severity: *severity,
            notes,
            help,
        })
    }
}

/// Returns text such as `2 errors, 1 warning`, or `None` for a single problem.
fn count(diagnostics: &Diagnostics) -> Option<String> {
    let (errors, warnings) = (
        diagnostics.count(Severity::Error),
        diagnostics.count(Severity::Warning),
    );
    let words = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        count => Some(format!("{count} {word}s")),
    };
    let parts: Vec<_> = [words(errors, "error"), words(warnings, "warning")]
        .into_iter()
        .flatten()
        .collect();
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
        Diagnostic::error(
            Code::PlanProtected,
            format!("volume {volume} is not removed"),
        )
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
