//! The health that the pages of one listing of a provider's volumes share.
//!
//! The first page reads the health of all volumes, and the later pages use what it read, for one minute.
//! So a listing reads the health once and not once per page. One list per plugin is kept: the newest.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use nomad_csi_model::{ExternalId, PluginId, VolumeStatus};
use nomad_csi_ports::PageRequest;

/// How long later pages use what was read.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The adverse conditions of the volumes of a plugin that have any.
pub(super) type AdverseVolumes = BTreeMap<ExternalId, Vec<VolumeStatus>>;

#[derive(Debug)]
struct KeptHealth {
    listed: Arc<AdverseVolumes>,
    read_at: Instant,
}

/// The health of listings that have more pages.
#[derive(Debug, Default)]
pub(super) struct ListingHealth(Mutex<BTreeMap<PluginId, KeptHealth>>);

impl ListingHealth {
    /// Returns the health for one page, which is kept if the listing `has_more` pages; `None` if it is
    /// unknown.
    pub(super) async fn of_page<A>(
        &self,
        plugin: &PluginId,
        page: &PageRequest,
        has_more: bool,
        read: impl FnOnce() -> A,
    ) -> Option<Arc<AdverseVolumes>>
    where
        A: Future<Output = Option<AdverseVolumes>>,
    {
        let is_first = page.starting_token.is_empty();
        if let Some(kept) = self.kept(plugin).filter(|_| !is_first) {
            return Some(kept);
        }
        let listed = Arc::new(read().await?);
        if has_more {
            let kept = KeptHealth { listed: listed.clone(), read_at: Instant::now() };
            self.locked().insert(plugin.clone(), kept);
        }
        Some(listed)
    }

    /// Returns what is kept of the plugin, and forgets what is too old.
    fn kept(&self, plugin: &PluginId) -> Option<Arc<AdverseVolumes>> {
        let mut kept = self.locked();
        kept.retain(|_, one| one.read_at.elapsed() < KEPT_FOR);
        kept.get(plugin).map(|one| one.listed.clone())
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<PluginId, KeptHealth>> {
        self.0.lock()
    }
}
