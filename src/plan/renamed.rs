//! New volumes beside volumes that the set owns and no file declares.
//!
//! A volume whose ID changes in the files is a new volume for the planner, and an empty one. The data stays with the
//! old ID. So a create names the volumes that the files may have renamed.

use std::collections::BTreeSet;

use super::action::{Action, PlannedVolume};
use super::inputs::OwnedSet;
use super::ledger::{DataIdentity, RecordedData};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{NamespacedId, PluginId};

/// How many volumes a warning names.
const MAX_NAMED: usize = 5;

/// Warns at each create if the set owns volumes of the same plugin that no file declares.
pub(super) fn warn_of_renamed_volumes(volumes: &mut [PlannedVolume], owned: Option<&OwnedSet>) {
    let Some(owned) = owned else {
        return;
    };
    let declared: BTreeSet<&NamespacedId> = volumes
        .iter()
        .filter(|planned| planned.spec.is_some())
        .map(|planned| &planned.key)
        .collect();
    let undeclared: Vec<(NamespacedId, RecordedData)> = owned
        .volumes
        .iter()
        .filter(|(key, _)| !declared.contains(key))
        .map(|(key, volume)| (key.clone(), volume.data.clone()))
        .collect();
    for planned in volumes {
        let Action::Create(request) = &planned.action else {
            continue;
        };
        let candidates: Vec<_> =
            undeclared.iter().filter(|(_, data)| may_be_of(data, &request.plugin_id)).collect();
        if !candidates.is_empty() {
            let warning = may_be_renamed(planned, &candidates, &owned.set);
            planned.warnings.push(warning);
        }
    }
}

/// Returns whether recorded data may be that of a plugin.
fn may_be_of(data: &RecordedData, plugin: &PluginId) -> bool {
    match data {
        RecordedData::Unrecorded => true,
        RecordedData::Stored(data) => data.plugin_id == *plugin,
        RecordedData::Removed => false,
    }
}

fn may_be_renamed(
    planned: &PlannedVolume,
    candidates: &[&(NamespacedId, RecordedData)],
    set: &str,
) -> Diagnostic {
    let (them, declare) = match candidates.len() {
        1 => ("a volume", "no file declares it"),
        _ => ("volumes", "no file declares them"),
    };
    let message = format!(
        "volume {} is new and empty, and set `{set}` owns {them} beside it: {declare}",
        planned.key.quoted()
    );
    let mut warning = Diagnostic::warning(Code::PlanDataUnconfirmed, message);
    if let Some(span) = planned.span() {
        warning = warning.label(span, "declared here");
    }
    for (key, data) in candidates.iter().take(MAX_NAMED) {
        let data = data
            .identity()
            .map_or_else(|| "its external ID was not recorded".to_owned(), DataIdentity::to_string);
        warning = warning.note(format!("volume {}: {data}", key.quoted()));
    }
    if candidates.len() > MAX_NAMED {
        warning = warning.note(format!("and {} more", candidates.len() - MAX_NAMED));
    }
    warning.help("if you renamed a volume in the files, its data stays with the old ID: change the ID back, or deregister the old volume and set its `external_id` in the file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::build_plan;
    use crate::inputs::{OwnedVolume, PlanInputs, PlanOptions};
    use crate::rules::MergeRules;
    use crate::samples::{desired, observed, plugin, spec};
    use nomad_csi_model::{ExternalId, Namespace, VolumeId};
    use nomad_csi_spec::Purpose;

    fn owning(id: &str, data: RecordedData) -> OwnedSet {
        let volume = OwnedVolume { data, ..OwnedVolume::default() };
        OwnedSet {
            set: "shop".to_owned(),
            volumes: [(key(id), volume)].into(),
            ..OwnedSet::default()
        }
    }

    fn key(id: &str) -> NamespacedId {
        NamespacedId::new(Namespace::default(), VolumeId::new(id))
    }

    fn stored(plugin: &str) -> RecordedData {
        RecordedData::Stored(DataIdentity {
            plugin_id: PluginId::new(plugin),
            external_id: ExternalId::new("vol-old"),
        })
    }

    fn warnings(owned: Option<&OwnedSet>) -> Vec<Diagnostic> {
        let nothing = observed(None, plugin(|_| {}));
        let plan = build_plan(PlanInputs {
            desired: vec![spec(desired())],
            purpose: Purpose::ByExternalId,
            observed: &nothing,
            rules: MergeRules::NOMAD,
            owned,
            options: &PlanOptions::default(),
        });
        plan.volumes[0].warnings.clone()
    }

    #[test]
    fn a_create_names_the_owned_volumes_that_no_file_declares() {
        let renamed = warnings(Some(&owning("old", stored("hostpath"))));
        assert_eq!(renamed.len(), 1, "{renamed:?}");
        assert!(renamed[0].notes[0].contains("`old`"), "{renamed:?}");
        assert!(renamed[0].notes[0].contains("vol-old"), "{renamed:?}");
        let unrecorded = warnings(Some(&owning("old", RecordedData::default())));
        assert_eq!(unrecorded.len(), 1, "{unrecorded:?}");
        assert_eq!(warnings(Some(&owning("old", stored("other")))), []);
        assert_eq!(warnings(Some(&owning("old", RecordedData::Removed))), []);
        assert_eq!(warnings(Some(&OwnedSet::default())), []);
        assert_eq!(warnings(None), []);
    }
}
