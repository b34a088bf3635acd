//! Markdown for a pull request comment or a job summary. The first line names what matters most. The text
//! stays below GitHub's limit of 65,535 characters per comment.

use super::run_report::{Case, CaseResult, RunReport};
use crate::cli::ui::markup::{block, code};

/// The longest text before the note about omitted volumes.
const LONGEST: usize = 65_000;

pub(super) fn markdown(report: &RunReport) -> String {
    let mut text = String::new();
    if let Some(headline) = &report.headline {
        text.extend([headline.as_str(), "\n\n"]);
    }
    if !report.summary.is_empty() {
        text.extend([report.summary.as_str(), "\n"]);
    }
    let errors = report.run_errors();
    if !errors.is_empty() {
        text.extend(["\n**`nomad-csi ", report.command, "` failed.**\n\n"]);
    }
    let errors = errors.into_iter().map(|finding| {
        let place = finding.place.as_ref();
        let place = place.map_or_else(String::new, |place| {
            format!(" ({})", code(&format!("{}:{}", place.path(), place.line)))
        });
        format!("- {}{place}\n", code(finding.message()))
    });
    let cases = report.cases.iter().filter(|case| is_shown(case));
    let entries: Vec<String> = errors.chain(cases.map(entry)).collect();
    for (at, entry) in entries.iter().enumerate() {
        if text.len() + entry.len() > LONGEST {
            let left = entries.len() - at;
            return text + &format!("\n…and {left} more not shown.");
        }
        text += entry;
    }
    text.trim_end().to_owned()
}

fn is_shown(case: &Case) -> bool {
    case.result != CaseResult::Passed || !case.details.is_empty() || !case.diff.is_empty()
}

fn entry(case: &Case) -> String {
    let name = match case.group.as_str() {
        "" | "default" => case.name.clone(),
        group => format!("{group}/{}", case.name),
    };
    let details = case.details.iter();
    let details = details.map(|detail| format!("- {}\n", code(detail)));
    let heading = format!("\n### {} {}\n\n", case.word, code(&name));
    let diff = (!case.diff.is_empty()).then(|| block("diff", &case.diff));
    let gap = diff.is_some() && !case.details.is_empty();
    let gap = gap.then(|| "\n".to_owned());
    std::iter::once(heading).chain(diff).chain(gap).chain(details).collect()
}
