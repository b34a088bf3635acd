//! Each rule about the provider's list, present and absent.

use super::super::finding::Severity;
use super::super::samples::{Facts, claim, findings, rules};
use super::*;
use crate::UnlistedReason;
use nomad_csi_model::{AllocId, Condition, VolumeStatus, VolumeStatusKind};

fn changed(change: impl FnOnce(&mut Facts)) -> Vec<Rule> {
    rules(&Facts::healthy().with(change))
}

#[test]
fn missing_data_is_found_only_in_a_list_that_was_read() {
    let empty = ProviderList::Listed([].into());
    assert_eq!(changed(|facts| facts.provider = empty), [Rule::DataMissing]);
    for reason in [
        UnlistedReason::NotAsked,
        UnlistedReason::Unsupported,
        UnlistedReason::Failed("timed out".into()),
    ] {
        let unknown = ProviderList::Unknown(reason);
        assert_eq!(changed(|facts| facts.provider = unknown), []);
    }
}

#[test]
fn an_abnormal_condition_is_shown() {
    let condition = |abnormal| {
        changed(|facts| {
            let message = "degraded".to_owned();
            facts.listed_mut().condition = Some(Condition { abnormal, message });
        })
    };
    assert_eq!(condition(true), [Rule::ConditionAbnormal]);
    assert_eq!(condition(false), []);
}

/// A kind of a later version of CSI is not known, so nothing follows from it.
#[test]
fn the_statuses_of_health_are_shown() {
    let status = |kind| VolumeStatus { kind, reason: "Why".to_owned(), message: "text".to_owned() };
    let found = |kinds: &[VolumeStatusKind]| {
        let facts = Facts::healthy().with(|facts| {
            let statuses = kinds.iter().map(|kind| status(*kind));
            facts.listed_mut().health = Some(statuses.collect());
        });
        findings(&facts)
    };
    assert_eq!(found(&[]), []);
    assert_eq!(found(&[VolumeStatusKind::Unknown(7)]), []);
    let lost = found(&[VolumeStatusKind::DataLoss, VolumeStatusKind::Unknown(7)]).remove(0);
    assert_eq!((lost.rule, lost.rule.severity()), (Rule::DataLost, Severity::Error));
    assert!(lost.verdict.ends_with("DATA_LOSS (Why): text"), "{}", lost.verdict);
    assert!(lost.remedies[0].to_string().contains("snapshot"));
    let inaccessible = found(&[VolumeStatusKind::Degraded, VolumeStatusKind::Inaccessible]);
    assert_eq!(inaccessible[0].rule, Rule::VolumeInaccessible);
    let degraded = found(&[VolumeStatusKind::Degraded]).remove(0);
    assert_eq!(degraded.rule, Rule::ConditionAbnormal);
    assert!(!degraded.remedies[0].to_string().contains("snapshot"));
}

#[test]
fn an_attachment_needs_a_claim_on_its_node() {
    let attached = |facts: &mut Facts, node: &str| {
        facts.listed_mut().published_nodes = vec![ExternalNodeId::new(node)];
    };
    let unclaimed = Facts::healthy().with(|facts| attached(facts, "i-2"));
    let finding = findings(&unclaimed).into_iter().next().unwrap();
    assert_eq!(finding.rule, Rule::AttachedWithoutClaim);
    assert!(finding.verdict.contains("`worker-2`"), "{}", finding.verdict);
    assert_eq!(finding.safe_fix(), None);
    let foreign = Facts::healthy().with(|facts| attached(facts, "i-9"));
    assert_eq!(rules(&foreign), [Rule::AttachedWithoutClaim]);
    let claimed = Facts::healthy().with(|facts| {
        attached(facts, "i-1");
        facts.claims = Some(vec![claim()]);
    });
    assert_eq!(rules(&claimed), []);
    let unknown_node = Facts::healthy().with(|facts| {
        attached(facts, "i-2");
        facts.volume.write_allocs.insert(AllocId::new("gone"));
    });
    assert_eq!(rules(&unknown_node), [Rule::ClaimWithoutAllocation]);
}

/// Two registrations of one volume: what the other one claims explains an attachment, and both are never written.
#[test]
fn another_registration_of_the_data_claims_it_too() {
    use nomad_csi_model::{
        AccessMode, AttachmentMode, Capability, ClientStatus, DesiredStatus, VolumeId,
    };
    let other = |is_written: bool, mode| {
        let mut volume = Facts::healthy().volume;
        volume.id = VolumeId::new("db-copy");
        volume.access_mode = Some(mode);
        let alloc = nomad_csi_testing::alloc_samples::alloc(
            "b1",
            "n2",
            DesiredStatus::Run,
            ClientStatus::Running,
        );
        let claims = match is_written {
            true => &mut volume.write_allocs,
            false => &mut volume.read_allocs,
        };
        claims.insert(alloc.id.clone());
        volume.allocs.push(alloc);
        volume
    };
    let attached = |sharing: Option<Vec<Volume>>| {
        Facts::healthy().with(|facts| {
            facts.listed_mut().published_nodes = vec![ExternalNodeId::new("i-2")];
            facts.sharing = sharing;
        })
    };
    let one = AccessMode::SingleNodeWriter;
    let registered_twice = [Rule::RegisteredTwice];
    assert_eq!(rules(&attached(Some(vec![other(true, one)]))), registered_twice);
    assert_eq!(rules(&attached(Some(vec![]))), [Rule::AttachedWithoutClaim]);
    let unread = findings(&attached(None)).remove(0);
    assert!(!unread.remedies[0].action.contains("at the provider"));

    let written = |sharing: Vec<Volume>| {
        let facts = Facts::healthy().claimed(DesiredStatus::Run, ClientStatus::Running);
        rules(&facts.with(|facts| {
            facts.volume.access_mode = Some(AccessMode::MultiNodeMultiWriter);
            facts.sharing = Some(sharing);
        }))
    };
    let many = AccessMode::MultiNodeMultiWriter;
    assert_eq!(written(vec![other(true, one)]), [Rule::WrittenTwice]);
    assert_eq!(written(vec![other(false, one)]), registered_twice);
    assert_eq!(written(vec![other(true, many)]), registered_twice);
    assert_eq!(written(vec![]), []);

    // Data that many may write is registered twice with reason, if both registrations say so.
    let capable = |own: &[AccessMode], theirs: &[AccessMode]| {
        let capabilities = |modes: &[AccessMode]| {
            let attachment_mode = AttachmentMode::FileSystem;
            let modes = modes.iter();
            modes.map(|mode| Capability { access_mode: *mode, attachment_mode }).collect()
        };
        rules(&Facts::healthy().with(|facts| {
            facts.volume.capabilities = capabilities(own);
            let mut other = other(false, many);
            other.capabilities = capabilities(theirs);
            facts.sharing = Some(vec![other]);
        }))
    };
    let reader = AccessMode::MultiNodeReaderOnly;
    assert_eq!(capable(&[many], &[many, reader]), []);
    for (own, theirs) in [(&[many][..], &[many, one][..]), (&[one], &[many]), (&[], &[many])] {
        assert_eq!(capable(own, theirs), registered_twice, "{own:?} {theirs:?}");
    }
}
