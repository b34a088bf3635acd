//! Asks providers which volumes they have: one list per plugin, in parallel.
//!
//! A list that cannot be read in time is not an error. It says why, and proves nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::timeout;

use crate::ports::ProviderReader;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Bytes, Namespace, PluginId, Secrets};
use nomad_csi_plan::{AskedPlugins, PluginState, ProviderList, UnlistedReason};

/// How long the list of one provider is waited for, if the command needs it.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the list of each plugin's provider, and waits at most `limit` for each. Plugins that are known not to list volumes
/// are not asked.
pub(super) async fn provider_lists(
    provider: &(impl ProviderReader + ?Sized),
    plugins: &BTreeMap<PluginId, PluginState>,
    asked: &AskedPlugins,
    parallelism: usize,
    limit: Duration,
) -> BTreeMap<PluginId, ProviderList> {
    let reads = asked.iter().map(async |(plugin, namespace)| {
        let list = match plugins.get(plugin) {
            Some(state) if !may_list(state) => ProviderList::Unknown(UnlistedReason::Unsupported),
            Some(_) | None => list(provider, plugin, namespace, limit).await,
        };
        (plugin.clone(), list)
    });
    let lists = stream::iter(reads).buffered(parallelism.max(1));
    lists.collect().await
}

/// Returns the snapshots that each provider lists, by their IDs. A list that cannot be read is left out.
pub(super) async fn snapshot_ids(
    provider: &(impl ProviderReader + ?Sized),
    asked: &AskedPlugins,
) -> BTreeMap<PluginId, BTreeMap<String, Bytes>> {
    let mut found = BTreeMap::new();
    for (plugin, namespace) in asked {
        let none = Secrets::default();
        let listing = provider.list_snapshots(plugin, namespace, &none);
        if let Ok(Ok(listed)) = timeout(LIST_TIMEOUT, listing).await {
            let ids = listed.into_iter().map(|snapshot| (snapshot.id.to_string(), snapshot.size));
            found.insert(plugin.clone(), ids.collect());
        }
    }
    found
}

/// Warns of lists that could not be read.
pub(super) fn unread_lists(lists: &BTreeMap<PluginId, ProviderList>) -> Vec<Diagnostic> {
    let failed = lists.iter().filter_map(|(plugin, list)| match list {
        ProviderList::Unknown(UnlistedReason::Failed(why)) => Some((plugin, why)),
        ProviderList::Unknown(UnlistedReason::NotAsked | UnlistedReason::Unsupported)
        | ProviderList::Listed(_) => None,
    });
    let warnings = failed.map(|(plugin, why)| {
        let message = format!("the volumes of the provider of plugin `{plugin}` are unknown");
        Diagnostic::warning(Code::PlanProviderUnread, message)
            .note(why.clone())
            .note("it is not checked whether the provider still has the data of the volumes")
            .help(Code::PlanProviderUnread.advice())
    });
    warnings.collect()
}

/// Returns whether a plugin may list volumes. Only the server knows that of a plugin that cannot be read.
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
    limit: Duration,
) -> ProviderList {
    let listing = provider.list_external_volumes(plugin, namespace);
    match timeout(limit, listing).await {
        Ok(Ok(listed)) => {
            let listed = listed.into_iter();
            ProviderList::Listed(listed.map(|one| (one.external_id.clone(), one)).collect())
        }
        Ok(Err(error)) if error.code == Code::PluginUnsupported => {
            ProviderList::Unknown(UnlistedReason::Unsupported)
        }
        Ok(Err(error)) => ProviderList::Unknown(UnlistedReason::Failed(error.message)),
        Err(_) => {
            let seconds = limit.as_secs();
            let why = format!("timed out after {seconds}s");
            ProviderList::Unknown(UnlistedReason::Failed(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::ports::ApiError;
    use nomad_csi_model::{ExternalVolume, Snapshot};
    use tokio::time::Instant;

    /// A provider that never answers.
    struct Silent;

    #[async_trait]
    impl ProviderReader for Silent {
        async fn list_external_volumes(
            &self,
            _: &PluginId,
            _: &Namespace,
        ) -> Result<Vec<ExternalVolume>, ApiError> {
            std::future::pending().await
        }

        async fn list_snapshots(
            &self,
            _: &PluginId,
            _: &Namespace,
            _: &Secrets,
        ) -> Result<Vec<Snapshot>, ApiError> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_waited_for_as_long_as_the_caller_can() {
        let plugin = PluginId::new("ebs");
        let asked: AskedPlugins = [(plugin.clone(), Namespace::default())].into();
        for seconds in [5, 30] {
            let start = Instant::now();
            let limit = Duration::from_secs(seconds);
            let lists = provider_lists(&Silent, &BTreeMap::new(), &asked, 4, limit).await;
            assert_eq!(start.elapsed(), limit);
            let why = format!("timed out after {seconds}s");
            let expected = ProviderList::Unknown(UnlistedReason::Failed(why));
            assert_eq!(lists.get(&plugin), Some(&expected));
        }
    }
}
