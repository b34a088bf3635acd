//! Reads the body of a request within the limits of size, time and memory (`limits`).

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use futures_util::StreamExt as _;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::limits::{FREE_BODY, Limits};
use crate::error::RequestError;

/// The budget for bodies of all connections. Clones share their state.
#[derive(Clone, Debug)]
pub(super) struct BodyBudget {
    bytes: Arc<Semaphore>,
    total: usize,
}

impl BodyBudget {
    pub(super) fn new(limits: &Limits) -> Self {
        let total = limits.total_body_bytes.max(limits.body_bytes);
        Self { bytes: Arc::new(Semaphore::new(total)), total }
    }

    async fn reserve(
        &self,
        bytes: usize,
        until: Instant,
    ) -> Result<OwnedSemaphorePermit, RequestError> {
        let busy = RequestError::BodiesBusy { limit: self.total };
        // A permit count is 32 bits, and the limit at most 1 GiB.
        let Ok(permits) = u32::try_from(bytes) else {
            return Err(busy);
        };
        let reserved = self.bytes.clone().acquire_many_owned(permits);
        match timeout_at(until, reserved).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(busy),
        }
    }
}

/// A complete body, with its part of the budget.
#[derive(Debug, Default)]
pub(super) struct ReceivedBody {
    pub(super) bytes: Bytes,
    _reserved: Option<OwnedSemaphorePermit>,
}

/// How much of an unread body is dropped before the response, and for how long.
const DRAINED_BYTES: usize = 256 << 10;
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Drops a body that no handler reads, up to a limit. A connection that closes with unread bytes is
/// reset, and the client may lose the response.
pub(super) async fn drain(body: Body) {
    if body.is_end_stream() {
        return;
    }
    let mut chunks = body.into_data_stream();
    let dropped = async {
        let mut bytes = 0;
        while let Some(Ok(chunk)) = chunks.next().await {
            bytes += chunk.len();
            if bytes > DRAINED_BYTES {
                break;
            }
        }
    };
    drop(timeout(DRAIN_TIME, dropped).await);
}

/// Reads the whole body.
pub(super) async fn read_body(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
    budget: &BodyBudget,
) -> Result<ReceivedBody, RequestError> {
    let announced = headers.get(CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let limit = limits.body_bytes;
    if announced.is_some_and(|length| length > limit) {
        return Err(RequestError::BodyTooLarge { limit });
    }
    let until = Instant::now() + Duration::from_secs(limits.body_seconds as u64);
    let mut received = Receiving {
        bytes: vec![],
        reserved: None,
        max_length: announced.unwrap_or(limit),
        is_announced: announced.is_some(),
        limits,
        budget,
        until,
    };
    let mut chunks = body.into_data_stream();
    loop {
        let late = |_| RequestError::BodyTooSlow { seconds: limits.body_seconds };
        let Some(chunk) = timeout_at(until, chunks.next()).await.map_err(late)? else {
            return Ok(received.complete());
        };
        let chunk = chunk.map_err(|error| RequestError::BodyLost(error.to_string()))?;
        received.add(&chunk).await?;
    }
}

struct Receiving<'a> {
    bytes: Vec<u8>,
    reserved: Option<OwnedSemaphorePermit>,
    /// The announced length, or the largest allowed one.
    max_length: usize,
    is_announced: bool,
    limits: &'a Limits,
    budget: &'a BodyBudget,
    until: Instant,
}

impl Receiving<'_> {
    async fn add(&mut self, chunk: &[u8]) -> Result<(), RequestError> {
        let length = self.bytes.len() + chunk.len();
        if length > self.limits.body_bytes {
            let limit = self.limits.body_bytes;
            return Err(RequestError::BodyTooLarge { limit });
        }
        if self.reserved.is_none() && length > FREE_BODY {
            self.reserved = Some(self.budget.reserve(self.max_length, self.until).await?);
            if self.is_announced {
                // The system provides memory only where bytes arrive.
                self.bytes.reserve_exact(self.max_length.saturating_sub(self.bytes.len()));
            }
        }
        if length > self.bytes.capacity() {
            // Doubling, but never beyond what is reserved.
            let room = (self.bytes.capacity() * 2).clamp(length, self.max_length.max(length));
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// Returns the body, and what a body without announced length reserved too much.
    fn complete(mut self) -> ReceivedBody {
        if let Some(reserved) = &mut self.reserved {
            let surplus = reserved.num_permits().saturating_sub(self.bytes.len());
            drop(reserved.split(surplus));
        }
        ReceivedBody { bytes: self.bytes.into(), _reserved: self.reserved }
    }
}

#[cfg(test)]
mod tests;
