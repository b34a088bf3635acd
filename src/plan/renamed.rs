//! New volumes beside volumes that the set owns and no file declares.
//!
//! A volume whose ID changes in the files is a new volume for the planner, and an empty one. The data stays with the
//! old ID. So a create names the volumes that the files may have renamed. For a block with `count` or `for_each`, those
//! with an ID of the block are named once.

use std::collections::BTreeSet;

use super::action::{Action, PlannedVolume};
use super::inputs::OwnedSet;
use super::ledger::{DataIdentity, RecordedData};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span};
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
    let mut explained = BTreeSet::new();
    for planned in volumes {
        let Action::Create(request) = &planned.action else {
            continue;
        };
        let mut candidates: Vec<_> =
            undeclared.iter().filter(|(_, data)| may_be_of(data, &request.plugin_id)).collect();
        if let Some((label, header)) = block_of(planned) {
            let of_block;
            (of_block, candidates) = candidates.into_iter().partition(|(key, _)| {
                key.namespace == planned.key.namespace && is_of_block(key.id.as_str(), label)
            });
            if !of_block.is_empty() && explained.insert(header) {
                let warning = renamed_instance((planned, label, header), &of_block, &owned.set);
                planned.warnings.push(warning);
            }
        }
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

/// Returns the label and the position of the block with `count` or `for_each` that declares a volume.
fn block_of(planned: &PlannedVolume) -> Option<(&str, Span)> {
    let spec = planned.spec.as_ref()?;
    let origin = spec.origin.as_deref().filter(|origin| origin.instance.is_some())?;
    Some((&origin.block, spec.span))
}

/// Returns whether an ID is one that a block of this label gives: `pg[0]`, `pg-eu`.
fn is_of_block(id: &str, label: &str) -> bool {
    let rest = id.strip_prefix(label).unwrap_or_default();
    let index = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_index = index.is_some_and(|index| index.parse::<u32>().is_ok());
    is_index || rest.strip_prefix('-').is_some_and(|key| !key.is_empty())
}

fn renamed_instance(
    (planned, label, header): (&PlannedVolume, &str, Span),
    candidates: &[&(NamespacedId, RecordedData)],
    set: &str,
) -> Diagnostic {
    let shown = candidates.iter().take(MAX_NAMED).map(|(key, _)| key.quoted().to_string());
    let mut owned: Vec<String> = shown.collect();
    if candidates.len() > MAX_NAMED {
        owned.push(format!("{} more", candidates.len() - MAX_NAMED));
    }
    let message = format!(
        "set `{set}` owns {}, which block `{label}` no longer declares, and {} is new",
        owned.join(", "),
        planned.key.quoted()
    );
    Diagnostic::warning(Code::PlanRenamedInstance, message)
        .label(header, "the block")
        .note("a renamed key declares a new, empty volume")
        .help(Code::PlanRenamedInstance.advice())
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
    use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
    use nomad_csi_model::{ExternalId, Namespace, VolumeId};
    use nomad_csi_spec::{Defaults, Purpose, Syntax, parse};

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

    /// Returns the warnings of the volumes of a text, for a set that owns these IDs.
    fn warnings_of(text: &str, ids: &[&str]) -> Vec<Vec<Diagnostic>> {
        let (mut sources, mut problems) = (SourceMap::default(), Diagnostics::default());
        let source = sources.add("v.hcl", text);
        let desired = parse(&mut sources, source, Syntax::Hcl, &Defaults::default(), &mut problems);
        assert!(!problems.has_errors(), "{problems:?}");
        let volume = OwnedVolume { data: stored("hostpath"), ..OwnedVolume::default() };
        let owned = OwnedSet {
            set: "shop".to_owned(),
            volumes: ids.iter().map(|id| (key(id), volume.clone())).collect(),
            ..OwnedSet::default()
        };
        let nothing = observed(None, plugin(|_| {}));
        let plan = build_plan(PlanInputs {
            desired,
            purpose: Purpose::ByExternalId,
            observed: &nothing,
            rules: MergeRules::NOMAD,
            owned: Some(&owned),
            options: &PlanOptions::default(),
        });
        plan.volumes.into_iter().map(|planned| planned.warnings).collect()
    }

    #[test]
    fn a_renamed_key_of_a_block_is_explained_once_at_the_block() {
        let text = |keys: &str| {
            format!(
                "volume \"shard\" {{\n {keys}\n type = \"csi\"\n plugin_id = \"hostpath\"\n capacity_min = \"1GiB\"\n capacity_max = \"2GiB\"\n capability {{\n access_mode = \"single-node-writer\"\n attachment_mode = \"file-system\"\n}}\n}}\n"
            )
        };
        let codes = |found: &[Vec<Diagnostic>]| -> Vec<Vec<&'static str>> {
            let codes = |one: &Vec<Diagnostic>| one.iter().map(|one| one.code.as_str()).collect();
            found.iter().map(codes).collect()
        };
        let two = text("for_each = [\"eu1\", \"eu2\"]");
        let found = warnings_of(&two, &["shard-eu"]);
        assert_eq!(codes(&found), [vec!["plan/renamed-instance"], vec![]]);
        let warning = &found[0][0];
        assert_eq!(warning.code, Code::PlanRenamedInstance);
        assert_eq!(
            warning.message,
            "set `shop` owns `shard-eu`, which block `shard` no longer declares, and `shard-eu1` is new"
        );
        assert_eq!(warning.labels[0].span.range(), 0..14);
        let others = warnings_of(&two, &["shards-eu", "other"]);
        assert_eq!(codes(&others), [vec!["plan/data-unconfirmed"], vec!["plan/data-unconfirmed"]]);
        let index = warnings_of(&text("count = 1"), &["shard[7]"]);
        assert_eq!(codes(&index), [["plan/renamed-instance"]]);
        let plain = warnings_of(&text("name = \"n\""), &["shard-eu"]);
        assert_eq!(codes(&plain), [["plan/data-unconfirmed"]]);
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
