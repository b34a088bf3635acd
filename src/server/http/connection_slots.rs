//! Slots for connections: those that work, those that wait in a blocking query, and streams of events and logs.
//!
//! A connection has a working place from its start. A blocking query gives it up for a waiting place
//! while it waits, so that any number of waiting clients leaves room for working ones. A stream has a
//! place of its own kind until its connection ends, and one client has a quarter of them at most. TCP and the Unix socket have
//! places of their own.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::RequestError;

/// How many clients at least share the places of streams.
const STREAM_SHARES: usize = 4;

/// Who has a share: an address, and over loopback a user of this machine.
type ShareHolder = (IpAddr, Option<u32>);

/// The streams of each client.
type StreamCounts = Arc<Mutex<HashMap<ShareHolder, usize>>>;

/// The places of one kind of connections. Clones share their state.
#[derive(Clone, Debug)]
pub struct ConnectionSlots {
    working: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    waiting_limit: usize,
    streams: Arc<Semaphore>,
    stream_limit: usize,
    stream_counts: StreamCounts,
}

impl ConnectionSlots {
    /// Creates places for this many connections that work, that wait, and that stream.
    pub fn new(working: usize, waiting: usize, streams: usize) -> Self {
        let places = |number: usize| Arc::new(Semaphore::new(number.min(Semaphore::MAX_PERMITS)));
        Self {
            working: places(working),
            waiting: places(waiting),
            waiting_limit: waiting,
            streams: places(streams),
            stream_limit: streams,
            stream_counts: Arc::default(),
        }
    }

    /// Waits for a working place. `None` never happens: places are not closed.
    pub async fn enter(&self) -> Option<ConnectionSlot> {
        let permit = self.working.clone().acquire_owned().await.ok()?;
        Some(ConnectionSlot { places: self.clone(), working: Mutex::new(Some(permit)) })
    }
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    places: ConnectionSlots,
    /// `None` while the connection waits.
    working: Mutex<Option<OwnedSemaphorePermit>>,
}

impl ConnectionSlot {
    fn set_working(&self, permit: Option<OwnedSemaphorePermit>) {
        // Dropping a permit wakes another connection, which needs no lock.
        let previous = std::mem::replace(&mut *self.working.lock(), permit);
        drop(previous);
    }
}

/// The place of a stream, until it is dropped.
#[derive(Debug)]
pub(super) struct StreamPlace {
    _permit: OwnedSemaphorePermit,
    _share: Option<StreamShare>,
}

/// The part of its client's share that a stream takes.
#[derive(Debug)]
struct StreamShare {
    counts: StreamCounts,
    holder: ShareHolder,
}

impl StreamShare {
    /// Takes a part of a client's share; `None` if nothing is left of it.
    fn take(counts: &StreamCounts, holder: ShareHolder, limit: usize) -> Option<Self> {
        let mut open = counts.lock();
        let count = open.entry(holder).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        let counts = counts.clone();
        Some(Self { counts, holder })
    }
}

impl Drop for StreamShare {
    fn drop(&mut self) {
        let mut open = self.counts.lock();
        if let Some(count) = open.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.holder);
            }
        }
    }
}

/// Where the client of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Over TCP, and not over loopback.
    Network,
    /// Over loopback. Every user and every task of this machine can be there.
    Loopback,
    /// On the Unix socket: the kernel names root or the user of the agent, outside of every task.
    Operator,
    /// On the Unix socket, and not certainly the operator.
    Stranger,
}

/// The connection of a request.
#[derive(Clone)]
pub struct Connection {
    peer: Peer,
    place: Arc<ConnectionSlot>,
    holder: Option<ShareHolder>,
    is_forwarded: bool,
}

impl Connection {
    /// Describes a connection.
    pub fn new(peer: Peer, place: ConnectionSlot) -> Self {
        Self { peer, place: Arc::new(place), holder: None, is_forwarded: false }
    }

    /// Sets whose share its streams are part of. Without one, they are part of none, as on the Unix socket.
    #[must_use]
    pub fn of(self, holder: Option<ShareHolder>) -> Self {
        Self { holder, ..self }
    }

    /// Says that another server has checked the request and forwarded it.
    #[must_use]
    pub(super) fn forwarded(self) -> Self {
        Self { is_forwarded: true, ..self }
    }

    /// Returns whether another server has checked the request and forwarded it.
    pub(super) fn is_forwarded(&self) -> bool {
        self.is_forwarded
    }

    /// Returns whether it came over loopback or the Unix socket.
    pub(super) fn is_local(&self) -> bool {
        self.peer != Peer::Network
    }

    /// Where the client is.
    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// Gives the working place up for the place of a stream, until the connection ends.
    ///
    /// # Errors
    /// If there is no such place.
    pub(super) fn subscribe(&self) -> Result<StreamPlace, RequestError> {
        let places = &self.place.places;
        let limit = places.stream_limit;
        let share = self.holder.map(|holder| {
            let limit = limit.div_ceil(STREAM_SHARES);
            let taken = StreamShare::take(&places.stream_counts, holder, limit);
            taken.ok_or(RequestError::TooManyStreams { limit })
        });
        let share = share.transpose()?;
        let permit = places.streams.clone().try_acquire_owned();
        let permit = permit.map_err(|_| RequestError::TooManyStreams { limit })?;
        self.place.set_working(None);
        Ok(StreamPlace { _permit: permit, _share: share })
    }

    /// Runs `wait` in a waiting place, then takes a working place again.
    ///
    /// # Errors
    /// If there is no waiting place.
    pub(super) async fn wait(&self, wait: impl Future<Output = ()>) -> Result<(), RequestError> {
        let place = &self.place;
        let waiting = place.places.waiting.clone().try_acquire_owned();
        let waiting = waiting
            .map_err(|_| RequestError::TooManyWaiting { limit: place.places.waiting_limit })?;
        place.set_working(None);
        wait.await;
        let working = place.places.working.clone().acquire_owned().await;
        place.set_working(working.ok());
        drop(waiting);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn a_waiting_connection_leaves_its_place_to_another() {
        let places = ConnectionSlots::new(1, 1, 1);
        let first = Connection::new(Peer::Loopback, places.enter().await.unwrap());
        assert!(places.enter().now_or_never().is_none(), "the place is taken");
        let change = Arc::new(Notify::new());
        let waiting = {
            let (first, change) = (first.clone(), change.clone());
            tokio::spawn(async move { first.wait(change.notified()).await })
        };
        let second = Connection::new(Peer::Loopback, places.enter().await.unwrap());
        let refused = second.wait(std::future::ready(())).await;
        assert_eq!(refused, Err(RequestError::TooManyWaiting { limit: 1 }));
        change.notify_one();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "it waits for a working place");
        drop(second);
        waiting.await.unwrap().unwrap();
        assert!(places.enter().now_or_never().is_none());
        drop(first);
        assert!(places.enter().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_stream_leaves_its_place_to_another_and_has_one_of_its_own() {
        let places = ConnectionSlots::new(1, 1, 1);
        let first = Connection::new(Peer::Loopback, places.enter().await.unwrap());
        let stream = first.subscribe().unwrap();
        let second = Connection::new(Peer::Loopback, places.enter().await.unwrap());
        let refused = second.subscribe().unwrap_err();
        assert_eq!(refused, RequestError::TooManyStreams { limit: 1 });
        assert!(places.enter().now_or_never().is_none(), "it still works");
        drop(stream);
        assert!(second.subscribe().is_ok());
    }

    #[tokio::test]
    async fn one_client_does_not_take_the_streams_of_the_others() {
        let places = ConnectionSlots::new(100, 1, 8);
        let address = IpAddr::from([127, 0, 0, 1]);
        let subscribe = async |user: Option<u32>| {
            let connection = Connection::new(Peer::Loopback, places.enter().await.unwrap());
            connection.of(Some((address, user))).subscribe()
        };
        let first = subscribe(Some(65_534)).await.unwrap();
        let _second = subscribe(Some(65_534)).await.unwrap();
        let refused = subscribe(Some(65_534)).await.unwrap_err();
        assert_eq!(refused, RequestError::TooManyStreams { limit: 2 });
        let _others = [subscribe(Some(0)).await.unwrap(), subscribe(None).await.unwrap()];
        drop(first);
        assert!(subscribe(Some(65_534)).await.is_ok());
    }

    #[tokio::test]
    async fn an_aborted_wait_gives_both_places_back() {
        let places = ConnectionSlots::new(1, 1, 1);
        let connection = Connection::new(Peer::Loopback, places.enter().await.unwrap());
        let waited = connection.wait(std::future::pending()).now_or_never();
        assert!(waited.is_none());
        drop(connection);
        let next = Connection::new(Peer::Loopback, places.enter().await.unwrap());
        assert_eq!(next.wait(std::future::ready(())).await, Ok(()));
    }
}
