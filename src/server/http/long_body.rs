//! Long responses share one budget of memory, reserved until they are sent.
//!
//! A body is sent in parts, which are copies: when the last one is taken, the body is no longer in
//! memory, even if the client reads slowly. A read whose response finds no room is dropped and
//! repeated when there is room, so waiting clients take no memory. A write cannot be repeated; its
//! response waits.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::limits::Limits;
use crate::server::error::RequestError;

/// Shorter responses need no reservation: the kernel takes them at once.
pub(super) const LONG: usize = 16 << 10;
/// The memory that compresses one response.
const COMPRESSOR: usize = 512 << 10;
/// The longest time to wait for other responses to be sent.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const PART: usize = 64 << 10;

/// The budget for long responses of all connections. A clone is the same budget.
#[derive(Clone, Debug)]
pub(super) struct ResponseBudget {
    bytes: Arc<Semaphore>,
    total: usize,
}

impl ResponseBudget {
    pub(super) fn new(limits: &Limits) -> Self {
        let total = limits.total_response_bytes;
        Self {
            bytes: Arc::new(Semaphore::new(total)),
            total,
        }
    }

    /// Reserves a response of this length; `None` without room.
    pub(super) fn try_reserve(&self, length: usize) -> Option<OwnedSemaphorePermit> {
        let permits = self.permits(length);
        self.bytes.clone().try_acquire_many_owned(permits).ok()
    }

    /// Waits for room for a response of this length.
    pub(super) async fn reserve(
        &self,
        length: usize,
    ) -> Result<OwnedSemaphorePermit, RequestError> {
        let permits = self.permits(length);
        let reserved = self.bytes.clone().acquire_many_owned(permits);
        match timeout(LONGEST_WAIT, reserved).await {
            Ok(Ok(reserved)) => Ok(reserved),
            Ok(Err(_)) | Err(_) => Err(RequestError::ResponsesBusy { limit: self.total }),
        }
    }

    /// A response that is longer than the budget takes all of it.
    fn permits(&self, length: usize) -> u32 {
        let bytes = length.saturating_add(COMPRESSOR).min(self.total);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

/// A body that is being sent.
pub(super) struct LongBody {
    /// The body and its reservation; `None` after the last part.
    rest: Option<(Vec<u8>, OwnedSemaphorePermit)>,
    at: usize,
}

impl LongBody {
    pub(super) fn new(body: Vec<u8>, reserved: OwnedSemaphorePermit) -> Self {
        Self {
            rest: Some((body, reserved)),
            at: 0,
        }
    }
}

impl Body for LongBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let at = self.at;
        let Some((body, _)) = &self.rest else {
            return Poll::Ready(None);
        };
        let end = body.len().min(at + PART);
        let part = Bytes::copy_from_slice(&body[at..end]);
        if end == body.len() {
            self.rest = None;
        }
        self.at = end;
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = match &self.rest {
            Some((body, _)) => body.len() - self.at,
            None => 0,
        };
        SizeHint::with_exact(left as u64)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn responses_share_the_budget_and_one_always_fits() {
        let budget = ResponseBudget::new(&Limits {
            total_response_bytes: 2 * COMPRESSOR + 100,
            ..Limits::default()
        });
        let first = budget.try_reserve(50).unwrap();
        assert!(budget.try_reserve(51).is_none());
        let second = budget.try_reserve(50).unwrap();
        let limit = budget.total;
        let busy = RequestError::ResponsesBusy { limit };
        assert_eq!(budget.reserve(1).await.unwrap_err(), busy);
        drop((first, second));
        assert!(budget.reserve(usize::MAX).await.is_ok());
    }

    #[tokio::test]
    async fn the_whole_body_is_sent_and_its_reservation_is_returned() {
        for length in [0, 1, PART - 1, PART, PART + 1, 3 * PART] {
            let places = Arc::new(Semaphore::new(1));
            let place = places.clone().acquire_owned().await.unwrap();
            let list: Vec<u8> = (0..=255).cycle().take(length).collect();
            let body = LongBody::new(list.clone(), place);
            assert_eq!(body.size_hint().exact(), Some(length as u64));
            assert_eq!(places.available_permits(), 0);
            let sent = to_bytes(axum::body::Body::new(body), usize::MAX).await;
            assert!(sent.unwrap() == list, "{length}");
            assert_eq!(places.available_permits(), 1);
        }
    }
}
