//! Folds many like entries of a plan into one block, so that a plan of thousands of volumes can be read.
//!
//! Entries are alike if they have the same heading and the same details, apart from their own names. A change
//! with a risk is never folded: its volume is named in a block of its own.

use std::collections::HashMap;

use super::plan::{by_urgency, details, heading};
use super::printer::one_line;
use nomad_csi_plan::{Plan, PlannedVolume, Risk};

/// Up to this number, like entries have a block each.
const FEW: usize = 10;
/// How many names a block lists.
const NAMES: usize = 10;

/// Entries that are printed as one block.
pub(super) struct LikeEntries<'p> {
    /// The first one.
    pub(super) first: &'p PlannedVolume,
    /// The details of all of them.
    pub(super) details: Vec<String>,
    /// The names of all of them.
    pub(super) keys: Vec<String>,
}

impl LikeEntries<'_> {
    /// Returns the names of several entries, the first in full.
    pub(super) fn names(&self) -> Option<String> {
        if self.keys.len() < 2 {
            return None;
        }
        let shown = self.keys.iter().take(NAMES).cloned().collect::<Vec<_>>();
        let more = match self.keys.len().saturating_sub(NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!("{}{more}", shown.join(", ")))
    }
}

/// Returns the entries that change or cannot change, in the order of their urgency.
pub(super) fn like_entries(plan: &Plan, now: i64) -> Vec<LikeEntries<'_>> {
    let entries = by_urgency(plan).into_iter();
    let entries: Vec<(&PlannedVolume, Vec<String>)> = entries
        .filter(|planned| heading(planned).is_some())
        .map(|planned| (planned, details(planned, Some(now))))
        .collect();
    let kinds: Vec<Option<String>> =
        entries.iter().map(|(planned, details)| kind(planned, details)).collect();
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for kind in kinds.iter().flatten() {
        *sizes.entry(kind).or_default() += 1;
    }
    let mut groups: Vec<LikeEntries<'_>> = vec![];
    let mut begun: HashMap<&str, usize> = HashMap::new();
    for ((planned, details), kind) in entries.into_iter().zip(&kinds) {
        let key = one_line(&planned.key.to_string());
        let many = kind.as_deref().filter(|kind| sizes[kind] > FEW);
        if let Some(at) = many.and_then(|kind| begun.get(kind)) {
            groups[*at].keys.push(key);
            continue;
        }
        let details = match many {
            None => details,
            Some(kind) => {
                begun.insert(kind, groups.len());
                let without = details.iter().map(|detail| without_name(planned, detail));
                without.collect()
            }
        };
        groups.push(LikeEntries { first: planned, details, keys: vec![key] });
    }
    groups
}

/// Returns what like entries share; `None` for an entry that is never folded.
fn kind(planned: &PlannedVolume, details: &[String]) -> Option<String> {
    let risk = planned.impact.as_ref().map(|impact| impact.risk);
    if risk.is_some_and(|risk| risk > Risk::Reversible) {
        return None;
    }
    let (_, sign, verb) = heading(planned)?;
    let details = details.iter().map(|detail| without_name(planned, detail));
    let all = [sign.to_owned(), verb.to_owned()].into_iter().chain(details);
    Some(all.collect::<Vec<_>>().join("\n"))
}

/// Replaces the name of the volume in a detail.
fn without_name(planned: &PlannedVolume, detail: &str) -> String {
    detail.replace(&planned.key.quoted().to_string(), "`…`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{NamespacedId, PluginId, UnresolvedRequest, VolumeId};
    use nomad_csi_plan::{Action, Impact, Recovery, VolumeVersion};

    fn entry(id: String, action: Action, risk: Risk) -> PlannedVolume {
        PlannedVolume {
            key: NamespacedId::new("default".into(), VolumeId::new(id)),
            spec: None,
            action,
            expected_version: VolumeVersion::Absent,
            impact: Some(Impact { risk, loss: None, recovery: Recovery::Impossible }),
            protection: None,
            depends_on: vec![],
            warnings: vec![],
        }
    }

    #[test]
    fn many_like_changes_are_one_block_and_removals_never_are() {
        let create = |at: usize| {
            let key = NamespacedId::new("default".into(), VolumeId::new(format!("v{at}")));
            let request = UnresolvedRequest::new(key, PluginId::new("ebs"), vec![]);
            let action = Action::Create(Box::new(request));
            entry(format!("v{at}"), action, Risk::Reversible)
        };
        let delete = |at: usize| entry(format!("d{at}"), Action::DeleteData, Risk::DestroysData);
        for (creates, blocks) in [(FEW, FEW), (2000, 1)] {
            let plan = Plan {
                volumes: (0..creates).map(create).chain((0..20).map(delete)).collect(),
                remarks: vec![],
                undeclared: vec![],
            };
            let groups = like_entries(&plan, 0);
            assert_eq!(groups.len(), blocks + 20);
            let named: usize = groups.iter().map(|group| group.keys.len()).sum();
            assert_eq!(named, creates + 20);
        }
    }
}
