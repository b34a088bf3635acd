//! Deny rules: each forbids a kind of change. `--deny` and policies name them.

use super::action::{Action, PlannedVolume, ReplaceSteps};
use nomad_csi_model::SecretRef;
use nomad_csi_model::diagnostic::Code;

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
    /// Forbids plugins that no file of `--plugins` is of. The files are refused, not a change.
    UnknownPlugins,
}

impl DenyRule {
    /// All rules.
    pub const ALL: [Self; 8] = [
        Self::DeleteData,
        Self::Deregister,
        Self::Replace,
        Self::Expand,
        Self::LostValues,
        Self::LiteralSecrets,
        Self::UndeclaredVariables,
        Self::UnknownPlugins,
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
            Self::UnknownPlugins => "unknown-plugins",
        }
    }

    /// Describes the denied change after a colon.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::DeleteData => "the change would delete data",
            Self::Deregister => "the change would remove its registration",
            Self::Replace => "the change would replace it",
            Self::Expand => "the change would expand it",
            Self::LostValues => "the update may clear values that the server hides",
            Self::LiteralSecrets => "the file contains a literal secret",
            Self::UndeclaredVariables => "no file declares a variable that has a value",
            Self::UnknownPlugins => "no file of `--plugins` is of the plugin",
        }
    }

    pub(super) fn denies(self, planned: &PlannedVolume) -> bool {
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
            Self::UndeclaredVariables | Self::UnknownPlugins => false,
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
