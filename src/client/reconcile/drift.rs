//! Compares the volumes of files and a set with the server and with what the providers list. Takes a
//! [`VolumeReader`] and a [`ProviderReader`], which cannot write.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::provider_lists::{LIST_TIMEOUT, provider_lists, unread_lists};
use crate::ports::{ApiError, ProviderReader, ServerKind, VolumeReader};
use nomad_csi_model::diagnostic::Diagnostic;
use nomad_csi_model::{NamespacedId, Volume};
use nomad_csi_plan::{
    AskedPlugins, DriftInputs, LedgerSet, MergeRules, VolumeDrift, detect_drift,
    server_version_warning,
};
use nomad_csi_spec::VolumeSpec;

/// The volumes to compare with the server.
#[derive(Clone, Copy, Debug)]
pub struct DriftQuery<'a> {
    /// The volumes that the files declare.
    pub desired: &'a [VolumeSpec],
    /// The set in the ledger, if one is recorded.
    pub set: Option<&'a LedgerSet>,
    /// Fields to ignore.
    pub ignore: &'a BTreeSet<String>,
    /// True if the providers are asked which volumes they have.
    pub asks_providers: bool,
    /// The largest number of concurrent requests.
    pub parallelism: usize,
}

/// The drift of all volumes.
#[derive(Clone, Debug)]
pub struct DriftFound {
    /// Every volume of the files and of the set, by name.
    pub volumes: Vec<VolumeDrift>,
    /// Warnings about an old server, which hides some fields, and about providers that did not answer.
    pub warnings: Vec<Diagnostic>,
}

/// Finds drift.
///
/// # Errors
/// If a volume cannot be read.
pub async fn find_drift<S: VolumeReader + ProviderReader + ?Sized>(
    reader: &S,
    query: DriftQuery<'_>,
) -> Result<DriftFound, ApiError> {
    let (rules, warning) = match reader.server().await? {
        ServerKind::Agent => (MergeRules::AGENT, None),
        ServerKind::NomadUnknownVersion => (MergeRules::STRICTEST, None),
        ServerKind::Nomad(version) => {
            let rules = MergeRules::of_nomad(&version);
            (rules, server_version_warning(Some(&version)))
        }
    };
    let desired = query.desired.iter().map(VolumeSpec::key);
    let owned = query.set.into_iter().flat_map(LedgerSet::owned);
    let keys: BTreeSet<NamespacedId> = desired.chain(owned.map(|(key, _)| key.clone())).collect();
    let reads = keys.iter().map(async |key| {
        let found = reader.read_volume(key).await?;
        Ok::<_, ApiError>(found.map(|reading| (key.clone(), reading.value)))
    });
    let reads = stream::iter(reads).buffer_unordered(query.parallelism.max(1));
    let found: Vec<Option<(NamespacedId, Volume)>> = reads.try_collect().await?;
    let volumes: BTreeMap<NamespacedId, Volume> = found.into_iter().flatten().collect();
    let asked = match query.asks_providers {
        true => asked_plugins(&volumes),
        false => AskedPlugins::new(),
    };
    let unread = BTreeMap::new();
    let provided = provider_lists(reader, &unread, &asked, query.parallelism, LIST_TIMEOUT).await;
    let volumes = detect_drift(&DriftInputs {
        desired: query.desired,
        set: query.set,
        volumes: &volumes,
        rules,
        provided: &provided,
        ignore: query.ignore,
    });
    let unread = unread_lists(&provided);
    let warnings = warning.into_iter().chain(unread).collect();
    Ok(DriftFound { volumes, warnings })
}

/// Returns the plugins of volumes, each with a namespace in which to ask.
fn asked_plugins(volumes: &BTreeMap<NamespacedId, Volume>) -> AskedPlugins {
    let volumes = volumes.values();
    let plugins = volumes.map(|volume| (volume.plugin_id.clone(), volume.namespace.clone()));
    plugins.collect()
}
