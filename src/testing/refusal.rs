//! The error answers of the fake plugin.

use nomad_csi_model::ExternalId;
use nomad_csi_ports::StatusCode;

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The gRPC status code.
    pub code: StatusCode,
    /// The plugin's message.
    pub message: String,
}

pub(super) fn refuse<T>(code: StatusCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { code, message: message.into() })
}

pub(super) fn unknown<T>(id: &ExternalId) -> Result<T, Refusal> {
    refuse(StatusCode::NotFound, format!("no volume {id}"))
}
