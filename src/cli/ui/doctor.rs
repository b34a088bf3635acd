//! Prints what is wrong with volumes as text and as JSON.

use serde_json::{Value, json};

use super::plan::{RED, YELLOW};
use super::printer::one_line;
use nomad_csi_client::reconcile::workflow::{DoctorReport, VolumeDiagnosis};
use nomad_csi_plan::doctor::{Confidence, Finding, Severity};

/// The version of the JSON format.
const FORMAT_VERSION: u32 = 1;

/// Returns the report as text: a summary, the findings of each volume, and what could not be read.
pub(crate) fn doctor_text(report: &DoctorReport, server: &str) -> String {
    let mut text = format!("Diagnosis of {}: {}.\n", one_line(server), summary(report));
    for volume in &report.volumes {
        for finding in &volume.findings {
            text.push_str(&finding_text(volume, finding));
        }
    }
    if !report.unread.is_empty() {
        text.push_str("\nNot read, so not diagnosed:\n");
        let unread = report.unread.iter();
        text.extend(unread.map(|what| format!("    {}\n", one_line(what))));
    }
    text
}

fn summary(report: &DoctorReport) -> String {
    let healthy = report.volumes.iter().filter(|one| one.findings.is_empty());
    let healthy = healthy.count();
    let ill = report.volumes.len() - healthy;
    let volumes = |count: usize| match count {
        1 => "1 volume".to_owned(),
        count => format!("{count} volumes"),
    };
    match (ill, healthy) {
        (0, 0) => "no volumes".to_owned(),
        (0, healthy) => format!("{} without findings", volumes(healthy)),
        (ill, 0) => format!("{} with findings", volumes(ill)),
        (ill, healthy) => format!("{} with findings, {healthy} without", volumes(ill)),
    }
}

fn finding_text(volume: &VolumeDiagnosis, finding: &Finding) -> String {
    let severity = finding.rule.severity();
    let style = match severity {
        Severity::Error => RED,
        Severity::Warning => YELLOW,
    };
    let inferred = match finding.confidence {
        Confidence::Known => "",
        Confidence::Inferred => ", inferred",
    };
    let key = one_line(&volume.volume.to_string());
    let head = format!(
        "\n{style}{} {key}{style:#} ({}{inferred})\n    {}\n",
        severity.as_str(),
        finding.rule.as_str(),
        one_line(&finding.verdict)
    );
    let evidence = finding.evidence.iter().map(|evidence| {
        let fact = one_line(&evidence.fact);
        format!("      - {fact} [{}]\n", evidence.source.as_str())
    });
    let remedies = finding.remedies.iter().enumerate();
    let remedies = remedies.map(|(position, remedy)| {
        let action = one_line(&remedy.action);
        let command = remedy.command.as_deref().map(one_line);
        let command = command.map_or_else(String::new, |line| format!("         {line}\n"));
        format!("      {}. {action}\n{command}", position + 1)
    });
    let evidence: String = evidence.collect();
    let remedies: String = remedies.collect();
    format!("{head}    Evidence:\n{evidence}    Remedies:\n{remedies}")
}

/// Returns the report as JSON.
pub(crate) fn doctor_json(report: &DoctorReport, server: &str) -> Value {
    let volumes: Vec<Value> = report.volumes.iter().map(volume_json).collect();
    json!({
        "format_version": FORMAT_VERSION,
        "server": server,
        "unread": report.unread,
        "volumes": volumes,
    })
}

fn volume_json(volume: &VolumeDiagnosis) -> Value {
    let findings: Vec<Value> = volume.findings.iter().map(finding_json).collect();
    json!({
        "findings": findings,
        "id": volume.volume.id.as_str(),
        "namespace": volume.volume.namespace.as_str(),
    })
}

fn finding_json(finding: &Finding) -> Value {
    let evidence = finding.evidence.iter();
    let evidence: Vec<Value> =
        evidence.map(|one| json!({"fact": one.fact, "source": one.source.as_str()})).collect();
    let remedies = finding.remedies.iter();
    let remedies: Vec<Value> = remedies
        .map(|one| {
            json!({
                "action": one.action,
                "command": one.command,
                "safe": one.fix.is_some(),
            })
        })
        .collect();
    json!({
        "confidence": finding.confidence.as_str(),
        "evidence": evidence,
        "remedies": remedies,
        "rule": finding.rule.as_str(),
        "severity": finding.rule.severity().as_str(),
        "verdict": finding.verdict,
    })
}
