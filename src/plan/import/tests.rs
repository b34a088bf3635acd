use super::*;
use crate::action::Action;
use crate::build::build_plan;
use crate::inputs::{PlanInputs, PlanOptions};
use crate::rules::MergeRules;
use crate::samples::{existing, observed, plugin};
use nomad_csi_model::diagnostic::{Diagnostics, Severity, SourceMap};
use nomad_csi_model::{Capability, ServerVersion, VolumeId};
use nomad_csi_spec::{Defaults, Purpose, Syntax, VolumeSpec, encode_file, parse, validate};

fn written(volume: &Volume, syntax: Syntax) -> Vec<VolumeSpec> {
    let imported = import_volume(volume, &ImportContext::default());
    let text = encode_file(&imported.written, None, syntax);
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("imported", text.as_str());
    let defaults = Defaults::default();
    let specs = parse(&mut sources, source, syntax, &defaults, &mut diagnostics);
    validate(&specs, Purpose::ByExternalId, &mut diagnostics);
    let wrong = diagnostics.iter().filter(|one| one.severity == Severity::Error);
    assert_eq!(wrong.count(), 0, "{text}");
    specs
}

fn odd(change: impl FnOnce(&mut Volume)) -> Volume {
    let mut volume = existing();
    change(&mut volume);
    volume
}

fn flags(flags: &[&str]) -> Option<MountOptions> {
    Some(MountOptions {
        fs_type: "ext4".into(),
        mount_flags: flags.iter().map(ToString::to_string).collect(),
    })
}

/// A plan of an imported file is empty for every volume and server. Nomad before 1.3 shows no mount
/// options to import.
#[test]
fn a_plan_after_an_import_is_empty() {
    let strange = |map: &mut BTreeMap<String, String>| {
        map.insert("${a}".into(), "\"b\"\n".into());
    };
    let volumes = [
        existing(),
        odd(|volume| volume.external_id = None),
        odd(|volume| volume.mount_options = None),
        odd(|volume| volume.mount_options = flags(&["[REDACTED]"])),
        odd(|volume| volume.mount_options = flags(&[])),
        odd(|volume| volume.topology_request = None),
        odd(|volume| volume.requested_capacity = nomad_csi_model::CapacityRange::default()),
        odd(|volume| volume.snapshot_id = Some("snap".into())),
        odd(|volume| strange(&mut volume.context)),
        odd(|volume| strange(&mut volume.parameters)),
        odd(|volume| volume.namespace = nomad_csi_model::Namespace::new("prod")),
    ];
    let versions = ["1.3.0", "1.4.3", "1.7.7", "2.0.5"];
    let versions = versions.map(|version| version.parse::<ServerVersion>().unwrap());
    let nomad = versions.iter().map(MergeRules::of_nomad);
    let rules: Vec<_> = nomad.chain([MergeRules::AGENT, MergeRules::STRICTEST]).collect();
    for volume in volumes {
        for syntax in Syntax::ALL {
            for rules in &rules {
                let plan = build_plan(PlanInputs {
                    desired: written(&volume, syntax),
                    purpose: Purpose::ByExternalId,
                    observed: &observed(Some(volume.clone()), plugin(|_| {})),
                    rules: *rules,
                    owned: None,
                    options: &PlanOptions::default(),
                });
                let action = &plan.volumes[0].action;
                assert!(matches!(action, Action::Unchanged), "{action:?} of {volume:?}");
            }
        }
    }
}

#[test]
fn problems_are_reported() {
    let other = |id: &str, external: Option<&str>| VolumeSummary {
        namespace: nomad_csi_model::Namespace::default(),
        id: VolumeId::new(id),
        name: String::new(),
        external_id: external.map(ExternalId::new),
        plugin_id: PluginId::new("hostpath"),
        provider: String::new(),
        schedulable: true,
        access_mode: None,
        attachment_mode: None,
        readers: 0,
        writers: 0,
        create_index: 1,
        modify_index: 1,
        spec_index: 1,
    };
    let key =
        |id: &str| NamespacedId::new(nomad_csi_model::Namespace::default(), VolumeId::new(id));
    let context = ImportContext {
        registered: vec![
            other("db", Some("vol-1")),
            other("db2", Some("vol-1")),
            other("vol-1", None),
            other("db3", Some("vol-3")),
        ],
        provided: [(PluginId::new("hostpath"), BTreeSet::new())].into(),
    };
    let alloc = AllocId::new("0c9d8e7f-1111-2222-3333-444455556666");
    let volume = odd(|volume| {
        volume.mount_options = flags(&["[REDACTED]"]);
        volume.write_allocs.insert(alloc.clone());
        volume.capabilities = Vec::<Capability>::new();
    });
    let issues = import_volume(&volume, &context).issues;
    let expected = [
        ImportIssue::RedactedMountFlags,
        ImportIssue::SharedExternalId(vec![key("db2"), key("vol-1")]),
        ImportIssue::NotInProvider,
        ImportIssue::StuckClaims(vec![alloc]),
        ImportIssue::NoCapability,
    ];
    assert_eq!(issues, expected);
    assert_eq!(import_volume(&existing(), &ImportContext::default()).issues, []);
}
