//! Counts the connections of each client address, as Nomad does.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The connections of all client addresses. A clone is the same counts.
#[derive(Clone, Debug)]
pub(super) struct ClientAddresses {
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
    limit: usize,
}

/// A connection that is counted until it is dropped.
#[derive(Debug)]
pub(super) struct CountedConnection {
    addresses: ClientAddresses,
    client: Option<IpAddr>,
}

impl ClientAddresses {
    /// Allows this many connections per address; 0 is no limit.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            open: Arc::default(),
            limit,
        }
    }

    /// Counts a connection; `None` if the address has too many. A client without an address, as on
    /// the Unix socket, is not counted.
    pub(super) fn enter(&self, client: Option<IpAddr>) -> Option<CountedConnection> {
        let client = client.filter(|_| self.limit > 0);
        if let Some(address) = client {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let count = open.entry(address).or_default();
            if *count == self.limit {
                return None;
            }
            *count += 1;
        }
        Some(CountedConnection {
            addresses: self.clone(),
            client,
        })
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let Some(address) = self.client else { return };
        let open = &self.addresses.open;
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_connections() {
        let addresses = ClientAddresses::new(2);
        let [first, second] = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().ok());
        let held: Vec<_> = (0..2).map(|_| addresses.enter(first).unwrap()).collect();
        assert!(addresses.enter(first).is_none());
        assert!(addresses.enter(second).is_some());
        assert!(addresses.enter(None).is_some(), "the Unix socket");
        drop(held);
        assert!(addresses.open.lock().unwrap().is_empty());
        assert!(addresses.enter(first).is_some());
    }

    #[test]
    fn no_limit_counts_nothing() {
        let addresses = ClientAddresses::new(0);
        let client = "192.0.2.1".parse().ok();
        let held: Vec<_> = (0..1000).map_while(|_| addresses.enter(client)).collect();
        assert_eq!(held.len(), 1000);
    }
}
