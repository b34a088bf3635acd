//! Asks providers which volumes they have: one list per plugin, in parallel.
//!
//! A list that cannot be read in time is not an error. It says why, and proves nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::timeout;

use crate::model::{Namespace, PluginId};
use crate::plan::{PluginState, ProviderList, UnlistedReason};
use crate::ports::ProviderReader;

/// How long the list of one provider is waited for.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the list of each plugin's provider, in a namespace whose permissions are used.
pub(super) async fn provider_lists(
    provider: &(impl ProviderReader + ?Sized),
    plugins: &BTreeMap<PluginId, PluginState>,
    asked: &BTreeMap<PluginId, Namespace>,
    parallelism: usize,
) -> BTreeMap<PluginId, ProviderList> {
    let reads = asked.iter().map(async |(plugin, namespace)| {
        let list = match plugins.get(plugin) {
            Some(state) if !may_list(state) => ProviderList::Unknown(UnlistedReason::Unsupported),
            Some(_) | None => list(provider, plugin, namespace).await,
        };
        (plugin.clone(), list)
    });
    let lists = stream::iter(reads).buffered(parallelism.max(1));
    lists.collect().await
}

/// Whether a plugin may list volumes. Only the server knows that of a plugin that cannot be read.
fn may_list(plugin: &PluginState) -> bool {
    match plugin {
        PluginState::Known(plugin) => plugin
            .controllers
            .values()
            .filter_map(|instance| instance.controller.as_ref())
            .any(|controller| controller.capabilities.list_volumes),
        PluginState::Missing => false,
        PluginState::Unknown => true,
    }
}

async fn list(
    provider: &(impl ProviderReader + ?Sized),
    plugin: &PluginId,
    namespace: &Namespace,
) -> ProviderList {
    let listing = provider.list_external_volumes(plugin, namespace);
    match timeout(LIST_TIMEOUT, listing).await {
        Ok(Ok(listed)) => {
            let listed = listed.into_iter();
            ProviderList::Listed(listed.map(|one| (one.external_id.clone(), one)).collect())
        }
        Ok(Err(error)) => ProviderList::Unknown(UnlistedReason::Failed(error.message)),
        Err(_) => {
            let seconds = LIST_TIMEOUT.as_secs();
            let why = format!("timed out after {seconds}s");
            ProviderList::Unknown(UnlistedReason::Failed(why))
        }
    }
}
