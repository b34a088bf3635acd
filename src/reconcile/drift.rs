//! What is there of the volumes that files name and a set owns, and how it differs from what was left.
//!
//! Read-only by construction: what is asked is a [`VolumeReader`], which cannot write, and the set is
//! as it was read; nothing notes that a look was taken.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::diagnostic::Diagnostic;
use crate::model::{NamespacedId, Volume};
use crate::plan::{
    DriftInputs, LedgerSet, MergeRules, VolumeDrift, detect_drift, server_version_warning,
};
use crate::ports::{ApiError, ServerKind, VolumeReader};
use crate::spec::VolumeSpec;

/// Whose drift is looked for.
#[derive(Clone, Copy, Debug)]
pub struct DriftQuery<'a> {
    /// What the files want.
    pub wanted: &'a [VolumeSpec],
    /// What the ledger says of the set, if there is one.
    pub set: Option<&'a LedgerSet>,
    /// Fields that nobody wants to hear of.
    pub ignore: &'a BTreeSet<String>,
    /// How many requests at once.
    pub parallelism: usize,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct DriftFound {
    /// Every volume of the files and of the set, by name.
    pub volumes: Vec<VolumeDrift>,
    /// What an old server cannot tell.
    pub warning: Option<Diagnostic>,
}

/// Looks for drift.
///
/// # Errors
/// The first volume that could not be read: what was not read has neither drifted nor not.
pub async fn find_drift(
    reader: &dyn VolumeReader,
    query: DriftQuery<'_>,
) -> Result<DriftFound, ApiError> {
    let (unreported, warning) = match reader.server().await? {
        ServerKind::Agent => (MergeRules::AGENT.unreported, None),
        ServerKind::NomadUnknownVersion => (MergeRules::NOMAD.unreported, None),
        ServerKind::Nomad(version) => {
            let rules = MergeRules::of_nomad(&version);
            (rules.unreported, server_version_warning(Some(&version)))
        }
    };
    let wanted = query.wanted.iter().map(VolumeSpec::key);
    let owned = query.set.into_iter().flat_map(LedgerSet::owned);
    let keys: BTreeSet<NamespacedId> = wanted.chain(owned.map(|(key, _)| key.clone())).collect();
    let reads = keys.iter().map(async |key| {
        let found = reader.read_volume(key).await?;
        Ok::<_, ApiError>(found.map(|reading| (key.clone(), reading.value)))
    });
    let reads = stream::iter(reads).buffer_unordered(query.parallelism.max(1));
    let found: Vec<Option<(NamespacedId, Volume)>> = reads.try_collect().await?;
    let volumes: BTreeMap<NamespacedId, Volume> = found.into_iter().flatten().collect();
    let volumes = detect_drift(&DriftInputs {
        wanted: query.wanted,
        set: query.set,
        volumes: &volumes,
        unreported,
        ignore: query.ignore,
    });
    Ok(DriftFound { volumes, warning })
}
