//! Rules that a pipeline can forbid things by, without a policy engine (`users`, feature 29).
//!
//! What a rule denies becomes a blocked entry, so that it is shown, counted and refused like any
//! other; no approval lifts it.

use super::action::{Action, Planned, ReplaceSteps};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::SecretRef;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DenyRule {
    /// No data is deleted, be it by a replacement.
    DeleteData,
    /// Nothing is deregistered, be it by a replacement.
    Deregister,
    /// Nothing is replaced.
    Replace,
    /// Nothing is expanded: it cannot be undone.
    Expand,
    /// No update loses hidden values, or may do so.
    LostValues,
    /// No secret stands in a file.
    LiteralSecrets,
}

impl DenyRule {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::DeleteData,
        Self::Deregister,
        Self::Replace,
        Self::Expand,
        Self::LostValues,
        Self::LiteralSecrets,
    ];

    /// The word that people type: `delete-data`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeleteData => "delete-data",
            Self::Deregister => "deregister",
            Self::Replace => "replace",
            Self::Expand => "expand",
            Self::LostValues => "lost-values",
            Self::LiteralSecrets => "literal-secrets",
        }
    }

    /// What it forbids, to stand after "because".
    const fn reason(self) -> &'static str {
        match self {
            Self::DeleteData => "data would be deleted",
            Self::Deregister => "its registration would be removed",
            Self::Replace => "it would be replaced",
            Self::Expand => "it would be expanded",
            Self::LostValues => "the update may lose values that the server hides",
            Self::LiteralSecrets => "a secret stands in the file",
        }
    }

    fn denies(self, planned: &Planned) -> bool {
        let steps = match &planned.action {
            Action::Replace(replace) => Some(replace.steps),
            Action::Unchanged
            | Action::Create(_)
            | Action::Register(_)
            | Action::Update(_)
            | Action::Expand(_)
            | Action::Deregister
            | Action::DeleteData
            | Action::Waits(_)
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
            }
            Self::Replace => steps.is_some(),
            Self::Expand => matches!(planned.action, Action::Expand(_)),
            Self::LostValues => loses_values(planned),
            Self::LiteralSecrets => has_literal_secrets(planned),
        }
    }
}

fn loses_values(planned: &Planned) -> bool {
    let mut warnings = planned.warnings.iter();
    let warned = warnings.any(|warning| warning.code == Code::PlanErasesSecrets);
    warned
        || matches!(
            &planned.action,
            Action::Update(update) | Action::Expand(update) if !update.losses.is_empty()
        )
}

fn has_literal_secrets(planned: &Planned) -> bool {
    let is_literal = |secret: &SecretRef| secret.literal().is_some();
    planned
        .spec
        .as_ref()
        .and_then(|spec| spec.request.secrets.as_ref())
        .is_some_and(|secrets| secrets.iter().any(|(_, secret)| is_literal(secret)))
}

/// Blocks an entry that a rule denies.
pub(super) fn deny(planned: &mut Planned, rules: impl Iterator<Item = DenyRule>) {
    let denied: Vec<_> = rules
        .filter(|rule| rule.denies(planned))
        .map(|rule| denial(planned, rule))
        .collect();
    if denied.is_empty() {
        return;
    }
    planned.stakes = None;
    match &mut planned.action {
        Action::Blocked(reasons) => reasons.extend(denied),
        action => *action = Action::Blocked(denied),
    }
}

fn denial(planned: &Planned, rule: DenyRule) -> Diagnostic {
    let (key, word) = (&planned.key, rule.as_str());
    let message = format!(
        "volume {key} is left as it is by `--deny {word}`: {}",
        rule.reason()
    );
    let denial = Diagnostic::error(Code::PlanDenied, message)
        .help("change what is wanted, or leave the rule out; no approval lifts it");
    match planned.span() {
        Some(span) => denial.label(span, ""),
        None => denial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SecretRefs, Secrets};
    use crate::plan::rules::MergeRules;
    use crate::plan::samples::{against, bytes, codes, existing, wanted};

    /// Each rule denies what it names and leaves the rest alone.
    #[test]
    fn a_rule_blocks_what_it_names() {
        let mut larger = wanted();
        larger.capacity.min = bytes(1500);
        let mut literal = wanted();
        literal.secrets = Some(SecretRefs::from(&Secrets::from_iter([("key", "value")])));
        for (request, denied_by) in [
            (wanted(), vec![]),
            (larger, vec![DenyRule::Expand, DenyRule::LostValues]),
            (literal, vec![DenyRule::LiteralSecrets]),
        ] {
            for rule in DenyRule::ALL {
                let before = against(request.clone(), existing(), MergeRules::NOMAD);
                let mut planned = before.clone();
                deny(&mut planned, [rule].into_iter());
                if denied_by.contains(&rule) {
                    assert_eq!(codes(&planned), [Code::PlanDenied.as_str()], "{rule:?}");
                    assert_eq!(planned.stakes, None);
                } else {
                    assert_eq!(planned, before, "{rule:?}");
                }
            }
        }
    }

    #[test]
    fn removals_are_denied_by_what_they_do() {
        let mut planned = against(wanted(), existing(), MergeRules::NOMAD);
        for (action, denied_by) in [
            (Action::DeleteData, DenyRule::DeleteData),
            (Action::Deregister, DenyRule::Deregister),
        ] {
            planned.action = action;
            let denied: Vec<_> = DenyRule::ALL
                .into_iter()
                .filter(|rule| rule.denies(&planned))
                .collect();
            assert_eq!(denied, [denied_by]);
        }
    }
}
