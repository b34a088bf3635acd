//! The statuses of calls without an answer that the node treats in its own way.

use tonic::{Code, Status};

use nomad_csi_ports::NotLeader;

/// The metadata of a server that is not the leader: the leader's address, or nothing.
const NOT_LEADER: &str = "ncsi-not-leader";

pub(super) fn not_leader(refused: &NotLeader) -> Status {
    let mut status = Status::failed_precondition(refused.to_string());
    let leader = refused.leader.as_deref().unwrap_or_default();
    if let Ok(leader) = leader.parse() {
        status.metadata_mut().insert(NOT_LEADER, leader);
    }
    status
}

/// Returns the address of the leader, if the status says that the server is not the leader and knows it.
pub(super) fn leader_of(status: &Status) -> Option<&str> {
    let leader = status.metadata().get(NOT_LEADER)?.to_str().ok()?;
    (!leader.is_empty()).then_some(leader)
}

pub(super) fn stopping() -> Status {
    Status::unavailable("the server is stopping")
}

pub(super) fn not_registered() -> Status {
    Status::unauthenticated("this connection has not registered a node")
}

pub(super) fn registering_already() -> Status {
    Status::resource_exhausted("another registration runs on this connection")
}

/// Returns a text for people.
pub(super) fn reason_of(server: &str, status: &Status) -> String {
    match status.code() {
        Code::Unknown | Code::Unavailable | Code::Cancelled => {
            format!("server `{server}` did not answer: {}", status.message())
        }
        Code::Ok
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => format!("server `{server}` refused: {}", status.message()),
    }
}

/// Returns whether the server will not answer the same request later either.
pub(super) fn is_refused(status: &Status) -> bool {
    matches!(status.code(), Code::InvalidArgument | Code::Unimplemented)
}
