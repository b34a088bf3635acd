//! Counts the connections of each address.

use std::collections::HashMap;
use std::net::IpAddr;
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

impl AddressLimit {
    /// Allows this many connections per address.
    pub(super) fn new(limit: usize) -> Self {
        Self { open: Arc::default(), limit }
    }

    /// Counts a connection; `None` if its address has too many.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Counted> {
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
}
