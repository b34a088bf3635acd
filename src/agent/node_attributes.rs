//! What constraints and tasks can ask about this machine, under Nomad's names.
//!
//! An attribute that cannot be found out is left out: no value is made up.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use nomad_csi_server::AgentInfo;

/// Addresses of documentation (RFC 5737, RFC 3849): a route to them is the route to the rest of the world.
const OUTSIDE: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)), 9),
];

/// Returns the attributes of this machine. Reads files, so it may block.
pub(super) fn node_attributes() -> BTreeMap<String, String> {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let os_release = ["/etc/os-release", "/usr/lib/os-release"].into_iter();
    let os_release = os_release.filter_map(|path| std::fs::read_to_string(path).ok()).next();
    let os_release = os_release.unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let attributes = [
        ("cpu.arch", Some(go_architecture(&uname.machine().to_string_lossy()))),
        ("cpu.numcores", Some(cores.to_string())),
        ("kernel.name", Some(uname.sysname().to_string_lossy().to_lowercase())),
        ("kernel.version", Some(release)),
        ("memory.totalbytes", total_bytes(&memory).map(|bytes| bytes.to_string())),
        ("nomad.version", Some(AgentInfo::NOMAD_VERSION.to_owned())),
        ("os.name", os_value(&os_release, "ID")),
        ("os.version", os_value(&os_release, "VERSION_ID")),
        ("unique.network.ip-address", outward_address().map(|address| address.to_string())),
    ];
    let known = attributes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.collect()
}

/// The name of the processor's architecture that Nomad uses.
fn go_architecture(machine: &str) -> String {
    let name = match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "i386" | "i686" => "386",
        other => other,
    };
    name.to_owned()
}

/// Returns a value of `os-release`, without its quotes.
fn os_value(os_release: &str, key: &str) -> Option<String> {
    let mut pairs = os_release.lines().filter_map(|line| line.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| *name == key)?;
    let value = value.trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}

/// Returns the memory of the machine by `/proc/meminfo`, which counts in KiB.
fn total_bytes(memory: &str) -> Option<u64> {
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Returns the address from which this machine reaches others. To connect a UDP socket sends nothing; the kernel only
/// looks for the route.
fn outward_address() -> Option<IpAddr> {
    OUTSIDE.into_iter().find_map(|outside| {
        let any: IpAddr = match outside {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(outside).ok()?;
        let own = socket.local_addr().ok()?.ip();
        (!own.is_unspecified()).then_some(own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_read_from_its_files() {
        let file = "# a comment\nNAME=\"Ubuntu\"\nID=ubuntu\nVERSION_ID=\"24.04\"\nVARIANT_ID=\n";
        for (key, expected) in [
            ("ID", Some("ubuntu")),
            ("VERSION_ID", Some("24.04")),
            ("VARIANT_ID", None),
            ("X", None),
        ] {
            assert_eq!(os_value(file, key).as_deref(), expected, "{key}");
        }
        for (file, expected) in [
            ("MemTotal:       16384 kB\nMemFree: 1 kB\n", Some(16_777_216)),
            ("MemFree: 1 kB\n", None),
            ("MemTotal: many kB\n", None),
            ("MemTotal: 18446744073709551615 kB\n", None),
            ("", None),
        ] {
            assert_eq!(total_bytes(file), expected, "{file}");
        }
    }

    #[test]
    fn this_machine_has_the_attributes_of_every_machine() {
        let attributes = node_attributes();
        for name in ["cpu.arch", "cpu.numcores", "kernel.name", "memory.totalbytes"] {
            assert!(attributes.get(name).is_some_and(|value| !value.is_empty()), "{name}");
        }
        assert!(attributes.values().all(|value| !value.is_empty()), "{attributes:?}");
        assert_eq!(attributes["kernel.name"], "linux");
    }
}
