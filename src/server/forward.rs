//! Calls a plugin's controllers until there is a final answer or the time is up.
//!
//! `candidates` chooses the usable instances; [`ControllerCaller`] calls them. [`RepeatedCall`] is the only
//! loop that repeats a controller call: the port below makes one attempt, and callers do not retry. The
//! port's [`nomad_csi_model::retry::Verdict`] classifies failures; error texts are never parsed.
//!
//! Instances are called in the order of their node IDs, because drivers with a leader expect one
//! preferred instance; on one node the newest allocation comes first. The next instance is called only
//! if the call was certainly not sent to the one before. An instance that asks for a retry is called
//! again after a pause, because it may still be working on the call.
//!
//! Every error reports whether the call may have taken effect. If so, the caller keeps its intent
//! until the identical call is answered (CSI 1.12, Timeouts).

use std::future::Future;
use std::sync::Arc;

use tracing::debug;

use super::candidates::Candidates;
use super::forward_error::ForwardError;
use super::plugin_call_queues::CallPermit;
use super::repeated_call::{ForwardLimits, OnDeadline, RepeatedCall};
use nomad_csi_model::AllocId;
use nomad_csi_ports::{Controller, IdSource, PluginDirectory, PluginError, Rpc};

/// Calls controllers of plugins.
#[derive(Clone)]
pub struct ControllerCaller {
    directory: Arc<dyn PluginDirectory>,
    ids: Arc<dyn IdSource>,
    limits: ForwardLimits,
}

impl ControllerCaller {
    /// A controller_caller over `directory`, with jitter from `ids`.
    pub fn new(
        directory: Arc<dyn PluginDirectory>,
        ids: Arc<dyn IdSource>,
        limits: ForwardLimits,
    ) -> Self {
        Self { directory, ids, limits }
    }

    /// Sends a `call` that changes nothing until it succeeds, fails finally, or the deadline passes.
    ///
    /// # Errors
    /// With the last answer. Success is returned only if the plugin answered it.
    pub async fn read<T, F, A>(
        &self,
        candidates: &Candidates,
        rpc: Rpc,
        call: F,
    ) -> Result<T, ForwardError>
    where
        F: Fn(Arc<dyn Controller>) -> A + Send + Sync,
        A: Future<Output = Result<T, PluginError>> + Send,
        T: Send,
    {
        self.send(candidates, rpc, call, OnDeadline::Cancel).await
    }

    /// Sends a `call` that changes something until it succeeds, fails finally, or the deadline passes.
    /// `call` must send the identical request every time. A call that is not answered at the deadline
    /// is not cancelled: `report` gets the failure for the client, and this function returns with the
    /// late answer.
    ///
    /// # Errors
    /// With the last answer and the known effect. Success is returned only if the plugin answered it.
    pub async fn change<T, F, A>(
        &self,
        (candidates, permit): (&Candidates, &CallPermit),
        rpc: Rpc,
        report: impl Fn(ForwardError) + Send + Sync,
        call: F,
    ) -> Result<T, ForwardError>
    where
        F: Fn(Arc<dyn Controller>) -> A + Send + Sync,
        A: Future<Output = Result<T, PluginError>> + Send,
        T: Send,
    {
        let late = OnDeadline::Await { permit, report: &report };
        self.send(candidates, rpc, call, late).await
    }

    async fn send<T, F, A>(
        &self,
        candidates: &Candidates,
        rpc: Rpc,
        call: F,
        late: OnDeadline<'_>,
    ) -> Result<T, ForwardError>
    where
        F: Fn(Arc<dyn Controller>) -> A + Send + Sync,
        A: Future<Output = Result<T, PluginError>> + Send,
        T: Send,
    {
        let (plugin, call) = (&candidates.plugin, &call);
        let attempt = |alloc: AllocId| async move {
            let Some(connection) = self.directory.instance(plugin, &alloc).await else {
                debug!(plugin.id = %plugin, alloc.id = %alloc, "no connection to the instance");
                return None;
            };
            Some(call(connection.controller).await)
        };
        self.repeat(&candidates.allocs, rpc, attempt, late).await
    }

    async fn repeat<T, F, A>(
        &self,
        allocs: &[AllocId],
        rpc: Rpc,
        attempt: F,
        late: OnDeadline<'_>,
    ) -> Result<T, ForwardError>
    where
        F: Fn(AllocId) -> A + Send + Sync,
        A: Future<Output = Option<Result<T, PluginError>>> + Send,
        T: Send,
    {
        let call = RepeatedCall::new(rpc, allocs, self.limits, late);
        call.run(attempt, &*self.ids).await
    }
}

#[cfg(test)]
mod tests;
