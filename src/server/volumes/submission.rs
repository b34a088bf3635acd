//! The request of a client that creates or registers volumes, and its result.

use nomad_csi_claims::state::VolumeView;
use nomad_csi_model::VolumeRequest;
use nomad_csi_wire::RequestProblem;

/// A volume that a client wants to create or register.
#[derive(Clone, Debug)]
pub struct VolumeSubmission {
    /// The decoded request.
    pub request: VolumeRequest,
    /// Problems of decoding.
    pub problems: Vec<RequestProblem>,
}

impl From<VolumeRequest> for VolumeSubmission {
    /// A submission without problems.
    fn from(request: VolumeRequest) -> Self {
        Self { request, problems: vec![] }
    }
}

/// The result of a successful create or register.
#[derive(Clone, Debug, Default)]
pub struct VolumeWriteResult {
    /// Index at which all changes can be read.
    pub index: u64,
    /// The volumes after the write, in the order of the request.
    pub volumes: Vec<VolumeView>,
    /// Warnings for the author of the request, a sentence each.
    pub warnings: Vec<String>,
}
