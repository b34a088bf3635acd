//! Checks of rules for every call, which run last: an error has a message and nothing else (CSI
//! section "Error Scheme"), and the plugin's log has no secret (section "Secrets Requirements").

use crate::case::{Area, Case, CheckResult, Effect, Need, case};
use crate::check::{Check, StopReason};
use crate::finding::{Finding, Level};
use crate::message_text;

pub(crate) const CASES: &[Case] = &[
    case!(
        EveryCall,
        "manners/refusals",
        "Every error has a readable message, no details and no secret",
        "Error Scheme",
        &[],
        Reads,
        refusals
    ),
    case!(
        EveryCall,
        "manners/log",
        "The plugin's log of the checks contains no secret",
        "Secrets Requirements",
        &[Need::Log, Need::Secrets],
        Reads,
        log
    ),
];
/// The check reads at most this many bytes of the log.
const MAX_LOG_BYTES: u64 = 64 << 20;

async fn refusals(check: &mut Check<'_>) -> CheckResult {
    let bad = std::mem::take(&mut check.session.invalid_errors);
    let rule = "an error has a readable message, no details and no secret";
    for (exchange, violation) in bad.into_iter().take(20) {
        check.findings.push(Finding {
            level: Level::Must,
            expected: rule.to_owned(),
            got: format!("{} ({violation})", exchange.got),
            sent: exchange.sent,
        });
    }
    Ok(())
}

async fn log(check: &mut Check<'_>) -> CheckResult {
    let Some(path) = check.options().log.clone() else {
        return Ok(());
    };
    let start = check.session.log_start;
    let read = check.session.files.tail(&path, start, MAX_LOG_BYTES).await;
    let (bytes, _) = read.map_err(|error| {
        StopReason::NotRun(format!("cannot read the log `{}`: {error}", path.display()))
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let secrets = &check.options().secrets;
    let lines: Vec<String> = text
        .lines()
        .filter(|line| message_text::contains_secret(line, secrets))
        .map(|line| message_text::redact_secrets(line, secrets))
        .collect();
    if let Some(first) = lines.first() {
        let rule = "the plugin logs no secret, at any log level";
        let shown: String = first.chars().take(300).collect();
        let got = format!("log lines with a secret: {}; the first: {shown}", lines.len());
        check.findings.push(Finding {
            level: Level::Must,
            expected: rule.to_owned(),
            got,
            sent: String::new(),
        });
    }
    Ok(())
}
