//! Second registrations: no volume registers data that another volume has, unless the user names it.
//!
//! A server checks the access mode of each volume by itself. So two volumes with the same data have two writers, and
//! deleting one destroys the data of both. Some storage is made for that, such as an NFS export.
//!
//! A creation is such a registration too: a plugin answers with the volume that it has of the same name.

use std::collections::{BTreeMap, HashMap};

use super::action::{Action, PlannedVolume};
use super::inputs::{PlanInputs, PluginState};
use super::ledger::DataIdentity;
use super::removal_checks::{may_be_one_provider, shares_data};
use super::rules::NameRule;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{ExternalId, NamespacedId, PluginId, Volume, VolumeSummary, one_line};

/// Blocks every registration of data that another volume has or gets, and every creation under a name that another volume
/// has or gets, unless `--share` names the volume.
pub(super) fn block_second_registrations(volumes: &mut [PlannedVolume], inputs: &PlanInputs<'_>) {
    let registered = Registered::of(&inputs.observed.registered);
    let provider = |plugin: &PluginId| match inputs.observed.plugins.get(plugin) {
        Some(PluginState::Known(plugin)) => plugin.summary.provider.clone(),
        Some(PluginState::Missing | PluginState::Unknown) | None => String::new(),
    };
    let mut planned_before: HashMap<NewData, Vec<(PluginId, NamespacedId)>> = HashMap::new();
    for planned in volumes {
        let Some((plugin, data)) = new_data(&planned.action, inputs.rules.names) else {
            continue;
        };
        let own = provider(&plugin);
        let known = registered.with(&data).filter(|other| {
            let other = (&other.plugin_id, other.provider.as_str());
            may_be_one_provider((&plugin, &own), other)
        });
        let mut others: BTreeMap<NamespacedId, PluginId> = known
            .map(|other| (other.key(), other.plugin_id.clone()))
            .filter(|(key, _)| *key != planned.key)
            .collect();
        let before = planned_before.entry(data.clone()).or_default();
        let first = before.iter().find(|(other, key)| {
            let is_same = may_be_one_provider((&plugin, &own), (other, &provider(other)));
            is_same && *key != planned.key
        });
        others.extend(first.map(|(plugin, key)| (key.clone(), plugin.clone())));
        before.push((plugin, planned.key.clone()));
        if !others.is_empty() && !inputs.options.share.contains(&planned.key) {
            let refused = data.refused(planned, &others);
            planned.block(vec![refused]);
        }
    }
}

/// The registrations of a server, by their data and by their names.
struct Registered<'a> {
    by_data: HashMap<&'a str, Vec<&'a VolumeSummary>>,
    by_name: HashMap<&'a str, Vec<&'a VolumeSummary>>,
}

impl<'a> Registered<'a> {
    fn of(volumes: &'a [VolumeSummary]) -> Self {
        let (mut by_data, mut by_name) = (HashMap::new(), HashMap::new());
        for other in volumes {
            let data: &mut Vec<_> = by_data.entry(other.remote_id()).or_default();
            data.push(other);
            if !other.name.is_empty() {
                let named: &mut Vec<_> = by_name.entry(other.name.as_str()).or_default();
                named.push(other);
            }
        }
        Self { by_data, by_name }
    }

    /// Those that have this data, or the name to which a plugin answers with their data.
    fn with(&self, data: &NewData) -> impl Iterator<Item = &'a VolumeSummary> {
        let found = match data {
            NewData::Known(external_id) => self.by_data.get(external_id.as_str()),
            NewData::Named(name) => self.by_name.get(name.as_str()),
        };
        found.into_iter().flatten().copied()
    }
}

/// The data that a volume gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum NewData {
    /// That of this external ID.
    Known(ExternalId),
    /// The data that the plugin makes under this name, or has.
    Named(String),
}

/// Returns the data that an action registers or creates, with its plugin.
fn new_data(action: &Action, names: NameRule) -> Option<(PluginId, NewData)> {
    let registered = action.registration().and_then(|request| {
        let external_id = request.external_id.clone()?;
        Some((request.plugin_id.clone(), NewData::Known(external_id)))
    });
    registered.or_else(|| {
        let request = action.creation()?;
        match names {
            NameRule::AsRequested => {
                let name = request.provider_name().to_owned();
                Some((request.plugin_id.clone(), NewData::Named(name)))
            }
            NameRule::Unique => None,
        }
    })
}

impl NewData {
    fn refused(
        &self,
        planned: &PlannedVolume,
        others: &BTreeMap<NamespacedId, PluginId>,
    ) -> Diagnostic {
        let key = planned.key.quoted();
        let (message, field) = match self {
            Self::Known(_) => (
                format!("cannot register volume {key}: another volume has the same data"),
                "external_id",
            ),
            Self::Named(_) => {
                (format!("cannot create volume {key}: another volume has its name"), "name")
            }
        };
        let mut problem = Diagnostic::error(Code::VolumeShared, message);
        if let Some(spec) = &planned.spec {
            problem = problem.label(spec.field_span(field), "");
        }
        for (other, plugin) in others {
            let what = match self {
                Self::Known(external_id) => format!("external ID `{external_id}`"),
                Self::Named(name) => format!("name `{}`", one_line(name)),
            };
            problem = problem.note(format!(
                "volume `{}` in namespace `{}` has {what} at plugin `{plugin}`",
                other.id, other.namespace
            ));
        }
        let problem = match self {
            Self::Known(_) => problem,
            Self::Named(_) => problem.note("a plugin answers a creation with the volume that it has of that name, also for another namespace"),
        };
        let problem = problem
            .note("both could be written at the same time, whatever their capabilities allow");
        let option = planned.key.option();
        match self {
            Self::Known(_) => problem
                .help("use the other volume, or deregister it first; its data stays")
                .help(format!(
                    "if the storage is made for that, such as an NFS export, add `--share {option}`"
                )),
            Self::Named(_) => problem
                .help("set another `name`, such as one with the namespace in it")
                .help(format!(
                    "if the plugin makes another volume all the same, add `--share {option}`"
                )),
        }
    }
}

/// Returns the error for a volume that was created with the data of another one.
pub fn created_with_known_data(volume: &Volume, others: &[VolumeSummary]) -> Option<Diagnostic> {
    let other = others.iter().find(|other| shares_data(volume, other))?;
    let message = format!(
        "the provider answered the creation of volume {} with the data of another volume",
        volume.key().quoted()
    );
    Some(
        Diagnostic::error(Code::VolumeShared, message)
            .note(format!(
                "volume `{}` in namespace `{}` has external ID `{}` at plugin `{}`",
                other.id,
                other.namespace,
                one_line(other.remote_id()),
                other.plugin_id
            ))
            .note("both could be written at the same time, whatever their capabilities allow")
            .help("set another `name`, such as one with the namespace in it")
            .help(
                "if both were created at the same moment and none is left, run the command again",
            ),
    )
}

/// Returns the error for a volume that was created with data that the provider had before, although an allocation may write
/// to data of the provider.
pub fn created_with_existing_data(
    volume: &Volume,
    existing: &[DataIdentity],
) -> Option<Diagnostic> {
    let data = DataIdentity::of(volume);
    if !existing.contains(&data) {
        return None;
    }
    let message = format!(
        "the provider answered the creation of volume {} with data that it had before",
        volume.key().quoted()
    );
    Some(
        Diagnostic::error(Code::VolumeShared, message)
            .note(format!(
                "its external ID is `{}`, and an allocation of a volume that was deregistered may still write to it",
                one_line(data.external_id.as_str())
            ))
            .help("set another `name`, or wait until no allocation may write to a volume that was deregistered"),
    )
}

#[cfg(test)]
mod tests;
