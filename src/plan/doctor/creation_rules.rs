//! The rule about a creation that did not end.

use super::finding::{Confidence, Evidence, FactSource, Finding, Remedy, Rule};
use nomad_csi_model::{VolumeCreation, one_line, shell_quoted, until};

/// Explains a creation that did not end.
pub fn creation_finding(creation: &VolumeCreation, now: i64) -> Finding {
    let plugin = one_line(creation.plugin_id.as_str());
    let because = match &creation.problem {
        Some(problem) => format!(": {}", one_line(problem)),
        None => String::new(),
    };
    let mut evidence = vec![Evidence::new(
        FactSource::Volume,
        format!(
            "the provider has the volume under the name `{}`, or not at all",
            one_line(&creation.provider_name)
        ),
    )];
    if creation.requests > 1 {
        evidence.push(Evidence::new(
            FactSource::Volume,
            format!("it was requested in {} ways, and each may have created it", creation.requests),
        ));
    }
    evidence.push(Evidence::new(
        FactSource::Volume,
        match creation.next_attempt {
            Some(next) => format!("the agent continues it {}", until(next, now)),
            None => "the agent continues it when the plugin changes".to_owned(),
        },
    ));
    let status = format!("nomad-csi plugin status {}", shell_quoted(creation.plugin_id.as_str()));
    let abandon = format!("nomad-csi volume abandon {}", creation.volume.command_words());
    Finding {
        rule: Rule::CreationPending,
        verdict: format!("plugin `{plugin}` has not answered the creation of the volume{because}"),
        confidence: Confidence::Known,
        evidence,
        remedies: vec![
            Remedy {
                action: "check the plugin; the agent continues the creation when it answers"
                    .to_owned(),
                command: Some(status),
                fix: None,
            },
            Remedy {
                action: "give the creation up, and look for the name at the provider".to_owned(),
                command: Some(abandon),
                fix: None,
            },
        ],
    }
}
