//! A connection that closes once a request is sent, for [`super::raw`].
//!
//! The stream scans the HTTP/2 frames that it writes (RFC 9113, section 4.1) for the end of the first
//! request, then shuts the socket down in both directions. To the plugin this looks like an
//! orchestrator that crashes at that moment.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

/// The signal that the request is sent.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestSent(CancellationToken);

impl RequestSent {
    /// Returns whether the request is sent.
    pub(super) fn is_set(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the request is sent.
    pub(super) async fn wait(&self) {
        self.0.cancelled().await;
    }
}

/// A stream that disconnects after the first request.
#[derive(Debug)]
pub(super) struct DisconnectingStream {
    stream: UnixStream,
    frames: FrameScanner,
    sent: RequestSent,
}

impl DisconnectingStream {
    pub(super) fn new(stream: UnixStream, sent: RequestSent) -> Self {
        Self { stream, frames: FrameScanner::default(), sent }
    }

    fn disconnect(&self) {
        let result = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Both);
        // An error means that the peer disconnected first.
        drop(result.map_err(io::Error::from));
        self.sent.0.cancel();
    }
}

impl AsyncRead for DisconnectingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for DisconnectingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(context, bytes) else {
            return Poll::Pending;
        };
        let written = written?;
        if self.frames.scan(&bytes[..written]) {
            self.disconnect();
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The length of the client's connection preface.
const PREFACE_LENGTH: usize = 24;
const HEADER_LENGTH: usize = 9;
/// The type of a data frame and the flag of its stream's end.
const DATA: u8 = 0;
const END_STREAM: u8 = 1;

/// Scans the frames of one direction.
#[derive(Debug, Default)]
struct FrameScanner {
    seen: usize,
    header: Vec<u8>,
    /// The remaining length of the current frame, and whether the request ends with the frame.
    body: Option<(usize, bool)>,
}

impl FrameScanner {
    /// Scans sent bytes. Returns whether a request ends in them.
    fn scan(&mut self, bytes: &[u8]) -> bool {
        let ends = bytes.iter().filter(|byte| self.scan_byte(**byte));
        ends.count() > 0
    }

    fn scan_byte(&mut self, byte: u8) -> bool {
        self.seen += 1;
        if self.seen <= PREFACE_LENGTH {
            return false;
        }
        match self.body.take() {
            Some((1, ends)) => ends,
            Some((left, ends)) => {
                self.body = Some((left - 1, ends));
                false
            }
            None => self.scan_header_byte(byte),
        }
    }

    fn scan_header_byte(&mut self, byte: u8) -> bool {
        self.header.push(byte);
        let &[a, b, c, kind, flags, ..] = self.header.as_slice() else {
            return false;
        };
        if self.header.len() < HEADER_LENGTH {
            return false;
        }
        self.header.clear();
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let ends = kind == DATA && flags & END_STREAM != 0;
        if length == 0 {
            return ends;
        }
        self.body = Some((length, ends));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
        let length = u8::try_from(body.len()).expect("the body is short");
        let mut bytes = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_request_ends_with_the_last_byte_of_its_data() {
        let mut bytes = vec![b'P'; PREFACE_LENGTH];
        bytes.extend(frame(4, 0, &[]));
        bytes.extend(frame(1, 4, b"headers"));
        bytes.extend(frame(DATA, 0, b"first"));
        bytes.extend(frame(DATA, END_STREAM, b"last"));
        let mut frames = FrameScanner::default();
        let (last, before) = bytes.split_last().expect("the request has bytes");
        assert!(!before.iter().any(|byte| frames.scan(&[*byte])));
        assert!(frames.scan(&[*last]));
    }

    #[test]
    fn an_empty_last_frame_ends_a_request() {
        let mut bytes = vec![b'P'; PREFACE_LENGTH];
        bytes.extend(frame(DATA, END_STREAM, &[]));
        assert!(FrameScanner::default().scan(&bytes));
    }
}
