//! Policies: each is a file that forbids changes for every command that obeys it.
//!
//! A policy can only forbid. Several policies and the command line count together, so the strictest of them applies: a
//! policy allows nothing that something else forbids, and no option or approval allows what a policy forbids.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::deny::DenyRule;
use super::risk::Risk;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::one_line;

/// What one policy file forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name of the file, as it was given.
    pub file: String,
    /// The kinds of change that are forbidden.
    pub deny: BTreeSet<DenyRule>,
    /// The highest risk that a change may have; `None` without a limit.
    pub max_risk: Option<Risk>,
}

/// The keys of a policy file, with their documentation.
pub const POLICY_KEYS: &[(&str, &str)] = &[
    (DENY, "Kinds of change to refuse, as `--deny` names them"),
    (MAX_RISK, "Highest risk that a change may have, even if it is approved"),
];

const DENY: &str = "deny";
const MAX_RISK: &str = "max_risk";

impl Policy {
    /// Returns which file and which key forbid something: ``forbidden by policy `ci.policy.toml`, key `deny` ``.
    fn forbidden_by(&self, key: &str) -> String {
        format!("forbidden by policy `{}`, key `{key}`", one_line(&self.file))
    }

    /// Returns why the policy forbids a change that some rules deny and that has this risk.
    fn reasons(&self, denied_by: impl Fn(DenyRule) -> bool, risk: Option<Risk>) -> Vec<String> {
        let denied = self.deny.iter().filter(|rule| denied_by(**rule));
        let mut reasons: Vec<String> =
            denied.map(|rule| format!("{} ({})", rule.reason(), self.forbidden_by(DENY))).collect();
        let limit = self.max_risk.zip(risk).filter(|(limit, risk)| risk > limit);
        reasons.extend(limit.map(|(limit, risk)| {
            let by = self.forbidden_by(MAX_RISK);
            format!("its risk is `{risk}`, and at most `{limit}` is allowed ({by})")
        }));
        reasons
    }
}

/// The policies that a command obeys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies(Arc<[Policy]>);

impl FromIterator<Policy> for Policies {
    fn from_iter<I: IntoIterator<Item = Policy>>(policies: I) -> Self {
        Self(policies.into_iter().collect())
    }
}

impl Policies {
    /// Returns which files forbid what a rule names: ``forbidden by policy `ci.policy.toml`, key `deny` ``.
    pub fn denying(&self, rule: DenyRule) -> impl Iterator<Item = String> {
        let denying = self.0.iter().filter(move |policy| policy.deny.contains(&rule));
        denying.map(|policy| policy.forbidden_by(DENY))
    }

    /// Returns an error for each reason why a change without a plan is forbidden. `action` completes "cannot": ``delete
    /// volume `db` ``.
    pub fn denials(&self, action: &str, rule: DenyRule, risk: Risk) -> Vec<Diagnostic> {
        self.reasons(|denied| denied == rule, Some(risk))
            .map(|reason| denial(format!("cannot {action}: {reason}")))
            .collect()
    }

    /// Returns why a change is forbidden that some rules deny and that has this risk.
    pub(super) fn reasons(
        &self,
        denied_by: impl Fn(DenyRule) -> bool,
        risk: Option<Risk>,
    ) -> impl Iterator<Item = String> {
        self.0.iter().flat_map(move |policy| policy.reasons(&denied_by, risk))
    }
}

/// The error of a change that a policy forbids.
pub(super) fn denial(message: String) -> Diagnostic {
    Diagnostic::error(Code::PlanDenied, message)
        .help("leave the change out, or have the policy changed; no approval overrides it")
}

#[cfg(test)]
mod tests;
