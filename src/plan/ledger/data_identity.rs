//! The data of an owned volume, as its set recorded it.
//!
//! A registration can be removed, and made again for other data. The data itself is named by its
//! plugin and its external ID, which the set records when a create or a register is answered. A later
//! read fills in what is missing and changes nothing, so other data under the same name is seen.

use serde::{Deserialize, Serialize};

use super::intent::IntentStep;
use nomad_csi_model::{ExternalId, PluginId, Volume, VolumeRequest, VolumeSummary};

/// The name of a volume's data: what the provider of a plugin calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataIdentity {
    /// The plugin.
    pub plugin_id: PluginId,
    /// The provider's ID of the volume.
    pub external_id: ExternalId,
}

impl DataIdentity {
    /// The data of a registered volume.
    pub fn of(volume: &Volume) -> Self {
        Self { plugin_id: volume.plugin_id.clone(), external_id: volume.remote_id() }
    }

    /// The data of a volume in a list.
    pub fn of_listed(volume: &VolumeSummary) -> Self {
        let external = volume.external_id.as_ref();
        let external = external.map_or(volume.id.as_str(), ExternalId::as_str);
        Self { plugin_id: volume.plugin_id.clone(), external_id: ExternalId::new(external) }
    }

    /// The data that a request to register a volume names; `None` if the request names none, so that
    /// the provider chooses the ID when it creates the volume.
    pub fn of_registration<S>(request: &VolumeRequest<S>) -> Option<Self> {
        Some(Self {
            plugin_id: request.plugin_id.clone(),
            external_id: request.external_id.clone()?,
        })
    }
}

impl std::fmt::Display for DataIdentity {
    /// `external ID vol-1 at plugin ebs`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "external ID {} at plugin {}", self.external_id, self.plugin_id)
    }
}

/// The data of an owned volume as a set recorded it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedData {
    /// Nothing: an earlier program recorded the volume, or no answer named the data.
    #[default]
    Unrecorded,
    /// The data is there.
    Stored(DataIdentity),
    /// The set removed the volume to put another one in its place, and that one does not exist yet.
    Removed,
}

impl RecordedData {
    /// Returns the data, if it is recorded.
    pub fn identity(&self) -> Option<&DataIdentity> {
        match self {
            Self::Stored(identity) => Some(identity),
            Self::Unrecorded | Self::Removed => None,
        }
    }

    pub(super) fn is_unrecorded(&self) -> bool {
        *self == Self::Unrecorded
    }
}

/// Returns the recorded data, if the volume on the server has other data. Data that an interrupted
/// create of the set may have made is not other data.
pub(crate) fn changed_data<'a>(
    recorded: &'a RecordedData,
    open_step: Option<IntentStep>,
    existing: &Volume,
) -> Option<&'a DataIdentity> {
    let recorded = recorded.identity()?;
    let is_other = *recorded != DataIdentity::of(existing);
    (is_other && open_step != Some(IntentStep::Create)).then_some(recorded)
}
