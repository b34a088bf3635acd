//! A connection that breaks as soon as a request has gone out, for [`super::raw`].
//!
//! What is written is read along as HTTP/2 frames (RFC 9113, section 4.1) as far as it takes to see
//! the end of the first request's data; from then on the socket is shut in both directions. The
//! plugin sees what it would see of an orchestrator that dies at that moment.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

/// Tells that the request is out.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent(CancellationToken);

impl Sent {
    /// Whether it is.
    pub(super) fn is_out(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Resolves when it is.
    pub(super) async fn wait(&self) {
        self.0.cancelled().await;
    }
}

/// The connection.
#[derive(Debug)]
pub(super) struct Leaving {
    stream: UnixStream,
    frames: Frames,
    sent: Sent,
}

impl Leaving {
    pub(super) fn new(stream: UnixStream, sent: Sent) -> Self {
        Self {
            stream,
            frames: Frames::default(),
            sent,
        }
    }

    fn leave(&self) {
        let socket = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Both);
        // A peer that has gone first is as good.
        drop(socket.map_err(io::Error::from));
        self.sent.0.cancel();
    }
}

impl AsyncRead for Leaving {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Leaving {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(context, bytes) else {
            return Poll::Pending;
        };
        let written = written?;
        if self.frames.see(&bytes[..written]) {
            self.leave();
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

/// What a client says before its first frame.
const PREFACE: usize = 24;
const HEADER: usize = 9;
/// A frame's type and flag.
const DATA: u8 = 0;
const END_STREAM: u8 = 1;

/// Follows the frames of one direction.
#[derive(Debug, Default)]
struct Frames {
    seen: usize,
    header: Vec<u8>,
    /// What is left of the present frame's body, and whether the request ends with it.
    body: Option<(usize, bool)>,
}

impl Frames {
    /// Takes bytes that went out; says whether a request has ended with them.
    fn see(&mut self, bytes: &[u8]) -> bool {
        let ends = bytes.iter().filter(|byte| self.byte(**byte));
        ends.count() > 0
    }

    fn byte(&mut self, byte: u8) -> bool {
        self.seen += 1;
        if self.seen <= PREFACE {
            return false;
        }
        match self.body.take() {
            Some((1, ends)) => ends,
            Some((left, ends)) => {
                self.body = Some((left - 1, ends));
                false
            }
            None => self.header_byte(byte),
        }
    }

    fn header_byte(&mut self, byte: u8) -> bool {
        self.header.push(byte);
        let &[a, b, c, kind, flags, ..] = self.header.as_slice() else {
            return false;
        };
        if self.header.len() < HEADER {
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
        let length = u8::try_from(body.len()).expect("a short body");
        let mut bytes = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_request_has_ended_with_the_last_byte_of_its_data_and_not_before() {
        let mut bytes = vec![b'P'; PREFACE];
        bytes.extend(frame(4, 0, &[]));
        bytes.extend(frame(1, 4, b"headers"));
        bytes.extend(frame(DATA, 0, b"first"));
        bytes.extend(frame(DATA, END_STREAM, b"last"));
        let mut frames = Frames::default();
        let (last, before) = bytes.split_last().expect("there are bytes");
        assert!(!before.iter().any(|byte| frames.see(&[*byte])));
        assert!(frames.see(&[*last]));
    }

    #[test]
    fn an_empty_last_frame_ends_a_request_too() {
        let mut bytes = vec![b'P'; PREFACE];
        bytes.extend(frame(DATA, END_STREAM, &[]));
        assert!(Frames::default().see(&bytes));
    }
}
