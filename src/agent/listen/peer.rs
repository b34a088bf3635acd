//! Where a client is.
//!
//! On the Unix socket, the kernel names the process that made the connection. Root and the user of the agent are the
//! operator, if their process sees the same processes and mounts as the agent. Every task runs in a PID namespace of
//! its own. What cannot be found out counts as no.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use tokio::net::UnixStream;

use crate::agent::blocking;
use nomad_csi_model::private::SocketPeer;
use nomad_csi_server::http::Peer;

/// Returns where a TCP client is that reached this address of the agent.
pub(super) fn peer_over_tcp(own: SocketAddr) -> Peer {
    match own.ip().to_canonical().is_loopback() {
        true => Peer::Loopback,
        false => Peer::Network,
    }
}

/// Returns who the client on the Unix socket is.
pub(super) async fn peer_on_socket(stream: &UnixStream) -> Peer {
    let Ok(socket) = stream.as_fd().try_clone_to_owned() else {
        return Peer::Stranger;
    };
    let found = blocking::run_blocking(move || {
        let peer = SocketPeer::of(&socket)?;
        is_operator(&peer)
    });
    match found.await {
        Ok(Ok(true)) => Peer::Operator,
        Ok(Ok(false) | Err(_)) | Err(_) => Peer::Stranger,
    }
}

/// Returns whether the process is of the operator. Blocks.
fn is_operator(peer: &SocketPeer) -> io::Result<bool> {
    let own = rustix::process::geteuid().as_raw();
    if peer.user == own {
        return peer.shares_namespaces();
    }
    // A task has the user of the agent at most, so it is not root of the machine. The agent may not look at root.
    Ok(peer.user == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_loopback_are_of_this_machine() {
        for (own, expected) in [
            ("127.0.0.1:4646", Peer::Loopback),
            ("127.3.2.1:4646", Peer::Loopback),
            ("[::1]:4646", Peer::Loopback),
            ("[::ffff:127.0.0.1]:4646", Peer::Loopback),
            ("[::ffff:192.0.2.1]:4646", Peer::Network),
            ("192.0.2.1:4646", Peer::Network),
            ("[2001:db8::1]:4646", Peer::Network),
            ("0.0.0.0:4646", Peer::Network),
            ("[::]:4646", Peer::Network),
        ] {
            assert_eq!(peer_over_tcp(own.parse().unwrap()), expected, "{own}");
        }
    }

    #[tokio::test]
    async fn this_process_is_the_operator() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer_on_socket(&one).await, Peer::Operator);
    }
}
