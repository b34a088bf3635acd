//! The span of the work on one volume, which all its log lines carry.

use nomad_csi_model::NamespacedId;
use tracing::Span;

/// Returns a span in the current one.
pub(super) fn volume_span(key: &NamespacedId) -> Span {
    tracing::error_span!("volume", volume.namespace = %key.namespace, volume.id = %key.id)
}
