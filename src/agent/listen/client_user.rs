//! The user of a TCP client on this machine, by which connections over loopback are counted.
//!
//! The answer describes the moment of the question, so it decides about no right: who the operator is, `Peer` says.
//! The kernel is asked for one socket; it does not list all of them.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// `SOCK_DIAG_BY_FAMILY`: a question about the sockets of a family.
const QUESTION: u16 = 20;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// The length of `nlmsghdr`.
const HEADER: usize = 16;
/// The length of `inet_diag_req_v2`.
const BODY: usize = 56;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// `TCP_ESTABLISHED`.
const ESTABLISHED: u8 = 1;
/// Where `inet_diag_msg` has the state, the user and the inode, after the header.
const STATE: usize = HEADER + 1;
const USER: usize = HEADER + 64;
const INODE: usize = HEADER + 68;

/// Returns the user of the client's end of a connection over loopback; `None` if the kernel does not say, or the
/// client has closed it. Blocks.
pub(super) fn user_of(client: SocketAddr, own: SocketAddr) -> Option<u32> {
    let answer = ask(&question(client, own)).ok()?;
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let is_answer = answer.get(4..6)? == QUESTION.to_ne_bytes();
    // A socket that its process has closed has no user, and the kernel says root.
    let is_open = *answer.get(STATE)? == ESTABLISHED && number(INODE)? != 0;
    number(USER).filter(|_| is_answer && is_open)
}

fn ask(question: &[u8]) -> io::Result<Vec<u8>> {
    let protocol = Some(netlink::SOCK_DIAG);
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    send(&socket, question, SendFlags::empty())?;
    let mut answer = vec![0; 1024];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

/// Asks for the socket whose own address is the client's.
fn question(client: SocketAddr, own: SocketAddr) -> Vec<u8> {
    let [from, to] = [client, own].map(|end| end.ip().to_canonical());
    let family = match from {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let mut message = vec![];
    message.extend(u32::try_from(HEADER + BODY).unwrap_or_default().to_ne_bytes());
    message.extend(QUESTION.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // The sequence and the sender.
    message.extend([0; 8]);
    // Nothing but the socket itself, in any state.
    message.extend([family.as_raw().to_le_bytes()[0], TCP, 0, 0]);
    message.extend(u32::MAX.to_ne_bytes());
    message.extend(client.port().to_be_bytes());
    message.extend(own.port().to_be_bytes());
    for ip in [from, to] {
        let mut words = [0; 16];
        match ip {
            IpAddr::V4(ip) => words[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => words = ip.octets(),
        }
        message.extend(words);
    }
    // Any interface, and no cookie.
    message.extend([0; 4]);
    message.extend([0xff; 8]);
    message
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_user_of_an_open_connection_is_found() {
        let own_user = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let hosts: &[&str] = match address {
                "[::]:0" => &["127.0.0.1", "::1", "::ffff:127.0.0.1"],
                "[::1]:0" => &["::1"],
                _ => &["127.0.0.1"],
            };
            for host in hosts {
                let client = TcpStream::connect((*host, port)).unwrap();
                let (server, peer) = listener.accept().unwrap();
                let own = server.local_addr().unwrap();
                assert_eq!(user_of(peer, own), Some(own_user), "{host}");
                drop(client);
                assert_eq!(user_of(peer, own), None, "{host}: it is closed");
            }
        }
    }
}
