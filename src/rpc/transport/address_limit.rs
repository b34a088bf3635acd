//! Counts the connections of each address. The addresses of an IPv6 network (/64) count as one: a machine can have them all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// The connections of all addresses. Clones share their state. It has an entry for each address with a connection.
#[derive(Clone)]
pub(super) struct AddressLimit {
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
    limit: usize,
}

/// A connection that is counted until it is dropped.
pub(super) struct Counted {
    addresses: AddressLimit,
    address: IpAddr,
}

/// Returns what an address counts as.
pub(super) fn counted_address(address: IpAddr) -> IpAddr {
    const NETWORK: u128 = !(u64::MAX as u128);
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
    }
}

impl AddressLimit {
    /// Allows this many connections per address.
    pub(super) fn new(limit: usize) -> Self {
        Self { open: Arc::default(), limit }
    }

    /// Counts a connection; `None` if its address has too many.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Counted> {
        let address = counted_address(address);
        let mut open = self.open.lock();
        let count = open.entry(address).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Counted { addresses: self.clone(), address })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.addresses.open.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_connections_and_none_is_remembered_without_one() {
        let limit = AddressLimit::new(2);
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let held: Vec<_> = std::iter::from_fn(|| limit.enter(one)).take(9).collect();
        assert_eq!(held.len(), 2);
        assert!(limit.enter(other).is_some());
        drop(held);
        assert!(limit.open.lock().is_empty());
        assert!(limit.enter(one).is_some());
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one_and_an_ipv4_address_in_ipv6_as_itself() {
        let count = |text: &str| counted_address(text.parse().unwrap());
        assert_eq!(count("2001:db8:1:2::1"), count("2001:db8:1:2:ffff::2"));
        assert_ne!(count("2001:db8:1:2::1"), count("2001:db8:1:3::1"));
        assert_eq!(count("::ffff:192.0.2.1"), count("192.0.2.1"));
        assert_ne!(count("::ffff:192.0.2.1"), count("::ffff:192.0.2.2"));
        let limit = AddressLimit::new(1);
        let _held = limit.enter("2001:db8::1".parse().unwrap()).unwrap();
        assert!(limit.enter("2001:db8::2".parse().unwrap()).is_none());
    }
}
