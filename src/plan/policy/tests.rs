use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;
use crate::action::{Action, Plan, PlannedVolume, Replace, ReplaceSteps};
use crate::approval::Approvals;
use crate::denials::deny;
use crate::inputs::PlanOptions;
use crate::risk::{Impact, Recovery};
use crate::samples::{desired, existing};
use crate::volume_version::VolumeVersion;

fn rules() -> impl Strategy<Value = BTreeSet<DenyRule>> {
    subsequence(DenyRule::ALL.to_vec(), 0..=DenyRule::ALL.len())
        .prop_map(|rules| rules.into_iter().collect())
}

fn risk() -> impl Strategy<Value = Option<Risk>> {
    prop::option::of(select(Risk::ALL.to_vec()))
}

fn policy() -> impl Strategy<Value = Policy> {
    let file = prop::sample::select(vec!["ci.policy.toml", "team.toml"]);
    (file, rules(), risk()).prop_map(|(file, deny, max_risk)| Policy {
        file: file.to_owned(),
        deny,
        max_risk,
    })
}

/// A change of each kind that some rule denies, and of some that none does. The risk is drawn too, so every pair is met.
fn change() -> impl Strategy<Value = PlannedVolume> {
    let replace = |steps| {
        Action::Replace(Box::new(Replace { snapshot_first: false, steps, request: desired() }))
    };
    let actions = vec![
        Action::Create(Box::new(desired())),
        Action::Register(Box::new(desired())),
        Action::Deregister,
        Action::DeleteData,
        replace(ReplaceSteps::DeleteThenCreate),
        replace(ReplaceSteps::DeregisterThenRegister),
    ];
    (select(actions), select(Risk::ALL.to_vec())).prop_map(|(action, risk)| PlannedVolume {
        key: existing().key(),
        spec: None,
        action,
        expected_version: VolumeVersion::Absent,
        impact: Some(Impact { risk, loss: None, recovery: Recovery::Impossible }),
        protection: None,
        depends_on: vec![],
        warnings: vec![],
    })
}

fn is_made(planned: &PlannedVolume, options: &PlanOptions, approvals: &Approvals) -> bool {
    let mut planned = planned.clone();
    deny(&mut planned, options);
    let is_blocked = matches!(planned.action, Action::Blocked(_));
    let plan = Plan { volumes: vec![planned], remarks: vec![], undeclared: vec![] };
    !is_blocked && approvals.missing(&plan).is_empty()
}

proptest! {
    /// The oracle asks the rules and the limits one by one, and knows nothing of plans.
    #[test]
    fn a_change_is_made_only_if_every_policy_and_the_command_line_allow_it(
        planned in change(),
        typed in rules(),
        max_risk in risk(),
        approved in risk(),
        policies in prop::collection::vec(policy(), 0..4),
    ) {
        let risk = planned.impact.as_ref().map(|impact| impact.risk);
        let approved = approved.map(|risk| (risk, existing().key()));
        let approvals = Approvals {
            max_risk,
            approved: approved.into_iter().collect(),
            ..Approvals::default()
        };
        let options = |policies: &[Policy]| PlanOptions {
            deny: typed.clone(),
            policies: policies.iter().cloned().collect(),
            ..PlanOptions::default()
        };
        let without = is_made(&planned, &options(&[]), &approvals);
        let all_allow = policies.iter().all(|policy| {
            !policy.deny.iter().any(|rule| rule.denies(&planned))
                && policy.max_risk.is_none_or(|limit| risk <= Some(limit))
        });
        let made = is_made(&planned, &options(&policies), &approvals);
        prop_assert_eq!(made, without && all_allow);
        // One more policy never allows more.
        for count in 0..policies.len() {
            let fewer = is_made(&planned, &options(&policies[..count]), &approvals);
            prop_assert!(fewer || !made);
        }
    }

    #[test]
    fn each_reason_of_a_policy_names_its_file_and_its_key(
        planned in change(),
        policy in policy(),
    ) {
        let file = policy.file.clone();
        let mut blocked = planned;
        let options =
            PlanOptions { policies: [policy.clone()].into_iter().collect(), ..PlanOptions::default() };
        deny(&mut blocked, &options);
        for reason in blocked.action.reasons() {
            let named = [DENY, MAX_RISK]
                .map(|key| format!("(forbidden by policy `{file}`, key `{key}`)"));
            prop_assert!(named.iter().any(|named| reason.message.ends_with(named)), "{reason:?}");
            prop_assert_eq!(reason.code, Code::PlanDenied);
        }
    }
}

#[test]
fn a_change_without_a_plan_is_denied_by_its_rule_and_its_risk() {
    let policy = |deny: &[DenyRule], max_risk| Policy {
        file: "ci.policy.toml".to_owned(),
        deny: deny.iter().copied().collect(),
        max_risk,
    };
    let count = |policy: Policy| {
        let policies: Policies = [policy].into_iter().collect();
        policies.denials("delete volume `db`", DenyRule::DeleteData, Risk::DestroysData).len()
    };
    assert_eq!(count(policy(&[], None)), 0);
    assert_eq!(count(policy(&[DenyRule::Deregister, DenyRule::LiteralSecrets], None)), 0);
    assert_eq!(count(policy(&[DenyRule::DeleteData], None)), 1);
    assert_eq!(count(policy(&[], Some(Risk::DestroysData))), 0);
    assert_eq!(count(policy(&[], Some(Risk::LosesAccess))), 1);
    assert_eq!(count(policy(&[DenyRule::DeleteData], Some(Risk::Reversible))), 2);
}
