//! What holds for every call, looked at once all others were made: refusals say why and nothing
//! else (CSI section "Error Scheme"), and no secret is in the plugin's log (section "Secrets
//! Requirements").

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::conformance::report::{Finding, Level};
use crate::conformance::show;

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Manners,
        "manners/refusals",
        "Every refusal says why, in words, without details and without a secret",
        "Error Scheme",
        &[],
        Reads,
        refusals
    ),
    case!(
        Manners,
        "manners/log",
        "No secret is in what the plugin logged during the checks",
        "Secrets Requirements",
        &[Need::Log, Need::Secrets],
        Reads,
        log
    ),
];
/// More of a log is not looked at.
const MOST_LOG: u64 = 64 << 20;

async fn refusals(check: &mut Check<'_>) -> Ended {
    let bad = std::mem::take(&mut check.session.bad_refusals);
    let rule =
        "a refusal has a message that a person can read, without details and without secrets";
    for (exchange, wrong) in bad.into_iter().take(20) {
        check.findings.push(Finding {
            level: Level::Must,
            expected: rule.to_owned(),
            got: format!("{} ({wrong})", exchange.got),
            sent: exchange.sent,
        });
    }
    Ok(())
}

async fn log(check: &mut Check<'_>) -> Ended {
    let Some(path) = check.setup().log.clone() else {
        return Ok(());
    };
    let start = check.session.log_start;
    let read = check.session.workload.tail(&path, start, MOST_LOG).await;
    let (bytes, _) = read.map_err(|error| {
        Stop::Untried(format!(
            "the log {} cannot be read: {error}",
            path.display()
        ))
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let secrets = &check.setup().secrets;
    let lines: Vec<String> = text
        .lines()
        .filter(|line| show::holds_secret(line, secrets))
        .map(|line| show::without_secrets(line, secrets))
        .collect();
    if let Some(first) = lines.first() {
        let rule = "no secret is logged, at any level";
        let shown: String = first.chars().take(300).collect();
        let got = format!("{} lines with one, the first: {shown}", lines.len());
        check.findings.push(Finding {
            level: Level::Must,
            expected: rule.to_owned(),
            got,
            sent: String::new(),
        });
    }
    Ok(())
}
