//! Ends a connection whose client does not read: a write that makes no progress fails in time.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream with a time limit for each write.
pub(super) struct StallLimit<S> {
    stream: S,
    limit: Duration,
    /// Present while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> StallLimit<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, stalled: None }
    }

    fn limited<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallLimit<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limited(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.limited(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.limited(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (server, _client) = duplex(10);
        let mut server = StallLimit::new(server, LIMIT);
        let begun = Instant::now();
        let error = server.write_all(&[0; 11]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_gets_everything() {
        let (server, mut client) = duplex(10);
        let mut server = StallLimit::new(server, LIMIT);
        let writing = tokio::spawn(async move { server.write_all(&[7; 100]).await.is_ok() });
        let mut read = vec![];
        while read.len() < 100 {
            tokio::time::advance(LIMIT - Duration::from_millis(1)).await;
            let mut part = [0; 10];
            let length = client.read(&mut part).await.unwrap();
            read.extend_from_slice(&part[..length]);
        }
        assert!(writing.await.unwrap());
        assert_eq!(read, [7; 100]);
    }
}
