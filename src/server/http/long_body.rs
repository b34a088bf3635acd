//! The body of a long list: it is sent in parts, and its place is free when the last part is taken.
//!
//! The parts are copies. So the list is not in memory any longer than its place is taken, even if the
//! client reads the last part slowly.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

const PART: usize = 64 << 10;

/// A list that is being sent.
pub(super) struct LongBody {
    /// The list and its place; `None` after the last part.
    rest: Option<(Vec<u8>, OwnedSemaphorePermit)>,
    at: usize,
}

impl LongBody {
    pub(super) fn new(list: Vec<u8>, place: OwnedSemaphorePermit) -> Self {
        Self {
            rest: Some((list, place)),
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
        let Some((list, _)) = &self.rest else {
            return Poll::Ready(None);
        };
        let end = list.len().min(at + PART);
        let part = Bytes::copy_from_slice(&list[at..end]);
        if end == list.len() {
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
            Some((list, _)) => list.len() - self.at,
            None => 0,
        };
        SizeHint::with_exact(left as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::to_bytes;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn the_whole_list_is_sent_and_its_place_is_returned() {
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
