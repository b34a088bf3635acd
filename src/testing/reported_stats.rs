//! The statistics that the fake plugin reports.

use nomad_csi_model::{Condition, ReportedQuantity};

/// A node's report about a volume, as it is sent: it may be nonsense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedStats {
    /// The quantities.
    pub quantities: Vec<ReportedQuantity>,
    /// The condition of a plugin of CSI 1.3 to 1.12.
    pub condition: Option<Condition>,
}
