//! [`PeerStream`]: a connection that can be closed from outside, and that says when it ends.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint};

use super::protocol::caller;
use crate::tls::peer_failure::tls_error;

/// A connection that ends when its token is cancelled, and cancels the token when it ends. `I` is what the handlers of its
/// requests see.
pub(crate) struct PeerStream<S, I> {
    stream: S,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    info: I,
    failure: StreamFailure,
    _end: DropGuard,
}

/// Why a connection failed: its first error. HTTP/2 reports only that there was one. Clones are of the same connection.
#[derive(Clone, Default)]
pub(crate) struct StreamFailure(Arc<OnceLock<io::Error>>);

impl StreamFailure {
    /// Returns the first error.
    pub(crate) fn get(&self) -> Option<&io::Error> {
        self.0.get()
    }

    fn note<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &polled {
            self.0.get_or_init(|| match tls_error(error) {
                Some(tls) => io::Error::new(error.kind(), tls.clone()),
                None => io::Error::new(error.kind(), error.to_string()),
            });
        }
        polled
    }
}

impl<S, I> PeerStream<S, I> {
    pub(crate) fn new(stream: S, closed: &CancellationToken, info: I) -> Self {
        Self {
            stream,
            closed: Box::pin(closed.clone().cancelled_owned()),
            info,
            failure: StreamFailure::default(),
            _end: closed.clone().drop_guard(),
        }
    }

    /// Returns where its first error is going to be, other than that it was closed from outside.
    pub(crate) fn failure(&self) -> StreamFailure {
        self.failure.clone()
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
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.failure.note(polled)
    }
}

impl<S: AsyncWrite + Unpin, I: Unpin> AsyncWrite for PeerStream<S, I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_open(cx)?;
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.failure.note(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_open(cx)?;
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.failure.note(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_open(cx)?;
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.failure.note(polled)
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
    channel_with(caller(), stream).await
}

/// Returns the calling end of a connection with these settings.
pub(super) async fn channel_with<S, I>(
    settings: Endpoint,
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
    settings.connect_with_connector(connector).await
}
