//! Where the token of an agent's operator is: in the data directory, and in the runtime directory of the user under
//! the address of the agent, where the command line finds it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The file in the data directory.
pub const OPERATOR_TOKEN_FILE: &str = "operator.token";
/// The directory of the other files, in `$XDG_RUNTIME_DIR`, or in `/run` without it.
pub const OPERATOR_TOKEN_DIRECTORY: &str = "nomad-csi";
/// The most bytes of a file.
pub const LONGEST_OPERATOR_TOKEN: u64 = 256;

/// Returns the name of the file of an agent that listens on this address; `None` if clients of this machine do not
/// reach it over loopback.
pub fn operator_token_name(listening: SocketAddr) -> Option<String> {
    let address = canonical(listening);
    let is_reached = address.ip().is_loopback() || address.ip().is_unspecified();
    is_reached.then(|| format!("{address}.token"))
}

/// Returns the names of the file for a client of this address, the most exact one first. No agent but the one that
/// wrote such a file can listen there: two sockets cannot share an address and a port, nor one of them be for all
/// addresses. Empty if it is no loopback address.
pub fn operator_token_names(client: SocketAddr) -> Vec<String> {
    let address = canonical(client);
    let all = match address.ip() {
        ip if !ip.is_loopback() => return vec![],
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let listening = [address, SocketAddr::new(all, address.port())];
    listening.into_iter().filter_map(operator_token_name).collect()
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_looks_only_where_the_agent_of_its_address_writes() {
        let written = |text: &str| operator_token_name(text.parse().unwrap());
        let sought = |text: &str| operator_token_names(text.parse().unwrap());
        for (client, listening, is_found) in [
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "127.0.0.1:2", false),
            ("127.0.0.1:1", "127.0.0.2:1", false),
            ("127.0.0.1:1", "0.0.0.0:1", true),
            ("127.0.0.2:1", "0.0.0.0:1", true),
            ("127.0.0.1:1", "[::ffff:127.0.0.1]:1", true),
            ("[::ffff:127.0.0.1]:1", "127.0.0.1:1", true),
            // An agent on all addresses of IPv6 writes the name for those of IPv4 if it has them.
            ("127.0.0.1:1", "[::]:1", false),
            ("127.0.0.1:1", "[::1]:1", false),
            ("[::1]:1", "[::1]:1", true),
            ("[::1]:1", "[::]:1", true),
            ("[::1]:1", "0.0.0.0:1", false),
        ] {
            let name = written(listening).unwrap();
            let found = sought(client).contains(&name);
            assert_eq!(found, is_found, "{client} {listening}");
        }
        for other in ["192.0.2.1:1", "0.0.0.0:1", "[::]:1", "[2001:db8::1]:1"] {
            assert_eq!(sought(other), Vec::<String>::new(), "{other}");
        }
        for other in ["192.0.2.1:1", "[2001:db8::1]:1"] {
            assert_eq!(written(other), None, "{other}");
        }
    }
}
