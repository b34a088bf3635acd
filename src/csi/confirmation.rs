//! Whether a plugin confirms the capabilities that ValidateVolumeCapabilities asks for.
//!
//! The comparison is field by field, because a plugin may ignore a field that it does not know (CSI,
//! "ValidateVolumeCapabilities"). A response without `confirmed` is accepted, because several drivers
//! omit it (B50). Otherwise each requested capability needs one confirmed capability that covers it
//! (B51), and a repeated context or parameters must equal those sent (B52). Nomad misreads confirmed
//! capabilities of block devices (W25). Mount flags and values are never shown.

use std::collections::BTreeMap;

use super::convert;
use nomad_csi_proto::validate_volume_capabilities_response::Confirmed;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_capability::{AccessMode, AccessType, MountVolume};
use nomad_csi_proto::{ValidateVolumeCapabilitiesRequest, VolumeCapability};

/// Returns what the plugin did not confirm, one sentence each. No sentence means confirmed.
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
        ("context", &request.volume_context, &confirmed.volume_context),
        ("parameters", &request.parameters, &confirmed.parameters),
    ];
    for (what, sent, echoed) in echoes {
        reasons.extend(echo_mismatch(what, sent, echoed));
    }
    reasons
}

/// Returns why no capability in `confirmed` covers `requested`; `None` if one does.
fn unconfirmed(requested: &VolumeCapability, confirmed: &[VolumeCapability]) -> Option<String> {
    let mut reasons: Vec<String> = vec![];
    for candidate in confirmed {
        let reason = difference(requested, candidate)?;
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    Some(format!("capability ({}): {}", describe(requested), reasons.join(", ")))
}

/// Returns how a confirmed capability differs from the requested one; `None` if it covers that. A
/// confirmed capability without a mode or a type covers every mode or type.
fn difference(requested: &VolumeCapability, confirmed: &VolumeCapability) -> Option<String> {
    let (requested_mode, confirmed_mode) = (mode(requested), mode(confirmed));
    if confirmed_mode != Mode::Unknown && confirmed_mode != requested_mode {
        return Some(format!("the plugin confirmed access mode {}", mode_name(confirmed_mode)));
    }
    match (&requested.access_type, &confirmed.access_type) {
        (_, None) | (Some(AccessType::Block(_)), Some(AccessType::Block(_))) | (None, Some(_)) => {
            None
        }
        (Some(AccessType::Mount(_)), Some(AccessType::Block(_))) => {
            Some("the plugin confirmed block-device".to_owned())
        }
        (Some(AccessType::Block(_)), Some(AccessType::Mount(_))) => {
            Some("the plugin confirmed file-system".to_owned())
        }
        (Some(AccessType::Mount(requested)), Some(AccessType::Mount(got))) => {
            mount_difference(requested, got)
        }
    }
}

/// Compares mounts. An empty requested file system type accepts any type; extra flags are accepted.
fn mount_difference(requested: &MountVolume, got: &MountVolume) -> Option<String> {
    if !requested.fs_type.is_empty() && requested.fs_type != got.fs_type {
        return Some(format!(
            "the plugin confirmed fs_type `{}`, not `{}`",
            got.fs_type, requested.fs_type
        ));
    }
    let missing =
        requested.mount_flags.iter().filter(|flag| !got.mount_flags.contains(flag)).count();
    (missing > 0).then(|| {
        format!(
            "the plugin did not confirm {missing} of {} mount flags",
            requested.mount_flags.len()
        )
    })
}

/// Compares a repeated map with the one sent, and names the keys that differ.
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
        "{what}: the plugin confirmed other values than those sent for {}",
        keys.join(", ")
    ))
}

fn mode(capability: &VolumeCapability) -> Mode {
    capability.access_mode.as_ref().map_or(Mode::Unknown, AccessMode::mode)
}

fn mode_name(mode: Mode) -> String {
    convert::access_mode_from(mode)
        .map_or_else(|| mode.as_str_name().to_owned(), |mode| mode.as_str().to_owned())
}

fn describe(capability: &VolumeCapability) -> String {
    let kind = match &capability.access_type {
        Some(AccessType::Block(_)) => ", block-device",
        Some(AccessType::Mount(_)) => ", file-system",
        None => "",
    };
    format!("{}{kind}", mode_name(mode(capability)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_proto::volume_capability::BlockVolume;

    /// The name, the requested capabilities, the confirmed ones, and the expected reasons.
    type Case =
        (&'static str, Vec<VolumeCapability>, Vec<VolumeCapability>, &'static [&'static str]);

    fn capability(mode: Mode, access_type: Option<AccessType>) -> VolumeCapability {
        VolumeCapability { access_mode: Some(AccessMode { mode: mode.into() }), access_type }
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
        let confirmed = Confirmed { volume_capabilities: confirmed.to_vec(), ..Default::default() };
        mismatches(&request, Some(&confirmed))
    }

    /// Every requested capability needs one confirmed capability that covers it (B50, B51, W25). Equal
    /// values match (B48), and each kind of mismatch has its own message without mount flags (B49).
    #[test]
    fn every_requested_capability_needs_a_confirmed_one_that_covers_it() {
        use Mode::{SingleNodeReaderOnly as Reader, SingleNodeWriter as Writer, Unknown};
        let ext4 = mount(Writer, "ext4", &["noatime", "ro"]);
        let typeless = capability(Writer, None);
        let modeless = VolumeCapability { access_mode: None, ..ext4.clone() };
        let cases: Vec<Case> = vec![
            ("nothing confirmed", vec![ext4.clone()], vec![], &[]),
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
                "more flags than requested",
                vec![mount(Writer, "ext4", &["ro"])],
                vec![ext4.clone()],
                &[],
            ),
            (
                "any file system requested",
                vec![mount(Writer, "", &[])],
                vec![mount(Writer, "xfs", &[])],
                &[],
            ),
            ("confirmed without a type", vec![ext4.clone()], vec![typeless], &[]),
            ("confirmed without a mode", vec![ext4.clone()], vec![modeless], &[]),
            ("confirmed with mode UNKNOWN", vec![block(Writer)], vec![block(Unknown)], &[]),
            (
                "access mode",
                vec![block(Writer)],
                vec![block(Reader)],
                &["capability (single-node-writer, block-device): \
                   the plugin confirmed access mode single-node-reader-only"],
            ),
            (
                "flags",
                vec![ext4.clone()],
                vec![mount(Writer, "ext4", &["ro"])],
                &["capability (single-node-writer, file-system): \
                   the plugin did not confirm 1 of 2 mount flags"],
            ),
            (
                "file system",
                vec![ext4.clone()],
                vec![mount(Writer, "xfs", &["noatime", "ro"])],
                &["capability (single-node-writer, file-system): \
                   the plugin confirmed fs_type `xfs`, not `ext4`"],
            ),
            (
                "mount for a block request",
                vec![block(Writer)],
                vec![ext4.clone()],
                &[
                    "capability (single-node-writer, block-device): the plugin confirmed file-system",
                ],
            ),
            (
                "block for a mount request",
                vec![ext4.clone()],
                vec![block(Writer)],
                &[
                    "capability (single-node-writer, file-system): the plugin confirmed block-device",
                ],
            ),
            (
                "one of two",
                vec![ext4.clone(), block(Reader)],
                vec![ext4],
                &["capability (single-node-reader-only, block-device): \
                   the plugin confirmed access mode single-node-writer"],
            ),
        ];
        for (name, requested, confirmed, expected) in cases {
            assert_eq!(compared(&requested, &confirmed), expected, "{name}");
        }
    }

    /// A repeated map is compared with the one sent, and shown by its keys only (B52).
    #[test]
    fn a_repeated_context_and_repeated_parameters_are_compared() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
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
                vec!["context: the plugin confirmed other values than those sent for b, c"],
            ),
            (
                echoed(&[], &[("q", "1")]),
                vec!["parameters: the plugin confirmed other values than those sent for p, q"],
            ),
        ] {
            assert_eq!(mismatches(&request, Some(&confirmed)), expected);
        }
    }
}
