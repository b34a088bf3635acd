//! Reads the facts that a diagnosis of volumes needs.
//!
//! Nodes, providers, evaluations and health are optional: what cannot be read of them is reported as unread, and
//! leads to no finding.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::observe::plugin_state;
use super::provider_lists::{LIST_TIMEOUT, provider_lists, unread_lists};
use super::seen_nodes::seen_nodes;
use super::unclaimed_users::unclaimed_users;
use super::volume_list::list_all_volumes;
use crate::ports::{ApiError, ClaimQuery, ClusterApi, ServerKind};
use nomad_csi_model::diagnostic::Diagnostic;
use nomad_csi_model::{
    Alloc, BlockedEvaluation, Namespace, NamespacedId, PluginId, SeenNodes, UnstartedAlloc, Volume,
    VolumeClaim, VolumeHealth, VolumeSummary,
};
use nomad_csi_plan::doctor::VolumeFacts;
use nomad_csi_plan::{
    AskedPlugins, DetachRule, PluginState, ProviderList, UnlistedReason, shares_data,
};

/// Stands for the list of a provider that was not asked.
const NOT_ASKED: ProviderList = ProviderList::Unknown(UnlistedReason::NotAsked);

/// Which facts are read besides those that every diagnosis needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct FactOptions {
    /// True if the providers are asked which volumes they have.
    pub(super) asks_providers: bool,
    /// How long the list of a provider is waited for.
    pub(super) provider_limit: Duration,
    /// True if blocked evaluations are read, the allocations whose tasks did not start, and on Nomad those that use a
    /// volume without a claim.
    pub(super) reads_evaluations: bool,
    /// True if the agent's plugins are asked for the health of the volumes that are in use.
    pub(super) reads_health: bool,
    /// The largest number of concurrent requests.
    pub(super) parallelism: usize,
    /// The time, in nanoseconds since the epoch.
    pub(super) now: i64,
}

impl FactOptions {
    /// The options for an explanation of claims.
    pub(super) const fn of_claims(now: i64) -> Self {
        Self {
            asks_providers: false,
            provider_limit: LIST_TIMEOUT,
            reads_evaluations: false,
            reads_health: false,
            parallelism: 1,
            now,
        }
    }
}

/// The facts about some volumes.
#[derive(Debug)]
pub(super) struct FactReading {
    claims: Option<BTreeMap<NamespacedId, Vec<VolumeClaim>>>,
    plugins: BTreeMap<PluginId, PluginState>,
    nodes: SeenNodes,
    detach: DetachRule,
    providers: BTreeMap<PluginId, ProviderList>,
    health: BTreeMap<NamespacedId, VolumeHealth>,
    evaluations: BTreeMap<Namespace, Vec<BlockedEvaluation>>,
    unclaimed: BTreeMap<NamespacedId, Vec<Alloc>>,
    unstarted: BTreeMap<NamespacedId, Vec<UnstartedAlloc>>,
    sharing: BTreeMap<NamespacedId, Vec<Volume>>,
    now: i64,
    /// The parts that could not be read, and why.
    pub(super) unread: Vec<String>,
    /// Of that, the allocations that use volumes without a claim.
    pub(super) unread_users: Vec<String>,
}

impl FactReading {
    /// Reads the facts about the volumes.
    ///
    /// # Errors
    /// If the kind of the server, a plugin or the agent's claims cannot be read.
    pub(super) async fn read(
        api: &dyn ClusterApi,
        volumes: &[Volume],
        options: FactOptions,
    ) -> Result<Self, ApiError> {
        let server = api.server().await?;
        let is_agent = server == ServerKind::Agent;
        let claims = if is_agent { Some(claims(api, volumes).await?) } else { None };
        let ids: BTreeSet<PluginId> = volumes.iter().map(|v| v.plugin_id.clone()).collect();
        let reads = ids
            .iter()
            .map(async |id| Ok::<_, ApiError>((id.clone(), plugin_state(api, id).await?)));
        let plugins = stream::iter(reads).buffered(options.parallelism.max(1));
        let mut reading = Self {
            claims,
            plugins: plugins.try_collect().await?,
            nodes: SeenNodes::default(),
            detach: server.detach_rule(),
            providers: BTreeMap::new(),
            health: BTreeMap::new(),
            evaluations: BTreeMap::new(),
            unclaimed: BTreeMap::new(),
            unstarted: BTreeMap::new(),
            sharing: BTreeMap::new(),
            now: options.now,
            unread: vec![],
            unread_users: vec![],
        };
        reading.read_nodes(api, volumes).await;
        if options.asks_providers {
            let how = (options.parallelism, options.provider_limit);
            reading.read_providers(api, volumes, how).await;
            reading.read_sharing(api, volumes).await;
        }
        if options.reads_health && is_agent {
            reading.read_health(api, volumes, options.parallelism).await;
        }
        if options.reads_evaluations {
            reading.read_evaluations(api, volumes).await;
            let found = unclaimed_users(api, volumes, &reading.nodes, options.parallelism).await;
            reading.unread_users = found.reasons().collect();
            reading.unread.extend(reading.unread_users.iter().cloned());
            reading.unstarted = found.unstarted;
            // The agent drops no claim of an allocation that may write.
            if !is_agent {
                reading.unclaimed = found.allocs;
            }
        }
        Ok(reading)
    }

    async fn read_nodes(&mut self, api: &dyn ClusterApi, volumes: &[Volume]) {
        self.nodes = seen_nodes(api, volumes).await;
        if let SeenNodes::Unread(why) = &self.nodes {
            self.unread.push(format!("nodes: {why}"));
        }
    }

    async fn read_providers(
        &mut self,
        api: &dyn ClusterApi,
        volumes: &[Volume],
        (parallelism, limit): (usize, Duration),
    ) {
        let of = |volume: &Volume| (volume.plugin_id.clone(), volume.namespace.clone());
        let asked: AskedPlugins = volumes.iter().map(of).collect();
        self.providers = provider_lists(api, &self.plugins, &asked, parallelism, limit).await;
        for warning in self.unread_providers() {
            let why = warning.notes.first().cloned().unwrap_or_default();
            self.unread.push(format!("{}: {why}", warning.message));
        }
    }

    /// Reads the other registrations of the same data.
    async fn read_sharing(&mut self, api: &dyn ClusterApi, volumes: &[Volume]) {
        let listed = match list_all_volumes(api).await {
            Ok(listed) => listed,
            Err(error) => {
                let why = format!("other registrations of the data: {}", error.message);
                return self.unread.push(why);
            }
        };
        let mut by_data: BTreeMap<&str, Vec<&VolumeSummary>> = BTreeMap::new();
        for one in &listed {
            by_data.entry(one.remote_id()).or_default().push(one);
        }
        for volume in volumes {
            let same = by_data.get(volume.remote_id().as_str());
            let same = same.into_iter().flatten();
            let others = same.filter(|other| shares_data(volume, other));
            let others: Vec<_> = others.map(|other| other.key()).collect();
            match self.read_others(api, &others).await {
                Ok(sharing) => {
                    self.sharing.insert(volume.key(), sharing);
                }
                Err(why) => self.unread.push(why),
            }
        }
    }

    /// Reads volumes, with the claims that Nomad dropped although the allocations may still write.
    async fn read_others(
        &mut self,
        api: &dyn ClusterApi,
        keys: &[NamespacedId],
    ) -> Result<Vec<Volume>, String> {
        let mut volumes = vec![];
        for key in keys {
            let read = api.read_volume(key).await.map_err(|error| {
                let key = key.quoted();
                format!("registration {key} of the same data: {}", error.message)
            })?;
            volumes.extend(read.map(|reading| reading.value));
        }
        if self.claims.is_none() && !volumes.is_empty() {
            let users = unclaimed_users(api, &volumes, &self.nodes, 1).await;
            for volume in &mut volumes {
                users.count_in(volume);
            }
            self.unread.extend(users.reasons());
        }
        Ok(volumes)
    }

    /// Reads what the plugins report of the volumes that are in use, for which nodes can answer.
    async fn read_health(&mut self, api: &dyn ClusterApi, volumes: &[Volume], parallelism: usize) {
        let is_used = |key: &NamespacedId| {
            let claims = self.claims.as_ref();
            claims.is_some_and(|claims| claims.contains_key(key))
        };
        let used = volumes.iter().map(|volume| (volume.key(), self.reports_condition(volume)));
        let used: Vec<_> = used.filter(|(key, _)| is_used(key)).collect();
        let reads: Vec<_> = used
            .into_iter()
            .map(async |(key, has_condition)| (read_health(api, &key, has_condition).await, key))
            .collect();
        let mut answers = stream::iter(reads).buffered(parallelism.max(1));
        while let Some((health, key)) = answers.next().await {
            let unknown = health.unknown.iter();
            let unknown = unknown.map(|why| format!("health of volume `{key}`: {why}"));
            self.unread.extend(unknown);
            self.health.insert(key, health);
        }
    }

    /// Returns whether a node of the volume's plugin reports the condition of volumes as CSI 1.3 to 1.12 have it.
    fn reports_condition(&self, volume: &Volume) -> bool {
        let Some(PluginState::Known(plugin)) = self.plugins.get(&volume.plugin_id) else {
            return false;
        };
        let mut nodes = plugin.nodes.values().filter_map(|instance| instance.node.as_ref());
        nodes.any(|node| node.capabilities.volume_condition)
    }

    async fn read_evaluations(&mut self, api: &dyn ClusterApi, volumes: &[Volume]) {
        let namespaces: BTreeSet<&Namespace> = volumes.iter().map(|v| &v.namespace).collect();
        for namespace in namespaces {
            match api.blocked_evaluations(namespace).await {
                Ok(found) => {
                    if found.others > 0 {
                        let read = found.explained.len();
                        self.unread.push(format!(
                            "evaluations of namespace `{namespace}`: {} more than the first {read} are blocked",
                            found.others
                        ));
                    }
                    self.evaluations.insert(namespace.clone(), found.explained);
                }
                Err(error) => self
                    .unread
                    .push(format!("evaluations of namespace `{namespace}`: {}", error.message)),
            }
        }
    }

    /// Returns warnings about the lists of providers that could not be read.
    pub(super) fn unread_providers(&self) -> Vec<Diagnostic> {
        unread_lists(&self.providers)
    }

    /// Returns the facts about one of the volumes.
    pub(super) fn facts<'a>(&'a self, volume: &'a Volume) -> VolumeFacts<'a> {
        let claims = self.claims.as_ref();
        let own = claims.map(|claims| claims.get(&volume.key()).map_or(&[][..], Vec::as_slice));
        let plugin = self.plugins.get(&volume.plugin_id);
        let provider = self.providers.get(&volume.plugin_id);
        let evaluations = self.evaluations.get(&volume.namespace);
        let unstarted = self.unstarted.get(&volume.key());
        VolumeFacts {
            volume,
            claims: own,
            plugin: plugin.unwrap_or(&PluginState::Unknown),
            nodes: &self.nodes,
            detach: self.detach,
            provider: provider.unwrap_or(&NOT_ASKED),
            health: self.health.get(&volume.key()),
            evaluations: evaluations.map_or(&[][..], Vec::as_slice),
            unclaimed: self.unclaimed.get(&volume.key()).map(Vec::as_slice),
            unstarted: unstarted.map_or(&[][..], Vec::as_slice),
            sharing: self.sharing.get(&volume.key()).map(Vec::as_slice),
            now: self.now,
        }
    }
}

/// Reads what the plugin reports of a volume, and with `has_condition` also what its nodes report with the statistics.
async fn read_health(
    api: &dyn ClusterApi,
    key: &NamespacedId,
    has_condition: bool,
) -> VolumeHealth {
    let unread = |error: ApiError| VolumeHealth { unknown: vec![error.message], statuses: vec![] };
    let mut health = api.volume_health(key).await.unwrap_or_else(unread);
    if !has_condition {
        return health;
    }
    match api.volume_stats(key).await {
        Ok(stats) => {
            let statuses = stats
                .nodes
                .into_iter()
                .filter_map(|(node, stats)| Some((Some(node), stats.condition?.status()?)));
            health.statuses.extend(statuses);
            health.unknown.extend(stats.unknown);
        }
        Err(error) => health.unknown.push(error.message),
    }
    health
}

async fn claims(
    api: &dyn ClusterApi,
    volumes: &[Volume],
) -> Result<BTreeMap<NamespacedId, Vec<VolumeClaim>>, ApiError> {
    let query = match volumes {
        [one] => ClaimQuery::Volume(one.key()),
        _ => ClaimQuery::Namespace(Namespace::new(Namespace::ALL)),
    };
    let mut found: BTreeMap<NamespacedId, Vec<VolumeClaim>> = BTreeMap::new();
    for reading in api.list_claims(&query).await? {
        let claim = reading.value;
        found.entry(claim.volume.clone()).or_default().push(claim);
    }
    Ok(found)
}
