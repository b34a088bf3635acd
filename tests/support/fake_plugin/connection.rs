//! Connections that a test can break.

use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// Breaks all open connections.
#[derive(Default)]
pub(super) struct ConnectionCutter(Mutex<CancellationToken>);

impl ConnectionCutter {
    pub(super) fn cut(&self) {
        std::mem::take(&mut *self.0.lock().unwrap()).cancel();
    }

    pub(super) fn token(&self) -> CancellationToken {
        self.0.lock().unwrap().clone()
    }
}

/// A connection that a test can break.
pub(crate) struct Connection {
    pub(crate) stream: UnixStream,
    pub(crate) cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
