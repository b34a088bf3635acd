//! The facts of the state that decisions about claims need.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::claims_record::{AllocRecord, ClaimsRecord, NodeLoss};
use super::job_record::Placement;
use super::leader_starts::LeaderStarts;
use super::plugin_record::{PluginAlloc, PluginRecord};
use super::record::VolumeRecord;
use super::tables::State;
use crate::claim::{ClaimKey, Claims, Facts, NodeVolumes, PluginSteps, Step, next_steps};
use nomad_csi_model::{
    AllocId, ExternalNodeId, HostSession, NamespacedId, NodeId, PluginId, PluginInstance,
    RemoteVolume, TaskGroup, VolumeAlias,
};

impl State {
    /// Returns the claims of an external volume.
    pub fn claims(&self, volume: &RemoteVolume) -> Option<&Arc<ClaimsRecord>> {
        self.claims.get(volume)
    }

    /// Returns all records of claims, sorted by plugin and external ID.
    pub fn all_claims(&self) -> impl ExactSizeIterator<Item = &Arc<ClaimsRecord>> {
        self.claims.values()
    }

    /// Returns the external volumes whose claims changed after this index.
    pub fn claims_changed_after(&self, index: u64) -> BTreeSet<RemoteVolume> {
        let changed = self.claim_changes.iter().rev();
        let changed = changed.take_while(|(changed, _)| *changed > index);
        changed.map(|(_, volume)| volume.clone()).collect()
    }

    /// Returns the index of the last event that changed a claim.
    pub fn claims_index(&self) -> u64 {
        self.claims_index
    }

    /// Returns the volume that an allocation claims under a name.
    pub fn claimed_as(&self, key: &ClaimKey) -> Option<&RemoteVolume> {
        self.claim_keys.get(key)
    }

    /// Returns the claims of one allocation.
    pub fn claims_of(&self, alloc: &AllocId) -> impl Iterator<Item = (&ClaimKey, &RemoteVolume)> {
        let first = ClaimKey { alloc: alloc.clone(), alias: VolumeAlias::new("") };
        let keys = self.claim_keys.range(first..);
        keys.take_while(move |(key, _)| key.alloc == *alloc)
    }

    /// Returns whether an allocation has one claim at most.
    pub fn has_one_claim(&self, alloc: &AllocId) -> bool {
        self.claims_of(alloc).nth(1).is_none()
    }

    /// Returns an allocation.
    pub fn alloc(&self, id: &AllocId) -> Option<&AllocRecord> {
        self.allocs.get(id)
    }

    /// Returns all allocations, sorted by ID.
    pub fn allocs(&self) -> impl ExactSizeIterator<Item = (&AllocId, &AllocRecord)> {
        self.allocs.iter()
    }

    /// Returns the allocations that changed after this index. Forgotten ones are not among them.
    pub fn allocs_changed_after(&self, index: u64) -> impl Iterator<Item = &AllocId> {
        let changed = self.alloc_changes.iter().rev();
        let changed = changed.take_while(move |(changed, _)| *changed > index);
        changed.map(|(_, alloc)| alloc)
    }

    /// Returns the index of the last event that changed an allocation.
    pub fn allocs_index(&self) -> u64 {
        self.allocs_index
    }

    /// Returns the allocations of a node that jobs placed there and that have not reported their end, except those that
    /// only serve plugins.
    pub fn running_allocs(&self, node: &NodeId) -> impl Iterator<Item = &AllocId> {
        let serves = |placement: &Placement| {
            let group = placement.task_group();
            group.is_some_and(TaskGroup::only_serves_plugins)
        };
        let allocs = self.allocs.iter();
        let running = allocs.filter(move |(_, alloc)| {
            let placement = alloc.placement.as_deref();
            !alloc.has_ended
                && alloc.node == *node
                && placement.is_some_and(|placement| !serves(placement))
        });
        running.map(|(id, _)| id)
    }

    /// Returns the loss of a node; `None` if it is not lost.
    pub fn node_loss(&self, node: &NodeId) -> Option<&NodeLoss> {
        self.losses.get(node)
    }

    /// Returns all lost nodes.
    pub fn node_losses(&self) -> impl ExactSizeIterator<Item = (&NodeId, &NodeLoss)> {
        self.losses.iter()
    }

    /// Returns the run of a node's process that can be called; `None` before the first one connected.
    pub fn session(&self, node: &NodeId) -> Option<&HostSession> {
        self.sessions.get(node)
    }

    /// Returns where the leaders of this journal began.
    pub fn leader_starts(&self) -> &LeaderStarts {
        &self.leaders
    }

    /// Returns the SHA-256 of a node's secret; `None` if it has none.
    pub fn node_secret_hash(&self, node: &NodeId) -> Option<&str> {
        self.node_secrets.get(node).map(String::as_str)
    }

    /// Returns the boot ID of a node at its last start.
    pub fn boot_id(&self, node: &NodeId) -> Option<&str> {
        self.boots.get(node).map(String::as_str)
    }

    /// Returns the facts for decisions about the claims of a plugin's volumes.
    pub fn claim_facts(&self, plugin: &PluginId, record: &Claims) -> Facts {
        let returned = self.losses.iter().filter(|(_, loss)| loss.has_returned);
        let instances = self.plugins.get(plugin);
        let stages = record.nodes().into_iter().filter_map(|node| {
            let stages = stages_on(instances?, record, node)?;
            Some((node.clone(), stages))
        });
        Facts {
            plugin: self.plugin_steps(plugin),
            stages: stages.collect(),
            lost: self.losses.keys().cloned().collect(),
            returned: returned.map(|(node, _)| node.clone()).collect(),
        }
    }

    /// Returns the steps that the plugin's newest instances need; `None` while they are not known. A plugin that
    /// requires a controller attaches volumes only as its controller reports (W18).
    pub fn plugin_steps(&self, plugin: &PluginId) -> Option<PluginSteps> {
        let record = self.plugins.get(plugin)?;
        let instances = || record.allocs.values().map(|alloc| &alloc.instance);
        let requires_controller = instances().any(|instance| instance.requires_controller);
        let attach = match newest(record, |alloc| alloc.instance.controller.is_some()) {
            Some(alloc) => alloc
                .instance
                .controller
                .as_ref()
                .is_some_and(|info| info.capabilities.publish_unpublish_volume),
            None if requires_controller => return None,
            None => false,
        };
        let node = newest(record, |alloc| alloc.instance.node.is_some())?;
        Some(PluginSteps { attach: attach && requires_controller, stage: stages(node)? })
    }

    /// Returns the steps that are due for an external volume.
    pub fn claim_steps(&self, volume: &RemoteVolume) -> BTreeSet<Step> {
        let unclaimed = Claims::default();
        let record = self.claims.get(volume);
        let record = record.map_or(&unclaimed, |record| &record.claims);
        next_steps(record, &self.claim_facts(&volume.plugin_id, record))
    }

    /// Returns the newest healthy instance of the plugin with the node service on a node.
    pub fn node_instance(&self, plugin: &PluginId, node: &NodeId) -> Option<&PluginInstance> {
        let allocs = self.plugins.get(plugin)?.allocs.values();
        let serving = allocs.filter(|alloc| {
            alloc.node == *node && alloc.instance.node.is_some() && alloc.instance.health.healthy
        });
        let newest = serving.max_by_key(|alloc| alloc.create_index)?;
        Some(&newest.instance)
    }

    /// Returns the node of an instance of a plugin.
    pub fn node_of_instance(&self, plugin: &PluginId, alloc: &AllocId) -> Option<&NodeId> {
        let record = self.plugins.get(plugin)?;
        record.allocs.get(alloc).map(|alloc| &alloc.node)
    }

    /// Returns the provider's ID of a node: from a claim on it, or from the node's plugin (B36, B37).
    pub fn external_node(&self, plugin: &PluginId, node: &NodeId) -> Option<ExternalNodeId> {
        let allocs = self.plugins.get(plugin)?.allocs.values();
        let here = allocs.filter(|alloc| alloc.node == *node);
        let newest = here
            .filter(|alloc| alloc.instance.node.is_some())
            .max_by_key(|alloc| alloc.create_index)?;
        let info = newest.instance.node.as_ref()?;
        Some(info.external_node_id.clone())
    }

    /// Returns how many other volumes of the plugin are claimed on the node, and the plugin's limit.
    pub fn node_volumes(&self, volume: &RemoteVolume, node: &NodeId) -> NodeVolumes {
        let plugin = &volume.plugin_id;
        let instance = self.node_instance(plugin, node);
        let limit = instance.and_then(|instance| instance.node.as_ref()?.max_volumes);
        let others = match limit {
            None => 0,
            Some(_) => self
                .claims
                .values()
                .filter(|record| record.volume.plugin_id == *plugin && record.volume != *volume)
                .filter(|record| record.claims.nodes().contains(node))
                .count(),
        };
        NodeVolumes { others: u64::try_from(others).unwrap_or(u64::MAX), limit }
    }

    /// Returns the registrations of an external volume.
    pub fn registrations(&self, volume: &RemoteVolume) -> impl Iterator<Item = &Arc<VolumeRecord>> {
        let keys = self.remote_volumes(&volume.plugin_id, &volume.external_id);
        keys.filter_map(|key| self.volumes.get(key))
    }

    /// Returns the external volume of a registration; `None` while it is being created.
    pub fn remote_volume(&self, key: &NamespacedId) -> Option<RemoteVolume> {
        let record = self.volumes.get(key)?;
        record.remote_volume()
    }
}

/// Returns the newest allocation of a plugin, a healthy one if there is any.
fn newest(plugin: &PluginRecord, is_meant: impl Fn(&PluginAlloc) -> bool) -> Option<&PluginAlloc> {
    let meant = plugin.allocs.values().filter(|alloc| is_meant(alloc));
    meant.max_by_key(|alloc| (alloc.instance.health.healthy, alloc.create_index))
}

/// Returns whether an allocation of a plugin stages volumes; `None` without the node service.
fn stages(alloc: &PluginAlloc) -> Option<bool> {
    let node = alloc.instance.node.as_ref()?;
    Some(node.capabilities.stage_unstage_volume)
}

/// Returns whether what carries out the steps on a node stages volumes: the allocation that got a call whose effect
/// is possible (rule 4 of the claims machine), else the newest one there.
fn stages_on(plugin: &PluginRecord, record: &Claims, node: &NodeId) -> Option<bool> {
    let bound = record.open_call(node).and_then(|call| plugin.allocs.get(&call.instance));
    let there = || newest(plugin, |alloc| alloc.node == *node && stages(alloc).is_some());
    stages(bound.or_else(there)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{ClaimEvent, Known, samples};
    use crate::state::samples::{instance, key, registered, started, state_of};
    use crate::state::{Event, EventKind, apply, check};
    use nomad_csi_model::AccessMode;

    const NODES: [&str; 2] = ["n1", "n2"];

    struct Story(State, RemoteVolume);

    impl Story {
        fn change(&mut self, kind: EventKind) {
            let event = Event::new(1, kind);
            assert!(check(&self.0, &event).is_ok(), "{event:?}");
            apply(&mut self.0, &event);
        }

        fn observe(&mut self, alloc: &str, node: &str, stages: bool) {
            let mut instance = instance(true);
            instance.alloc_id = AllocId::new(alloc);
            instance.controller = None;
            instance.requires_controller = false;
            if let Some(node) = &mut instance.node {
                node.capabilities.stage_unstage_volume = stages;
            }
            self.change(EventKind::PluginAllocObserved {
                plugin: self.1.plugin_id.clone(),
                node: NodeId::new(node),
                instance: Box::new(instance),
            });
        }

        fn claim(&mut self, event: ClaimEvent) {
            self.change(EventKind::Claim { volume: self.1.clone(), event: Box::new(event) });
        }
    }

    /// Rule 18: the instance of the node decides, however the newest one of the plugin does it.
    #[test]
    fn the_instance_on_a_node_decides_for_it() {
        for (first, second) in [(false, true), (true, false)] {
            let state = state_of([started(), registered(&key("default", "db"), "ext-1")]);
            let volume = state.remote_volume(&key("default", "db")).unwrap();
            let mut story = Story(state, volume);
            story.observe("p1", NODES[0], first);
            story.observe("p2", NODES[1], second);
            for (alloc, node) in [("a1", NODES[0]), ("a2", NODES[1])] {
                story.change(EventKind::AllocStarted {
                    alloc: AllocId::new(alloc),
                    node: NodeId::new(node),
                });
                let request = samples::request(alloc, node, AccessMode::MultiNodeMultiWriter);
                let (key, claim) = request.granted(0);
                let claim = Box::new(claim);
                story.claim(ClaimEvent::Granted { key, claim });
            }
            let step = |alloc: &str, node: &str, stages| match stages {
                true => Step::NodeStage(NodeId::new(node)),
                false => Step::NodePublish(samples::key(alloc)),
            };
            let expected = [step("a1", NODES[0], first), step("a2", NODES[1], second)];
            assert_eq!(story.0.claim_steps(&story.1), expected.into());
        }
    }

    /// Rules 4 and 18: while the effect of a call is possible, the instance that got it decides.
    #[test]
    fn the_instance_of_an_open_call_decides() {
        let state = state_of([started(), registered(&key("default", "db"), "ext-1")]);
        let volume = state.remote_volume(&key("default", "db")).unwrap();
        let mut story = Story(state, volume);
        story.observe("p1", NODES[0], false);
        story.change(EventKind::AllocStarted {
            alloc: AllocId::new("a1"),
            node: NodeId::new(NODES[0]),
        });
        let request = samples::request("a1", NODES[0], AccessMode::MultiNodeMultiWriter);
        let (key, claim) = request.granted(0);
        let claim = Box::new(claim);
        story.claim(ClaimEvent::Granted { key, claim });
        let publish = Step::NodePublish(samples::key("a1"));
        story.claim(ClaimEvent::StepStarted {
            step: publish.clone(),
            instance: AllocId::new("p1"),
            inputs: None,
        });
        story.observe("p2", NODES[0], true);
        let claims = story.0.claims(&story.1).unwrap();
        assert_eq!(claims.claims.claims[&samples::key("a1")].published, Known::Maybe);
        assert_eq!(story.0.claim_steps(&story.1), [publish].into());
    }
}
