//! Each rule about the provider's list, present and absent.

use super::super::samples::{Facts, claim, findings, rules};
use super::*;
use crate::model::{AllocId, Condition};
use crate::plan::UnlistedReason;

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

#[test]
fn an_attachment_needs_a_claim_on_its_node() {
    let attached = |facts: &mut Facts, node: &str| {
        facts.listed_mut().published_nodes = vec![ExternalNodeId::new(node)];
    };
    let unclaimed = Facts::healthy().with(|facts| attached(facts, "i-2"));
    let finding = findings(&unclaimed).into_iter().next().unwrap();
    assert_eq!(finding.rule, Rule::AttachedWithoutClaim);
    assert!(
        finding.verdict.contains("`worker-2`"),
        "{}",
        finding.verdict
    );
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
