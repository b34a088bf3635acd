//! Prints a plan as text.
//!
//! The counts come first, then blocked and waiting volumes, then the changes by descending risk. Many like
//! entries are one block. Unchanged volumes are only counted.

use anstyle::Style;

use super::plan::{RED, counts, heading};
use super::plan_groups::like_entries;
use super::printer::one_line;
use nomad_csi_plan::{Plan, Risk};

/// Returns the plan as text.
pub(crate) fn plan_text(plan: &Plan, server: &str, now: i64) -> String {
    let mut text = format!("Plan for {}: {}\n", one_line(server), counts(plan.counts()));
    text.push_str(&risk_summary(plan));
    if let Some(undeclared) = undeclared_summary(plan) {
        text.extend([undeclared.as_str(), "\n"]);
    }
    for group in like_entries(plan, now) {
        let Some((style, sign, verb)) = heading(group.first) else {
            continue;
        };
        let key = one_line(&group.first.key.to_string());
        match group.names() {
            None => text.push_str(&line(style, sign, verb, &key, &group.details)),
            Some(names) => {
                let count = format!("{} volumes", group.keys.len());
                text.push_str(&line(style, sign, verb, &count, &group.details));
                text.extend(["    ", names.as_str(), "\n"]);
            }
        }
    }
    text
}

/// Returns a line with the owned volumes that no file declares; `None` without any.
pub(super) fn undeclared_summary(plan: &Plan) -> Option<String> {
    const SHOWN: usize = 5;
    let names: Vec<String> =
        plan.undeclared.iter().take(SHOWN).map(|key| one_line(&key.to_string())).collect();
    let names = match plan.undeclared.len().checked_sub(SHOWN) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names.join(", ")),
    };
    match plan.undeclared.len() {
        0 => None,
        1 => Some(format!("The set owns {names}, which no file declares: it stays.")),
        count => {
            Some(format!("The set owns {count} volumes that no file declares: {names}. They stay."))
        }
    }
}

/// Returns a line with the numbers of risky changes; empty if every change is reversible.
fn risk_summary(plan: &Plan) -> String {
    let of = |risk: Risk| {
        let impacts = plan.volumes.iter().filter_map(|one| one.impact.as_ref());
        impacts.filter(|impact| impact.risk == risk).count()
    };
    let (data, downtime) = (of(Risk::DestroysData), of(Risk::NeedsDowntime));
    let access = of(Risk::LosesAccess);
    let parts: Vec<_> = [
        (data, ["change destroys data", "changes destroy data"]),
        (access, ["change makes data unreachable", "changes make data unreachable"]),
        (downtime, ["change needs downtime", "changes need downtime"]),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, [one, many])| format!("{count} {}", if count == 1 { one } else { many }))
    .collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("{RED}Risk: {}.{RED:#}\n", parts.join(", "))
}

fn line(style: Style, sign: &str, verb: &str, key: &str, details: &[String]) -> String {
    let first = format!("\n{style}{sign} {verb} {key}{style:#}\n");
    let others = details.iter().map(|detail| format!("    {}\n", one_line(detail)));
    std::iter::once(first).chain(others).collect()
}
