//! The code generated from `proto/csi/v1/csi.proto`, with a `Debug` that hides secrets.
//!
//! Messages with a field for secrets have no derived `Debug` (CSI, "Secrets Requirements", and mount
//! flags by "VolumeCapability"). The implementation below omits those fields. The generated code
//! lists these messages. A new one has no `Debug` until it is added here, and a test compares the two
//! lists.
#![expect(
    missing_docs,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated code; proto/csi/v1/csi.proto is its documentation"
)]

use super::message_texts::{MessageTexts, TextField as _, TextKind, TextVisitor};

include!("../../proto/csi/v1/csi.v1.rs");

/// A field that may hold secrets. Shows only the number of its entries.
struct RedactedField(usize);

impl std::fmt::Debug for RedactedField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => f.write_str("none"),
            entries => write!(f, "{entries} hidden"),
        }
    }
}

/// Implements `Debug` for messages, given as `name path { shown fields; hidden field }`. A missing
/// field is a compile error.
macro_rules! impl_redacted_debug {
    ($($name:literal $message:path { $($shown:ident),*; $hidden:ident })*) => {
        $(impl std::fmt::Debug for $message {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let Self { $($shown,)* $hidden } = self;
                f.debug_struct($name)
                    $(.field(stringify!($shown), $shown))*
                    .field(stringify!($hidden), &RedactedField($hidden.len()))
                    .finish()
            }
        })*

        /// Returns each message's name, and its output when the hidden field holds `canary`.
        #[cfg(test)]
        fn debug_output_with(canary: &str) -> Vec<(&'static str, String)> {
            vec![$({
                type Message = $message;
                let mut message = Message::default();
                tests::put(&mut message.$hidden, canary);
                ($name, format!("{message:?}"))
            },)*]
        }
    };
}

impl_redacted_debug! {
    "CreateVolumeRequest" CreateVolumeRequest {
        name, capacity_range, volume_capabilities, parameters, volume_content_source,
        accessibility_requirements, mutable_parameters; secrets
    }
    "DeleteVolumeRequest" DeleteVolumeRequest { volume_id; secrets }
    "ControllerPublishVolumeRequest" ControllerPublishVolumeRequest {
        volume_id, node_id, volume_capability, readonly, volume_context; secrets
    }
    "ControllerUnpublishVolumeRequest" ControllerUnpublishVolumeRequest {
        volume_id, node_id; secrets
    }
    "ValidateVolumeCapabilitiesRequest" ValidateVolumeCapabilitiesRequest {
        volume_id, volume_context, volume_capabilities, parameters, mutable_parameters; secrets
    }
    "ControllerModifyVolumeRequest" ControllerModifyVolumeRequest {
        volume_id, mutable_parameters; secrets
    }
    "ControllerExpandVolumeRequest" ControllerExpandVolumeRequest {
        volume_id, capacity_range, volume_capability; secrets
    }
    "CreateSnapshotRequest" CreateSnapshotRequest {
        source_volume_id, name, parameters, accessibility_requirements; secrets
    }
    "DeleteSnapshotRequest" DeleteSnapshotRequest { snapshot_id; secrets }
    "ListSnapshotsRequest" ListSnapshotsRequest {
        max_entries, starting_token, source_volume_id, snapshot_id; secrets
    }
    "GetSnapshotRequest" GetSnapshotRequest { snapshot_id; secrets }
"ControllerGetVolumeHealthRequest" ControllerGetVolumeHealthRequest { volume_id; secrets }
    "ControllerListVolumeHealthRequest" ControllerListVolumeHealthRequest {
        max_entries, starting_token; secrets
    }
    "NodeGetStorageHealthRequest" NodeGetStorageHealthRequest { ; secrets }
    "NodeStageVolumeRequest" NodeStageVolumeRequest {
        volume_id, publish_context, staging_target_path, volume_capability, volume_context; secrets
    }
    "NodePublishVolumeRequest" NodePublishVolumeRequest {
        volume_id, publish_context, staging_target_path, target_path, volume_capability, readonly,
        volume_context; secrets
    }
    "NodeExpandVolumeRequest" NodeExpandVolumeRequest {
        volume_id, volume_path, capacity_range, staging_target_path, volume_capability; secrets
    }
    "CreateVolumeGroupSnapshotRequest" CreateVolumeGroupSnapshotRequest {
        name, source_volume_ids, parameters; secrets
    }
    "DeleteVolumeGroupSnapshotRequest" DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id, snapshot_ids; secrets
    }
    "GetVolumeGroupSnapshotRequest" GetVolumeGroupSnapshotRequest {
        group_snapshot_id, snapshot_ids; secrets
    }
    "GetMetadataAllocatedRequest" GetMetadataAllocatedRequest {
        snapshot_id, starting_offset, max_results; secrets
    }
    "GetMetadataDeltaRequest" GetMetadataDeltaRequest {
        base_snapshot_id, target_snapshot_id, starting_offset, max_results; secrets
    }
    "VolumeCapability.MountVolume" volume_capability::MountVolume {
        fs_type, volume_mount_group; mount_flags
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// A field that accepts a canary value.
    pub(super) trait InsertCanary {
        fn insert_canary(&mut self, canary: &str);
    }

    impl InsertCanary for BTreeMap<String, String> {
        fn insert_canary(&mut self, canary: &str) {
            self.insert(canary.to_owned(), canary.to_owned());
        }
    }

    impl InsertCanary for Vec<String> {
        fn insert_canary(&mut self, canary: &str) {
            self.push(canary.to_owned());
        }
    }

    pub(super) fn put(field: &mut impl InsertCanary, canary: &str) {
        field.insert_canary(canary);
    }

    /// The messages that may hold secrets, by the descriptor.

    #[test]
    fn every_message_with_secrets_hides_them_in_debug_output() {
        let shown = debug_output_with("hunter2");
        let covered: BTreeSet<_> =
            shown.iter().map(|(name, _)| format!(".csi.v1.{name}")).collect();
        let hiding: BTreeSet<_> = MESSAGES_WITH_SECRETS.iter().map(ToString::to_string).collect();
        assert_eq!(covered, hiding);
        assert_eq!(hiding.len(), 22 + 1, "CSI 1.13 has 22 such messages, and mount flags");
        for (name, text) in shown {
            assert!(!text.contains("hunter2"), "{name}: {text}");
            assert!(text.contains("1 hidden"), "{name}: {text}");
        }
    }

    #[test]
    fn secrets_stay_hidden_inside_other_messages() {
        let capability = VolumeCapability {
            access_type: Some(volume_capability::AccessType::Mount(
                volume_capability::MountVolume {
                    mount_flags: vec!["password=hunter2".to_owned()],
                    ..Default::default()
                },
            )),
            access_mode: None,
        };
        let request = CreateVolumeRequest {
            name: "db".to_owned(),
            volume_capabilities: vec![capability],
            secrets: [("token".to_owned(), "hunter2".to_owned())].into(),
            ..Default::default()
        };
        let text = format!("{request:?}");
        assert!(text.contains("db") && !text.contains("hunter2"), "{text}");
    }
}
