//! What somebody waits for, and why it is not so yet.
//!
//! Decided from one reading of the volume, in words for people: a volume is schedulable if its plugin
//! has a healthy node, and a healthy controller where it needs one (`nomad-http-api` 4.1); it is
//! unclaimed if no allocation holds a claim any more, also none that has ended and is not released yet.

use super::holder::Holder;
use crate::model::{HealthCount, Volume};

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// An allocation that wants the volume could be placed.
    Schedulable,
    /// No allocation claims the volume.
    Unclaimed,
    /// There is no such volume.
    Absent,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is so.
    Reached,
    /// It is not so yet, for this reason: a clause.
    NotYet(String),
    /// There is no such volume, so that it cannot come.
    Gone,
}

impl Awaited {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Schedulable, Self::Unclaimed, Self::Absent];

    /// The word that people type, which is also how the volume then is.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Schedulable => "schedulable",
            Self::Unclaimed => "unclaimed",
            Self::Absent => "absent",
        }
    }

    /// How far it is, of what was read.
    pub fn standing(self, volume: Option<&Volume>) -> Standing {
        match (self, volume) {
            (Self::Absent, None) => Standing::Reached,
            (Self::Schedulable | Self::Unclaimed, None) => Standing::Gone,
            (Self::Schedulable, Some(volume)) if volume.schedulable => Standing::Reached,
            (Self::Schedulable, Some(volume)) => Standing::NotYet(unhealthy(volume)),
            (Self::Unclaimed, Some(volume)) if !volume.is_claimed() => Standing::Reached,
            (Self::Unclaimed, Some(volume)) => Standing::NotYet(claims(volume)),
            (Self::Absent, Some(volume)) if volume.is_claimed() => {
                Standing::NotYet(format!("it exists, and {}", claims(volume)))
            }
            (Self::Absent, Some(_)) => Standing::NotYet("it exists, and nobody claims it".into()),
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
        "the server does not say why (plugin {plugin}: {controllers} controllers and {nodes} nodes are healthy)"
    )
}

fn claims(volume: &Volume) -> String {
    let holders = Holder::of(volume);
    let count = match holders.len() {
        1 => "1 allocation claims it".to_owned(),
        count => format!("{count} allocations claim it"),
    };
    let first: Vec<String> = holders.iter().take(3).map(ToString::to_string).collect();
    let more = match holders.len().saturating_sub(3) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{count}: {}{more}", first.join("; "))
}

impl std::fmt::Display for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AllocId;
    use crate::plan::samples::existing;

    fn volume(change: impl FnOnce(&mut Volume)) -> Volume {
        let mut volume = existing();
        volume.schedulable = false;
        volume.controller_required = true;
        volume.read_allocs.clear();
        volume.write_allocs.clear();
        volume.allocs.clear();
        let healthy = HealthCount {
            healthy: 1,
            expected: 2,
        };
        (volume.controllers, volume.nodes) = (healthy, healthy);
        change(&mut volume);
        volume
    }

    #[test]
    fn each_is_reached_or_says_why_not() {
        let claimed = |count: u32| {
            volume(|volume| {
                volume.write_allocs = (0..count).map(|n| AllocId::new(format!("a{n}"))).collect();
            })
        };
        let none = HealthCount {
            healthy: 0,
            expected: 1,
        };
        let gone = "allocation a0: the server no longer knows it";
        for (awaited, volume, expected) in [
            (
                Awaited::Schedulable,
                Some(volume(|v| v.schedulable = true)),
                Ok(true),
            ),
            (Awaited::Schedulable, None, Ok(false)),
            (
                Awaited::Schedulable,
                Some(volume(|v| v.controllers = none)),
                Err("no controller of plugin".to_owned()),
            ),
            (
                Awaited::Schedulable,
                Some(volume(|v| v.nodes = none)),
                Err("no node of plugin".to_owned()),
            ),
            (
                Awaited::Schedulable,
                Some(volume(|_| {})),
                Err("the server does not say why".to_owned()),
            ),
            (Awaited::Unclaimed, Some(volume(|_| {})), Ok(true)),
            (Awaited::Unclaimed, None, Ok(false)),
            (
                Awaited::Unclaimed,
                Some(claimed(1)),
                Err(format!("1 allocation claims it: {gone}")),
            ),
            (Awaited::Absent, None, Ok(true)),
            (
                Awaited::Absent,
                Some(volume(|_| {})),
                Err("it exists, and nobody".to_owned()),
            ),
            (
                Awaited::Absent,
                Some(claimed(1)),
                Err(format!("it exists, and 1 allocation claims it: {gone}")),
            ),
        ] {
            let found = awaited.standing(volume.as_ref());
            match (&found, expected) {
                (Standing::Reached, Ok(true)) | (Standing::Gone, Ok(false)) => {}
                (Standing::NotYet(why), Err(start)) if why.starts_with(&start) => {}
                (_, expected) => panic!("{awaited:?}: {found:?}, not {expected:?}"),
            }
        }
        let Standing::NotYet(why) = Awaited::Unclaimed.standing(Some(&claimed(5))) else {
            panic!("it is claimed");
        };
        assert!(why.ends_with("; and 2 more"), "{why}");
    }
}
