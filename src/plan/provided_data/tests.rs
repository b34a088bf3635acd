//! Data that is gone at its provider, and sources that do not exist.

use std::collections::BTreeMap;

use super::*;
use crate::build::build_plan;
use crate::inputs::PlanOptions;
use crate::provider_list::{ProviderList, UnlistedReason};
use crate::rules::MergeRules;
use crate::samples::{bytes, codes, desired, existing, inputs, listed, observed, plugin, spec};
use nomad_csi_model::UnresolvedRequest;
use nomad_csi_spec::Purpose;

fn lists(ids: &[&str]) -> BTreeMap<PluginId, ProviderList> {
    [(PluginId::new("hostpath"), listed(ids))].into()
}

fn plan(requests: Vec<UnresolvedRequest>, observed: &ObservedState) -> Vec<PlannedVolume> {
    let specs = requests.into_iter().map(spec).collect();
    let inputs = inputs(specs, observed, MergeRules::NOMAD, Purpose::ByExternalId);
    build_plan(inputs).volumes
}

fn larger() -> UnresolvedRequest {
    let mut request = desired();
    request.capacity.max = bytes(9000);
    request
}

#[test]
fn a_volume_whose_data_is_gone_is_reported_and_not_updated() {
    for (ids, is_gone) in [(&["vol-1"][..], false), (&["vol-2"], true), (&[], true)] {
        let observed =
            ObservedState { provided: lists(ids), ..observed(Some(existing()), plugin(|_| {})) };
        let unchanged = plan(vec![desired()], &observed).remove(0);
        assert_eq!(unchanged.action, Action::Unchanged);
        let gone = unchanged.warnings.iter().any(|one| one.code == Code::PlanDataGone);
        assert_eq!(gone, is_gone, "{ids:?}");
        let updated = plan(vec![larger()], &observed).remove(0);
        if is_gone {
            assert_eq!(codes(&updated), [Code::PlanDataGone.as_str()]);
            assert_eq!(updated.impact, None);
        } else {
            assert_eq!(updated.action.as_str(), "update");
        }
    }
}

#[test]
fn a_provider_that_was_not_asked_blocks_nothing() {
    let observed = observed(Some(existing()), plugin(|_| {}));
    let updated = plan(vec![larger()], &observed).remove(0);
    assert_eq!(updated.action.as_str(), "update");
    assert_eq!(updated.warnings.iter().filter(|one| one.code == Code::PlanDataGone).count(), 0);
}

#[test]
fn a_volume_whose_data_is_gone_can_be_replaced() {
    let observed =
        ObservedState { provided: lists(&[]), ..observed(Some(existing()), plugin(|_| {})) };
    let options = PlanOptions { replace: [existing().key()].into(), ..PlanOptions::default() };
    let mut inputs =
        inputs(vec![spec(desired())], &observed, MergeRules::NOMAD, Purpose::ByExternalId);
    inputs.options = &options;
    assert_eq!(build_plan(inputs).volumes[0].action.as_str(), "replace");
}

fn copy(clone: Option<&str>, snapshot: Option<&str>) -> UnresolvedRequest {
    UnresolvedRequest {
        id: "copy".into(),
        name: Some("copy".into()),
        clone_id: clone.map(str::to_owned),
        snapshot_id: snapshot.map(str::to_owned),
        ..desired()
    }
}

#[test]
fn a_copy_needs_a_source_that_is_listed_or_declared() {
    let observed = ObservedState {
        provided: lists(&["vol-1"]),
        provided_snapshots: snapshots(&[("snap-1", 0)]),
        ..observed(Some(existing()), plugin(|_| {}))
    };
    for (clone, snapshot, expected) in [
        (Some("vol-1"), None, "create"),
        (Some("database"), None, "create"),
        (Some("vol-9"), None, "blocked"),
        (None, Some("snap-1"), "create"),
        (None, Some("snap-9"), "blocked"),
    ] {
        let volumes = plan(vec![desired(), copy(clone, snapshot)], &observed);
        let planned = &volumes[1];
        assert_eq!(planned.action.as_str(), expected, "{clone:?} {snapshot:?}");
        if expected == "blocked" {
            assert_eq!(codes(planned), [Code::PlanSourceMissing.as_str()]);
        }
    }
    let unasked = super::super::samples::observed(Some(existing()), plugin(|_| {}));
    for request in [copy(Some("vol-9"), None), copy(None, Some("snap-9"))] {
        assert_eq!(plan(vec![request], &unasked)[0].action.as_str(), "create");
    }
}

fn snapshots(list: &[(&str, u64)]) -> BTreeMap<PluginId, BTreeMap<String, Bytes>> {
    let sizes = list.iter().map(|(id, size)| ((*id).to_owned(), bytes(*size))).collect();
    [(PluginId::new("hostpath"), sizes)].into()
}

#[test]
fn a_source_that_is_larger_than_the_volume_may_be_is_blocked() {
    let observed_with = |size: u64| {
        let ProviderList::Listed(mut list) = listed(&["vol-1"]) else {
            panic!("a list");
        };
        list.values_mut().for_each(|volume| volume.capacity = bytes(size));
        let list = ProviderList::Listed(list);
        ObservedState {
            provided: [(PluginId::new("hostpath"), list)].into(),
            provided_snapshots: snapshots(&[("snap-1", size)]),
            ..observed(None, plugin(|_| {}))
        }
    };
    for (max, size, expected) in [
        (1000, 1000, "create"),
        (1000, 1001, "blocked"),
        (1000, 0, "create"),
        (0, 1 << 40, "create"),
    ] {
        for (clone, snapshot) in [(Some("vol-1"), None), (None, Some("snap-1"))] {
            let mut request = copy(clone, snapshot);
            request.capacity.min = Bytes::ZERO;
            request.capacity.max = bytes(max);
            let volumes = plan(vec![request], &observed_with(size));
            let planned = &volumes[0];
            assert_eq!(planned.action.as_str(), expected, "{max} {size} {clone:?}");
            if expected == "blocked" {
                assert_eq!(codes(planned), [Code::PlanSourceTooLarge.as_str()]);
            }
        }
    }
}

#[test]
fn a_registration_of_data_that_the_provider_does_not_list_is_reported() {
    let registration = |external_id: &str| UnresolvedRequest {
        id: "other".into(),
        external_id: Some(ExternalId::new(external_id)),
        ..desired()
    };
    let with = |provided| ObservedState { provided, ..observed(None, plugin(|_| {})) };
    let unknown = ProviderList::Unknown(UnlistedReason::Failed("down".into()));
    for (provided, expected) in [
        (lists(&["vol-1"]), vec![Code::PlanDataNotListed]),
        (lists(&[]), vec![Code::PlanDataNotListed]),
        (lists(&["vol-7"]), vec![]),
        ([(PluginId::new("hostpath"), unknown)].into(), vec![]),
        (BTreeMap::new(), vec![]),
    ] {
        let volumes = plan(vec![registration("vol-7")], &with(provided));
        let planned = &volumes[0];
        assert_eq!(planned.action.as_str(), "register");
        let warned: Vec<_> = planned.warnings.iter().map(|one| one.code).collect();
        assert_eq!(warned, expected);
    }
}
