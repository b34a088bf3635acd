//! Counts the connections of each client address, as Nomad does. Over loopback, each user of this machine counts by
//! itself, so that none of them takes the places of the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Who is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) address: IpAddr,
    /// The user over loopback, if the kernel says who it is.
    pub(super) user: Option<u32>,
}

/// The connections of all client addresses. Clones share their state.
#[derive(Clone, Debug)]
pub(super) struct ClientAddresses {
    open: Arc<Mutex<HashMap<Client, usize>>>,
    limit: usize,
}

/// A connection that is counted until it is dropped.
#[derive(Debug)]
pub(super) struct CountedConnection {
    addresses: ClientAddresses,
    client: Option<Client>,
}

impl ClientAddresses {
    /// Allows this many connections per address; 0 is no limit.
    pub(super) fn new(limit: usize) -> Self {
        Self { open: Arc::default(), limit }
    }

    /// Counts a connection; `None` if the address has too many. A client without an address, as on
    /// the Unix socket, is not counted.
    pub(super) fn enter(&self, client: Option<Client>) -> Option<CountedConnection> {
        let client = client.filter(|_| self.limit > 0);
        if let Some(client) = client {
            let mut open = self.open.lock();
            let count = open.entry(client).or_default();
            if *count == self.limit {
                return None;
            }
            *count += 1;
        }
        Some(CountedConnection { addresses: self.clone(), client })
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let Some(client) = self.client else { return };
        let open = &self.addresses.open;
        let mut open = open.lock();
        if let Some(count) = open.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                open.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str, user: Option<u32>) -> Option<Client> {
        let address = address.parse().ok()?;
        Some(Client { address, user })
    }

    #[test]
    fn each_address_and_each_user_of_loopback_has_its_own_connections() {
        let addresses = ClientAddresses::new(2);
        let first = client("192.0.2.1", None);
        let stranger = client("127.0.0.1", Some(65_534));
        let mut held: Vec<_> = (0..2).map(|_| addresses.enter(first).unwrap()).collect();
        held.extend((0..2).map(|_| addresses.enter(stranger).unwrap()));
        assert!(addresses.enter(first).is_none());
        assert!(addresses.enter(stranger).is_none());
        for other in [
            client("2001:db8::1", None),
            client("127.0.0.1", Some(0)),
            client("127.0.0.1", None),
            client("127.0.0.2", Some(65_534)),
        ] {
            assert!(addresses.enter(other).is_some(), "{other:?}");
        }
        assert!(addresses.enter(None).is_some(), "the Unix socket");
        drop(held);
        assert!(addresses.open.lock().is_empty());
        assert!(addresses.enter(first).is_some());
    }

    #[test]
    fn no_limit_counts_nothing() {
        let addresses = ClientAddresses::new(0);
        let client = client("192.0.2.1", None);
        let held: Vec<_> = (0..1000).map_while(|_| addresses.enter(client)).collect();
        assert_eq!(held.len(), 1000);
    }
}
