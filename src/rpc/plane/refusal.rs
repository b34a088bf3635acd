//! Refused registrations as messages. A kind that the node does not know is a failure that may pass.

use super::messages::{RegistrationRefused as Message, registration_refused::Kind};
use nomad_csi_ports::RegistrationRefused;

pub(super) fn refusal_message(refused: &RegistrationRefused) -> Message {
    let kind = match refused {
        RegistrationRefused::WrongSecret => Kind::WrongSecret,
        RegistrationRefused::OtherCluster { .. } => Kind::OtherCluster,
        RegistrationRefused::WentBack(_) => Kind::WentBack,
        RegistrationRefused::Duplicate => Kind::Duplicate,
        RegistrationRefused::NotLeader(_) => Kind::NotLeader,
        RegistrationRefused::Stopping => Kind::Stopping,
        RegistrationRefused::Failed(_) => Kind::Failed,
    };
    let leader = match refused {
        RegistrationRefused::NotLeader(not_leader) => not_leader.leader.clone().unwrap_or_default(),
        RegistrationRefused::WrongSecret
        | RegistrationRefused::OtherCluster { .. }
        | RegistrationRefused::WentBack(_)
        | RegistrationRefused::Duplicate
        | RegistrationRefused::Stopping
        | RegistrationRefused::Failed(_) => String::new(),
    };
    Message { kind: kind.into(), message: refused.to_string(), leader }
}

/// Returns a text for the operator of the node: why, and what to do.
pub(super) fn refusal_text(refused: &Message) -> String {
    let help = match refused.kind() {
        Kind::WrongSecret => {
            "; restore `node.secret` from a backup of the data directory; without it, start with an empty data directory, which is another node"
        }
        Kind::OtherCluster => "; check the addresses of the servers; the tasks of the node run on",
        Kind::WentBack => {
            "; restore the newest copy of the server's data directory; the tasks of the node run on"
        }
        Kind::Duplicate => "; give each machine a node ID of its own",
        Kind::NotLeader | Kind::Stopping | Kind::Failed | Kind::Unspecified => "",
    };
    format!("the server does not register this node: {}{help}", refused.message)
}
