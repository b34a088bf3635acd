//! Reads all sets of a ledger, to find those that own a volume.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};

use super::ledger::SetLedger;
use crate::ports::{Ledger, LedgerError};
use nomad_csi_model::NamespacedId;
use nomad_csi_plan::{RecordedData, SetName};
use nomad_csi_ports::IdSource;

/// The largest number of sets that are read at the same time.
const PARALLEL: usize = 8;

/// Reads all sets of a ledger, by name. A set that cannot be read is an error in its place.
///
/// # Errors
/// If the sets cannot be listed.
pub(super) async fn all_sets(
    ledger: &Arc<dyn Ledger>,
    ids: &Arc<dyn IdSource>,
) -> Result<Vec<Result<SetLedger, LedgerError>>, LedgerError> {
    let names = ledger.sets().await?.into_iter();
    let reads = names.map(|name| SetLedger::open(Arc::clone(ledger), name, Arc::clone(ids)));
    Ok(stream::iter(reads).buffered(PARALLEL).collect().await)
}

/// A set that owns a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The set's name.
    pub set: SetName,
    /// The data of the volume, as the set recorded it.
    pub data: RecordedData,
}

/// Returns the sets of a ledger, except one, that own these volumes. Reads all sets, and skips those
/// that cannot be read.
///
/// # Errors
/// If the sets cannot be listed.
pub(super) async fn owners(
    ledger: &Arc<dyn Ledger>,
    ids: &Arc<dyn IdSource>,
    volumes: &BTreeSet<NamespacedId>,
    except: Option<&SetName>,
) -> Result<BTreeMap<NamespacedId, Vec<Owner>>, LedgerError> {
    let sets = all_sets(ledger, ids).await?;
    let sets: Vec<_> = sets.into_iter().filter_map(Result::ok).collect();
    Ok(owners_among(&sets, volumes, except))
}

/// Returns those of these sets, except one, that own these volumes.
pub(super) fn owners_among(
    sets: &[SetLedger],
    volumes: &BTreeSet<NamespacedId>,
    except: Option<&SetName>,
) -> BTreeMap<NamespacedId, Vec<Owner>> {
    let mut owners: BTreeMap<_, Vec<Owner>> = BTreeMap::new();
    let sets = sets.iter().map(SetLedger::set);
    for set in sets.filter(|set| Some(set.name()) != except) {
        for (key, owned) in set.owned().filter(|(key, _)| volumes.contains(*key)) {
            owners
                .entry(key.clone())
                .or_default()
                .push(Owner { set: set.name().clone(), data: owned.data.clone() });
        }
    }
    owners
}
