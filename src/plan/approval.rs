//! Who agreed to what: a plan is carried out only as far as its risks are allowed (`users` 3.4).
//!
//! A limit allows every entry up to its grade; an approval allows one entry, by name. `--yes` is
//! neither: it answers the question whether to begin, and raises no limit. Without a terminal the
//! limit is [`Risk::Reversible`] unless somebody says otherwise; on one, what is above the limit is
//! asked for, by typing the volume's name.

use std::collections::BTreeSet;

use super::action::Plan;
use super::risk::Risk;
use crate::model::NamespacedId;

/// What was agreed to on the command line, or in a saved plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    /// The worst that may be done to any volume; `None` if nobody said.
    pub max_risk: Option<Risk>,
    /// The worst that may be done to one volume.
    pub approved: BTreeSet<(Risk, NamespacedId)>,
}

/// An entry of a plan that nobody has agreed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unapproved {
    /// Its position in the plan.
    pub position: usize,
    /// Which volume.
    pub key: NamespacedId,
    /// How bad it can be.
    pub risk: Risk,
}

impl Approvals {
    /// Entries whose risk is above the limit and that nobody approved by name, in the plan's order.
    pub fn missing(&self, plan: &Plan) -> Vec<Unapproved> {
        let limit = self.max_risk.unwrap_or(Risk::Reversible);
        let entries = plan.volumes.iter().enumerate();
        entries
            .filter_map(|(position, planned)| {
                let risk = planned.stakes.as_ref()?.risk;
                let allowed = risk <= limit || self.allows(risk, &planned.key);
                (!allowed).then(|| Unapproved {
                    position,
                    key: planned.key.clone(),
                    risk,
                })
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
    use crate::plan::action::{Action, Planned};
    use crate::plan::pin::Pin;
    use crate::plan::risk::{Stakes, Undo};
    use crate::plan::samples::existing;

    fn plan(risks: &[Option<Risk>]) -> Plan {
        let entry = |risk: &Option<Risk>| Planned {
            key: existing().key(),
            spec: None,
            action: Action::DeleteData,
            pin: Pin::Absent,
            stakes: risk.map(|risk| Stakes {
                risk,
                lost: None,
                undo: Undo::Impossible,
            }),
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

    /// `users` 3.4: the limit of a pipeline is what can be undone.
    #[test]
    fn a_limit_allows_up_to_its_grade_and_the_least_is_the_default() {
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
    fn an_approval_allows_one_volume_up_to_its_grade() {
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
