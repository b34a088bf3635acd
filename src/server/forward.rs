//! Calls a plugin's controllers until there is a final answer or the time is up.
//!
//! [`candidates`] chooses the usable instances; [`Forwarder::call`] calls them. This is the only loop
//! that repeats a controller call: the port below makes one attempt, and callers do not retry. The
//! port's [`crate::retry::Verdict`] classifies failures; error texts are never parsed.
//!
//! Instances are called in the order of their node IDs, because drivers with a leader expect one
//! preferred instance; on one node the newest allocation comes first. The next instance is called only if one is unreachable. An instance that asks
//! for a retry is called again after a pause, because it may still be working on the call.
//!
//! Every error reports whether the call may have taken effect ([`ForwardOutcome`]). If so, the caller
//! keeps its intent until the identical call is answered (CSI 1.12, Timeouts). A caller that stops
//! waiting loses the answer, not the intent.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use crate::model::{AllocId, Node, NodeId, NodeStatus, PluginId};
use crate::ports::{Controller, IdSource, PluginDirectory, PluginError, Rpc, StatusCode};
use crate::retry::RetryPolicy;
use crate::state::PluginAlloc;

/// Why no controller can be called. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoController {
    /// No instance provides the plugin's controller service.
    #[error("failed to find instances of controller plugin \"{0}\"")]
    NoInstance(PluginId),
    /// No instance is usable.
    #[error("failed to find clients running controller plugin \"{plugin}\": {}", reasons.join(", "))]
    NoneUsable {
        /// The plugin.
        plugin: PluginId,
        /// The reason for each instance, with Nomad's text.
        reasons: Vec<String>,
    },
}

/// The usable instances of one plugin, the preferred one first; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    plugin: PluginId,
    allocs: Vec<AllocId>,
}

/// Chooses the instances to call: healthy controllers on ready nodes, in their order.
///
/// # Errors
/// If none is usable, with the reason for each.
pub fn candidates(
    plugin: &PluginId,
    controllers: &[PluginAlloc],
    nodes: &BTreeMap<NodeId, Node>,
) -> Result<Candidates, NoController> {
    if controllers.is_empty() {
        return Err(NoController::NoInstance(plugin.clone()));
    }
    let mut usable = vec![];
    let mut reasons = vec![];
    for controller in controllers {
        match unusable_reason(controller, nodes) {
            None => usable.push(controller.instance.alloc_id.clone()),
            Some(reason) => reasons.push(reason),
        }
    }
    if usable.is_empty() {
        return Err(NoController::NoneUsable {
            plugin: plugin.clone(),
            reasons,
        });
    }
    Ok(Candidates {
        plugin: plugin.clone(),
        allocs: usable,
    })
}

fn unusable_reason(
    controller: &PluginAlloc,
    nodes: &BTreeMap<NodeId, Node>,
) -> Option<String> {
    let PluginAlloc { node, instance, .. } = controller;
    let alloc = &instance.alloc_id;
    if instance.controller.is_none() {
        return Some(format!(
            "plugin instance \"{alloc}\" is not a controller but was registered as one - this is always a bug"
        ));
    }
    if !instance.health.healthy {
        return Some(format!("plugin instance \"{alloc}\" is not healthy"));
    }
    match nodes.get(node).map(|node| node.status) {
        None => Some(format!(
            "cannot find node \"{node}\" for plugin instance \"{alloc}\""
        )),
        Some(NodeStatus::Down) => Some(format!(
            "node \"{node}\" for plugin instance \"{alloc}\" is not ready"
        )),
        Some(NodeStatus::Ready) => None,
    }
}

/// The known effect of a failed call, from the answers to all its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardOutcome {
    /// It had no effect and will have none.
    NoEffect,
    /// It may have taken effect, or may still do so.
    Unknown,
}

/// A controller call failed, and this request does not retry it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// No controller can be called.
    #[error("no controller can be called")]
    NoController(#[from] NoController),
    /// The plugin gave a final answer.
    #[error("{} was refused", error.rpc)]
    Failed {
        /// The answer.
        #[source]
        error: PluginError,
        /// The known effect.
        outcome: ForwardOutcome,
    },
    /// The deadline passed.
    #[error("{rpc} was not answered within {} s", after.as_secs())]
    TimedOut {
        /// The call.
        rpc: Rpc,
        /// The time that it was tried.
        after: Duration,
        /// The last answer, if any.
        last: Option<PluginError>,
        /// The known effect.
        outcome: ForwardOutcome,
    },
}

impl ForwardError {
    /// Returns the known effect of the call.
    pub fn outcome(&self) -> ForwardOutcome {
        match self {
            Self::NoController(_) => ForwardOutcome::NoEffect,
            Self::Failed { outcome, .. } | Self::TimedOut { outcome, .. } => *outcome,
        }
    }
}

/// The limits of controller calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardLimits {
    /// Pauses between attempts.
    pub policy: RetryPolicy,
    /// The deadline of one call, retries included.
    pub deadline: Duration,
}

impl Default for ForwardLimits {
    /// Two minutes for one operation.
    fn default() -> Self {
        Self {
            policy: RetryPolicy::CONTROLLER,
            deadline: Duration::from_secs(120),
        }
    }
}

/// Calls controllers of plugins.
#[derive(Clone)]
pub struct Forwarder {
    directory: Arc<dyn PluginDirectory>,
    ids: Arc<dyn IdSource>,
    limits: ForwardLimits,
}

/// The progress of one call. It survives the attempt that the deadline interrupts.
#[derive(Default)]
struct CallProgress {
    in_flight: bool,
    uncertain: bool,
    last: Option<PluginError>,
}

/// What follows a failed attempt.
enum RetryAction {
    /// Return the error.
    GiveUp,
    /// The instance is unreachable: call the next one immediately.
    TryNextInstance,
    /// Pause, then start again with the first instance.
    Pause,
}

impl Forwarder {
    /// A forwarder over `directory`, with jitter from `ids`.
    pub fn new(
        directory: Arc<dyn PluginDirectory>,
        ids: Arc<dyn IdSource>,
        limits: ForwardLimits,
    ) -> Self {
        Self {
            directory,
            ids,
            limits,
        }
    }

    /// Sends `call` until it succeeds, fails finally, or the deadline passes. `call` must send the
    /// identical request every time.
    ///
    /// # Errors
    /// With the last answer and the known effect. Success is returned only if the plugin answered it.
    pub async fn call<T, F, A>(
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
        let (plugin, call) = (&candidates.plugin, &call);
        let attempt = |alloc: AllocId| async move {
            let Some(connection) = self.directory.instance(plugin, &alloc).await else {
                debug!(plugin.id = %plugin, alloc.id = %alloc, "no connection to the instance");
                return None;
            };
            Some(call(connection.controller).await)
        };
        self.repeat(&candidates.allocs, rpc, attempt).await
    }

    async fn repeat<T, F, A>(
        &self,
        allocs: &[AllocId],
        rpc: Rpc,
        attempt: F,
    ) -> Result<T, ForwardError>
    where
        F: Fn(AllocId) -> A + Send + Sync,
        A: Future<Output = Option<Result<T, PluginError>>> + Send,
        T: Send,
    {
        let mut progress = CallProgress::default();
        let passes = self.passes(allocs, &attempt, &mut progress);
        let outcome = |unknown| {
            if unknown {
                ForwardOutcome::Unknown
            } else {
                ForwardOutcome::NoEffect
            }
        };
        match tokio::time::timeout(self.limits.deadline, passes).await {
            Ok(answer) => answer.map_err(|error| ForwardError::Failed {
                outcome: outcome(progress.uncertain),
                error,
            }),
            Err(_) => Err(ForwardError::TimedOut {
                rpc,
                after: self.limits.deadline,
                outcome: outcome(progress.uncertain || progress.in_flight),
                last: progress.last,
            }),
        }
    }

    async fn passes<T, F, A>(
        &self,
        allocs: &[AllocId],
        attempt: &F,
        progress: &mut CallProgress,
    ) -> Result<T, PluginError>
    where
        F: Fn(AllocId) -> A + Send + Sync,
        A: Future<Output = Option<Result<T, PluginError>>> + Send,
        T: Send,
    {
        let mut pass = 0_u32;
        loop {
            if let Some(answer) = one_pass(allocs, attempt, progress).await {
                return answer;
            }
            let pause = self.limits.policy.delay(pass, self.ids.jitter());
            tokio::time::sleep(pause).await;
            pass = pass.saturating_add(1);
        }
    }
}

async fn one_pass<T, F, A>(
    allocs: &[AllocId],
    attempt: &F,
    progress: &mut CallProgress,
) -> Option<Result<T, PluginError>>
where
    F: Fn(AllocId) -> A + Send + Sync,
    A: Future<Output = Option<Result<T, PluginError>>> + Send,
    T: Send,
{
    for alloc in allocs {
        progress.in_flight = true;
        let answer = attempt(alloc.clone()).await;
        progress.in_flight = false;
        let error = match answer {
            None => continue,
            Some(Ok(value)) => return Some(Ok(value)),
            Some(Err(error)) => error,
        };
        debug!(alloc.id = %alloc, csi.rpc = %error.rpc, code = error.code.as_str(),
            verdict = ?error.verdict, "the call failed");
        progress.uncertain |= error.verdict.may_have_taken_effect();
        progress.last = Some(error.clone());
        match retry_action(&error) {
            RetryAction::GiveUp => return Some(Err(error)),
            RetryAction::TryNextInstance => {}
            RetryAction::Pause => return None,
        }
    }
    None
}

fn retry_action(error: &PluginError) -> RetryAction {
    if !error.verdict.is_retried() {
        return RetryAction::GiveUp;
    }
    match error.code {
        StatusCode::Unavailable => RetryAction::TryNextInstance,
        StatusCode::Ok
        | StatusCode::Cancelled
        | StatusCode::Unknown
        | StatusCode::InvalidArgument
        | StatusCode::DeadlineExceeded
        | StatusCode::NotFound
        | StatusCode::AlreadyExists
        | StatusCode::PermissionDenied
        | StatusCode::ResourceExhausted
        | StatusCode::FailedPrecondition
        | StatusCode::Aborted
        | StatusCode::OutOfRange
        | StatusCode::Unimplemented
        | StatusCode::Internal
        | StatusCode::DataLoss
        | StatusCode::Unauthenticated => RetryAction::Pause,
    }
}

#[cfg(test)]
mod tests;
