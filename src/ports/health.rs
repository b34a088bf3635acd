//! Requests for the health of volumes (CSI 1.13).

use std::path::PathBuf;

use nomad_csi_model::{ExternalId, Secrets, VolumeStatus};

use super::storage::PageRequest;

/// The request of ControllerListVolumeHealth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListVolumeHealth {
    /// The page to return.
    pub page: PageRequest,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// A volume in the response of ControllerListVolumeHealth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedHealth {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// Its adverse conditions.
    pub statuses: Vec<VolumeStatus>,
}

/// The request of NodeGetVolumeHealth. The volume does not have to be staged or published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVolumeHealth {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// Where the volume is published, or was meant to be.
    pub publish_path: Option<PathBuf>,
    /// Where the volume is staged, or was meant to be; `None` if the plugin does not stage.
    pub staging_path: Option<PathBuf>,
}
