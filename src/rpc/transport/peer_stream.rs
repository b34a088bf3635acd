//! [`PeerStream`]: a connection that can be closed from outside, and that says when it ends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::transport::Channel;
use tonic::transport::server::Connected;

use super::protocol::caller;

/// A connection that ends when its token is cancelled, and cancels the token when it ends. `I` is what the handlers of its
/// requests see.
pub(crate) struct PeerStream<S, I> {
    stream: S,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    info: I,
    _end: DropGuard,
}

impl<S, I> PeerStream<S, I> {
    pub(crate) fn new(stream: S, closed: &CancellationToken, info: I) -> Self {
        Self {
            stream,
            closed: Box::pin(closed.clone().cancelled_owned()),
            info,
            _end: closed.clone().drop_guard(),
        }
    }

    fn check_open(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.closed.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin, I: Unpin> AsyncRead for PeerStream<S, I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_open(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin, I: Unpin> AsyncWrite for PeerStream<S, I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_open(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_open(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_open(cx)?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S, I: Clone + Send + Sync + 'static> Connected for PeerStream<S, I> {
    type ConnectInfo = I;

    fn connect_info(&self) -> I {
        self.info.clone()
    }
}

/// Returns the calling end of a connection. When the connection is gone, every call fails: nothing is dialled again.
pub(crate) async fn channel_over<S, I>(
    stream: PeerStream<S, I>,
) -> Result<Channel, tonic::transport::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    I: Unpin + Send + 'static,
{
    let mut only = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_: http::Uri| {
        let given = only.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        std::future::ready(given)
    });
    caller().connect_with_connector(connector).await
}
