//! How a client waits for a server that stops responding.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::volume_api::ApiError;

/// Observes that a server stops responding and responds again.
pub trait OutageObserver: Send + Sync {
    /// The server does not respond, and the client waits up to `timeout` for it.
    fn server_unreachable(&self, server: &str, why: &ApiError, timeout: Duration);
    /// The server keeps its connections and has not responded for this time. The client's requests go on.
    fn server_silent(&self, server: &str, since: Duration);
    /// The server responds again after this time.
    fn server_back(&self, server: &str, after: Duration);
    /// The server did not respond in time. The client's requests fail until it responds.
    fn gave_up(&self, server: &str);
}

/// How a client waits for a server that has responded before and stops responding.
#[derive(Clone)]
pub struct ServerWait {
    /// The longest time that the client waits.
    pub timeout: Duration,
    /// Observes the wait.
    pub observer: Arc<dyn OutageObserver>,
}

impl fmt::Debug for ServerWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerWait").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
