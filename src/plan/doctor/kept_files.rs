//! Findings about files that were written beside a volume: to its mount point, while nothing was mounted there.
//!
//! The agent keeps them. Whether they belong into the volume is for a person to decide.

use super::facts::VolumeFacts;
use super::finding::{Confidence, Evidence, FactSource, Finding, Rule};
use super::remedies::act;
use nomad_csi_model::{KeptFiles, one_line};

/// Returns a finding for each directory of such files.
pub(super) fn kept_files(facts: &VolumeFacts<'_>) -> Vec<Finding> {
    let kept = facts.volume.kept_files.iter();
    kept.map(|kept| finding(facts, kept)).collect()
}

fn finding(facts: &VolumeFacts<'_>, kept: &KeptFiles) -> Finding {
    let (node, path) = (facts.node_name(&kept.node), one_line(&kept.path));
    let evidence =
        Evidence::new(FactSource::Volume, format!("node `{node}` keeps them in `{path}`"));
    let remedy = act(format!(
        "look at `{path}` on node `{node}`, copy what belongs into the volume, and remove the directory"
    ));
    Finding {
        rule: Rule::FilesBeside,
        verdict: format!(
            "files were written on node `{node}` while the volume was not mounted there; they are not in the volume"
        ),
        confidence: Confidence::Known,
        evidence: vec![evidence],
        remedies: vec![remedy],
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Facts, findings};
    use super::*;

    #[test]
    fn kept_files_are_a_finding_with_their_directory() {
        let healthy = Facts::healthy();
        assert_eq!(findings(&healthy), vec![]);
        let found = findings(&healthy.with(|facts| {
            facts.volume.kept_files = vec![KeptFiles {
                node: "n1".into(),
                path: "/data/mounts/p/.kept/v/staging/1".to_owned(),
            }];
        }));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].rule, Rule::FilesBeside);
        let action = &found[0].remedies[0].action;
        let expected = "`/data/mounts/p/.kept/v/staging/1` on node `worker-1`";
        assert!(action.contains(expected), "{action}");
    }
}
