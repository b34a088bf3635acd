//! [`UnknownConnections`]: the accepted connections whose node is not known yet.
//!
//! There are few of an address, and few in all. A new connection is always taken: at the limit of its address, the oldest
//! of that address is closed; at the limit of all, the oldest of the address with the most. So connections that never say
//! which node they are keep no node from connecting.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::address_limit::counted_address;

/// The accepted connections whose node is not known yet. Clones share their state. It has an entry for each of them.
#[derive(Clone)]
pub(super) struct UnknownConnections {
    state: Arc<Mutex<State>>,
    limits: Limits,
}

/// How many there may be.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Of one address.
    pub(super) of_address: usize,
    /// Of all addresses.
    pub(super) of_all: usize,
}

#[derive(Default)]
struct State {
    /// Those of each address in the order of their numbers, so the oldest is the first.
    open: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
    count: usize,
    next: u64,
}

/// The place of a connection, until it is dropped.
pub(super) struct UnknownPlace {
    connections: UnknownConnections,
    address: IpAddr,
    number: u64,
}

impl UnknownConnections {
    /// Allows this many.
    pub(super) fn new(limits: Limits) -> Self {
        Self { state: Arc::default(), limits }
    }

    /// Adds a connection. Cancels the token of an older one if there are too many.
    pub(super) fn enter(&self, address: IpAddr, closed: CancellationToken) -> UnknownPlace {
        let address = counted_address(address);
        let mut state = self.state.lock();
        let of_address = state.open.get(&address).map_or(0, BTreeMap::len);
        if of_address >= self.limits.of_address {
            state.close_oldest_of(address);
        } else if state.count >= self.limits.of_all
            && let Some(largest) = state.largest()
        {
            state.close_oldest_of(largest);
        }
        let number = state.next;
        state.next += 1;
        state.count += 1;
        state.open.entry(address).or_default().insert(number, closed);
        UnknownPlace { connections: self.clone(), address, number }
    }
}

impl State {
    /// Returns the address with the most connections; of those with as many, that of the oldest connection.
    fn largest(&self) -> Option<IpAddr> {
        let rank = |open: &BTreeMap<u64, CancellationToken>| {
            (open.len(), Reverse(open.keys().next().copied()))
        };
        self.open.iter().max_by_key(|(_, open)| rank(open)).map(|(address, _)| *address)
    }

    fn close_oldest_of(&mut self, address: IpAddr) {
        let oldest = self.open.get(&address).and_then(|open| open.keys().next().copied());
        if let Some(closed) = oldest.and_then(|number| self.remove(address, number)) {
            closed.cancel();
        }
    }

    fn remove(&mut self, address: IpAddr, number: u64) -> Option<CancellationToken> {
        let open = self.open.get_mut(&address)?;
        let removed = open.remove(&number)?;
        self.count -= 1;
        if open.is_empty() {
            self.open.remove(&address);
        }
        Some(removed)
    }
}

impl UnknownPlace {
    /// Gives the place back. Returns whether the connection had it still: otherwise a newer one took it.
    pub(super) fn leave(self) -> bool {
        self.connections.state.lock().remove(self.address, self.number).is_some()
    }
}

impl Drop for UnknownPlace {
    fn drop(&mut self) {
        self.connections.state.lock().remove(self.address, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections() -> UnknownConnections {
        UnknownConnections::new(Limits { of_address: 3, of_all: 5 })
    }

    fn enter(connections: &UnknownConnections, address: &str) -> (UnknownPlace, CancellationToken) {
        let closed = CancellationToken::new();
        (connections.enter(address.parse().unwrap(), closed.clone()), closed)
    }

    fn are_closed(all: &[(UnknownPlace, CancellationToken)]) -> Vec<bool> {
        all.iter().map(|(_, closed)| closed.is_cancelled()).collect()
    }

    #[test]
    fn at_the_limit_of_an_address_its_oldest_connection_is_closed() {
        let connections = connections();
        let other = enter(&connections, "192.0.2.9");
        let mut all: Vec<_> = (0..3).map(|_| enter(&connections, "192.0.2.1")).collect();
        assert_eq!(are_closed(&all), [false, false, false]);
        all.push(enter(&connections, "192.0.2.1"));
        assert_eq!(are_closed(&all), [true, false, false, false]);
        // A connection whose node is known is not closed any more.
        assert!(all.remove(1).0.leave());
        assert!(!all.remove(0).0.leave());
        all.push(enter(&connections, "192.0.2.1"));
        assert_eq!(are_closed(&all), [false, false, false]);
        assert!(!other.1.is_cancelled());
        drop((all, other));
        assert!(connections.state.lock().open.is_empty());
        assert_eq!(connections.state.lock().count, 0);
    }

    #[test]
    fn at_the_limit_of_all_the_oldest_of_the_address_with_the_most_is_closed() {
        let connections = connections();
        let mut all: Vec<_> = ["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.3", "192.0.2.4"]
            .map(|address| enter(&connections, address))
            .into();
        all.push(enter(&connections, "192.0.2.5"));
        assert_eq!(are_closed(&all), [false, true, false, false, false, false]);
        all.push(enter(&connections, "192.0.2.6"));
        assert_eq!(are_closed(&all), [true, true, false, false, false, false, false]);
        assert_eq!(connections.state.lock().count, 5);
    }

    #[test]
    fn an_ipv6_network_has_the_places_of_one_address() {
        let connections = connections();
        let all: Vec<_> =
            (1..=4).map(|host| enter(&connections, &format!("2001:db8::{host}:1"))).collect();
        assert_eq!(are_closed(&all), [true, false, false, false]);
    }
}
