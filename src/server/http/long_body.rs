//! Long responses share one budget of memory, reserved until they are sent.
//!
//! A body consists of pieces, which other responses may share. It is sent in parts, which are copies: when the
//! last one is taken, the body holds no memory, even if the client reads slowly. A read whose response finds no
//! room is dropped and repeated when there is room, so waiting clients take no memory. A write cannot be
//! repeated; its response waits.

use std::collections::VecDeque;
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
use crate::error::RequestError;

/// Shorter responses need no reservation: the kernel takes them at once.
pub(super) const LONG: usize = 16 << 10;
/// The memory that compresses one response.
const COMPRESSOR: usize = 512 << 10;
/// The longest time to wait for other responses to be sent.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const PART: usize = 64 << 10;

/// The budget for long responses of all connections. Clones share their state.
#[derive(Clone, Debug)]
pub(super) struct ResponseBudget {
    bytes: Arc<Semaphore>,
    total: usize,
}

impl ResponseBudget {
    pub(super) fn new(limits: &Limits) -> Self {
        let total = limits.total_response_bytes;
        Self { bytes: Arc::new(Semaphore::new(total)), total }
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

/// The bytes of a body, in order.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pieces: VecDeque<Bytes>,
    length: usize,
}

impl Pieces {
    /// Adds bytes at the end.
    pub(super) fn push(&mut self, piece: Bytes) {
        self.length += piece.len();
        self.pieces.push_back(piece);
    }

    /// The number of bytes.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Removes and copies the next bytes, at most [`PART`].
    pub(super) fn take_part(&mut self) -> Bytes {
        let mut part = Vec::with_capacity(self.length.min(PART));
        while let Some(mut piece) = self.pieces.pop_front() {
            let room = PART - part.len();
            if piece.len() > room {
                part.extend_from_slice(&piece.split_to(room));
                self.pieces.push_front(piece);
                break;
            }
            part.extend_from_slice(&piece);
        }
        self.length -= part.len();
        Bytes::from(part)
    }
}

impl From<Vec<u8>> for Pieces {
    fn from(bytes: Vec<u8>) -> Self {
        let mut pieces = Self::default();
        pieces.push(Bytes::from(bytes));
        pieces
    }
}

/// A body that is being sent.
pub(super) struct LongBody {
    rest: Pieces,
    /// Returned with the last part.
    reserved: Option<OwnedSemaphorePermit>,
}

impl LongBody {
    pub(super) fn new(body: Pieces, reserved: Option<OwnedSemaphorePermit>) -> Self {
        Self { rest: body, reserved }
    }
}

impl Body for LongBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.is_end_stream() {
            self.reserved = None;
            return Poll::Ready(None);
        }
        let part = self.rest.take_part();
        if self.is_end_stream() {
            self.reserved = None;
        }
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
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

    /// For bodies of one piece, and of many that are shorter or longer than a part.
    #[tokio::test]
    async fn the_whole_body_is_sent_and_its_reservation_is_returned() {
        for length in [0, 1, PART - 1, PART, PART + 1, 3 * PART] {
            for piece in [1000, PART + 7, 4 * PART] {
                let places = Arc::new(Semaphore::new(1));
                let place = places.clone().acquire_owned().await.unwrap();
                let list: Vec<u8> = (0..=255).cycle().take(length).collect();
                let mut pieces = Pieces::default();
                for piece in list.chunks(piece) {
                    pieces.push(Bytes::copy_from_slice(piece));
                }
                let body = LongBody::new(pieces, Some(place));
                assert_eq!(body.size_hint().exact(), Some(length as u64));
                assert_eq!(places.available_permits(), 0);
                let sent = to_bytes(axum::body::Body::new(body), usize::MAX).await;
                assert!(sent.unwrap() == list, "{length} {piece}");
                assert_eq!(places.available_permits(), 1);
            }
        }
    }

    #[test]
    fn a_body_is_sent_in_full_parts() {
        let mut pieces = Pieces::default();
        for _ in 0..2000 {
            pieces.push(Bytes::from_static(&[b'x'; 100]));
        }
        let parts: Vec<usize> = std::iter::from_fn(|| {
            let part = pieces.take_part().len();
            (part > 0).then_some(part)
        })
        .collect();
        assert_eq!(parts, [PART, PART, PART, 200_000 - 3 * PART]);
    }
}
