//! The conditions that `--wait` and `volume wait` wait for.
//!
//! One read of the volume decides a condition. A volume is schedulable if its plugin has a healthy
//! node, and a healthy controller where the plugin requires one. A volume is unclaimed if no
//! allocation has a claim, including claims of ended allocations that are not released yet.

use super::claiming_alloc::ClaimingAlloc;
use nomad_csi_model::{HealthCount, Volume};

/// A condition of a volume to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCondition {
    /// Nomad can place an allocation that uses the volume.
    Schedulable,
    /// No allocation claims the volume.
    Unclaimed,
    /// The volume does not exist.
    Absent,
}

/// The status of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    Met,
    /// The condition does not hold, for this reason: a clause.
    NotMet(String),
    /// The volume does not exist, so the condition can never hold.
    VolumeNotFound,
}

impl WaitCondition {
    /// All conditions.
    pub const ALL: [Self; 3] = [Self::Schedulable, Self::Unclaimed, Self::Absent];

    /// Its name on the command line, which is also the adjective for the volume.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Schedulable => "schedulable",
            Self::Unclaimed => "unclaimed",
            Self::Absent => "absent",
        }
    }

    /// Describes a volume that does not meet the condition: `not schedulable`.
    pub const fn unmet(self) -> &'static str {
        match self {
            Self::Schedulable => "not schedulable",
            Self::Unclaimed => "still claimed",
            Self::Absent => "still registered",
        }
    }

    /// Returns the status of the condition for a volume as it was read.
    pub fn status(self, volume: Option<&Volume>) -> ConditionStatus {
        match (self, volume) {
            (Self::Absent, None) => ConditionStatus::Met,
            (Self::Schedulable | Self::Unclaimed, None) => ConditionStatus::VolumeNotFound,
            (Self::Schedulable, Some(volume)) if volume.schedulable => ConditionStatus::Met,
            (Self::Schedulable, Some(volume)) => ConditionStatus::NotMet(unhealthy(volume)),
            (Self::Unclaimed, Some(volume)) if !volume.is_claimed() => ConditionStatus::Met,
            (Self::Unclaimed, Some(volume)) => ConditionStatus::NotMet(claims(volume)),
            (Self::Absent, Some(volume)) if volume.is_claimed() => {
                ConditionStatus::NotMet(format!("it exists and {}", claims(volume)))
            }
            (Self::Absent, Some(_)) => ConditionStatus::NotMet("it exists and is unclaimed".into()),
        }
    }
}

fn unhealthy(volume: &Volume) -> String {
    let plugin = &volume.plugin_id;
    let of = |count: HealthCount| format!("{} of {}", count.healthy, count.expected);
    let controllers = of(volume.controllers);
    let nodes = of(volume.nodes);
    if volume.controller_required && volume.controllers.healthy == 0 {
        return format!("no controller of plugin {plugin} is healthy ({controllers})");
    }
    if volume.nodes.healthy == 0 {
        return format!("no node of plugin {plugin} is healthy ({nodes})");
    }
    format!(
        "the server reports it as not schedulable (plugin {plugin}: {controllers} controllers and {nodes} nodes are healthy)"
    )
}

fn claims(volume: &Volume) -> String {
    let claims = ClaimingAlloc::of(volume);
    let count = match claims.len() {
        1 => "1 allocation claims it".to_owned(),
        count => format!("{count} allocations claim it"),
    };
    let first: Vec<String> = claims.iter().take(3).map(ToString::to_string).collect();
    let more = match claims.len().saturating_sub(3) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{count}: {}{more}", first.join("; "))
}

impl std::fmt::Display for WaitCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::existing;
    use nomad_csi_model::AllocId;

    fn volume(change: impl FnOnce(&mut Volume)) -> Volume {
        let mut volume = existing();
        volume.schedulable = false;
        volume.controller_required = true;
        volume.read_allocs.clear();
        volume.write_allocs.clear();
        volume.allocs.clear();
        let healthy = HealthCount { healthy: 1, expected: 2 };
        (volume.controllers, volume.nodes) = (healthy, healthy);
        change(&mut volume);
        volume
    }

    #[test]
    fn each_condition_is_met_or_reports_why_not() {
        let claimed = |count: u32| {
            volume(|volume| {
                volume.write_allocs = (0..count).map(|n| AllocId::new(format!("a{n}"))).collect();
            })
        };
        let none = HealthCount { healthy: 0, expected: 1 };
        let gone = "allocation a0: unknown to the server";
        for (condition, volume, expected) in [
            (WaitCondition::Schedulable, Some(volume(|v| v.schedulable = true)), Ok(true)),
            (WaitCondition::Schedulable, None, Ok(false)),
            (
                WaitCondition::Schedulable,
                Some(volume(|v| v.controllers = none)),
                Err("no controller of plugin".to_owned()),
            ),
            (
                WaitCondition::Schedulable,
                Some(volume(|v| v.nodes = none)),
                Err("no node of plugin".to_owned()),
            ),
            (
                WaitCondition::Schedulable,
                Some(volume(|_| {})),
                Err("the server reports it as not schedulable".to_owned()),
            ),
            (WaitCondition::Unclaimed, Some(volume(|_| {})), Ok(true)),
            (WaitCondition::Unclaimed, None, Ok(false)),
            (
                WaitCondition::Unclaimed,
                Some(claimed(1)),
                Err(format!("1 allocation claims it: {gone}")),
            ),
            (WaitCondition::Absent, None, Ok(true)),
            (
                WaitCondition::Absent,
                Some(volume(|_| {})),
                Err("it exists and is unclaimed".to_owned()),
            ),
            (
                WaitCondition::Absent,
                Some(claimed(1)),
                Err(format!("it exists and 1 allocation claims it: {gone}")),
            ),
        ] {
            let found = condition.status(volume.as_ref());
            match (&found, expected) {
                (ConditionStatus::Met, Ok(true)) | (ConditionStatus::VolumeNotFound, Ok(false)) => {
                }
                (ConditionStatus::NotMet(why), Err(start)) if why.starts_with(&start) => {}
                (_, expected) => panic!("{condition:?}: {found:?}, not {expected:?}"),
            }
        }
        let ConditionStatus::NotMet(why) = WaitCondition::Unclaimed.status(Some(&claimed(5)))
        else {
            panic!("it is claimed");
        };
        assert!(why.ends_with("; and 2 more"), "{why}");
    }
}
