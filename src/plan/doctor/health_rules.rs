//! Findings from what plugins report of the health of a volume and of its storage.
//!
//! A node knows what no controller can: that a mount or a device is gone, that a file system became read-only or is full.
//! Each node that reports something has a finding of its own. What the controller reports is in the provider's list, and
//! counts here only where that list says nothing about the volume.

use std::collections::BTreeSet;

use super::facts::VolumeFacts;
use super::finding::{Confidence, Evidence, FactSource, Finding, Rule};
use super::remedies::act;
use crate::ProviderList;
use nomad_csi_model::{
    NodeId, StorageStatus, StorageStatusKind, VolumeStatus, VolumeStatusKind, one_line,
};

/// Who reports a condition, in the words of a finding.
pub(super) struct Reporter {
    /// The subject: `the provider`.
    name: String,
    source: FactSource,
    data_lost: String,
    inaccessible: String,
    otherwise: String,
}

impl Reporter {
    /// Returns the provider, which knows nothing of a single node.
    pub(super) fn provider() -> Self {
        Self {
            name: "the provider".to_owned(),
            source: FactSource::Provider,
            data_lost: "restore the volume from a snapshot or a backup".to_owned(),
            inaccessible: "make the volume accessible again at the provider".to_owned(),
            otherwise: "correct what the provider reports".to_owned(),
        }
    }

    fn node(facts: &VolumeFacts<'_>, node: &NodeId) -> Self {
        let name = format!("node `{}`", facts.node_name(node));
        Self {
            source: FactSource::Health,
            data_lost: "stop the allocations that use the volume, and restore it from a snapshot or a backup"
                .to_owned(),
            inaccessible: format!(
                "correct on {name} what it reports, then restart the allocations that use the volume there"
            ),
            otherwise: format!("correct on {name} what it reports"),
            name,
        }
    }
}

/// Returns the finding about conditions of a volume; `None` if none is known.
pub(super) fn condition(statuses: &[&VolumeStatus], reporter: &Reporter) -> Option<Finding> {
    let known: Vec<String> = statuses
        .iter()
        .filter(|status| status.is_known())
        .map(|status| match status.kind {
            VolumeStatusKind::Abnormal => one_line(&status.message),
            VolumeStatusKind::Degraded
            | VolumeStatusKind::Inaccessible
            | VolumeStatusKind::DataLoss
            | VolumeStatusKind::Unknown(_) => one_line(&status.to_string()),
        })
        .collect();
    if known.is_empty() {
        return None;
    }
    let has = |kind| statuses.iter().any(|status| status.kind == kind);
    let (rule, remedy) = if has(VolumeStatusKind::DataLoss) {
        (Rule::DataLost, &reporter.data_lost)
    } else if has(VolumeStatusKind::Inaccessible) {
        (Rule::VolumeInaccessible, &reporter.inaccessible)
    } else {
        (Rule::ConditionAbnormal, &reporter.otherwise)
    };
    let (name, message) = (&reporter.name, known.join("; "));
    Some(Finding {
        rule,
        verdict: format!("{name} reports a problem of the volume: {message}"),
        confidence: Confidence::Known,
        evidence: vec![Evidence::new(reporter.source, format!("{name} reports: {message}"))],
        remedies: vec![act(remedy.clone())],
    })
}

/// Returns what the controller and the nodes report against the volume.
pub(super) fn health_findings(facts: &VolumeFacts<'_>) -> Vec<Finding> {
    let mut findings = storage_findings(facts);
    let Some(health) = facts.health else {
        return findings;
    };
    let reporters: BTreeSet<Option<&NodeId>> =
        health.statuses.iter().map(|(node, _)| node.as_ref()).collect();
    for reporter in reporters {
        let statuses = health.statuses.iter();
        let statuses = statuses.filter(|(node, _)| node.as_ref() == reporter);
        let statuses: Vec<_> = statuses.map(|(_, status)| status).collect();
        findings.extend(match reporter {
            Some(node) => condition(&statuses, &Reporter::node(facts, node)),
            None if is_listed(facts) => None,
            None => condition(&statuses, &Reporter::provider()),
        });
    }
    findings
}

/// Returns whether the provider's list has the volume, with what the controller reports.
fn is_listed(facts: &VolumeFacts<'_>) -> bool {
    match facts.provider {
        ProviderList::Listed(volumes) => {
            volumes.get(&facts.volume.remote_id()).is_some_and(|listed| listed.statuses().is_some())
        }
        ProviderList::Unknown(_) => false,
    }
}

/// Returns what the nodes that use the volume report of the storage behind its plugin.
fn storage_findings(facts: &VolumeFacts<'_>) -> Vec<Finding> {
    let claimed = facts.claims.into_iter().flatten().map(|claim| &claim.node);
    let allocated = facts.volume.allocs.iter().map(|alloc| &alloc.node_id);
    let nodes: BTreeSet<&NodeId> = claimed.chain(allocated).collect();
    let findings = nodes.into_iter().filter_map(|node| {
        let info = facts.node_instance(node)?.node.as_ref()?;
        let concerns = info.storage.iter().filter(|status| concerns(facts, status));
        storage_finding(facts, node, &concerns.collect::<Vec<_>>())
    });
    findings.collect()
}

fn concerns(facts: &VolumeFacts<'_>, status: &StorageStatus) -> bool {
    let is_known = !matches!(status.kind, StorageStatusKind::Unknown(_));
    let used = facts.volume.attachment_mode;
    let modes = facts.volume.capabilities.iter();
    let mut modes = modes.map(|capability| capability.attachment_mode);
    is_known
        && status.attachment_mode.is_none_or(|affected| match used {
            Some(used) => used == affected,
            None => modes.any(|mode| mode == affected),
        })
}

fn storage_finding(
    facts: &VolumeFacts<'_>,
    node: &NodeId,
    statuses: &[&StorageStatus],
) -> Option<Finding> {
    let texts: Vec<String> = statuses
        .iter()
        .map(|status| {
            let reason = match status.reason.as_str() {
                "" => String::new(),
                reason => format!(" ({reason})"),
            };
            let message = match status.message.as_str() {
                "" => String::new(),
                message => format!(": {message}"),
            };
            one_line(&format!("{}{reason}{message}", status.kind))
        })
        .collect();
    if texts.is_empty() {
        return None;
    }
    let is_unreachable = |status: &&StorageStatus| status.kind == StorageStatusKind::Unreachable;
    let rule = match statuses.iter().any(is_unreachable) {
        true => Rule::VolumeInaccessible,
        false => Rule::ConditionAbnormal,
    };
    let (name, message) = (facts.node_name(node), texts.join("; "));
    Some(Finding {
        rule,
        verdict: format!("node `{name}` reports a problem of the storage of the volume: {message}"),
        confidence: Confidence::Known,
        evidence: vec![Evidence::new(
            FactSource::Health,
            format!("node `{name}` reports: {message}"),
        )],
        remedies: vec![act(format!(
            "correct on node `{name}`, or at the provider, what it reports"
        ))],
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::super::samples::{Facts, findings, rules};
    use super::*;
    use crate::UnlistedReason;
    use nomad_csi_model::{AttachmentMode, ClientStatus, DesiredStatus, VolumeHealth};

    fn status(kind: VolumeStatusKind) -> VolumeStatus {
        VolumeStatus { kind, reason: "Why".to_owned(), message: "text\u{1b}[2J".to_owned() }
    }

    fn reported(by: Option<&str>, kinds: &[VolumeStatusKind]) -> Facts {
        let statuses = kinds.iter().map(|kind| (by.map(NodeId::new), status(*kind)));
        let health = VolumeHealth {
            statuses: statuses.collect(),
            unknown: vec!["node `n2` did not answer".to_owned()],
        };
        Facts::healthy().with(|facts| facts.health = Some(health))
    }

    #[test]
    fn each_condition_that_a_node_reports_is_found() {
        use VolumeStatusKind::{Abnormal, DataLoss, Degraded, Inaccessible, Unknown};
        for (kinds, expected) in [
            (&[Inaccessible][..], Some((Rule::VolumeInaccessible, Severity::Error))),
            (&[Degraded, Inaccessible], Some((Rule::VolumeInaccessible, Severity::Error))),
            (&[DataLoss, Inaccessible], Some((Rule::DataLost, Severity::Error))),
            (&[Degraded], Some((Rule::ConditionAbnormal, Severity::Warning))),
            (&[Abnormal], Some((Rule::ConditionAbnormal, Severity::Warning))),
            (&[Unknown(7)], None),
            (&[], None),
        ] {
            let found = findings(&reported(Some("n1"), kinds));
            let found: Vec<_> = found.iter().map(|it| (it.rule, it.rule.severity())).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{kinds:?}");
        }
        let found = findings(&reported(Some("n1"), &[Inaccessible])).remove(0);
        let verdict = "node `worker-1` reports a problem of the volume: INACCESSIBLE (Why): text";
        assert!(found.verdict.starts_with(verdict), "{}", found.verdict);
        assert!(!found.verdict.contains('\u{1b}'), "{}", found.verdict);
    }

    #[test]
    fn every_node_that_reports_has_a_finding() {
        let facts = reported(Some("n1"), &[VolumeStatusKind::Degraded]).with(|facts| {
            let health = facts.health.as_mut().unwrap();
            let other = Some(NodeId::new("n2"));
            health.statuses.push((other, status(VolumeStatusKind::Inaccessible)));
        });
        assert_eq!(rules(&facts), [Rule::VolumeInaccessible, Rule::ConditionAbnormal]);
    }

    /// The provider's list has it already.
    #[test]
    fn what_the_controller_reports_is_found_once() {
        let inaccessible = [VolumeStatusKind::Inaccessible];
        let twice = reported(None, &inaccessible).with(|facts| {
            facts.listed_mut().health = Some(inaccessible.map(status).into());
        });
        assert_eq!(rules(&twice), [Rule::VolumeInaccessible]);
        let unasked = reported(None, &inaccessible).with(|facts| {
            facts.provider = ProviderList::Unknown(UnlistedReason::NotAsked);
        });
        assert_eq!(rules(&unasked), [Rule::VolumeInaccessible]);
    }

    #[test]
    fn the_storage_of_a_node_that_uses_the_volume_is_found() {
        let storage = |kind, attachment_mode| StorageStatus {
            kind,
            reason: "NoPath".to_owned(),
            message: String::new(),
            attachment_mode,
        };
        let facts = |status: StorageStatus| {
            let used = Facts::healthy().claimed(DesiredStatus::Run, ClientStatus::Running);
            used.with(|facts| {
                facts.volume.attachment_mode = Some(AttachmentMode::FileSystem);
                let instance = facts.plugin_mut().nodes.get_mut(&NodeId::new("n1")).unwrap();
                instance.node.as_mut().unwrap().storage = vec![status];
            })
        };
        for (kind, affected, expected) in [
            (StorageStatusKind::Unreachable, None, &[Rule::VolumeInaccessible][..]),
            (StorageStatusKind::Degraded, None, &[Rule::ConditionAbnormal]),
            (StorageStatusKind::Unknown(7), None, &[]),
            (
                StorageStatusKind::Unreachable,
                Some(AttachmentMode::FileSystem),
                &[Rule::VolumeInaccessible],
            ),
            (StorageStatusKind::Unreachable, Some(AttachmentMode::BlockDevice), &[]),
        ] {
            let found = rules(&facts(storage(kind, affected)));
            assert_eq!(found, expected, "{kind:?} {affected:?}");
        }
        let unused = facts(storage(StorageStatusKind::Unreachable, None)).with(|facts| {
            facts.volume.allocs.clear();
            facts.volume.write_allocs.clear();
        });
        assert_eq!(rules(&unused), []);
    }
}
