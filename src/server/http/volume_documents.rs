//! The documents of volumes, with the fields that only this agent has.

use nomad_csi_claims::state::VolumeView;
use nomad_csi_wire::{VolumeDocument, VolumeStub, stub_to_wire, time_to_wire, volume_to_wire};

/// Encodes a volume in a list, with the fields that only this agent has.
pub(super) fn volume_stub(view: &VolumeView) -> VolumeStub {
    let volume = view.volume();
    VolumeStub {
        resource_exhausted: time_to_wire(view.exhausted_since()),
        spec_index: Some(volume.spec_index),
        ..stub_to_wire(&volume)
    }
}

/// Encodes a volume, with the fields that only this agent has.
pub(super) fn volume_document(view: &VolumeView) -> VolumeDocument {
    let volume = view.volume();
    VolumeDocument {
        modify_pending: view.record.modifying.clone(),
        mutable_parameters: view.record.mutable_parameters.clone(),
        node_expansion_pending: view.record.node_expansion_pending,
        resource_exhausted: time_to_wire(view.exhausted_since()),
        spec_index: Some(volume.spec_index),
        ..volume_to_wire(&volume)
    }
}
