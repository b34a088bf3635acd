//! The answer to a client while its operation goes on.
//!
//! A call is not cancelled while the plugin may still work on it, so its operation waits for the late
//! answer, records it, and keeps the volume until then. The client gets what is known after the
//! deadline. Every function that may answer its client early has an [`EarlyReply`] among its arguments.

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::error::ServerError;

/// Sends the answer of one operation, once.
pub(super) struct EarlyReply {
    sender: Mutex<Option<oneshot::Sender<ServerError>>>,
}

impl EarlyReply {
    /// A reply and its receiver. The receiver fails if the operation ends without an early reply.
    pub(super) fn channel() -> (Self, oneshot::Receiver<ServerError>) {
        let (sender, receiver) = oneshot::channel();
        let sender = Mutex::new(Some(sender));
        (Self { sender }, receiver)
    }

    /// Answers the client of the operation. Has no effect if the client has an answer already.
    pub(super) fn send(&self, error: impl Into<ServerError>) {
        let Some(sender) = self.sender.lock().take() else {
            return;
        };
        if sender.send(error.into()).is_err() {
            tracing::debug!("the client of a slow operation has left");
        }
    }
}
