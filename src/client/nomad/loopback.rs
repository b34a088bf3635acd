//! The addresses of this machine that a server's address can mean.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use url::Host;

use super::address::Address;
use super::settings::ClientSettings;

/// Returns the loopback addresses that the address of the settings means: one for a number, one of each family for
/// `localhost`, none for anything else. A request to one of them passes no other program: neither a proxy nor TLS.
pub fn loopback_addresses(settings: &ClientSettings) -> Vec<SocketAddr> {
    let Ok(address) = Address::parse(settings.address.expose()) else {
        return vec![];
    };
    if address.is_https() || address.socket.is_some() {
        return vec![];
    }
    let meant: Vec<IpAddr> = match address.base.host() {
        Some(Host::Domain("localhost")) => {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        }
        Some(Host::Ipv4(ip)) => vec![ip.into()],
        Some(Host::Ipv6(ip)) => vec![ip.into()],
        Some(Host::Domain(_)) | None => vec![],
    };
    let port = address.base.port_or_known_default().unwrap_or_default();
    let meant = meant.into_iter().filter(IpAddr::is_loopback);
    meant.map(|ip| SocketAddr::new(ip, port)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_direct_connection_to_loopback_counts() {
        for (text, expected) in [
            ("http://127.0.0.1:4646", vec!["127.0.0.1:4646"]),
            ("http://me:secret@127.3.2.1:1/ui", vec!["127.3.2.1:1"]),
            ("http://127.1:1", vec!["127.0.0.1:1"]),
            ("http://[::1]:4646", vec!["[::1]:4646"]),
            ("http://127.0.0.1", vec!["127.0.0.1:80"]),
            ("http://LOCALHOST:4646", vec!["127.0.0.1:4646", "[::1]:4646"]),
            ("https://127.0.0.1:4646", vec![]),
            ("unix:///run/agent.sock", vec![]),
            ("http://[::ffff:127.0.0.1]:4646", vec![]),
            ("http://0.0.0.0:4646", vec![]),
            ("http://192.0.2.1:4646", vec![]),
            ("http://localhost.evil.example:4646", vec![]),
            ("http://127.0.0.1.evil.example:4646", vec![]),
            ("127.0.0.1:4646", vec![]),
        ] {
            let found = loopback_addresses(&ClientSettings::new(text));
            let expected: Vec<SocketAddr> =
                expected.iter().map(|text| text.parse().unwrap()).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
