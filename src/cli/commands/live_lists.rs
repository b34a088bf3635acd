//! Lists of the server that complete a command line. A list that cannot be read completes nothing.

use nomad_csi_client::ports::{ClaimQuery, ClusterApi, ServerKind, VolumeQuery};
use nomad_csi_model::{AllocId, Namespace, NamespacedId, PluginId, Secrets, VolumeId};

/// A kind of value that a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerValue {
    Volume,
    Plugin,
    /// A namespace.
    Namespace,
    /// A namespace, or `*`.
    Scope,
    Region,
    Set,
    Node,
    Job,
    Allocation,
    /// A task of the allocation on the command line.
    Task,
    /// The name by which the allocation on the command line knows the volume there.
    Alias,
    /// A snapshot at the provider of the plugin on the command line.
    Snapshot,
    /// A volume of the provider of the plugin on the command line, by its external ID.
    ExternalVolume,
    /// A plugin, or with a plugin on the command line a volume of its provider.
    PluginOrExternalVolume,
}

/// The objects on the command line so far.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedObjects {
    pub(super) plugin: Option<String>,
    /// The start of an allocation's ID.
    pub(super) alloc: Option<String>,
    pub(super) volume: Option<String>,
}

/// A server, and what the command line names so far.
pub(super) struct LiveLists<'a> {
    pub(super) api: &'a dyn ClusterApi,
    pub(super) scope: &'a Namespace,
    pub(super) named: &'a NamedObjects,
}

impl LiveLists<'_> {
    /// Returns the values of a kind; `None` if they cannot be listed.
    pub(super) async fn values(&self, kind: ServerValue) -> Option<Vec<String>> {
        match kind {
            ServerValue::Volume => self.volumes().await,
            ServerValue::Plugin => self.plugins().await,
            ServerValue::Namespace => self.namespaces().await,
            ServerValue::Scope => {
                let mut names = self.namespaces().await.unwrap_or_default();
                names.insert(0, Namespace::ALL.to_owned());
                Some(names)
            }
            ServerValue::Region => self.api.region_names().await.ok(),
            ServerValue::Set => self.sets().await,
            ServerValue::Node => {
                let nodes = self.api.list_nodes().await.ok()?;
                Some(nodes.into_iter().map(|node| node.name).collect())
            }
            ServerValue::Job => {
                let jobs = self.api.list_jobs(self.scope, "").await.ok()?;
                Some(jobs.into_iter().map(|job| job.value.id).collect())
            }
            ServerValue::Allocation => self.allocations("").await,
            ServerValue::Task => self.tasks().await,
            ServerValue::Alias => self.aliases().await,
            ServerValue::Snapshot => self.snapshots().await,
            ServerValue::ExternalVolume => self.external_volumes().await,
            ServerValue::PluginOrExternalVolume => match self.named.plugin {
                None => self.plugins().await,
                Some(_) => self.external_volumes().await,
            },
        }
    }

    async fn volumes(&self) -> Option<Vec<String>> {
        let everywhere = VolumeQuery::of_namespace(Namespace::new(Namespace::ALL));
        let volumes = self.api.list_volumes(&everywhere).await.ok()?;
        let is_in_scope = |namespace: &Namespace| {
            self.scope.as_str() == Namespace::ALL || namespace == self.scope
        };
        let volumes = volumes.iter().map(|one| &one.value);
        let in_scope = volumes.filter(|volume| is_in_scope(&volume.namespace));
        Some(in_scope.map(|volume| volume.id.to_string()).collect())
    }

    async fn plugins(&self) -> Option<Vec<String>> {
        let plugins = self.api.list_plugins(None).await.ok()?;
        Some(plugins.iter().map(|one| one.value.id.to_string()).collect())
    }

    async fn namespaces(&self) -> Option<Vec<String>> {
        let names = self.api.namespace_names().await.ok()?;
        Some(names.iter().map(ToString::to_string).collect())
    }

    async fn sets(&self) -> Option<Vec<String>> {
        let sets = self.api.ledger(Namespace::default()).sets().await.ok()?;
        Some(sets.iter().map(ToString::to_string).collect())
    }

    async fn allocations(&self, prefix: &str) -> Option<Vec<String>> {
        let listed = self.api.list_allocations(self.scope, prefix).await.ok()?;
        Some(listed.into_iter().map(|one| one.value.id).collect())
    }

    async fn tasks(&self) -> Option<Vec<String>> {
        let prefix = self.named.alloc.as_deref()?;
        let id = self.allocations(prefix).await?.into_iter().next()?;
        let alloc = self.api.read_allocation(&AllocId::new(id)).await.ok()??;
        Some(alloc.value.task_states?.into_keys().collect())
    }

    async fn aliases(&self) -> Option<Vec<String>> {
        // Nomad has no list of claims.
        if self.api.server().await.ok()? != ServerKind::Agent {
            return None;
        }
        let volume = VolumeId::new(self.named.volume.as_deref()?);
        let query = ClaimQuery::Volume(NamespacedId::new(self.scope.clone(), volume));
        let claims = self.api.list_claims(&query).await.ok()?;
        let alloc = self.named.alloc.as_deref()?;
        let claims = claims.iter().map(|one| &one.value);
        let of_alloc = claims.filter(|claim| claim.alloc.as_str() == alloc);
        Some(of_alloc.map(|claim| claim.alias.to_string()).collect())
    }

    async fn snapshots(&self) -> Option<Vec<String>> {
        let none = Secrets::default();
        let listing = self.api.list_snapshots(&self.plugin()?, self.scope, &none).await;
        Some(listing.ok()?.iter().map(|one| one.id.to_string()).collect())
    }

    async fn external_volumes(&self) -> Option<Vec<String>> {
        let listing = self.api.list_external_volumes(&self.plugin()?, self.scope).await;
        let volumes = listing.ok()?;
        Some(volumes.iter().map(|one| one.external_id.to_string()).collect())
    }

    fn plugin(&self) -> Option<PluginId> {
        self.named.plugin.as_deref().map(PluginId::new)
    }
}
