//! The answer to a client while its operation goes on.
//!
//! A call is not cancelled while the plugin may still work on it, so its operation waits for the late
//! answer, records it, and keeps the volume until then. The client gets what is known after the
//! deadline. The scope of a task carries the reply, so that operations need not pass it down to the
//! call.

use std::future::Future;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::error::ServerError;

tokio::task_local! {
    static REPLY: EarlyReply;
}

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

    /// Runs an operation whose client gets this reply.
    pub(super) async fn scope<T>(self, operation: impl Future<Output = T>) -> T {
        REPLY.scope(self, operation).await
    }
}

/// Answers the client of the current operation. Has no effect on one that has an answer, or without a
/// client.
pub(super) fn reply_early(error: ServerError) {
    let reply = |reply: &EarlyReply| {
        let sender = &reply.sender;
        sender.lock().take()
    };
    let Ok(Some(sender)) = REPLY.try_with(reply) else {
        return;
    };
    if sender.send(error).is_err() {
        tracing::debug!("the client of a slow operation has left");
    }
}
