//! Reads existing volumes for `import`: the volumes, shared external IDs, and what providers list.
//! Writes nothing.
//!
//! A volume that cannot be read is an error. Among all volumes, one whose ID cannot be addressed or written is left
//! out and reported, and the others are imported. If a provider cannot list its volumes, it is unknown whether
//! it still has them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::volume_list::list_all_volumes;
use crate::ports::{ApiError, ProviderReader, VolumeReader};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Severity};
use nomad_csi_model::{ExternalId, ExternalVolume, Namespace, NamespacedId, PluginId, Volume};
use nomad_csi_plan::{ImportContext, Imported, import_volume};

/// The volumes to import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportSelection {
    /// All volumes of a namespace, or of all namespaces.
    All(Namespace),
    /// These volumes.
    Volumes(BTreeSet<NamespacedId>),
}

/// The volumes that were found.
#[derive(Debug, Default)]
pub struct ImportFound {
    /// Every selected volume, by namespace and ID.
    pub volumes: Vec<Imported>,
    /// Selected volumes that do not exist.
    pub missing: Vec<NamespacedId>,
    /// Volumes that providers list and that no visible registration names.
    pub unregistered: Vec<(PluginId, ExternalId)>,
    /// The parts that could not be read.
    pub warnings: Vec<Diagnostic>,
    /// Why volumes were left out.
    pub left_out: Vec<Diagnostic>,
}

/// Reads the selected volumes, and what is needed to describe them.
///
/// # Errors
/// If the volumes cannot be listed, or one of them cannot be read.
pub async fn find_to_import<S: VolumeReader + ProviderReader + ?Sized>(
    server: &S,
    selection: &ImportSelection,
    parallelism: usize,
) -> Result<ImportFound, ApiError> {
    let registered = list_all_volumes(server).await?;
    let keys: BTreeSet<NamespacedId> = match selection {
        ImportSelection::Volumes(keys) => keys.clone(),
        ImportSelection::All(namespace) => registered
            .iter()
            .filter(|one| namespace.as_str() == Namespace::ALL || one.namespace == *namespace)
            .map(|one| NamespacedId::new(one.namespace.clone(), one.id.clone()))
            .collect(),
    };
    let mut found = ImportFound::default();
    let (keys, left_out): (Vec<_>, Vec<_>) = match selection {
        ImportSelection::Volumes(_) => (keys.into_iter().collect(), vec![]),
        ImportSelection::All(_) => {
            keys.into_iter().partition(|key| key.id.problem_in_specification().is_none())
        }
    };
    found.left_out = left_out.iter().filter_map(unwritable).collect();
    let reads = keys.iter().map(async |key| {
        let found = server.read_volume(key).await?;
        Ok::<_, ApiError>((key.clone(), found.map(|reading| reading.value)))
    });
    let reads = stream::iter(reads).buffered(parallelism.max(1));
    let read: Vec<(NamespacedId, Option<Volume>)> = reads.try_collect().await?;
    let volumes: Vec<&Volume> = read.iter().filter_map(|(_, one)| one.as_ref()).collect();
    let provided = provided(server, &volumes, &mut found.warnings).await;
    let context = ImportContext { registered, provided };
    if matches!(selection, ImportSelection::All(_)) {
        found.unregistered = unregistered(&context);
    }
    for (key, volume) in &read {
        match volume {
            Some(volume) => found.volumes.push(import_volume(volume, &context)),
            None => found.missing.push(key.clone()),
        }
    }
    Ok(found)
}

/// Returns why a specification cannot have the ID of a volume.
fn unwritable(key: &NamespacedId) -> Option<Diagnostic> {
    let problem = key.id.problem_in_specification()?;
    let message = format!("cannot import volume {}: its ID is invalid: {problem}", key.quoted());
    let problem = Diagnostic::error(Code::SpecVolumeId, message);
    Some(problem.help("to manage its data, register it under another ID, with its `external_id`"))
}

/// Returns what each provider lists, if it can.
async fn provided<S: ProviderReader + ?Sized>(
    server: &S,
    volumes: &[&Volume],
    warnings: &mut Vec<Diagnostic>,
) -> BTreeMap<PluginId, BTreeSet<ExternalId>> {
    let plugins: BTreeSet<&PluginId> = volumes.iter().map(|volume| &volume.plugin_id).collect();
    let mut provided = BTreeMap::new();
    let namespace = Namespace::default();
    for plugin in plugins {
        match server.list_external_volumes(plugin, &namespace).await {
            Ok(listed) => {
                let ids = listed.into_iter().map(|one: ExternalVolume| one.external_id);
                provided.insert(plugin.clone(), ids.collect());
            }
            Err(error) => warnings.push(unknown_provider(plugin, &error)),
        }
    }
    provided
}

fn unknown_provider(plugin: &PluginId, error: &ApiError) -> Diagnostic {
    let mut warning = error.diagnostic();
    warning.severity = Severity::Warning;
    warning.help.clear();
    warning.note(format!(
        "it is unknown whether the provider of plugin `{plugin}` still has these volumes"
    ))
}

fn unregistered(context: &ImportContext) -> Vec<(PluginId, ExternalId)> {
    let taken: BTreeSet<(&PluginId, &str)> = context
        .registered
        .iter()
        .map(|one| {
            let external = one.external_id.as_ref().map(ExternalId::as_str);
            (&one.plugin_id, external.unwrap_or(one.id.as_str()))
        })
        .collect();
    let all = context.provided.iter();
    let all = all.flat_map(|(plugin, ids)| ids.iter().map(move |id| (plugin, id)));
    all.filter(|(plugin, id)| !taken.contains(&(*plugin, id.as_str())))
        .map(|(plugin, id)| (plugin.clone(), id.clone()))
        .collect()
}
