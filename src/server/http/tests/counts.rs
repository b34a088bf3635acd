//! Counts in documents, over random histories.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::http::{plugins, volume_documents};
use nomad_csi_claims::claim::Claim;
use nomad_csi_claims::state::samples::History;
use nomad_csi_claims::state::{State, VolumeFilter, VolumeRecord, VolumeView, volumes as listed};
use nomad_csi_model::{AllocId, Namespace};
use nomad_csi_wire::InstanceDocument;

/// The allocations with such a claim of the volume through its registration, from the table of claims.
/// Claims of an external volume that had the same ID before are not its own.
fn claimants(state: &State, volume: &VolumeRecord, is_selected: fn(&Claim) -> bool) -> usize {
    let external = volume.remote_volume();
    let records = state.all_claims();
    let own = records.filter(|record| Some(&record.volume) == external.as_ref());
    let claims = own.flat_map(|record| record.claims.through(volume.key()));
    let selected = claims.filter(|(_, claim)| is_selected(claim));
    let allocs: BTreeSet<AllocId> = selected.map(|(key, _)| key.alloc.clone()).collect();
    allocs.len()
}

fn assert_volume_counts(state: &State, view: &VolumeView) {
    let readers = claimants(state, &view.record, |claim| claim.read_only);
    let writers = claimants(state, &view.record, |claim| !claim.read_only);
    let stub = volume_documents::volume_stub(view);
    let document = volume_documents::volume_document(view);
    assert_eq!([document.read_allocs.len(), document.write_allocs.len()], [readers, writers]);
    let counts = [stub.current_readers, stub.current_writers];
    assert_eq!(counts.map(|count| usize::try_from(count).unwrap()), [readers, writers]);
}

/// Counts the healthy instances, and those that no job was placed for: what jobs expect does not depend on instances.
fn counted<'a>(state: &State, instances: impl Iterator<Item = &'a InstanceDocument>) -> [i64; 2] {
    let is_placed = |instance: &InstanceDocument| {
        let alloc = state.alloc(&AllocId::new(&instance.alloc_id));
        alloc.is_some_and(|alloc| alloc.placement.is_some())
    };
    instances.fold([0, 0], |[healthy, expected], instance| {
        let is_own = !is_placed(instance);
        [healthy + i64::from(instance.healthy), expected + i64::from(is_own)]
    })
}

/// The counts of every plugin and of its volumes match the instances that the plugin's document shows.
fn assert_plugin_counts(state: &State, volumes_of_state: &[VolumeView]) {
    for view in nomad_csi_claims::state::plugins(state, "") {
        let document = plugins::document(&view);
        let controllers = counted(state, document.controllers.values());
        let nodes = counted(state, document.nodes.values());
        let stub = plugins::stub(&view);
        for shown in [
            [
                [document.controllers_healthy, document.controllers_expected],
                [document.nodes_healthy, document.nodes_expected],
            ],
            [
                [stub.controllers_healthy, stub.controllers_expected],
                [stub.nodes_healthy, stub.nodes_expected],
            ],
        ] {
            assert_eq!(shown, [controllers, nodes]);
        }
        for volume in volumes_of_state {
            let stub = volume_documents::volume_stub(volume);
            if stub.plugin_id == document.id {
                let shown = [stub.controllers_healthy, stub.controllers_expected];
                assert_eq!(shown, controllers);
                assert_eq!([stub.nodes_healthy, stub.nodes_expected], nodes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// B86: every count of a document equals the records that it counts. W55: those that are expected are the
    /// instances, whatever their jobs are.
    #[test]
    fn counts_equal_the_records_that_they_count(seed in any::<u64>(), length in 50_usize..400) {
        let mut history = History::new(seed);
        history.by_ref().take(length).for_each(drop);
        let state = history.state();
        let everywhere = VolumeFilter {
            among: None,
            namespace: Namespace::new(Namespace::ALL),
            prefix: String::new(),
            plugin: None,
            node: None,
        };
        let all = listed(state, &everywhere, None, 0).volumes;
        prop_assert!(length < 200 || !all.is_empty(), "the history has volumes");
        all.iter().for_each(|view| assert_volume_counts(state, view));
        assert_plugin_counts(state, &all);
    }
}
