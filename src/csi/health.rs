//! Conversions of the messages for health.
//!
//! An answer about another volume than the requested one is an error: a person would trust it.

use super::{convert, status, storage};
use nomad_csi_model::{
    AttachmentMode, ExternalId, StorageStatus, StorageStatusKind, VolumeStatus, VolumeStatusKind,
};
use nomad_csi_ports::{ListVolumeHealth, ListedHealth, Page, PluginError, Rpc};
use nomad_csi_proto as proto;
use nomad_csi_proto::node_get_storage_health_response::StorageBackendHealth;
use nomad_csi_proto::volume_health::VolumeHealthEntry;

pub(super) fn list_request(request: ListVolumeHealth) -> proto::ControllerListVolumeHealthRequest {
    proto::ControllerListVolumeHealthRequest {
        max_entries: i32::try_from(request.page.entries).unwrap_or(i32::MAX),
        starting_token: request.page.starting_token,
        secrets: convert::secrets(&request.secrets),
    }
}

pub(super) fn listed(
    response: proto::ControllerListVolumeHealthResponse,
) -> Result<Page<ListedHealth>, PluginError> {
    storage::check_entries(Rpc::ControllerListVolumeHealth, response.entries.len())?;
    let entries = response.entries.into_iter().map(|entry| {
        if entry.volume_id.is_empty() {
            let rpc = Rpc::ControllerListVolumeHealth;
            return Err(status::malformed(rpc, "an entry has no volume ID"));
        }
        Ok(ListedHealth {
            statuses: statuses(entry.health_statuses),
            external_id: ExternalId::new(entry.volume_id),
        })
    });
    Ok(Page {
        entries: entries.collect::<Result<_, _>>()?,
        next_token: (!response.next_token.is_empty()).then_some(response.next_token),
    })
}

/// Returns the conditions of the requested volume.
pub(super) fn of_volume(
    rpc: Rpc,
    requested: &str,
    health: Option<proto::VolumeHealth>,
) -> Result<Vec<VolumeStatus>, PluginError> {
    let health = health.ok_or_else(|| status::malformed(rpc, "the health is missing"))?;
    if health.volume_id != requested {
        return Err(status::malformed(rpc, "the health is of another volume"));
    }
    Ok(statuses(health.health_statuses))
}

fn statuses(entries: Vec<VolumeHealthEntry>) -> Vec<VolumeStatus> {
    let entries = entries.into_iter().map(|entry| VolumeStatus {
        kind: volume_kind(entry.status),
        reason: entry.reason,
        message: entry.message,
    });
    entries.collect()
}

fn volume_kind(number: i32) -> VolumeStatusKind {
    use proto::VolumeHealthErrorType::{DataLoss, Degraded, Inaccessible, UnknownVolumeHealthType};
    match proto::VolumeHealthErrorType::try_from(number) {
        Ok(Degraded) => VolumeStatusKind::Degraded,
        Ok(Inaccessible) => VolumeStatusKind::Inaccessible,
        Ok(DataLoss) => VolumeStatusKind::DataLoss,
        Ok(UnknownVolumeHealthType) | Err(_) => VolumeStatusKind::Unknown(number),
    }
}

pub(super) fn storage(health: Vec<StorageBackendHealth>) -> Vec<StorageStatus> {
    let health = health.into_iter().map(|entry| StorageStatus {
        kind: storage_kind(entry.status),
        reason: entry.reason,
        message: entry.message,
        attachment_mode: entry.volume_capability.and_then(attachment_mode),
    });
    health.collect()
}

fn storage_kind(number: i32) -> StorageStatusKind {
    use proto::StorageHealthErrorType::{
        StorageDegraded, StorageUnreachable, UnknownStorageHealthErrorType,
    };
    match proto::StorageHealthErrorType::try_from(number) {
        Ok(StorageDegraded) => StorageStatusKind::Degraded,
        Ok(StorageUnreachable) => StorageStatusKind::Unreachable,
        Ok(UnknownStorageHealthErrorType) | Err(_) => StorageStatusKind::Unknown(number),
    }
}

fn attachment_mode(capability: proto::VolumeCapability) -> Option<AttachmentMode> {
    use proto::volume_capability::AccessType;
    Some(match capability.access_type? {
        AccessType::Block(_) => AttachmentMode::BlockDevice,
        AccessType::Mount(_) => AttachmentMode::FileSystem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind of a later version of CSI is kept, so that it can be shown.
    #[test]
    fn a_kind_that_is_not_known_is_kept() {
        let entry = |status| VolumeHealthEntry {
            status,
            reason: "MultipathLoss".to_owned(),
            message: String::new(),
        };
        let kinds: Vec<_> =
            statuses((0..=4).map(entry).collect()).into_iter().map(|status| status.kind).collect();
        assert_eq!(
            kinds,
            [
                VolumeStatusKind::Unknown(0),
                VolumeStatusKind::Degraded,
                VolumeStatusKind::Inaccessible,
                VolumeStatusKind::DataLoss,
                VolumeStatusKind::Unknown(4),
            ]
        );
        assert_eq!(storage_kind(9), StorageStatusKind::Unknown(9));
    }

    #[test]
    fn health_of_another_volume_is_an_error() {
        let rpc = Rpc::ControllerGetVolumeHealth;
        let of = |id: &str| {
            let health = proto::VolumeHealth { volume_id: id.to_owned(), health_statuses: vec![] };
            of_volume(rpc, "a", Some(health))
        };
        assert_eq!(of("a"), Ok(vec![]));
        assert!(of("b").is_err() && of("").is_err());
        assert!(of_volume(rpc, "a", None).is_err());
    }
}
