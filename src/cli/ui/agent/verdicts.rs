//! Prints a conformance report as a table with its findings and as JSON, and the list of checks.

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use crate::cli::ui::printer::one_line;
use crate::cli::ui::table::{heading, table};
use nomad_csi_conformance::{
    Area, CheckOutcome, Effect, Exchange, Finding, Level, Report, Tally, Verdict, cases,
};

const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const RED: Style = AnsiColor::Red.on_default();
const PLAIN: Style = Style::new();

/// Returns the verdict in its colour.
pub(super) fn verdict_word(verdict: &Verdict) -> String {
    let style = match verdict {
        Verdict::Passed => GREEN,
        Verdict::Failed => RED,
        Verdict::NotRun(_) => YELLOW,
        Verdict::Skipped(_) => PLAIN,
    };
    format!("{style}{}{style:#}", word(verdict))
}

/// Returns the verdict as a word.
pub(crate) fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::NotRun(_) => "not run",
        Verdict::Skipped(_) => "skipped",
    }
}

/// Returns the report as text.
pub(crate) fn report_text(report: &Report) -> String {
    let tried =
        report.outcomes.iter().filter(|outcome| !matches!(outcome.verdict, Verdict::Skipped(_)));
    let tried: Vec<&CheckOutcome> = tried.collect();
    let rows = tried.iter().map(|outcome| {
        [
            outcome.case.id.to_owned(),
            word(&outcome.verdict).to_owned(),
            outcome.case.title.to_owned(),
        ]
    });
    let rows = table(["Check", "Verdict", "Requirement"], rows);
    let mut sections = vec![with_coloured_verdicts(&rows, &tried)];
    sections.extend(by_reason("Skipped", &report.outcomes, skipped));
    sections.extend(by_reason("Could not run", &report.outcomes, reason_not_run));
    sections.extend(report.outcomes.iter().filter_map(details));
    if !report.leftovers.is_empty() {
        let lines = report
            .leftovers
            .iter()
            .map(|one| format!("{}: {}\n", one_line(&one.what), one_line(&one.why)));
        let lines: String = lines.collect();
        sections.push(heading("Could not clean up") + &lines);
    }
    if let Some(error) = &report.missing_parameters {
        sections.push(format!(
            "note: every CreateVolume was refused, and no parameters were given: {}\nhelp: if the plugin requires parameters, give them with `--parameters FILE`\n",
            one_line(error)
        ));
    }
    sections.push(summary(report));
    sections.join("\n")
}

/// Colours the verdicts of a table of checks. They are coloured last, because colours have no width in a column.
fn with_coloured_verdicts(table: &str, outcomes: &[&CheckOutcome]) -> String {
    let heading = table.lines().take(1).map(str::to_owned);
    let rows = table.lines().skip(1).zip(outcomes).map(|(row, outcome)| {
        let (id, rest) = row.split_at_checked(outcome.case.id.len()).unwrap_or(("", row));
        let plain = word(&outcome.verdict);
        format!("{id}{}", rest.replacen(plain, &verdict_word(&outcome.verdict), 1))
    });
    heading.chain(rows).map(|line| line + "\n").collect()
}

/// Returns the checks that were skipped or could not run, grouped by reason.
fn by_reason(
    title: &str,
    outcomes: &[CheckOutcome],
    reason: fn(&CheckOutcome) -> Option<&str>,
) -> Option<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = vec![];
    for outcome in outcomes {
        let Some(reason) = reason(outcome) else {
            continue;
        };
        match reasons.iter_mut().find(|(one, _)| *one == reason) {
            Some((_, ids)) => ids.push(outcome.case.id),
            None => reasons.push((reason, vec![outcome.case.id])),
        }
    }
    let lines = reasons.iter().map(|(reason, ids)| {
        let ids = ids.join(" ");
        format!("{}: {ids}\n", one_line(reason))
    });
    let lines: String = lines.collect();
    (!reasons.is_empty()).then(|| heading(title) + &lines)
}

fn skipped(outcome: &CheckOutcome) -> Option<&str> {
    match &outcome.verdict {
        Verdict::Skipped(reason) => Some(reason),
        Verdict::Passed | Verdict::Failed | Verdict::NotRun(_) => None,
    }
}

fn reason_not_run(outcome: &CheckOutcome) -> Option<&str> {
    match &outcome.verdict {
        Verdict::NotRun(reason) => Some(reason),
        Verdict::Passed | Verdict::Failed | Verdict::Skipped(_) => None,
    }
}

/// Returns the findings of one check; `None` if there are none.
fn details(outcome: &CheckOutcome) -> Option<String> {
    if outcome.findings.is_empty() {
        return None;
    }
    let verdict = verdict_word(&outcome.verdict);
    let mut parts = vec![
        heading(&format!("{}: {}", outcome.case.id, outcome.case.title)),
        format!("  {verdict} (CSI, \"{}\")\n", outcome.case.section),
    ];
    parts.extend(outcome.findings.iter().map(finding_text));
    Some(parts.concat())
}

fn finding_text(finding: &Finding) -> String {
    let mark = match finding.level {
        Level::Must => "",
        Level::Advice => " (advice)",
    };
    let line = |word: &str, text: &str| match text {
        "" => String::new(),
        text => format!("    {word} {}\n", one_line(text)),
    };
    format!(
        "  expected{mark}: {}\n{}{}",
        one_line(&finding.expected),
        line("sent:", &finding.sent),
        line("got: ", &finding.got)
    )
}

fn summary(report: &Report) -> String {
    let Tally { passed, failed, not_run, skipped, advice } = report.tally();
    let advice = match advice {
        0 => String::new(),
        advice => format!(", {advice} with advice"),
    };
    let end = if report.interrupted { "; interrupted" } else { "" };
    format!("{passed} passed, {failed} failed, {not_run} not run, {skipped} skipped{advice}{end}\n")
}

/// Returns the report as JSON.
pub(crate) fn report_json(report: &Report) -> Value {
    let tally = report.tally();
    let leftovers = report.leftovers.iter();
    json!({
        "version": 1,
        "plugin": {
            "name": report.plugin.info.name,
            "vendor_version": report.plugin.info.vendor_version,
        },
        "interrupted": report.interrupted,
        "missing_parameters": report.missing_parameters,
        "seconds": report.elapsed.as_secs_f64(),
        "summary": {
            "passed": tally.passed,
            "failed": tally.failed,
            "not_run": tally.not_run,
            "skipped": tally.skipped,
            "advice": tally.advice,
        },
        "checks": report.outcomes.iter().map(outcome_json).collect::<Vec<_>>(),
        "leftovers": leftovers
            .map(|one| json!({"what": one.what, "why": one.why}))
            .collect::<Vec<_>>(),
    })
}

fn outcome_json(outcome: &CheckOutcome) -> Value {
    let reason = match &outcome.verdict {
        Verdict::NotRun(reason) | Verdict::Skipped(reason) => Some(reason),
        Verdict::Passed | Verdict::Failed => None,
    };
    json!({
        "id": outcome.case.id,
        "title": outcome.case.title,
        "section": outcome.case.section,
        "destructive": outcome.case.effect == Effect::Creates,
        "verdict": word(&outcome.verdict).replace(' ', "_"),
        "reason": reason,
        "seconds": outcome.elapsed.as_secs_f64(),
        "findings": outcome.findings.iter().map(finding_json).collect::<Vec<_>>(),
        "exchanges": outcome.exchanges.iter().map(exchange_json).collect::<Vec<_>>(),
    })
}

fn finding_json(finding: &Finding) -> Value {
    let level = match finding.level {
        Level::Must => "must",
        Level::Advice => "advice",
    };
    json!({
        "level": level,
        "expected": finding.expected,
        "sent": finding.sent,
        "got": finding.got,
    })
}

fn exchange_json(exchange: &Exchange) -> Value {
    json!({
        "sent": exchange.sent,
        "got": exchange.got,
        "seconds": exchange.elapsed.as_secs_f64(),
    })
}

/// Returns all checks, by area.
pub(crate) fn case_list() -> String {
    let all = cases();
    let section = |area: &Area| {
        let of_area = all.iter().filter(|case| case.area == *area);
        let rows = of_area.map(|case| {
            let effect = match case.effect {
                Effect::Reads => "reads",
                Effect::Creates => "creates",
            };
            [
                case.id.to_owned(),
                effect.to_owned(),
                format!("\"{}\"", case.section),
                case.title.to_owned(),
            ]
        });
        heading(area.about()) + &table(["Check", "Effect", "CSI", "Requirement"], rows)
    };
    let sections: Vec<String> = Area::ALL.iter().map(section).collect();
    sections.join("\n")
}
