//! The request for the statistics of a published volume.

use std::path::PathBuf;

use nomad_csi_model::ExternalId;

/// The request of NodeGetVolumeStats. The paths are those that the plugin sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVolumeStats {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// Where the volume is published.
    pub volume_path: PathBuf,
    /// Where the volume is staged; `None` if the plugin does not stage.
    pub staging_path: Option<PathBuf>,
}
