//! Hidden values: what is a difference, what is lost, what is asked for first.

use super::*;
use crate::diagnostic::Code;
use crate::model::{SecretRefs, Secrets};
use crate::plan::action::{Action, Planned};
use crate::plan::build::build;
use crate::plan::inputs::{Inputs, OwnedVolume, Requests};
use crate::plan::rules::MergeRules;
use crate::plan::samples::{bytes, codes, existing, observed, plugin, spec, wanted};
use crate::spec::Purpose;

fn plan(
    request: WantedRequest,
    volume: &Volume,
    rules: MergeRules,
    entry: OwnedVolume,
    accepted: Option<HiddenField>,
) -> Planned {
    let owned = Owned {
        set: "prod".into(),
        volumes: [(volume.key(), entry)].into(),
    };
    let accept_loss = accepted.map(|field| (field, volume.key()));
    build(Inputs {
        wanted: vec![spec(request)],
        purpose: Purpose::ByExternalId,
        observed: &observed(Some(volume.clone()), plugin(|_| {})),
        rules,
        owned: Some(&owned),
        requests: &Requests {
            accept_loss: accept_loss.into_iter().collect(),
            ..Requests::default()
        },
    })
    .volumes
    .remove(0)
}

fn secrets(given: Remembered) -> OwnedVolume {
    OwnedVolume {
        secrets: given,
        ..OwnedVolume::default()
    }
}

fn flags(given: Remembered) -> OwnedVolume {
    OwnedVolume {
        mount_flags: given,
        ..OwnedVolume::default()
    }
}

fn verdict(planned: &Planned) -> String {
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

/// Issue 3, point 2: what the file says of secrets and what the ledger remembers, with nothing else
/// to do and with something else to do.
#[test]
fn secrets_by_what_is_said_and_remembered() {
    use Remembered::{Absent, AsGiven, Other, Unknown};
    let some = || Some(SecretRefs::from(&Secrets::from_iter([("key", "value")])));
    let none = || Some(SecretRefs::default());
    let warned = "update capacity_max, warned";
    for (said, remembered, alone, with_another) in [
        (None, Unknown, "unchanged", warned),
        (None, Absent, "unchanged", "update capacity_max"),
        (None, Other, "unchanged", "plan/hidden-value"),
        (none(), Unknown, "unchanged", "update capacity_max"),
        (none(), Absent, "unchanged", "update capacity_max"),
        (
            none(),
            Other,
            "update secrets",
            "update capacity_max secrets",
        ),
        (some(), Unknown, "unchanged", "update capacity_max"),
        (
            some(),
            Absent,
            "update secrets",
            "update capacity_max secrets",
        ),
        (some(), AsGiven, "unchanged", "update capacity_max"),
        (
            some(),
            Other,
            "update secrets",
            "update capacity_max secrets",
        ),
    ] {
        let mut request = wanted();
        request.secrets = said;
        let nomad = |request: &WantedRequest| {
            plan(
                request.clone(),
                &existing(),
                MergeRules::NOMAD,
                secrets(remembered),
                None,
            )
        };
        assert_eq!(verdict(&nomad(&request)), alone, "{remembered:?}");
        request.capacity.max = bytes(3000);
        let planned = nomad(&request);
        let mut seen = verdict(&planned);
        if planned
            .warnings
            .iter()
            .any(|one| one.code == Code::PlanErasesSecrets)
        {
            seen.push_str(", warned");
        }
        assert_eq!(seen, with_another, "{remembered:?}");
        // Our agent keeps what is not said, so nothing is ever lost by that (W20).
        let agent = plan(
            request,
            &existing(),
            MergeRules::AGENT,
            secrets(remembered),
            None,
        );
        assert!(matches!(agent.action, Action::Update(_)), "{agent:?}");
        assert_eq!(agent.warnings, []);
    }
}

/// W20, `users` 10 and 11: flags that a server hides are lost by an update that does not give them.
#[test]
fn hidden_flags_by_what_is_said_and_remembered() {
    use Remembered::{AsGiven, Other, Unknown};
    let options = |fs_type: &str, flags: &[&str]| {
        Some(MountOptions {
            fs_type: fs_type.into(),
            mount_flags: flags.iter().map(ToString::to_string).collect(),
        })
    };
    let mut stored = existing();
    stored.mount_options = options("ext4", &[MountOptions::REDACTED]);
    let both = "update mount_options.fs_type mount_options.mount_flags";
    for (said, remembered, expected) in [
        (options("ext4", &["ro"]), Unknown, "unchanged"),
        (options("ext4", &["ro"]), AsGiven, "unchanged"),
        (
            options("ext4", &["ro"]),
            Other,
            "update mount_options.mount_flags",
        ),
        (
            options("xfs", &["ro"]),
            Unknown,
            "update mount_options.fs_type",
        ),
        (options("ext4", &[]), Other, "unchanged"),
        (options("xfs", &[]), Other, "plan/hidden-value"),
        (None, Other, "plan/hidden-value"),
        (options("", &[]), Other, both),
    ] {
        for rules in [MergeRules::NOMAD, MergeRules::AGENT, MergeRules::STRICTEST] {
            let mut request = wanted();
            request.mount_options = said.clone();
            let planned = plan(request, &stored, rules, flags(remembered), None);
            assert_eq!(verdict(&planned), expected, "{said:?} {remembered:?}");
            let redacted = |planned: &Planned| {
                let options = planned.request()?.mount_options.as_ref()?;
                Some(options.are_redacted())
            };
            assert_ne!(redacted(&planned), Some(true), "it is never sent back");
        }
    }
}

#[test]
fn a_loss_that_was_accepted_is_named_and_no_obstacle() {
    let mut request = wanted();
    request.capacity.max = bytes(3000);
    let accepted = Some(HiddenField::Secrets);
    let other = Remembered::Other;
    let planned = plan(
        request,
        &existing(),
        MergeRules::NOMAD,
        secrets(other),
        accepted,
    );
    let Action::Update(update) = &planned.action else {
        panic!("{planned:?}")
    };
    assert_eq!(update.losses, [HiddenField::Secrets]);

    let mut stored = existing();
    stored.mount_options = Some(MountOptions {
        fs_type: String::new(),
        mount_flags: vec![MountOptions::REDACTED.into()],
    });
    let mut request = wanted();
    request.capacity.max = bytes(3000);
    let accepted = Some(HiddenField::MountFlags);
    let planned = plan(request, &stored, MergeRules::NOMAD, flags(other), accepted);
    let expected = "update capacity_max mount_options.mount_flags";
    assert_eq!(verdict(&planned), expected);
}

/// Everything that stands against an update is told at once.
#[test]
fn a_hidden_value_is_told_beside_the_servers_own_refusals() {
    let mut request = wanted();
    request.name = Some("other".into());
    let other = Remembered::Other;
    let planned = plan(
        request,
        &existing(),
        MergeRules::NOMAD,
        secrets(other),
        None,
    );
    assert_eq!(
        codes(&planned),
        ["volume/immutable-field", "plan/hidden-value"]
    );
}

/// A file that says `unknown` and a server on which an update would lose the value: nothing differs,
/// and nothing is written until somebody says more. A volume that is yet to be made is not made.
#[test]
fn an_unknown_value_stops_every_write_that_would_lose_it() {
    let redacted = |mut volume: Volume| {
        volume.mount_options = Some(MountOptions {
            fs_type: "ext4".into(),
            mount_flags: vec![MountOptions::REDACTED.into()],
        });
        volume
    };
    let mut request = wanted();
    request.mount_options = Some(MountOptions {
        fs_type: "ext4".into(),
        mount_flags: vec![],
    });
    let both = [HiddenField::Secrets, HiddenField::MountFlags];
    for (unknown, rules, expected) in [
        (&both[..1], MergeRules::NOMAD, "plan/hidden-value"),
        (&both[1..], MergeRules::NOMAD, "plan/hidden-value"),
        (
            &both,
            MergeRules::NOMAD,
            "plan/hidden-value plan/hidden-value",
        ),
        // The agent keeps secrets that an update leaves out; its flags are replaced all the same.
        (&both, MergeRules::AGENT, "plan/hidden-value"),
    ] {
        let mut volume = existing();
        if unknown.contains(&HiddenField::MountFlags) {
            volume = redacted(volume);
        } else {
            volume.mount_options.clone_from(&request.mount_options);
        }
        let verdict_of = |request: &WantedRequest, accepted: &[HiddenField]| {
            let mut spec = spec(request.clone());
            spec.unknown = unknown.iter().copied().collect();
            let accept_loss = accepted.iter().map(|field| (*field, volume.key()));
            let requests = Requests {
                accept_loss: accept_loss.collect(),
                ..Requests::default()
            };
            let observed = observed(Some(volume.clone()), plugin(|_| {}));
            let plan = build(Inputs {
                wanted: vec![spec],
                purpose: Purpose::ByExternalId,
                observed: &observed,
                rules,
                owned: None,
                requests: &requests,
            });
            verdict(&plan.volumes[0])
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
fn a_volume_is_not_made_with_a_value_that_nobody_knows() {
    for field in HiddenField::ALL {
        let mut spec = spec(wanted());
        spec.unknown = [field].into();
        let plan = build(Inputs {
            wanted: vec![spec],
            purpose: Purpose::ByExternalId,
            observed: &observed(None, plugin(|_| {})),
            rules: MergeRules::NOMAD,
            owned: None,
            requests: &Requests::default(),
        });
        assert_eq!(codes(&plan.volumes[0]), [Code::PlanHiddenValue.as_str()]);
    }
}
