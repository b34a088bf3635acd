//! Markdown for a pull request comment or a job summary. The first line names changes that destroy
//! data. The text stays below GitHub's limit of 65,535 characters per comment.

use super::report_input::ReportInput;
use crate::cli::ui::markup::code;
use crate::cli::ui::plan::{by_urgency, counts, details};
use crate::plan::{PlannedVolume, Risk};

/// The longest text before the note about omitted volumes.
const LONGEST: usize = 65_000;

pub(super) fn markdown(input: ReportInput<'_>) -> String {
    let mut text = format!(
        "{}\n\nPlan for {}: {}\n",
        headline(input),
        code(input.server),
        counts(input.plan.counts())
    );
    let entries = by_urgency(input.plan);
    let shown: Vec<_> = entries
        .into_iter()
        .filter(|planned| !planned.is_unchanged())
        .collect();
    for (at, planned) in shown.iter().enumerate() {
        let entry = entry(planned);
        if text.len() + entry.len() > LONGEST {
            let left = shown.len() - at;
            return text + &format!("\n…and {left} more not shown.");
        }
        text += &entry;
    }
    text.trim_end().to_owned()
}

fn headline(input: ReportInput<'_>) -> String {
    let of = |risk: Risk| {
        let volumes = input.plan.volumes.iter();
        let impacts = volumes.filter_map(|planned| planned.impact.as_ref());
        impacts.filter(|impact| impact.risk == risk).count()
    };
    match (of(Risk::DestroysData), of(Risk::NeedsDowntime)) {
        (0, 0) => "**Nothing destroys data or needs downtime.**".to_owned(),
        (0, downtime) => format!("**Nothing destroys data; {downtime} need downtime.**"),
        (data, 0) => format!("**{data} DESTROY DATA.**"),
        (data, downtime) => format!("**{data} DESTROY DATA; {downtime} need downtime.**"),
    }
}

fn entry(planned: &PlannedVolume) -> String {
    let key = code(&planned.key.to_string());
    let details = details(planned, None);
    let details = details.iter().map(|detail| format!("- {}\n", code(detail)));
    let heading = format!("\n### {} {key}\n\n", planned.change_name());
    std::iter::once(heading).chain(details).collect()
}
