//! Deny rules: `--deny` forbids a kind of change without a policy engine.
//!
//! A denied change becomes a blocked entry. The plan shows, counts and refuses it like every other
//! blocked entry, and no approval overrides it.

use super::action::{Action, PlannedVolume, ReplaceSteps};
use nomad_csi_model::SecretRef;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// A deny rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DenyRule {
    /// Forbids deleting data, also in a replacement.
    DeleteData,
    /// Forbids deregistering, also in a replacement.
    Deregister,
    /// Forbids replacing.
    Replace,
    /// Forbids expanding, which cannot be undone.
    Expand,
    /// Forbids updates that clear hidden values or may clear them.
    LostValues,
    /// Forbids literal secrets in files.
    LiteralSecrets,
    /// Forbids values for variables that no file declares. The files are refused, not a change.
    UndeclaredVariables,
}

impl DenyRule {
    /// All rules.
    pub const ALL: [Self; 7] = [
        Self::DeleteData,
        Self::Deregister,
        Self::Replace,
        Self::Expand,
        Self::LostValues,
        Self::LiteralSecrets,
        Self::UndeclaredVariables,
    ];

    /// Its name on the command line: `delete-data`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeleteData => "delete-data",
            Self::Deregister => "deregister",
            Self::Replace => "replace",
            Self::Expand => "expand",
            Self::LostValues => "lost-values",
            Self::LiteralSecrets => "literal-secrets",
            Self::UndeclaredVariables => "undeclared-variables",
        }
    }

    /// Describes the denied change after a colon.
    const fn reason(self) -> &'static str {
        match self {
            Self::DeleteData => "the change would delete data",
            Self::Deregister => "the change would remove its registration",
            Self::Replace => "the change would replace it",
            Self::Expand => "the change would expand it",
            Self::LostValues => "the update may clear values that the server hides",
            Self::LiteralSecrets => "the file contains a literal secret",
            Self::UndeclaredVariables => "no file declares a variable that has a value",
        }
    }

    fn denies(self, planned: &PlannedVolume) -> bool {
        let steps = match &planned.action {
            Action::Replace(replace) => Some(replace.steps),
            Action::Unchanged
            | Action::Create(_)
            | Action::Register(_)
            | Action::RegisterAgain(_)
            | Action::Recreate(_)
            | Action::Update(_)
            | Action::Expand(_)
            | Action::Deregister
            | Action::DeleteData
            | Action::WaitingForClaims(_)
            | Action::Blocked(_) => None,
        };
        match self {
            Self::DeleteData => {
                planned.action == Action::DeleteData
                    || steps == Some(ReplaceSteps::DeleteThenCreate)
            }
            Self::Deregister => {
                planned.action == Action::Deregister
                    || steps == Some(ReplaceSteps::DeregisterThenRegister)
                    || replaces_registration(&planned.action)
            }
            Self::Replace => steps.is_some() || matches!(planned.action, Action::Recreate(_)),
            Self::Expand => matches!(planned.action, Action::Expand(_)),
            Self::LostValues => clears_values(planned),
            Self::LiteralSecrets => has_literal_secrets(planned),
            // Without its files, there is no plan.
            Self::UndeclaredVariables => false,
        }
    }
}

fn replaces_registration(action: &Action) -> bool {
    matches!(action, Action::RegisterAgain(again) if again.replaces.is_some())
}

fn clears_values(planned: &PlannedVolume) -> bool {
    let mut warnings = planned.warnings.iter();
    let warned = warnings.any(|warning| warning.code == Code::PlanErasesSecrets);
    warned
        || matches!(
            &planned.action,
            Action::Update(update) | Action::Expand(update) if !update.cleared_fields.is_empty()
        )
}

fn has_literal_secrets(planned: &PlannedVolume) -> bool {
    let is_literal = |secret: &SecretRef| secret.literal().is_some();
    planned
        .spec
        .as_ref()
        .and_then(|spec| spec.request.secrets.as_ref())
        .is_some_and(|secrets| secrets.iter().any(|(_, secret)| is_literal(secret)))
}

/// Blocks an entry that at least one rule denies.
pub(super) fn deny(planned: &mut PlannedVolume, rules: impl Iterator<Item = DenyRule>) {
    let denied: Vec<_> =
        rules.filter(|rule| rule.denies(planned)).map(|rule| denial(planned, rule)).collect();
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
                deny(&mut planned, [rule].into_iter());
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
