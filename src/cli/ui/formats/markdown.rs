//! Markdown for a comment or a step's summary: what destroys data is in its first line, and the whole
//! stays under the 65,535 characters that such a comment may have (usdr-gost#2966).

use super::report::Reported;
use crate::cli::ui::markup::code;
use crate::cli::ui::plan::{by_urgency, counts, details};
use crate::plan::{Action, Planned, Risk};

/// Fewer than a comment may have, so that there is room for saying that it was cut.
const LONGEST: usize = 65_000;

pub(super) fn markdown(reported: Reported<'_>) -> String {
    let mut text = format!(
        "{}\n\nPlan for {}: {}\n",
        headline(reported),
        code(reported.server),
        counts(reported.plan.counts())
    );
    let entries = by_urgency(reported.plan);
    let shown: Vec<_> = entries
        .into_iter()
        .filter(|planned| planned.action != Action::Unchanged)
        .collect();
    for (at, planned) in shown.iter().enumerate() {
        let entry = entry(planned);
        if text.len() + entry.len() > LONGEST {
            let left = shown.len() - at;
            return text + &format!("\n…and {left} more, which are not shown here.");
        }
        text += &entry;
    }
    text.trim_end().to_owned()
}

fn headline(reported: Reported<'_>) -> String {
    let of = |risk: Risk| {
        let volumes = reported.plan.volumes.iter();
        let stakes = volumes.filter_map(|planned| planned.stakes.as_ref());
        stakes.filter(|stakes| stakes.risk == risk).count()
    };
    match (of(Risk::DestroysData), of(Risk::NeedsDowntime)) {
        (0, 0) => "**Nothing destroys data or needs downtime.**".to_owned(),
        (0, downtime) => format!("**Nothing destroys data; {downtime} need downtime.**"),
        (data, 0) => format!("**{data} DESTROY DATA.**"),
        (data, downtime) => format!("**{data} DESTROY DATA; {downtime} need downtime.**"),
    }
}

fn entry(planned: &Planned) -> String {
    let key = code(&planned.key.to_string());
    let details = details(planned, None);
    let details = details.iter().map(|detail| format!("- {}\n", code(detail)));
    let heading = format!("\n### {} {key}\n\n", planned.action.word());
    std::iter::once(heading).chain(details).collect()
}
