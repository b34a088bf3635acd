//! Approvals: a plan is applied only as far as its risks are approved.
//!
//! `--max-risk` allows every change up to a risk; `--approve` allows the change of one volume. A change
//! that puts other data in the place of a volume's data always needs the approval for that volume.
//! `--yes` is neither: it confirms the start and raises no limit. The default limit is
//! [`Risk::Reversible`]. On a terminal the operator approves a riskier change by typing the volume's
//! name.

use std::collections::BTreeSet;

use super::action::{Action, Plan, PlannedVolume};
use super::cut_offs::CutOffs;
use super::inputs::ObservedState;
use super::risk::Risk;
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_model::{NamespacedId, shell_quoted};

/// The approvals of a command line or a saved plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    /// The highest risk allowed for every volume; `None` if not specified.
    pub max_risk: Option<Risk>,
    /// The highest risk allowed for single volumes.
    pub approved: BTreeSet<(Risk, NamespacedId)>,
    /// The allocations and nodes that are known not to write any more.
    pub cut_off: CutOffs,
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
    /// True if no general approval covers the change.
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

    /// Returns a problem for each approval of a change that the plan does not make. An approval that stays
    /// in a pipeline would approve a later change that no person has seen.
    ///
    /// A run that was interrupted, or is repeated after its end, has the same approvals. So an approval is no
    /// problem if the approved change may have been made: the volume is as desired, or it was removed and is
    /// only to be created or registered, or the server does not have it and `may_be_removed` says so.
    pub fn unused(
        &self,
        plan: &Plan,
        observed: &ObservedState,
        may_be_removed: impl Fn(&NamespacedId) -> bool,
    ) -> Vec<Diagnostic> {
        let approved = self.approved.iter();
        let unused = approved.filter_map(|(risk, key)| {
            let planned = plan.volumes.iter().find(|planned| planned.key == *key);
            let why = match planned {
                Some(planned) => reason_unused(*risk, planned)?,
                None if observed.has(key) => "the plan does not contain it".to_owned(),
                None if may_be_removed(key) => return None,
                None => "neither the plan nor the server has it".to_owned(),
            };
            let message =
                format!("cannot approve risk `{risk}` for volume {}: {why}", key.quoted());
            let value = shell_quoted(format_args!("{risk}:{}/{}", key.namespace, key.id));
            let typed = format!("--approve {value}");
            let help = match similar_volume(plan, key).filter(|_| planned.is_none()) {
                Some(similar) => format!("remove `{typed}`; did you mean volume `{similar}`?"),
                None => format!("remove `{typed}`"),
            };
            Some(Diagnostic::error(Code::CliInvalidValue, message).help(help))
        });
        unused.collect()
    }

    fn allows(&self, risk: Risk, key: &NamespacedId) -> bool {
        let mut approved = self.approved.iter();
        approved.any(|(worst, volume)| risk <= *worst && volume == key)
    }
}

/// Returns the volume of a plan whose change has a risk and whose ID is the most similar.
fn similar_volume<'a>(plan: &'a Plan, key: &NamespacedId) -> Option<&'a str> {
    let changed = plan.volumes.iter().filter(|one| one.impact.is_some());
    let ids =
        changed.filter(|one| one.key.namespace == key.namespace).map(|one| one.key.id.as_str());
    closest_match(key.id.as_str(), ids)
}

/// Returns why the plan has no use for an approval of this risk; `None` if it has one.
fn reason_unused(risk: Risk, planned: &PlannedVolume) -> Option<String> {
    let impact = planned.impact.as_ref();
    let planned_risk = impact.map_or(Risk::Reversible, |impact| impact.risk);
    if planned_risk >= risk {
        return None;
    }
    match &planned.action {
        Action::Update(_)
        | Action::Expand(_)
        | Action::Replace(_)
        | Action::Deregister
        | Action::DeleteData => Some(format!(
            "the plan's change of it (`{}`) has only risk `{planned_risk}`",
            planned.action.as_str()
        )),
        // The approved change may have been made, or is not made now.
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::RegisterAgain(_)
        | Action::Recreate(_)
        | Action::WaitingForClaims(_)
        | Action::Blocked(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::risk::{Impact, Recovery};
    use crate::samples::{desired, existing, observed, plugin};
    use crate::volume_version::VolumeVersion;

    fn plan(risks: &[Option<Risk>]) -> Plan {
        let entry = |risk: &Option<Risk>| PlannedVolume {
            key: existing().key(),
            spec: None,
            action: Action::DeleteData,
            expected_version: VolumeVersion::Absent,
            impact: risk.map(|risk| Impact { risk, loss: None, recovery: Recovery::Impossible }),
            protection: None,
            depends_on: vec![],
            warnings: vec![],
        };
        Plan { volumes: risks.iter().map(entry).collect(), remarks: vec![], undeclared: vec![] }
    }

    fn missing(approvals: &Approvals) -> Vec<usize> {
        let [low, middle, _, high] = Risk::ALL;
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
            (Some(Risk::LosesAccess), vec![3]),
            (Some(Risk::DestroysData), vec![]),
        ] {
            let approvals = Approvals { max_risk: limit, ..Approvals::default() };
            assert_eq!(missing(&approvals), expected, "{limit:?}");
        }
    }

    /// A repeated run finds its change made, and keeps its approval.
    #[test]
    fn an_approval_of_a_change_that_the_plan_does_not_make_is_a_problem() {
        let unused = |approved: Risk, plan: &Plan| {
            let approvals = Approvals {
                max_risk: None,
                approved: [(approved, existing().key())].into(),
                ..Approvals::default()
            };
            let exists = observed(Some(existing()), plugin(|_| {}));
            approvals.unused(plan, &exists, |_| false).len()
        };
        let with = |action: Action| {
            let mut plan = plan(&[None]);
            plan.volumes[0].action = action;
            plan
        };
        let [_, downtime, _, data] = Risk::ALL;
        for (approved, plan, expected) in [
            (data, plan(&[Some(data)]), 0),
            (downtime, plan(&[Some(data)]), 0),
            (data, plan(&[Some(downtime)]), 1),
            (data, plan(&[None]), 1),
            (downtime, with(Action::Deregister), 1),
            (data, with(Action::Unchanged), 0),
            (data, with(Action::Blocked(vec![])), 0),
            (data, with(Action::Create(Box::new(desired()))), 0),
            (downtime, with(Action::Register(Box::new(desired()))), 0),
            (data, Plan::default(), 1),
        ] {
            assert_eq!(unused(approved, &plan), expected, "{approved} {plan:?}");
        }
    }

    /// A repeated run with `--prune` finds the volume gone, and keeps its approval. A misspelt volume never
    /// existed.
    #[test]
    fn an_approval_of_an_absent_volume_is_a_problem_unless_it_was_removed() {
        let approvals = Approvals {
            max_risk: None,
            approved: [(Risk::NeedsDowntime, existing().key())].into(),
            ..Approvals::default()
        };
        let gone = observed(None, plugin(|_| {}));
        let unused = |was_removed| approvals.unused(&Plan::default(), &gone, |_| was_removed);
        assert_eq!(unused(true), []);
        assert!(unused(false)[0].message.ends_with("neither the plan nor the server has it"));
    }

    #[test]
    fn an_approval_allows_one_volume_up_to_its_risk() {
        let other =
            NamespacedId::new(existing().namespace, nomad_csi_model::VolumeId::new("other"));
        for (risk, key, expected) in [
            (Risk::DestroysData, existing().key(), vec![]),
            (Risk::NeedsDowntime, existing().key(), vec![3]),
            (Risk::DestroysData, other, vec![2, 3]),
        ] {
            let approvals = Approvals {
                max_risk: None,
                approved: [(risk, key)].into(),
                ..Approvals::default()
            };
            assert_eq!(missing(&approvals), expected, "{risk}");
        }
    }
}
