//! Approvals: a plan is applied only as far as its risks are approved.
//!
//! `--max-risk` allows every change up to a risk; `--approve` allows the change of one volume. A change
//! that puts other data in the place of a volume's data always needs the approval for that volume.
//! `--yes` is neither: it confirms the start and raises no limit. The default limit is
//! [`Risk::Reversible`]. On a terminal the operator approves a riskier change by typing the volume's
//! name.

use std::collections::BTreeSet;

use super::action::Plan;
use super::risk::Risk;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::NamespacedId;

/// The approvals of a command line or a saved plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    /// The highest risk allowed for every volume; `None` if not specified.
    pub max_risk: Option<Risk>,
    /// The highest risk allowed for single volumes.
    pub approved: BTreeSet<(Risk, NamespacedId)>,
}

/// An entry of a plan whose risk is not approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unapproved {
    /// Its position in the plan.
    pub position: usize,
    /// The volume's name.
    pub key: NamespacedId,
    /// The risk of the change.
    pub risk: Risk,
    /// Whether no general approval covers the change.
    pub is_own: bool,
}

impl Approvals {
    /// Returns the entries whose risk is not approved, in the plan's order.
    pub fn missing(&self, plan: &Plan) -> Vec<Unapproved> {
        let limit = self.max_risk.unwrap_or(Risk::Reversible);
        let entries = plan.volumes.iter().enumerate();
        entries
            .filter_map(|(position, planned)| {
                let risk = planned.impact.as_ref()?.risk;
                let is_general = !planned.action.requires_own_approval();
                let allowed = is_general && risk <= limit || self.allows(risk, &planned.key);
                (!allowed).then(|| Unapproved {
                    position,
                    key: planned.key.clone(),
                    risk,
                    is_own: !is_general,
                })
            })
            .collect()
    }

    /// Returns a problem for each approval of a volume that the plan does not contain. An approval that
    /// stays in a pipeline would approve a later change that no person has seen. A volume that is already
    /// as wanted, or changes with a lower risk, is none: an interrupted command is run again as it was.
    pub fn unused(&self, plan: &Plan) -> Vec<Diagnostic> {
        let is_planned =
            |key: &NamespacedId| plan.volumes.iter().any(|planned| planned.key == *key);
        let unused = self.approved.iter().filter(|(_, key)| !is_planned(key));
        unused
            .map(|(risk, key)| {
                let message = format!(
                    "cannot approve risk `{risk}` for volume {}: the plan does not contain it",
                    key.quoted()
                );
                let typed = format!("--approve {risk}:{}/{}", key.namespace, key.id);
                Diagnostic::error(Code::CliInvalidValue, message).help(format!("remove `{typed}`"))
            })
            .collect()
    }

    fn allows(&self, risk: Risk, key: &NamespacedId) -> bool {
        let mut approved = self.approved.iter();
        approved.any(|(worst, volume)| risk <= *worst && volume == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::action::{Action, PlannedVolume};
    use crate::plan::risk::{Impact, Recovery};
    use crate::plan::samples::existing;
    use crate::plan::volume_version::VolumeVersion;

    fn plan(risks: &[Option<Risk>]) -> Plan {
        let entry = |risk: &Option<Risk>| PlannedVolume {
            key: existing().key(),
            spec: None,
            action: Action::DeleteData,
            expected_version: VolumeVersion::Absent,
            impact: risk.map(|risk| Impact {
                risk,
                loss: None,
                recovery: Recovery::Impossible,
            }),
            protection: None,
            depends_on: vec![],
            warnings: vec![],
        };
        Plan {
            volumes: risks.iter().map(entry).collect(),
            remarks: vec![],
        }
    }

    fn missing(approvals: &Approvals) -> Vec<usize> {
        let [low, middle, high] = Risk::ALL;
        let plan = plan(&[None, Some(low), Some(middle), Some(high)]);
        let missing = approvals.missing(&plan);
        missing.into_iter().map(|one| one.position).collect()
    }

    #[test]
    fn max_risk_allows_up_to_its_risk_and_defaults_to_reversible() {
        for (limit, expected) in [
            (None, vec![2, 3]),
            (Some(Risk::Reversible), vec![2, 3]),
            (Some(Risk::NeedsDowntime), vec![3]),
            (Some(Risk::DestroysData), vec![]),
        ] {
            let approvals = Approvals {
                max_risk: limit,
                ..Approvals::default()
            };
            assert_eq!(missing(&approvals), expected, "{limit:?}");
        }
    }

    #[test]
    fn an_approval_of_a_volume_outside_the_plan_is_a_problem() {
        let approvals = Approvals {
            max_risk: None,
            approved: [(Risk::DestroysData, existing().key())].into(),
        };
        for (plan, expected) in [
            (plan(&[Some(Risk::DestroysData)]), 0),
            (plan(&[Some(Risk::Reversible)]), 0),
            (plan(&[None]), 0),
            (Plan::default(), 1),
        ] {
            assert_eq!(approvals.unused(&plan).len(), expected, "{plan:?}");
        }
    }

    #[test]
    fn an_approval_allows_one_volume_up_to_its_risk() {
        let other = NamespacedId::new(existing().namespace, crate::model::VolumeId::new("other"));
        for (risk, key, expected) in [
            (Risk::DestroysData, existing().key(), vec![]),
            (Risk::NeedsDowntime, existing().key(), vec![3]),
            (Risk::DestroysData, other, vec![2, 3]),
        ] {
            let approvals = Approvals {
                max_risk: None,
                approved: [(risk, key)].into(),
            };
            assert_eq!(missing(&approvals), expected, "{risk}");
        }
    }
}
