//! Calls a plugin's controllers until there is a final answer or the time is up.
//!
//! `candidates` chooses the usable instances. [`ControllerCaller::admit`] waits in the plugin's queue for
//! [`PermittedCalls`], without which the server's services reach no controller. A permit whose call hangs lets other calls
//! pass.
//! [`RepeatedCall`] is the only loop over controllers: the port below makes one attempt, and callers do not
//! retry. The port's [`nomad_csi_model::retry::Verdict`] classifies failures; error texts are never parsed.
//!
//! Instances are called in the order of their node IDs, because drivers with a leader expect one
//! preferred instance; on one node the newest allocation comes first. The next instance is called only
//! if the call was certainly not sent to the one before. An instance that asks for a retry is called
//! again after a pause, because it may still be working on the call.
//!
//! A call that is on record with its instance goes to another one only when that is on record ([`CallableInstances`]).
//!
//! Every error reports whether the call may have taken effect. If so, the caller keeps its intent
//! until the identical call is answered (CSI 1.12, Timeouts).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tracing::debug;

use super::acquire::within;
use super::candidates::Candidates;
use super::error::ServerError;
use super::forward_error::ForwardError;
use super::plugin_call_queue::CallClass;
use super::plugin_call_queues::{CallPermit, PluginCallQueues};
use super::repeated_call::{ForwardLimits, OnDeadline, RepeatedCall};
use nomad_csi_model::{AllocId, PluginId};
use nomad_csi_ports::{Controller, IdSource, NodeService, PluginError, Rpc};

/// Calls controllers of plugins.
#[derive(Clone)]
pub(super) struct ControllerCaller {
    queues: PluginCallQueues,
    ids: Arc<dyn IdSource>,
    limits: ForwardLimits,
    queue_timeout: Duration,
}

impl ControllerCaller {
    /// A caller with jitter from `ids`, whose calls wait in their queue for `queue_timeout`.
    pub(super) fn new(
        queues: PluginCallQueues,
        ids: Arc<dyn IdSource>,
        limits: ForwardLimits,
        queue_timeout: Duration,
    ) -> Self {
        Self { queues, ids, limits, queue_timeout }
    }

    /// Waits until another call of that class may be sent to the plugin.
    ///
    /// # Errors
    /// If the queue is full or the time is up.
    pub(super) async fn admit(
        &self,
        class: CallClass,
        candidates: Candidates,
    ) -> Result<PermittedCalls, ServerError> {
        let plugin = &candidates.plugin;
        let permit = self.queues.acquire(plugin, class);
        let permit = within(self.queue_timeout, format!("plugin {plugin}"), permit).await?;
        Ok(PermittedCalls { caller: self.clone(), candidates, permit })
    }

    /// Returns the node service of an instance, which has no queue; `None` without a connection.
    pub(super) async fn node(
        &self,
        plugin: &PluginId,
        alloc: &AllocId,
    ) -> Option<Arc<dyn NodeService>> {
        self.queues.node(plugin, alloc).await
    }
}

/// Decides which instances a call that changes something may be sent to. It is asked before each attempt.
#[async_trait]
pub(super) trait CallableInstances: Send + Sync {
    /// Returns whether the instance may get the call. Nothing was sent to another one that may take effect.
    async fn may_call(&self, instance: &AllocId) -> bool;
}

/// Every instance, for a call that is bound to none.
pub(super) struct AnyInstance;

#[async_trait]
impl CallableInstances for AnyInstance {
    async fn may_call(&self, _: &AllocId) -> bool {
        true
    }
}

/// The right to call the controllers of one plugin. Dropping it admits the next call.
pub(super) struct PermittedCalls {
    caller: ControllerCaller,
    candidates: Candidates,
    permit: CallPermit,
}

impl PermittedCalls {
    /// Returns the plugin.
    pub(super) fn plugin(&self) -> &PluginId {
        &self.candidates.plugin
    }

    /// Returns the right for other instances of the plugin.
    pub(super) fn to(self, candidates: Candidates) -> Self {
        Self { candidates, ..self }
    }

    /// Returns the instance that is called first.
    pub(super) fn preferred(&self) -> Option<&AllocId> {
        self.candidates.preferred()
    }

    /// Sends a `call` that changes nothing until it succeeds, fails finally, or the deadline passes.
    ///
    /// # Errors
    /// With the last answer. Success is returned only if the plugin answered it.
    pub(super) async fn read<T, F, A>(&self, rpc: Rpc, call: F) -> Result<T, ForwardError>
    where
        F: Fn(Arc<dyn Controller>) -> A + Send + Sync,
        A: Future<Output = Result<T, PluginError>> + Send,
        T: Send,
    {
        self.send(rpc, OnDeadline::Cancel, &AnyInstance, call).await
    }

    /// Sends a `call` that changes something until it succeeds, fails finally, or the deadline passes.
    /// `call` must send the identical request every time. A call that is not answered at the deadline
    /// is not cancelled: `report` gets the failure for the client, and this function returns with the
    /// late answer. Only instances that `callable` allows get it.
    ///
    /// # Errors
    /// With the last answer and the known effect. Success is returned only if the plugin answered it.
    pub(super) async fn change<T, F, A>(
        &self,
        (rpc, callable): (Rpc, &dyn CallableInstances),
        report: impl Fn(ForwardError) + Send + Sync,
        call: F,
    ) -> Result<T, ForwardError>
    where
        F: Fn(Arc<dyn Controller>) -> A + Send + Sync,
        A: Future<Output = Result<T, PluginError>> + Send,
        T: Send,
    {
        let permit = &self.permit;
        self.send(rpc, OnDeadline::Await { permit, report: &report }, callable, call).await
    }

    async fn send<T, F, A>(
        &self,
        rpc: Rpc,
        late: OnDeadline<'_>,
        callable: &dyn CallableInstances,
        call: F,
    ) -> Result<T, ForwardError>
    where
        F: Fn(Arc<dyn Controller>) -> A + Send + Sync,
        A: Future<Output = Result<T, PluginError>> + Send,
        T: Send,
    {
        let Self { caller, candidates: Candidates { plugin, allocs }, permit } = self;
        let call = &call;
        let attempt = |alloc: AllocId| async move {
            let Some(controller) = permit.controller(&alloc).await else {
                debug!(plugin.id = %plugin, alloc.id = %alloc, "no connection to the instance");
                return None;
            };
            if !callable.may_call(&alloc).await {
                debug!(plugin.id = %plugin, alloc.id = %alloc, "the instance may not get the call");
                return None;
            }
            Some(call(controller).await)
        };
        RepeatedCall::new(rpc, allocs, caller.limits, late).run(attempt, &*caller.ids).await
    }
}

#[cfg(test)]
mod tests;
