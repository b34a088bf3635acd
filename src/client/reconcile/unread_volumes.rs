//! Lists the volumes that a plan need not read. Writes nothing.
//!
//! A list costs far less than a read of each of its volumes, but it also has the volumes of others. So a
//! list is tried only for many volumes, and stops when it costs more than the reads that it saves. A list
//! that fails saves nothing: then every volume is read, and its read reports the failure.

use std::collections::BTreeMap;

use crate::ports::VolumeReader;
use nomad_csi_model::{Namespace, VolumeSummary};
use nomad_csi_plan::{CachedVolumes, unread_volumes};
use nomad_csi_spec::VolumeSpec;

/// Fewer volumes of one namespace are read at once, as fast as they are listed.
const FEWEST: usize = 50;
/// So many entries of a list cost as much as a read.
const ENTRIES_PER_READ: usize = 20;

/// The volumes of whole namespaces, as the server listed them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamespaceLists(Vec<VolumeSummary>);

impl NamespaceLists {
    /// Lists each namespace that many of these volumes are in.
    pub async fn read(reader: &(impl VolumeReader + ?Sized), desired: &[VolumeSpec]) -> Self {
        let mut counts: BTreeMap<&Namespace, usize> = BTreeMap::new();
        for spec in desired {
            *counts.entry(&spec.request.namespace).or_default() += 1;
        }
        let mut lists = vec![];
        for (namespace, count) in counts {
            if count < FEWEST {
                continue;
            }
            let limit = count.saturating_mul(ENTRIES_PER_READ);
            match reader.summarize_volumes(namespace, limit).await {
                Ok(Some(listed)) => lists.extend(listed),
                Ok(None) => {
                    tracing::debug!(%namespace, most = limit, "the list is longer than it saves reads");
                }
                Err(error) => {
                    let (code, why) = (error.code.as_str(), &error.message);
                    tracing::debug!(code, "every volume is read: {why}");
                }
            }
        }
        Self(lists)
    }

    /// Returns the cached volumes that the server still has as cached.
    pub(super) fn unread(&self, cached: &CachedVolumes) -> CachedVolumes {
        unread_volumes(cached, &self.0)
    }
}
