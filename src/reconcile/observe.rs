//! What is there: the wanted volumes and their plugins, read in parallel and bounded.
//!
//! A volume that cannot be read ends the run: a plan that does not know what is there would be a
//! guess. A plugin that may not be read does not: then only the server knows what it can do. Nothing
//! here writes.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::diagnostic::Code;
use crate::model::{Namespace, NamespacedId, PluginId};
use crate::plan::{Observed, PluginState};
use crate::ports::{ApiError, Document, VolumeApi};
use crate::spec::VolumeSpec;

/// What was read.
#[derive(Debug, Default)]
pub struct Observation {
    /// In the planner's words.
    pub observed: Observed,
    /// The server's own JSON of every volume that exists.
    pub documents: BTreeMap<NamespacedId, Document>,
}

/// Reads the volumes that `wanted` names and their plugins, at most `parallelism` at once.
///
/// # Errors
/// The first volume that could not be read.
pub async fn observe(
    api: &dyn VolumeApi,
    wanted: &[VolumeSpec],
    parallelism: usize,
) -> Result<Observation, ApiError> {
    let keys: BTreeSet<NamespacedId> = wanted.iter().map(VolumeSpec::key).collect();
    let reads = keys.iter().map(|key| api.read_volume(key));
    let found: Vec<_> = stream::iter(reads)
        .buffered(parallelism.max(1))
        .try_collect()
        .await?;
    let mut observation = Observation::default();
    for (key, reading) in keys.into_iter().zip(found) {
        if let Some(reading) = reading {
            observation
                .observed
                .volumes
                .insert(key.clone(), reading.value);
            observation.documents.insert(key, reading.document);
        }
    }
    let plugins: BTreeSet<&PluginId> = wanted.iter().map(|spec| &spec.request.plugin_id).collect();
    for id in plugins {
        let state = plugin(api, id).await?;
        observation.observed.plugins.insert(id.clone(), state);
    }
    observation.observed.plugin_ids = plugin_ids(api, &observation.observed.plugins).await;
    Ok(observation)
}

async fn plugin(api: &dyn VolumeApi, id: &PluginId) -> Result<PluginState, ApiError> {
    match api.read_plugin(id, &Namespace::default()).await {
        Ok(Some(reading)) => Ok(PluginState::Known(Box::new(reading.value))),
        Ok(None) => Ok(PluginState::Missing),
        Err(error) if error.code == Code::ApiForbidden => Ok(PluginState::Unknown),
        Err(error) => Err(error),
    }
}

/// All plugins' IDs, if one is missing: only then somebody wants to be told the others. They are a
/// help, so not getting them is no error.
async fn plugin_ids(
    api: &dyn VolumeApi,
    plugins: &BTreeMap<PluginId, PluginState>,
) -> Vec<PluginId> {
    let is_missing = |state: &PluginState| matches!(state, PluginState::Missing);
    if !plugins.values().any(is_missing) {
        return vec![];
    }
    let listed = api.list_plugins(None).await.unwrap_or_default();
    listed.into_iter().map(|reading| reading.value.id).collect()
}
