use futures_util::{FutureExt as _, stream};

use super::*;

fn limits() -> Limits {
    Limits {
        body_bytes: 100 << 10,
        total_body_bytes: 100 << 10,
        body_seconds: 30,
        ..Limits::default()
    }
}

fn headers(length: Option<usize>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    headers
}

/// A body of these chunks that never ends.
fn unfinished(chunks: &[usize]) -> Body {
    let chunks: Vec<_> = chunks.iter().map(|length| vec![b'x'; *length]).collect();
    let chunks = stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
    Body::from_stream(chunks.chain(stream::pending()))
}

fn complete(length: usize) -> Body {
    let chunks = vec![b'x'; length];
    let chunks: Vec<_> = chunks.chunks(1000).map(<[u8]>::to_vec).collect();
    Body::from_stream(stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>)))
}

async fn read(
    length: Option<usize>,
    body: Body,
    budget: &BodyBudget,
) -> Result<ReceivedBody, RequestError> {
    read_body(&headers(length), body, &limits(), budget).await
}

#[tokio::test(start_paused = true)]
async fn a_body_of_the_largest_size_is_read_and_one_byte_more_is_refused() {
    let budget = BodyBudget::new(&limits());
    let limit = limits().body_bytes;
    for announced in [None, Some(limit)] {
        let body = read(announced, complete(limit), &budget).await.unwrap();
        assert_eq!(body.bytes.len(), limit);
    }
    for announced in [None, Some(limit + 1)] {
        let refused = read(announced, complete(limit + 1), &budget).await;
        assert_eq!(refused.unwrap_err(), RequestError::BodyTooLarge { limit });
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_is_given_up_in_time() {
    let budget = BodyBudget::new(&limits());
    let begun = Instant::now();
    let refused = read(Some(50_000), unfinished(&[20_000]), &budget).await;
    let slow = RequestError::BodyTooSlow { seconds: 30 };
    assert_eq!(refused.unwrap_err(), slow);
    assert_eq!(begun.elapsed().as_secs(), 30);
    assert_eq!(budget.bytes.available_permits(), budget.total);
}

#[tokio::test(start_paused = true)]
async fn large_bodies_share_one_budget_and_small_ones_need_none() {
    let budget = BodyBudget::new(&limits());
    let whole = limits().total_body_bytes;
    let held = read(Some(whole), complete(whole), &budget).await.unwrap();
    for (length, is_free) in [(FREE_BODY, true), (FREE_BODY + 1, false)] {
        let second = read(Some(length), complete(length), &budget).now_or_never();
        assert_eq!(second.is_some(), is_free, "{length}");
    }
    let refused = read(Some(FREE_BODY + 1), complete(FREE_BODY + 1), &budget).await;
    let busy = RequestError::BodiesBusy { limit: whole };
    assert_eq!(refused.unwrap_err(), busy);
    drop(held);
    assert!(read(Some(whole), complete(whole), &budget).await.is_ok());
}

/// Without an announced length, only the received bytes stay reserved.
#[tokio::test(start_paused = true)]
async fn the_surplus_of_a_reservation_is_returned() {
    let budget = BodyBudget::new(&limits());
    let held = read(None, complete(20_000), &budget).await.unwrap();
    assert_eq!(budget.bytes.available_permits(), budget.total - 20_000);
    drop(held);
    assert_eq!(budget.bytes.available_permits(), budget.total);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_no_handler_reads_is_dropped_up_to_a_limit_and_a_time() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for length in [0, 1, DRAINED_BYTES, 4 * DRAINED_BYTES] {
        let read = Arc::new(AtomicUsize::new(0));
        let counted = read.clone();
        let chunks = complete(length).into_data_stream();
        let chunks = chunks.inspect(move |chunk| {
            counted.fetch_add(chunk.as_ref().unwrap().len(), Ordering::Relaxed);
        });
        drain(Body::from_stream(chunks)).await;
        let read = read.load(Ordering::Relaxed);
        assert!(read >= length.min(DRAINED_BYTES), "{length}: {read}");
        assert!(read <= DRAINED_BYTES + 1000, "{length}: {read}");
    }
    let begun = Instant::now();
    drain(unfinished(&[20_000])).await;
    assert_eq!(begun.elapsed(), DRAIN_TIME);
}
