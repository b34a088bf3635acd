//! Blocks the changes that `--deny` or a policy forbids, without a policy engine.
//!
//! A denied change becomes a blocked entry. The plan shows, counts and refuses it like every other
//! blocked entry, and no approval overrides it.

use super::action::{Action, PlannedVolume};
use super::deny::DenyRule;
use super::inputs::PlanOptions;
use super::policy;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// Blocks an entry that `--deny` or a policy forbids. The risk of the entry must be known.
pub(super) fn deny(planned: &mut PlannedVolume, options: &PlanOptions) {
    let denied = options.deny.iter().filter(|rule| rule.denies(planned));
    let mut denied: Vec<_> = denied.map(|rule| denial(planned, *rule)).collect();
    let risk = planned.impact.as_ref().map(|impact| impact.risk);
    let reasons = options.policies.reasons(|rule| rule.denies(planned), risk);
    denied.extend(reasons.map(|reason| {
        let message = format!("cannot change volume {}: {reason}", planned.key.quoted());
        at_place(planned, policy::denial(message))
    }));
    if denied.is_empty() {
        return;
    }
    let reasons = match &planned.action {
        Action::Blocked(reasons) => [reasons.clone(), denied].concat(),
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::RegisterAgain(_)
        | Action::Recreate(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Replace(_)
        | Action::Deregister
        | Action::DeleteData
        | Action::WaitingForClaims(_) => denied,
    };
    planned.block(reasons);
}

fn denial(planned: &PlannedVolume, rule: DenyRule) -> Diagnostic {
    let message = format!(
        "`--deny {}` forbids the change of volume {}: {}",
        rule.as_str(),
        planned.key.quoted(),
        rule.reason()
    );
    let denial = Diagnostic::error(Code::PlanDenied, message)
        .help("change the specification or remove the rule; no approval overrides it");
    at_place(planned, denial)
}

fn at_place(planned: &PlannedVolume, denial: Diagnostic) -> Diagnostic {
    match planned.span() {
        Some(span) => denial.label(span, ""),
        None => denial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::MergeRules;
    use crate::samples::{against, bytes, codes, desired, existing};
    use nomad_csi_model::{SecretRefs, Secrets};

    #[test]
    fn a_rule_blocks_only_the_change_it_names() {
        let mut larger = desired();
        larger.capacity.min = bytes(1500);
        let mut literal = desired();
        literal.secrets = Some(SecretRefs::from(&Secrets::from_iter([("key", "value")])));
        for (request, denied_by) in [
            (desired(), vec![]),
            (larger, vec![DenyRule::Expand, DenyRule::LostValues]),
            (literal, vec![DenyRule::LiteralSecrets]),
        ] {
            for rule in DenyRule::ALL {
                let before = against(request.clone(), existing(), MergeRules::NOMAD);
                let mut planned = before.clone();
                let options = PlanOptions { deny: [rule].into(), ..PlanOptions::default() };
                deny(&mut planned, &options);
                if denied_by.contains(&rule) {
                    assert_eq!(codes(&planned), [Code::PlanDenied.as_str()], "{rule:?}");
                    assert_eq!(planned.impact, None);
                } else {
                    assert_eq!(planned, before, "{rule:?}");
                }
            }
        }
    }

    #[test]
    fn removals_are_denied_by_their_effect() {
        let mut planned = against(desired(), existing(), MergeRules::NOMAD);
        for (action, denied_by) in
            [(Action::DeleteData, DenyRule::DeleteData), (Action::Deregister, DenyRule::Deregister)]
        {
            planned.action = action;
            let denied: Vec<_> =
                DenyRule::ALL.into_iter().filter(|rule| rule.denies(&planned)).collect();
            assert_eq!(denied, [denied_by]);
        }
    }
}
