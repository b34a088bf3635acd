//! The volumes that jobs can use: those of files, or those of a server.

use std::collections::{BTreeMap, BTreeSet};

use nomad_csi_model::diagnostic::Span;
use nomad_csi_model::{
    Capability, Namespace, NamespacedId, PluginId, TopologyRequest, Volume, VolumeId, VolumeSummary,
};
use nomad_csi_spec::VolumeSpec;

/// What the rules need to know of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintVolume {
    /// Its plugin.
    pub plugin: PluginId,
    /// Its capabilities; `None` if they are not known.
    pub capabilities: Option<Vec<Capability>>,
    /// The `read_only` of its specification.
    pub read_only: Option<bool>,
    /// The topologies from which it is accessible; empty if it is so from everywhere.
    pub topologies: TopologyRequest,
    /// Where it is declared; `None` for a volume of a server, and of a file that is not shown.
    pub places: Option<DeclaredAt>,
}

/// Where a volume is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredAt {
    pub(super) block: Span,
    pub(super) capability: Span,
    pub(super) read_only: Span,
    pub(super) topology: Span,
    /// The position of `count`, if the volume is one of several of its block.
    pub(super) count: Option<Span>,
}

impl LintVolume {
    /// Returns what a specification declares. Without `is_shown`, its file is not shown.
    pub fn of_spec(spec: &VolumeSpec, is_shown: bool) -> Self {
        let instance = spec.origin.as_ref().and_then(|origin| origin.instance.as_ref());
        let capability = spec.capability_spans.first().copied();
        let places = DeclaredAt {
            block: spec.span,
            capability: capability.unwrap_or_else(|| spec.field_span("capability")),
            read_only: spec.field_span("read_only"),
            topology: spec.field_span("topology_request"),
            count: instance.map(|instance| instance.place),
        };
        Self {
            plugin: spec.request.plugin_id.clone(),
            capabilities: Some(spec.request.capabilities.clone()),
            read_only: spec.read_only,
            topologies: spec.request.topology_request.clone().unwrap_or_default(),
            places: is_shown.then_some(places),
        }
    }

    /// Returns what a server knows of a volume. Its topologies are those that the provider chose.
    pub fn of_volume(volume: &Volume) -> Self {
        let required = volume.topologies.clone();
        Self {
            plugin: volume.plugin_id.clone(),
            capabilities: Some(volume.capabilities.clone()),
            read_only: None,
            topologies: TopologyRequest { required, preferred: vec![] },
            places: None,
        }
    }

    /// Returns what the list of a server says of a volume.
    pub fn of_summary(summary: &VolumeSummary) -> Self {
        Self {
            plugin: summary.plugin_id.clone(),
            capabilities: None,
            read_only: None,
            topologies: TopologyRequest::default(),
            places: None,
        }
    }
}

/// All volumes that jobs can use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LintVolumes {
    volumes: BTreeMap<NamespacedId, LintVolume>,
    /// The indexes of the volumes `SOURCE[INDEX]`, by namespace and source.
    indexes: BTreeMap<(Namespace, String), BTreeSet<u32>>,
}

impl FromIterator<(NamespacedId, LintVolume)> for LintVolumes {
    fn from_iter<I: IntoIterator<Item = (NamespacedId, LintVolume)>>(volumes: I) -> Self {
        let mut all = Self::default();
        for (key, volume) in volumes {
            if let Some((source, index)) = indexed(key.id.as_str()) {
                let of = (key.namespace.clone(), source.to_owned());
                all.indexes.entry(of).or_default().insert(index);
            }
            all.volumes.insert(key, volume);
        }
        all
    }
}

impl LintVolumes {
    pub(super) fn get(&self, namespace: &Namespace, id: &VolumeId) -> Option<&LintVolume> {
        self.volumes.get(&NamespacedId::new(namespace.clone(), id.clone()))
    }

    /// Returns the indexes of the volumes `SOURCE[INDEX]`.
    pub(super) fn indexes(&self, namespace: &Namespace, source: &str) -> BTreeSet<u32> {
        let of = (namespace.clone(), source.to_owned());
        self.indexes.get(&of).cloned().unwrap_or_default()
    }

    /// Returns the IDs of the volumes of a namespace.
    pub(super) fn ids<'s>(
        &'s self,
        namespace: &'s Namespace,
    ) -> impl Iterator<Item = &'s str> + Clone {
        let of = self.volumes.keys().filter(move |key| key.namespace == *namespace);
        of.map(|key| key.id.as_str())
    }

    /// Returns the namespaces that have a volume of this ID.
    pub(super) fn namespaces_with<'s>(
        &'s self,
        id: &'s str,
    ) -> impl Iterator<Item = &'s Namespace> {
        let of = self.volumes.keys().filter(move |key| key.id.as_str() == id);
        of.map(|key| &key.namespace)
    }
}

/// Returns the source and the index of `SOURCE[INDEX]`, as `per_alloc` writes it.
fn indexed(id: &str) -> Option<(&str, u32)> {
    let (source, index) = id.strip_suffix(']')?.rsplit_once('[')?;
    let number: u32 = index.parse().ok()?;
    (number.to_string() == index).then_some((source, number))
}
