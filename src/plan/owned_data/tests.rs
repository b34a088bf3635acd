//! Owned volumes whose registration is gone or changed: what is planned for every kind of evidence.

use super::*;
use crate::action::{Plan, PlannedVolume};
use crate::approval::Approvals;
use crate::build::build_plan;
use crate::inputs::{ObservedState, OwnedSet, PlanOptions};
use crate::ledger::{LedgerKey, LedgerSet, Ownership};
use crate::provider_list::ProviderList;
use crate::provider_query::required_lists;
use crate::risk::{Recovery, Risk};
use crate::rules::MergeRules;
use crate::samples::{codes, desired, existing, observed, plugin, sent, spec};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{AllocId, ExternalId, ExternalVolume, PluginId, SetName};
use nomad_csi_spec::Purpose;

const OLD: &str = "vol-1";

fn data(id: &str) -> DataIdentity {
    DataIdentity { plugin_id: PluginId::new("hostpath"), external_id: ExternalId::new(id) }
}

fn listed(id: &str) -> ProviderList {
    let volume = ExternalVolume {
        health: None,
        external_id: ExternalId::new(id),
        capacity: Default::default(),
        context: [("path".to_owned(), "/data".to_owned())].into(),
        clone_id: None,
        snapshot_id: None,
        published_nodes: vec![],
        condition: None,
    };
    ProviderList::Listed([(volume.external_id.clone(), volume)].into())
}

struct Case {
    desired: UnresolvedRequest,
    there: Option<Volume>,
    list: Option<ProviderList>,
    owned: OwnedVolume,
    options: PlanOptions,
}

fn case() -> Case {
    Case {
        desired: desired(),
        there: None,
        list: Some(listed(OLD)),
        owned: OwnedVolume { data: RecordedData::Stored(data(OLD)), ..OwnedVolume::default() },
        options: PlanOptions::default(),
    }
}

fn replacing() -> PlanOptions {
    PlanOptions { replace: [existing().key()].into(), ..PlanOptions::default() }
}

impl Case {
    fn planned(self) -> PlannedVolume {
        let list = self.list.into_iter();
        let observed = ObservedState {
            provided: list.map(|list| (PluginId::new("hostpath"), list)).collect(),
            ..observed(self.there, plugin(|_| {}))
        };
        let owned = OwnedSet {
            set: "prod".into(),
            volumes: [(existing().key(), self.owned)].into(),
            ..OwnedSet::default()
        };
        let inputs = PlanInputs {
            desired: vec![spec(self.desired)],
            purpose: Purpose::ByExternalId,
            observed: &observed,
            rules: MergeRules::AGENT,
            owned: Some(&owned),
            options: &self.options,
        };
        build_plan(inputs).volumes.remove(0)
    }
}

fn registers(id: &str) -> UnresolvedRequest {
    UnresolvedRequest { external_id: Some(ExternalId::new(id)), ..desired() }
}

fn is_approved(planned: &PlannedVolume, approvals: &Approvals) -> bool {
    let plan = Plan { volumes: vec![planned.clone()], remarks: vec![], undeclared: vec![] };
    approvals.missing(&plan).is_empty()
}

/// Every record, every kind of list, protected or not: an empty volume is never planned as an ordinary
/// create.
#[test]
fn an_owned_volume_that_is_gone_is_never_an_ordinary_create() {
    let unknown = |reason| Some(ProviderList::Unknown(reason));
    let lists = [
        (Some(listed(OLD)), true),
        (Some(listed("vol-2")), false),
        (unknown(UnlistedReason::Unsupported), false),
        (unknown(UnlistedReason::Failed("forbidden".into())), false),
        (unknown(UnlistedReason::NotAsked), false),
        (None, false),
    ];
    for recorded in [RecordedData::Stored(data(OLD)), RecordedData::Unrecorded] {
        for (list, has_data) in lists.clone() {
            for (protect, replace) in [(false, false), (true, false), (true, true)] {
                let is_confirmed = has_data && recorded.identity().is_some();
                let planned = Case {
                    list: list.clone(),
                    owned: OwnedVolume {
                        protect,
                        data: recorded.clone(),
                        ..OwnedVolume::default()
                    },
                    options: if replace { replacing() } else { PlanOptions::default() },
                    ..case()
                };
                let planned = planned.planned();
                let expected = match (is_confirmed, protect && !replace) {
                    (true, _) => "register-again",
                    (false, true) => "blocked",
                    (false, false) => "recreate",
                };
                let at = format!("{recorded:?} {list:?} {protect} {replace}");
                assert_eq!(planned.action.as_str(), expected, "{at}");
                assert_eq!(planned.action.requires_own_approval(), expected == "recreate");
                if expected == "blocked" {
                    assert_eq!(codes(&planned), [Code::PlanProtected.as_str()]);
                }
            }
        }
    }
}

#[test]
fn data_that_the_provider_lists_is_registered_again_with_its_context() {
    let planned = case().planned();
    let request = sent(&planned);
    assert_eq!(request.external_id, Some(ExternalId::new(OLD)));
    let context = [("path".to_owned(), "/data".to_owned())].into();
    assert_eq!(request.context, Some(context));
    let of_file = UnresolvedRequest { external_id: None, context: None, ..request.clone() };
    assert_eq!(of_file, desired());
    assert_eq!(planned.impact.as_ref().unwrap().risk, Risk::Reversible);
    assert!(is_approved(&planned, &Approvals::default()));
}

#[test]
fn an_empty_volume_needs_an_approval_of_its_own_and_names_what_is_lost() {
    let planned = Case { list: Some(listed("vol-2")), ..case() };
    let planned = planned.planned();
    let impact = planned.impact.clone().unwrap();
    assert_eq!(impact.risk, Risk::DestroysData);
    assert_eq!(impact.recovery, Recovery::RegisterAgain(ExternalId::new(OLD)));
    assert_eq!(impact.loss.unwrap().external_id, Some(ExternalId::new(OLD)));
    let [warning] = &planned.warnings[..] else {
        panic!("{:?}", planned.warnings);
    };
    assert_eq!(warning.code, Code::PlanDataUnconfirmed);
    assert!(format!("{warning:?}").contains("external ID vol-1 at plugin hostpath"));
    let general = Approvals { max_risk: Some(Risk::DestroysData), ..Approvals::default() };
    assert!(!is_approved(&planned, &general));
    let own = Approvals {
        approved: [(Risk::DestroysData, planned.key.clone())].into(),
        ..Approvals::default()
    };
    assert!(is_approved(&planned, &own));
}

/// The file gives no context, and the plugin may need the one that it returned from the create.
#[test]
fn a_file_that_names_the_data_is_sent_with_the_context_from_the_list() {
    let planned = Case { desired: registers(OLD), ..case() };
    let planned = planned.planned();
    let context = [("path".to_owned(), "/data".to_owned())].into();
    assert_eq!(sent(&planned).context, Some(context));
}

/// A replacement that was interrupted between its two steps, and a create whose reply is lost.
#[test]
fn a_volume_that_the_set_itself_was_replacing_is_created() {
    let with =
        |data: RecordedData, open_step| OwnedVolume { data, open_step, ..OwnedVolume::default() };
    let old = || RecordedData::Stored(data(OLD));
    for (owned, expected) in [
        (with(RecordedData::Removed, None), "create"),
        (with(RecordedData::Removed, Some(IntentStep::Create)), "create"),
        (with(old(), Some(IntentStep::Create)), "create"),
        (with(old(), Some(IntentStep::Delete)), "create"),
        (with(old(), Some(IntentStep::Register)), "recreate"),
        (with(old(), Some(IntentStep::Deregister)), "recreate"),
        (with(old(), Some(IntentStep::Expand)), "recreate"),
        (with(old(), None), "recreate"),
    ] {
        let planned = Case { list: None, owned: owned.clone(), ..case() };
        assert_eq!(planned.planned().action.as_str(), expected, "{owned:?}");
    }
}

#[test]
fn a_file_that_names_the_data_registers_it_again_unless_other_data_is_recorded() {
    let recorded = |data| OwnedVolume { data, ..OwnedVolume::default() };
    let old = || recorded(RecordedData::Stored(data(OLD)));
    let (none, replace) = (PlanOptions::default, replacing);
    for (named, owned, options, expected) in [
        (OLD, old(), none(), "register-again"),
        (OLD, recorded(RecordedData::Unrecorded), none(), "register-again"),
        (OLD, recorded(RecordedData::Removed), none(), "register"),
        ("vol-2", old(), none(), "blocked"),
        ("vol-2", old(), replace(), "register-again"),
    ] {
        let planned =
            Case { desired: registers(named), list: None, owned: owned.clone(), options, ..case() };
        let planned = planned.planned();
        assert_eq!(planned.action.as_str(), expected, "{named} {owned:?}");
        assert!(!planned.action.requires_own_approval());
    }
}

fn other() -> Volume {
    Volume { external_id: Some(ExternalId::new("vol-2")), ..existing() }
}

#[test]
fn other_data_under_the_name_is_refused_with_both_external_ids() {
    let unlisted = Case { there: Some(other()), list: Some(listed("vol-2")), ..case() };
    let named = Case { desired: registers("vol-2"), there: Some(other()), ..case() };
    let replaced = Case { there: Some(other()), list: None, options: replacing(), ..case() };
    for case in [unlisted, named, replaced] {
        let planned = case.planned();
        assert_eq!(codes(&planned), [Code::PlanDataChanged.as_str()]);
        let text = format!("{:?}", planned.action.reasons());
        for part in ["vol-1", "vol-2", "nomad-csi forget db --set prod"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn recorded_data_takes_its_name_back_only_with_an_approval_of_its_own() {
    let planned = Case { there: Some(other()), ..case() };
    let planned = planned.planned();
    let Action::RegisterAgain(again) = &planned.action else {
        panic!("{:?}", planned.action);
    };
    assert_eq!(again.replaces, Some(data("vol-2")));
    assert_eq!(planned.impact.as_ref().unwrap().risk, Risk::NeedsDowntime);
    let general = Approvals { max_risk: Some(Risk::DestroysData), ..Approvals::default() };
    assert!(!is_approved(&planned, &general));
    let claimed = Case {
        there: Some(Volume { write_allocs: [AllocId::new("a1")].into(), ..other() }),
        ..case()
    };
    assert_eq!(claimed.planned().action.as_str(), "wait");
}

/// The create was approved; its outcome is the data that is there now.
#[test]
fn data_of_an_interrupted_create_is_not_other_data() {
    let interrupted = Case {
        there: Some(other()),
        owned: OwnedVolume {
            data: RecordedData::Stored(data(OLD)),
            open_step: Some(IntentStep::Create),
            ..OwnedVolume::default()
        },
        ..case()
    };
    assert_eq!(interrupted.planned().action, Action::Unchanged);
}

#[test]
fn a_file_that_names_another_plugin_does_not_register_the_data() {
    let mut request = desired();
    request.plugin_id = PluginId::new("other");
    let planned = Case { desired: request, ..case() };
    let planned = planned.planned();
    assert!(matches!(
        &planned.action,
        Action::Recreate(recreate) if recreate.why == UnconfirmedReason::OtherPlugin
    ));
}

#[test]
fn the_ledger_names_the_providers_that_a_plan_must_ask() {
    let key = existing().key();
    let mut set = LedgerSet::new(SetName::parse("prod").unwrap(), LedgerKey::new([7; 32]));
    set.own(key.clone(), Ownership::default());
    let specs = [spec(desired())];
    let asked = |set: &LedgerSet, there: Option<Volume>| {
        let owned = OwnedSet::of(set, &specs, |_| None);
        let observed = observed(there, plugin(|_| {}));
        let asked = required_lists(&specs, &observed, Some(&owned));
        asked.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(asked(&set, None), [], "nothing is recorded");
    set.fill_in_data(&key, data(OLD));
    assert_eq!(asked(&set, None), [PluginId::new("hostpath")]);
    assert_eq!(asked(&set, Some(existing())), []);
    assert_eq!(asked(&set, Some(other())), [PluginId::new("hostpath")]);
}
