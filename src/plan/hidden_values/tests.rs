//! Hidden values: differences, losses and approvals.

use super::*;
use crate::action::{Action, PlannedVolume};
use crate::build::build_plan;
use crate::inputs::{OwnedSet, PlanInputs, PlanOptions};
use crate::rules::MergeRules;
use crate::samples::{bytes, codes, desired, existing, observed, plugin, spec};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{SecretRefs, Secrets};
use nomad_csi_spec::Purpose;

fn plan(
    request: UnresolvedRequest,
    volume: &Volume,
    rules: MergeRules,
    entry: OwnedVolume,
    accepted: Option<HiddenField>,
) -> PlannedVolume {
    let owned = OwnedSet {
        set: "prod".into(),
        volumes: [(volume.key(), entry)].into(),
        ..OwnedSet::default()
    };
    let accept_loss = accepted.map(|field| (field, volume.key()));
    build_plan(PlanInputs {
        desired: vec![spec(request)],
        purpose: Purpose::ByExternalId,
        observed: &observed(Some(volume.clone()), plugin(|_| {})),
        rules,
        owned: Some(&owned),
        options: &PlanOptions {
            accept_loss: accept_loss.into_iter().collect(),
            ..PlanOptions::default()
        },
    })
    .volumes
    .remove(0)
}

fn secrets(given: RecordedValue) -> OwnedVolume {
    OwnedVolume { secrets: given, ..OwnedVolume::default() }
}

fn flags(given: RecordedValue) -> OwnedVolume {
    OwnedVolume { mount_flags: given, ..OwnedVolume::default() }
}

fn summary(planned: &PlannedVolume) -> String {
    match &planned.action {
        Action::Unchanged => "unchanged".to_owned(),
        Action::Blocked(_) => codes(planned).join(" "),
        Action::Update(update) => {
            let fields: Vec<_> = update.changes.iter().map(|change| change.field).collect();
            format!("update {}", fields.join(" "))
        }
        other => panic!("{other:?}"),
    }
}

/// Secrets of the file and of the ledger, without and with another change.
#[test]
fn secrets_in_the_file_and_in_the_ledger() {
    use RecordedValue::{DiffersFromFile, Empty, MatchesFile, Unknown};
    let some = || Some(SecretRefs::from(&Secrets::from_iter([("key", "value")])));
    let none = || Some(SecretRefs::default());
    let warned = "update capacity_max, warned";
    for (in_file, recorded, alone, with_another) in [
        (None, Unknown, "unchanged", warned),
        (None, Empty, "unchanged", "update capacity_max"),
        (None, DiffersFromFile, "unchanged", "plan/hidden-value"),
        (none(), Unknown, "unchanged", "update capacity_max"),
        (none(), Empty, "unchanged", "update capacity_max"),
        (none(), DiffersFromFile, "update secrets", "update capacity_max secrets"),
        (some(), Unknown, "unchanged", "update capacity_max"),
        (some(), Empty, "update secrets", "update capacity_max secrets"),
        (some(), MatchesFile, "unchanged", "update capacity_max"),
        (some(), DiffersFromFile, "update secrets", "update capacity_max secrets"),
    ] {
        let mut request = desired();
        request.secrets = in_file;
        let nomad = |request: &UnresolvedRequest| {
            plan(request.clone(), &existing(), MergeRules::NOMAD, secrets(recorded), None)
        };
        assert_eq!(summary(&nomad(&request)), alone, "{recorded:?}");
        request.capacity.max = bytes(3000);
        let planned = nomad(&request);
        let mut seen = summary(&planned);
        if planned.warnings.iter().any(|one| one.code == Code::PlanErasesSecrets) {
            seen.push_str(", warned");
        }
        assert_eq!(seen, with_another, "{recorded:?}");
        // The agent keeps omitted secrets, so it never clears them (W20).
        let agent = plan(request, &existing(), MergeRules::AGENT, secrets(recorded), None);
        assert!(matches!(agent.action, Action::Update(_)), "{agent:?}");
        assert_eq!(agent.warnings, []);
    }
}

/// An update without flags clears the hidden ones.
#[test]
fn mount_flags_in_the_file_and_in_the_ledger() {
    use RecordedValue::{DiffersFromFile, MatchesFile, Unknown};
    let options = |fs_type: &str, flags: &[&str]| {
        Some(MountOptions {
            fs_type: fs_type.into(),
            mount_flags: flags.iter().map(ToString::to_string).collect(),
        })
    };
    let mut stored = existing();
    stored.mount_options = options("ext4", &[MountOptions::REDACTED]);
    let both = "update mount_options.fs_type mount_options.mount_flags";
    for (in_file, recorded, expected) in [
        (options("ext4", &["ro"]), Unknown, "unchanged"),
        (options("ext4", &["ro"]), MatchesFile, "unchanged"),
        (options("ext4", &["ro"]), DiffersFromFile, "update mount_options.mount_flags"),
        (options("xfs", &["ro"]), Unknown, "update mount_options.fs_type"),
        (options("ext4", &[]), DiffersFromFile, "unchanged"),
        (options("xfs", &[]), DiffersFromFile, "plan/hidden-value"),
        (None, DiffersFromFile, "plan/hidden-value"),
        (options("", &[]), DiffersFromFile, both),
    ] {
        for rules in [MergeRules::NOMAD, MergeRules::AGENT, MergeRules::STRICTEST] {
            let mut request = desired();
            request.mount_options = in_file.clone();
            let planned = plan(request, &stored, rules, flags(recorded), None);
            assert_eq!(summary(&planned), expected, "{in_file:?} {recorded:?}");
            let redacted = |planned: &PlannedVolume| {
                let options = planned.request()?.mount_options.as_ref()?;
                Some(options.are_redacted())
            };
            assert_ne!(redacted(&planned), Some(true), "it is never sent back");
        }
    }
}

#[test]
fn an_accepted_loss_is_reported_and_does_not_block() {
    let mut request = desired();
    request.capacity.max = bytes(3000);
    let accepted = Some(HiddenField::Secrets);
    let other = RecordedValue::DiffersFromFile;
    let planned = plan(request, &existing(), MergeRules::NOMAD, secrets(other), accepted);
    let Action::Update(update) = &planned.action else { panic!("{planned:?}") };
    assert_eq!(update.cleared_fields, [HiddenField::Secrets]);

    let mut stored = existing();
    stored.mount_options = Some(MountOptions {
        fs_type: String::new(),
        mount_flags: vec![MountOptions::REDACTED.into()],
    });
    let mut request = desired();
    request.capacity.max = bytes(3000);
    let accepted = Some(HiddenField::MountFlags);
    let planned = plan(request, &stored, MergeRules::NOMAD, flags(other), accepted);
    let expected = "update capacity_max mount_options.mount_flags";
    assert_eq!(summary(&planned), expected);
}

/// All reasons against an update are reported together.
#[test]
fn a_hidden_value_is_reported_beside_server_refusals() {
    let mut request = desired();
    request.name = Some("other".into());
    let other = RecordedValue::DiffersFromFile;
    let planned = plan(request, &existing(), MergeRules::NOMAD, secrets(other), None);
    assert_eq!(codes(&planned), ["volume/immutable-field", "plan/hidden-value"]);
}

/// An `unknown` value is not a difference. It blocks every update that would clear it, and the
/// creation of the volume.
#[test]
fn an_unknown_value_blocks_every_update_that_would_clear_it() {
    let redacted = |mut volume: Volume| {
        volume.mount_options = Some(MountOptions {
            fs_type: "ext4".into(),
            mount_flags: vec![MountOptions::REDACTED.into()],
        });
        volume
    };
    let mut request = desired();
    request.mount_options = Some(MountOptions { fs_type: "ext4".into(), mount_flags: vec![] });
    let both = [HiddenField::Secrets, HiddenField::MountFlags];
    for (unknown, rules, expected) in [
        (&both[..1], MergeRules::NOMAD, "plan/hidden-value"),
        (&both[1..], MergeRules::NOMAD, "plan/hidden-value"),
        (&both, MergeRules::NOMAD, "plan/hidden-value plan/hidden-value"),
        // The agent keeps omitted secrets, but replaces flags.
        (&both, MergeRules::AGENT, "plan/hidden-value"),
    ] {
        let mut volume = existing();
        if unknown.contains(&HiddenField::MountFlags) {
            volume = redacted(volume);
        } else {
            volume.mount_options.clone_from(&request.mount_options);
        }
        let verdict_of = |request: &UnresolvedRequest, accepted: &[HiddenField]| {
            let mut spec = spec(request.clone());
            spec.unknown = unknown.iter().copied().collect();
            let accept_loss = accepted.iter().map(|field| (*field, volume.key()));
            let options =
                PlanOptions { accept_loss: accept_loss.collect(), ..PlanOptions::default() };
            let observed = observed(Some(volume.clone()), plugin(|_| {}));
            let plan = build_plan(PlanInputs {
                desired: vec![spec],
                purpose: Purpose::ByExternalId,
                observed: &observed,
                rules,
                owned: None,
                options: &options,
            });
            summary(&plan.volumes[0])
        };
        assert_eq!(verdict_of(&request, &[]), "unchanged", "{unknown:?}");
        let mut larger = request.clone();
        larger.capacity.max = bytes(9000);
        assert_eq!(verdict_of(&larger, &[]), expected, "{unknown:?}");
        let accepted = verdict_of(&larger, &both);
        assert!(accepted.starts_with("update capacity_max"), "{accepted}");
    }
}

#[test]
fn a_volume_with_an_unknown_value_is_not_created() {
    for field in HiddenField::ALL {
        let mut spec = spec(desired());
        spec.unknown = [field].into();
        let plan = build_plan(PlanInputs {
            desired: vec![spec],
            purpose: Purpose::ByExternalId,
            observed: &observed(None, plugin(|_| {})),
            rules: MergeRules::NOMAD,
            owned: None,
            options: &PlanOptions::default(),
        });
        assert_eq!(codes(&plan.volumes[0]), [Code::PlanHiddenValue.as_str()]);
    }
}
