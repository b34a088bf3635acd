//! Places for connections: those that work, those that wait in a blocking query, and streams of events and logs.
//!
//! A connection has a working place from its start. A blocking query gives it up for a waiting place
//! while it waits, so that any number of waiting clients leaves room for working ones. A stream has a
//! place of its own kind until its connection ends. TCP and the Unix socket have places of their own.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::server::error::RequestError;

/// The places of one kind of connections. A clone is the same places.
#[derive(Clone, Debug)]
pub struct Places {
    working: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    waiting_limit: usize,
    streams: Arc<Semaphore>,
    stream_limit: usize,
}

impl Places {
    /// Creates places for this many connections that work, that wait, and that stream.
    pub fn new(working: usize, waiting: usize, streams: usize) -> Self {
        let places = |number: usize| Arc::new(Semaphore::new(number.min(Semaphore::MAX_PERMITS)));
        Self {
            working: places(working),
            waiting: places(waiting),
            waiting_limit: waiting,
            streams: places(streams),
            stream_limit: streams,
        }
    }

    /// Waits for a working place. `None` never happens: places are not closed.
    pub async fn enter(&self) -> Option<Place> {
        let permit = self.working.clone().acquire_owned().await.ok()?;
        Some(Place {
            places: self.clone(),
            working: Mutex::new(Some(permit)),
        })
    }
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Places,
    /// `None` while the connection waits.
    working: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Place {
    fn set_working(&self, permit: Option<OwnedSemaphorePermit>) {
        // Dropping a permit wakes another connection, which needs no lock.
        let previous = std::mem::replace(
            &mut *self.working.lock().unwrap_or_else(PoisonError::into_inner),
            permit,
        );
        drop(previous);
    }
}

/// The user of a client.
#[async_trait]
pub trait ClientUser: Send + Sync {
    /// Whether it is the user of the agent, or root.
    async fn is_trusted(&self) -> bool;
}

/// The connection of a request.
#[derive(Clone)]
pub struct Connection {
    is_local: bool,
    /// `None` if every client of the connection may run jobs.
    user: Option<Arc<dyn ClientUser>>,
    /// `None` if places are not counted.
    place: Option<Arc<Place>>,
}

impl Connection {
    /// Describes a connection. `is_local` says that it came over loopback or the Unix socket.
    pub fn new(is_local: bool, place: Place) -> Self {
        Self {
            is_local,
            user: None,
            place: Some(Arc::new(place)),
        }
    }

    /// Lets only a trusted user run jobs.
    #[must_use]
    pub fn of_user(self, user: Option<Arc<dyn ClientUser>>) -> Self {
        Self { user, ..self }
    }

    /// Whether its client may run jobs, which run as the user of the agent.
    pub(super) async fn may_run_jobs(&self) -> bool {
        match &self.user {
            None => true,
            Some(user) => user.is_trusted().await,
        }
    }

    /// A connection of this machine that takes no place.
    pub(super) fn uncounted() -> Self {
        Self {
            is_local: true,
            user: None,
            place: None,
        }
    }

    /// Whether it came over loopback or the Unix socket.
    pub(super) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Gives the working place up for the place of a stream, until the connection ends. `None` if
    /// places are not counted.
    ///
    /// # Errors
    /// If there is no such place.
    pub(super) fn subscribe(&self) -> Result<Option<OwnedSemaphorePermit>, RequestError> {
        let Some(place) = &self.place else {
            return Ok(None);
        };
        let stream = place.places.streams.clone().try_acquire_owned();
        let stream = stream.map_err(|_| RequestError::TooManyStreams {
            limit: place.places.stream_limit,
        })?;
        place.set_working(None);
        Ok(Some(stream))
    }

    /// Runs `wait` in a waiting place, then takes a working place again.
    ///
    /// # Errors
    /// If there is no waiting place.
    pub(super) async fn wait(&self, wait: impl Future<Output = ()>) -> Result<(), RequestError> {
        let Some(place) = &self.place else {
            wait.await;
            return Ok(());
        };
        let waiting = place.places.waiting.clone().try_acquire_owned();
        let waiting = waiting.map_err(|_| RequestError::TooManyWaiting {
            limit: place.places.waiting_limit,
        })?;
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
        let places = Places::new(1, 1, 1);
        let first = Connection::new(true, places.enter().await.unwrap());
        assert!(
            places.enter().now_or_never().is_none(),
            "the place is taken"
        );
        let change = Arc::new(Notify::new());
        let waiting = {
            let (first, change) = (first.clone(), change.clone());
            tokio::spawn(async move { first.wait(change.notified()).await })
        };
        let second = Connection::new(true, places.enter().await.unwrap());
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
        let places = Places::new(1, 1, 1);
        let first = Connection::new(true, places.enter().await.unwrap());
        let stream = first.subscribe().unwrap().unwrap();
        let second = Connection::new(true, places.enter().await.unwrap());
        let refused = second.subscribe().unwrap_err();
        assert_eq!(refused, RequestError::TooManyStreams { limit: 1 });
        assert!(places.enter().now_or_never().is_none(), "it still works");
        drop(stream);
        assert!(second.subscribe().is_ok());
    }

    #[tokio::test]
    async fn an_aborted_wait_gives_both_places_back() {
        let places = Places::new(1, 1, 1);
        let connection = Connection::new(true, places.enter().await.unwrap());
        let waited = connection.wait(std::future::pending()).now_or_never();
        assert!(waited.is_none());
        drop(connection);
        let next = Connection::new(true, places.enter().await.unwrap());
        assert_eq!(next.wait(std::future::ready(())).await, Ok(()));
    }
}
