//! The watch of a node for volumes that are detached while they are staged (`--detach-cuts`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tonic::Status;

use super::error::StorageHealthError;
use super::plugin::Plugin;
use super::volumes;

/// How often the node looks.
const INTERVAL: Duration = Duration::from_millis(200);

/// Looks for detached volumes and cuts them, until the task ends. Reports a failure when it begins.
pub(super) async fn watch_detachments(plugin: Arc<Plugin>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known = BTreeMap::new();
    loop {
        ticks.tick().await;
        let cut =
            |plugin: &Arc<Plugin>| Ok::<_, StorageHealthError>(volumes::cut_detached(plugin)?);
        let failed = plugin.call(cut).await.unwrap_or_else(|status| all_failed(&status));
        for (id, error) in &failed {
            if known.get(id) != Some(error) {
                tracing::error!(volume.external_id = %id, %error,
                    "cannot cut this node off from the detached volume; it tries again");
            }
        }
        known = failed;
    }
}

/// A failure to look at all, which no volume has.
fn all_failed(status: &Status) -> BTreeMap<String, String> {
    BTreeMap::from([(String::new(), status.message().to_owned())])
}
