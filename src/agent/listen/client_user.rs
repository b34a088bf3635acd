//! The user of a TCP client on this machine.
//!
//! The kernel lists every TCP socket with the user that made it. A job runs as the user of the agent, so a client over
//! loopback may submit one only if it is that user or root.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;

use crate::agent::blocking;
use crate::server::http::ClientUser;

/// The two ends of a connection over loopback.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopbackClient {
    client: SocketAddr,
    server: SocketAddr,
}

impl LoopbackClient {
    /// The client of a connection, as the server sees both ends.
    pub(super) fn shared(client: SocketAddr, server: SocketAddr) -> Arc<dyn ClientUser> {
        Arc::new(Self { client, server })
    }
}

#[async_trait]
impl ClientUser for LoopbackClient {
    async fn is_trusted(&self) -> bool {
        let (client, server) = (self.client, self.server);
        let found = blocking::run_blocking(move || {
            ["/proc/net/tcp", "/proc/net/tcp6"]
                .into_iter()
                .filter_map(|file| std::fs::read_to_string(file).ok())
                .find_map(|table| user_of(&table, client, server))
        });
        let own = rustix::process::geteuid().as_raw();
        found
            .await
            .is_ok_and(|user| user.is_some_and(|user| user == own || user == 0))
    }
}

/// Returns the user of the socket with these ends in the kernel's table.
fn user_of(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let ends = [fields.nth(1)?, fields.next()?];
        let is_meant = socket_address(ends[0]) == Some(canonical(local))
            && socket_address(ends[1]) == Some(canonical(remote));
        // State, queues, timer and retransmissions come first.
        let user = fields.nth(4)?;
        is_meant.then(|| user.parse().ok()).flatten()
    })
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Parses `0100007F:1F90`: the words of the address in the byte order of this machine, and the port.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = address.get(at * 8..at * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: Vec<u8> = words.concat();
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:1236 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0\n   1: 0100007F:C350 0100007F:1236 01 00000000:00000000 02:000004D2 00000000  1000        0 12 2 0 20 4 30 10 -1\n   2: 0100007F:1236 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0 20 4 30 10 -1\n";

    #[test]
    fn the_user_of_the_clients_end_is_found() {
        let client: SocketAddr = "127.0.0.1:50000".parse().unwrap();
        let server: SocketAddr = "127.0.0.1:4662".parse().unwrap();
        assert_eq!(user_of(TABLE, client, server), Some(1000));
        assert_eq!(user_of(TABLE, server, client), Some(0));
        let other: SocketAddr = "127.0.0.1:50001".parse().unwrap();
        assert_eq!(user_of(TABLE, other, server), None);
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        for (text, expected) in [
            ("0100007F:1F90", "127.0.0.1:8080"),
            ("00000000000000000000000001000000:0050", "[::1]:80"),
            ("0000000000000000FFFF00000100007F:0050", "127.0.0.1:80"),
        ] {
            assert_eq!(
                socket_address(text),
                Some(expected.parse().unwrap()),
                "{text}"
            );
        }
        for damaged in ["", "0100007F", "0100:1", "zz00007F:0050"] {
            assert_eq!(socket_address(damaged), None, "{damaged}");
        }
    }
}
