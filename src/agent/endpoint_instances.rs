//! [`EndpointInstances`]: the plugins behind endpoints of a node, as its servers have them on record.
//!
//! Servers keep an instance while its process may run, also while the agent of the node does not. A node sees no records of its
//! servers, so it has its own: one file for each endpoint and plugin, which is written before an instance is reported, and removed
//! when the report of its end was accepted. The next start continues from there.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::blocking::run_blocking;
use nomad_csi_model::private::{open_to_read, replace};
use nomad_csi_model::{AllocId, Health, NodeId, PluginId, PluginInstance, hex};
use nomad_csi_ports::{PluginObserver, ReportRefused};

/// The longest file that is read.
const MAX_BYTES: u64 = 1 << 20;
/// How the names of the files end.
const SUFFIX: &str = ".instance";
/// The health of an instance that this run of the agent has not probed.
const NOT_PROBED: &str = "the agent of the node has not probed the plugin since its start";

/// The content of a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    plugin: PluginId,
    instance: PluginInstance,
}

/// Reports the plugins behind endpoints, and remembers what it has reported.
pub(super) struct EndpointInstances {
    directory: PathBuf,
    servers: Arc<dyn PluginObserver>,
}

impl EndpointInstances {
    /// Reports to `servers`, and keeps its files in `directory`.
    pub(super) fn new(directory: PathBuf, servers: Arc<dyn PluginObserver>) -> Self {
        Self { directory, servers }
    }

    /// Returns what may be on record of earlier runs. The servers have it as unhealthy since the node registered again. Blocks.
    pub(super) fn recorded(&self) -> Vec<(PluginId, PluginInstance)> {
        let mut found = vec![];
        for file in self.files().unwrap_or_else(|error| {
            let directory = self.directory.display();
            tracing::warn!(%directory, %error, "it is not known which plugins of endpoints are on record");
            vec![]
        }) {
            match read(&file) {
                Ok(Content { plugin, mut instance }) => {
                    instance.health = Health { healthy: false, description: NOT_PROBED.to_owned() };
                    found.push((plugin, instance));
                }
                Err(error) => {
                    let file = file.display();
                    tracing::warn!(%file, %error, "the record of a plugin cannot be read; if its process has ended, remove the file");
                }
            }
        }
        found
    }

    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.directory)?;
        let paths: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
        let is_one = |path: &PathBuf| path.to_string_lossy().ends_with(SUFFIX);
        let mut paths: Vec<_> = paths?.into_iter().filter(is_one).collect();
        paths.sort();
        Ok(paths)
    }

    /// An endpoint can have another plugin later, while the one before is still on record.
    fn file(&self, plugin: &PluginId, alloc: &AllocId) -> PathBuf {
        let hash = Sha256::digest(plugin.as_str());
        let hash: String = hex(&hash[..6]).collect();
        self.directory.join(format!("{alloc}-{hash}{SUFFIX}"))
    }
}

fn read(file: &Path) -> io::Result<Content> {
    let mut bytes = vec![];
    open_to_read(file)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Refuses a report whose record is not durable: nothing would ever end it.
fn not_remembered(error: impl std::fmt::Display) -> ReportRefused {
    ReportRefused { reason: format!("the node cannot remember the plugin: {error}") }
}

#[async_trait]
impl PluginObserver for EndpointInstances {
    async fn changed(
        &self,
        plugin: &PluginId,
        node: &NodeId,
        instance: PluginInstance,
    ) -> Result<(), ReportRefused> {
        let file = self.file(plugin, &instance.alloc_id);
        let content = Content { plugin: plugin.clone(), instance: instance.clone() };
        let content = serde_json::to_vec(&content).map_err(not_remembered)?;
        let written = run_blocking(move || {
            replace(&file, &content).map_err(|error| format!("`{}`: {error}", file.display()))
        });
        let stopping = |_| not_remembered("the agent is stopping");
        written.await.map_err(stopping)?.map_err(not_remembered)?;
        self.servers.changed(plugin, node, instance).await
    }

    async fn gone(&self, plugin: &PluginId, alloc: &AllocId) -> Result<(), ReportRefused> {
        self.servers.gone(plugin, alloc).await?;
        let file = self.file(plugin, alloc);
        let path = file.display().to_string();
        match run_blocking(move || fs::remove_file(file)).await {
            Ok(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path, %error, "the record of a plugin that is gone stays; the next start reports it once more");
            }
            // An agent that stops reports it once more, too.
            Ok(_) | Err(_) => {}
        }
        Ok(())
    }
}
