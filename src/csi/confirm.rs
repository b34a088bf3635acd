//! Whether a plugin confirmed what it was asked to confirm.
//!
//! An orchestrator has to compare field by field, since an older plugin may pass over a field that
//! it does not know (CSI section "ValidateVolumeCapabilities"). An answer that confirms nothing is
//! accepted, because several drivers leave that out (B50, `csi-orchestration` 7.4). Otherwise every
//! requested capability needs *some* confirmed one that fits (B51), and what is echoed of context
//! and parameters has to be what was sent (B52). Nomad gets the second wrong for block devices and
//! never does the third (W25). Mount flags and values are never shown.

use std::collections::BTreeMap;

use super::convert;
use super::proto::validate_volume_capabilities_response::Confirmed;
use super::proto::volume_capability::access_mode::Mode;
use super::proto::volume_capability::{AccessMode, AccessType, MountVolume};
use super::proto::{ValidateVolumeCapabilitiesRequest, VolumeCapability};

/// Everything that was asked for and not confirmed, a sentence each; none means confirmed.
pub(super) fn mismatches(
    request: &ValidateVolumeCapabilitiesRequest,
    confirmed: Option<&Confirmed>,
) -> Vec<String> {
    let Some(confirmed) = confirmed else {
        return vec![];
    };
    let mut reasons = vec![];
    if !confirmed.volume_capabilities.is_empty() {
        for requested in &request.volume_capabilities {
            reasons.extend(unconfirmed(requested, &confirmed.volume_capabilities));
        }
    }
    let echoes = [
        (
            "context",
            &request.volume_context,
            &confirmed.volume_context,
        ),
        ("parameters", &request.parameters, &confirmed.parameters),
    ];
    for (what, sent, echoed) in echoes {
        reasons.extend(echo_mismatch(what, sent, echoed));
    }
    reasons
}

/// Why none of `confirmed` is what was requested; `None` if one of them is.
fn unconfirmed(requested: &VolumeCapability, confirmed: &[VolumeCapability]) -> Option<String> {
    let mut reasons: Vec<String> = vec![];
    for candidate in confirmed {
        let reason = difference(requested, candidate)?;
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    Some(format!(
        "capability ({}): {}",
        describe(requested),
        reasons.join(", ")
    ))
}

/// How a confirmed capability differs from the requested one; `None` if it covers it. A confirmed
/// one without a mode or without a type says nothing of them.
fn difference(requested: &VolumeCapability, confirmed: &VolumeCapability) -> Option<String> {
    let (wanted, got) = (mode(requested), mode(confirmed));
    if got != Mode::Unknown && got != wanted {
        return Some(format!("access mode {} was confirmed", mode_word(got)));
    }
    match (&requested.access_type, &confirmed.access_type) {
        (_, None) | (Some(AccessType::Block(_)), Some(AccessType::Block(_))) | (None, Some(_)) => {
            None
        }
        (Some(AccessType::Mount(_)), Some(AccessType::Block(_))) => {
            Some("block-device was confirmed".to_owned())
        }
        (Some(AccessType::Block(_)), Some(AccessType::Mount(_))) => {
            Some("file-system was confirmed".to_owned())
        }
        (Some(AccessType::Mount(wanted)), Some(AccessType::Mount(got))) => {
            mount_difference(wanted, got)
        }
    }
}

/// No requested type of file system is content with any; additional flags do no harm.
fn mount_difference(wanted: &MountVolume, got: &MountVolume) -> Option<String> {
    if !wanted.fs_type.is_empty() && wanted.fs_type != got.fs_type {
        return Some(format!(
            "fs_type `{}` was confirmed, not `{}`",
            got.fs_type, wanted.fs_type
        ));
    }
    let missing = wanted
        .mount_flags
        .iter()
        .filter(|flag| !got.mount_flags.contains(flag))
        .count();
    (missing > 0).then(|| {
        format!(
            "{missing} of {} mount flags were not confirmed",
            wanted.mount_flags.len()
        )
    })
}

/// An echo that is there and differs, by its keys.
fn echo_mismatch(
    what: &str,
    sent: &BTreeMap<String, String>,
    echoed: &BTreeMap<String, String>,
) -> Option<String> {
    if echoed.is_empty() || echoed == sent {
        return None;
    }
    let mut keys: Vec<_> = sent
        .keys()
        .chain(echoed.keys())
        .filter(|key| sent.get(*key) != echoed.get(*key))
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    Some(format!(
        "{what}: the plugin checked something else under {}",
        keys.join(", ")
    ))
}

fn mode(capability: &VolumeCapability) -> Mode {
    capability
        .access_mode
        .as_ref()
        .map_or(Mode::Unknown, AccessMode::mode)
}

fn mode_word(mode: Mode) -> String {
    convert::access_mode_from(mode).map_or_else(
        || mode.as_str_name().to_owned(),
        |mode| mode.as_str().to_owned(),
    )
}

fn describe(capability: &VolumeCapability) -> String {
    let kind = match &capability.access_type {
        Some(AccessType::Block(_)) => ", block-device",
        Some(AccessType::Mount(_)) => ", file-system",
        None => "",
    };
    format!("{}{kind}", mode_word(mode(capability)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csi::proto::volume_capability::BlockVolume;

    /// Its name, what was requested, what was confirmed, and the reasons.
    type Case = (
        &'static str,
        Vec<VolumeCapability>,
        Vec<VolumeCapability>,
        &'static [&'static str],
    );

    fn capability(mode: Mode, access_type: Option<AccessType>) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(AccessMode { mode: mode.into() }),
            access_type,
        }
    }

    fn block(mode: Mode) -> VolumeCapability {
        capability(mode, Some(AccessType::Block(BlockVolume {})))
    }

    fn mount(mode: Mode, fs_type: &str, flags: &[&str]) -> VolumeCapability {
        let mount = MountVolume {
            fs_type: fs_type.into(),
            mount_flags: flags.iter().map(ToString::to_string).collect(),
            volume_mount_group: String::new(),
        };
        capability(mode, Some(AccessType::Mount(mount)))
    }

    fn compared(requested: &[VolumeCapability], confirmed: &[VolumeCapability]) -> Vec<String> {
        let request = ValidateVolumeCapabilitiesRequest {
            volume_capabilities: requested.to_vec(),
            ..Default::default()
        };
        let confirmed = Confirmed {
            volume_capabilities: confirmed.to_vec(),
            ..Default::default()
        };
        mismatches(&request, Some(&confirmed))
    }

    /// B50, B51, W25 and the cases of `csi-orchestration` 7.4.
    #[test]
    fn every_requested_capability_needs_some_confirmed_one_that_fits() {
        use Mode::{SingleNodeReaderOnly as Reader, SingleNodeWriter as Writer, Unknown};
        let ext4 = mount(Writer, "ext4", &["noatime", "ro"]);
        let typeless = capability(Writer, None);
        let modeless = VolumeCapability {
            access_mode: None,
            ..ext4.clone()
        };
        let cases: Vec<Case> = vec![
            ("nothing said", vec![ext4.clone()], vec![], &[]),
            (
                "exact mount, flags in another order",
                vec![ext4.clone()],
                vec![mount(Writer, "ext4", &["ro", "noatime"])],
                &[],
            ),
            ("exact block", vec![block(Writer)], vec![block(Writer)], &[]),
            (
                "block among others",
                vec![block(Writer)],
                vec![mount(Writer, "xfs", &[]), block(Writer), block(Reader)],
                &[],
            ),
            (
                "more flags than asked for",
                vec![mount(Writer, "ext4", &["ro"])],
                vec![ext4.clone()],
                &[],
            ),
            (
                "any file system will do",
                vec![mount(Writer, "", &[])],
                vec![mount(Writer, "xfs", &[])],
                &[],
            ),
            (
                "confirmed without a type",
                vec![ext4.clone()],
                vec![typeless],
                &[],
            ),
            (
                "confirmed without a mode",
                vec![ext4.clone()],
                vec![modeless],
                &[],
            ),
            (
                "confirmed with mode UNKNOWN",
                vec![block(Writer)],
                vec![block(Unknown)],
                &[],
            ),
            (
                "access mode",
                vec![block(Writer)],
                vec![block(Reader)],
                &["capability (single-node-writer, block-device): \
                   access mode single-node-reader-only was confirmed"],
            ),
            (
                "flags",
                vec![ext4.clone()],
                vec![mount(Writer, "ext4", &["ro"])],
                &["capability (single-node-writer, file-system): \
                   1 of 2 mount flags were not confirmed"],
            ),
            (
                "file system",
                vec![ext4.clone()],
                vec![mount(Writer, "xfs", &["noatime", "ro"])],
                &["capability (single-node-writer, file-system): \
                   fs_type `xfs` was confirmed, not `ext4`"],
            ),
            (
                "mount for a block request",
                vec![block(Writer)],
                vec![ext4.clone()],
                &["capability (single-node-writer, block-device): file-system was confirmed"],
            ),
            (
                "block for a mount request",
                vec![ext4.clone()],
                vec![block(Writer)],
                &["capability (single-node-writer, file-system): block-device was confirmed"],
            ),
            (
                "one of two",
                vec![ext4.clone(), block(Reader)],
                vec![ext4],
                &["capability (single-node-reader-only, block-device): \
                   access mode single-node-writer was confirmed"],
            ),
        ];
        for (name, requested, confirmed, expected) in cases {
            assert_eq!(compared(&requested, &confirmed), expected, "{name}");
        }
    }

    /// B52: an echo is compared where there is one, and shown by its keys only.
    #[test]
    fn echoes_of_context_and_parameters_are_compared_when_present() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect()
        };
        let request = ValidateVolumeCapabilitiesRequest {
            volume_context: map(&[("a", "1"), ("b", "2")]),
            parameters: map(&[("p", "1")]),
            ..Default::default()
        };
        let echoed = |context: &[(&str, &str)], parameters: &[(&str, &str)]| Confirmed {
            volume_context: map(context),
            parameters: map(parameters),
            ..Default::default()
        };
        assert_eq!(mismatches(&request, None), Vec::<String>::new());
        for (confirmed, expected) in [
            (echoed(&[], &[]), vec![]),
            (echoed(&[("a", "1"), ("b", "2")], &[("p", "1")]), vec![]),
            (
                echoed(&[("a", "1"), ("b", "hunter2"), ("c", "3")], &[]),
                vec!["context: the plugin checked something else under b, c"],
            ),
            (
                echoed(&[], &[("q", "1")]),
                vec!["parameters: the plugin checked something else under p, q"],
            ),
        ] {
            assert_eq!(mismatches(&request, Some(&confirmed)), expected);
        }
    }
}
