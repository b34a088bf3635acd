use proptest::prelude::*;

use super::*;
use crate::action::{Action, Plan};
use crate::build::build_plan;
use crate::field_forms::{Form, SHOWN, WRITTEN, bare, fields, minimal, rules};
use crate::inputs::{ObservedState, PlanInputs};
use crate::ledger::{Actor, Intent, IntentStep, RecordedData};
use crate::ownership_changes::record_observations;
use crate::samples::{listed, plugin, spec};
use nomad_csi_model::{
    AllocId, ExternalId, HiddenField, PluginId, Secret, SecretRef, SecretRefs, SetName,
    UnresolvedRequest, VolumeId, VolumeRequest,
};
use nomad_csi_spec::Purpose;

/// A case: the file, the ledger, and a change between the plan that is cached and the next one.
#[derive(Clone, Debug)]
struct Story {
    /// The form of each field in the file.
    file: Vec<Form>,
    /// A field of the volume that the file does not have so, and its form.
    unlike_file: Option<(usize, Form)>,
    secrets: Option<&'static str>,
    /// The secrets that the set recorded.
    recorded_secrets: Option<&'static str>,
    is_owned: bool,
    server: ServerChange,
    change_of_file: FileChange,
    has_open_step: bool,
    is_replaced: bool,
}

#[derive(Clone, Debug)]
enum ServerChange {
    None,
    /// An allocation claims the volume, which moves the index of Nomad's volumes only.
    Claimed,
    Field(usize, Form),
    OtherData,
    Removed,
}

#[derive(Clone, Debug)]
enum FileChange {
    None,
    Field(usize, Form),
    Secrets,
    UnknownFlags,
    Protect,
}

fn story() -> impl Strategy<Value = Story> {
    let fields = fields().len();
    let written = || proptest::sample::select(WRITTEN.to_vec());
    let shown = || proptest::sample::select(SHOWN.to_vec());
    let secrets = || proptest::option::weighted(0.3, proptest::sample::select(vec!["a", "b"]));
    let server = prop_oneof![
        6 => Just(ServerChange::None),
        1 => Just(ServerChange::Claimed),
        2 => (0..fields, shown()).prop_map(|(field, form)| ServerChange::Field(field, form)),
        1 => Just(ServerChange::OtherData),
        1 => Just(ServerChange::Removed),
    ];
    let change_of_file = prop_oneof![
        6 => Just(FileChange::None),
        2 => (0..fields, written()).prop_map(|(field, form)| FileChange::Field(field, form)),
        1 => Just(FileChange::Secrets),
        1 => Just(FileChange::UnknownFlags),
        1 => Just(FileChange::Protect),
    ];
    let unlike_file = proptest::option::weighted(0.2, (0..fields, shown()));
    let file = proptest::collection::vec(written(), fields);
    (
        (file, unlike_file, secrets(), secrets()),
        (server, change_of_file),
        (
            proptest::bool::weighted(0.9),
            proptest::bool::weighted(0.1),
            proptest::bool::weighted(0.1),
        ),
    )
        .prop_map(
            |((file, unlike_file, secrets, recorded_secrets), (server, change_of_file), flags)| {
                Story {
                    file,
                    unlike_file,
                    secrets,
                    recorded_secrets,
                    is_owned: flags.0,
                    server,
                    change_of_file,
                    has_open_step: flags.1,
                    is_replaced: flags.2,
                }
            },
        )
}

/// The index that the server reports: that of the specification, or that of any change of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Indexes {
    OfSpecification,
    OfVolume,
}

fn file_of(at: usize, story: &Story) -> VolumeSpec {
    let mut request = minimal();
    for (field, form) in fields().iter().zip(&story.file) {
        (field.write)(&mut request, *form);
    }
    request.id = VolumeId::new(format!("db{at}"));
    request.secrets = story.secrets.map(secret_refs);
    spec(request)
}

fn secret_refs(value: &str) -> SecretRefs {
    let value = SecretRef::Literal(Secret::new(value.to_owned()));
    [("password".to_owned(), value)].into_iter().collect()
}

fn volume_of(at: usize, story: &Story) -> Volume {
    let mut volume = bare();
    for (field, form) in fields().iter().zip(&story.file) {
        (field.show)(&mut volume, *form);
    }
    if let Some((field, form)) = story.unlike_file {
        (fields()[field].show)(&mut volume, form);
    }
    volume.id = VolumeId::new(format!("db{at}"));
    volume
}

fn resolved(request: &UnresolvedRequest) -> VolumeRequest {
    let value = |_: &str, of: &SecretRef| match of {
        SecretRef::Literal(secret) | SecretRef::Evaluated(secret) => Ok(secret.clone()),
        SecretRef::Env(_) | SecretRef::File(_) | SecretRef::NomadVar { .. } => Err(()),
    };
    request.resolve(value).unwrap()
}

fn set_of(stories: &[Story]) -> LedgerSet {
    let name = SetName::parse("web").unwrap();
    let mut set = LedgerSet::new(name, LedgerKey::new([7; 32]));
    for (at, story) in stories.iter().enumerate().filter(|(_, story)| story.is_owned) {
        let file = file_of(at, story).request;
        let applied =
            UnresolvedRequest { secrets: story.recorded_secrets.map(secret_refs), ..file };
        set.record_applied(&resolved(&applied));
        let data = RecordedData::Stored(DataIdentity::of(&volume_of(at, story)));
        set.replace_data(&applied.key(), data);
    }
    set
}

/// A server, files and a set: what a plan is made from.
struct Situation {
    files: Vec<VolumeSpec>,
    volumes: BTreeMap<NamespacedId, Volume>,
    set: LedgerSet,
    rules: MergeRules,
    options: PlanOptions,
    lists_data: bool,
}

impl Situation {
    fn owned(&self) -> OwnedSet {
        OwnedSet::of(&self.set, &self.files, |spec| resolved(&spec.request).secrets)
    }

    fn plan(&self, unread: &CachedVolumes) -> (Plan, ObservedState) {
        let mut volumes = self.volumes.clone();
        volumes.retain(|key, _| !unread.contains_key(key));
        // The provider lost the data of the first volume.
        let provided = listed(&["vol-2", "other"]);
        let observed = ObservedState {
            volumes,
            unread: unread.clone(),
            plugins: [(PluginId::new("hostpath"), plugin(|_| {}))].into(),
            provided: match self.lists_data {
                true => [(PluginId::new("hostpath"), provided)].into(),
                false => [].into(),
            },
            ..ObservedState::default()
        };
        let plan = build_plan(PlanInputs {
            desired: self.files.clone(),
            purpose: Purpose::ByExternalId,
            observed: &observed,
            rules: self.rules,
            owned: Some(&self.owned()),
            options: &self.options,
        });
        (plan, observed)
    }

    fn unread(&self) -> CachedVolumes {
        let cached =
            cached_volumes(&self.files, &self.set, &self.owned(), self.rules, &self.options);
        let listed: Vec<VolumeSummary> = self.volumes.values().map(summary).collect();
        unread_volumes(&cached, &listed)
    }

    /// Notes what a plan left unchanged, as an apply does.
    fn note(&mut self) {
        let (plan, observed) = self.plan(&CachedVolumes::new());
        record_observations(
            &mut self.set,
            &plan,
            &observed,
            &BTreeMap::new(),
            1,
            Some(&CachedMergeRules::of(self.rules)),
        );
    }

    fn live(&mut self, at: usize, story: &Story, indexes: Indexes) {
        let file = &mut self.files[at];
        let key = file.key();
        match story.change_of_file {
            FileChange::None => {}
            FileChange::Field(field, form) => (fields()[field].write)(&mut file.request, form),
            FileChange::Secrets => file.request.secrets = Some(secret_refs("c")),
            FileChange::UnknownFlags => drop(file.unknown.insert(HiddenField::MountFlags)),
            FileChange::Protect => file.protect = Some(true),
        }
        let volume = self.volumes.get_mut(&key).unwrap();
        let (before, index) = (volume.spec_index, volume.modify_index + 1);
        match story.server {
            ServerChange::None => {}
            ServerChange::Claimed => {
                volume.write_allocs.insert(AllocId::new("a1"));
                volume.modify_index = index;
                volume.spec_index = match indexes {
                    Indexes::OfSpecification => before,
                    Indexes::OfVolume => index,
                };
            }
            ServerChange::Field(field, form) => {
                (fields()[field].show)(volume, form);
                (volume.modify_index, volume.spec_index) = (index, index);
            }
            ServerChange::OtherData => {
                volume.external_id = Some(ExternalId::new("other"));
                (volume.modify_index, volume.spec_index) = (index, index);
            }
            ServerChange::Removed => drop(self.volumes.remove(&key)),
        }
        if story.has_open_step {
            let intent = Intent {
                step: IntentStep::Register,
                since: 1,
                by: Actor {
                    user: "eva".into(),
                    host: "host".into(),
                    process: 1,
                    command: "apply".into(),
                },
            };
            self.set.record_intent(key.clone(), intent);
        }
        if story.is_replaced {
            self.options.replace.insert(key);
        }
    }
}

fn summary(volume: &Volume) -> VolumeSummary {
    nomad_csi_wire::summary_from_wire(&nomad_csi_wire::stub_to_wire(volume))
}

fn situation(stories: &[Story], rules: MergeRules, lists_data: bool) -> Situation {
    let each = || stories.iter().enumerate();
    let volumes = each().map(|(at, story)| volume_of(at, story));
    Situation {
        files: each().map(|(at, story)| file_of(at, story)).collect(),
        volumes: volumes.map(|volume| (volume.key(), volume)).collect(),
        set: set_of(stories),
        rules,
        options: PlanOptions::default(),
        lists_data,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// With the notes and with every volume read, plans are equal.
    #[test]
    fn a_plan_is_the_same_whether_all_volumes_are_read(
        stories in proptest::collection::vec(story(), 1..6),
        (before, after) in (0..rules().len(), 0..rules().len()),
        has_other_rules in proptest::bool::weighted(0.1),
        lists_data in any::<bool>(),
        indexes in proptest::sample::select(vec![Indexes::OfSpecification, Indexes::OfVolume]),
    ) {
        let mut situation = situation(&stories, rules()[before], lists_data);
        situation.note();
        for (at, story) in stories.iter().enumerate() {
            situation.live(at, story, indexes);
        }
        if has_other_rules {
            situation.rules = rules()[after];
        }
        let unread = situation.unread();
        let (shortened, _) = situation.plan(&unread);
        let (whole, _) = situation.plan(&CachedVolumes::new());
        prop_assert_eq!(shortened, whole, "{:?}", unread);
    }
}

fn quiet() -> Story {
    Story {
        file: vec![Form::Absent; fields().len()],
        unlike_file: None,
        secrets: None,
        recorded_secrets: None,
        is_owned: true,
        server: ServerChange::None,
        change_of_file: FileChange::None,
        has_open_step: false,
        is_replaced: false,
    }
}

fn unread_after(story: Story) -> usize {
    let stories = [story];
    let mut situation = situation(&stories, MergeRules::NOMAD, false);
    situation.note();
    situation.live(0, &stories[0], Indexes::OfVolume);
    situation.unread().len()
}

#[test]
fn an_unchanged_volume_is_not_read() {
    assert_eq!(unread_after(quiet()), 1);
    let with_secrets = Story { secrets: Some("a"), recorded_secrets: Some("a"), ..quiet() };
    assert_eq!(unread_after(with_secrets), 1);
    let protected = Story { change_of_file: FileChange::Protect, ..quiet() };
    assert_eq!(unread_after(protected), 1);
}

#[test]
fn whatever_may_change_the_plan_is_read() {
    let changes: [fn(&mut Story); 9] = [
        |story| story.server = ServerChange::Claimed,
        |story| story.server = ServerChange::OtherData,
        |story| story.server = ServerChange::Removed,
        |story| story.change_of_file = FileChange::Field(6, Form::Given),
        |story| story.change_of_file = FileChange::UnknownFlags,
        |story| story.recorded_secrets = Some("b"),
        |story| story.has_open_step = true,
        |story| story.is_replaced = true,
        |story| story.is_owned = false,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut story = Story { secrets: Some("a"), recorded_secrets: Some("a"), ..quiet() };
        change(&mut story);
        // A plan adopts a volume that the set does not own, and notes it.
        let expected = usize::from(!story.is_owned);
        assert_eq!(unread_after(story), expected, "{at}");
    }
}

/// A registration of other data without a higher index is seen by its external ID, which lists show.
#[test]
fn other_data_at_the_same_index_is_read() {
    let mut situation = situation(&[quiet()], MergeRules::NOMAD, false);
    situation.note();
    let volume = situation.volumes.values_mut().next().unwrap();
    volume.external_id = Some(ExternalId::new("other"));
    assert_eq!(situation.unread(), CachedVolumes::new());
}

/// A plan that changes a volume is not cached.
#[test]
fn only_a_volume_that_a_plan_leaves_unchanged_is_noted() {
    let stories = [quiet()];
    let mut situation = situation(&stories, MergeRules::NOMAD, false);
    let volume = volume_of(0, &stories[0]);
    let inputs = |of: &Situation| {
        let rules = CachedMergeRules::of(of.rules);
        inputs_of_unchanged(&of.set, &of.files[0], &volume, &rules)
    };
    assert!(inputs(&situation).is_some());
    (fields()[6].write)(&mut situation.files[0].request, Form::Given);
    let (planned, _) = situation.plan(&CachedVolumes::new());
    assert_ne!(planned.volumes[0].action, Action::Unchanged);
    assert_eq!(inputs(&situation), None);
}
