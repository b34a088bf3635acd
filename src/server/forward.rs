//! From a plugin's ID to an answer of one of its controllers.
//!
//! Chooses the instances that can be asked ([`candidates`], pure) and calls them until there is an
//! answer that counts or the time is up ([`Forward::call`]). This is the one loop that repeats a
//! controller call (W05, B53, B54): the port below makes one attempt per call, and nobody above
//! loops. What a failure means is the port's [`crate::retry::Verdict`]; texts are never looked at (W32).
//!
//! Instances are asked in the order of their node IDs, so that calls prefer the same one, which
//! drivers with a leader expect (`csi-orchestration` 5.2). The next one is asked only when one
//! cannot be reached (B102); an instance that answered something to be repeated is asked again
//! after a pause, because it may still be working on the call.
//!
//! A call that was given up, or whose connection broke, may have taken effect: every error says
//! whether that is so ([`Outcome`]), and the caller keeps its intent until the identical call was
//! answered (`csi-spec` 3.5). A caller that stops waiting loses the answer, never the intent.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use crate::model::{Node, NodeId, NodeStatus, PluginId, PluginInstance};
use crate::ports::{Controller, IdSource, PluginDirectory, PluginError, Rpc, StatusCode};
use crate::retry::RetryPolicy;

/// Why no controller can be asked. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoController {
    /// Nothing serves the plugin's controller service.
    #[error("failed to find instances of controller plugin \"{0}\"")]
    NoInstance(PluginId),
    /// Every instance is left out for a reason.
    #[error("failed to find clients running controller plugin \"{plugin}\": {}", reasons.join(", "))]
    NoneUsable {
        /// The plugin.
        plugin: PluginId,
        /// Why each is left out, in Nomad's words.
        reasons: Vec<String>,
    },
}

/// The instances of one plugin that can be asked, first choice first; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    plugin: PluginId,
    nodes: Vec<NodeId>,
}

/// Chooses whom to ask (`csi-orchestration` 5.2, B101): controllers that are healthy, on nodes that
/// are known and ready, by node ID.
///
/// # Errors
/// With the reason for each instance, if none is left.
pub fn candidates(
    plugin: &PluginId,
    instances: &BTreeMap<NodeId, PluginInstance>,
    nodes: &BTreeMap<NodeId, Node>,
) -> Result<Candidates, NoController> {
    if instances.is_empty() {
        return Err(NoController::NoInstance(plugin.clone()));
    }
    let mut usable = vec![];
    let mut reasons = vec![];
    for (node, instance) in instances {
        match obstacle(node, instance, nodes) {
            None => usable.push(node.clone()),
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
        nodes: usable,
    })
}

fn obstacle(
    node: &NodeId,
    instance: &PluginInstance,
    nodes: &BTreeMap<NodeId, Node>,
) -> Option<String> {
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

/// What is known of the effect of a call that failed, from the answers to all its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has taken no effect and will take none.
    Nothing,
    /// It may have taken effect, or may still take it.
    Unknown,
}

/// A controller call failed for good, as far as this request goes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// There is nobody to ask.
    #[error("no controller can be asked")]
    NoController(#[from] NoController),
    /// The plugin answered, and the same call is not worth repeating.
    #[error("{} was refused", error.rpc)]
    Failed {
        /// The answer.
        #[source]
        error: PluginError,
        /// What it leaves behind.
        outcome: Outcome,
    },
    /// The time for the whole operation was up.
    #[error("{rpc} had no answer within {} s", after.as_secs())]
    TimedOut {
        /// The call.
        rpc: Rpc,
        /// How long it was tried.
        after: Duration,
        /// The last answer, if there was any.
        last: Option<PluginError>,
        /// What it leaves behind.
        outcome: Outcome,
    },
}

impl ForwardError {
    /// What the call leaves behind.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NoController(_) => Outcome::Nothing,
            Self::Failed { outcome, .. } | Self::TimedOut { outcome, .. } => *outcome,
        }
    }
}

/// How patiently plugins are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardLimits {
    /// Pauses between attempts.
    pub policy: RetryPolicy,
    /// For one call with all its repetitions.
    pub deadline: Duration,
}

impl Default for ForwardLimits {
    /// Two minutes for one operation (`csi-orchestration` 12.1).
    fn default() -> Self {
        Self {
            policy: RetryPolicy::CONTROLLER,
            deadline: Duration::from_secs(120),
        }
    }
}

/// Calls controllers.
#[derive(Clone)]
pub struct Forward {
    directory: Arc<dyn PluginDirectory>,
    ids: Arc<dyn IdSource>,
    limits: ForwardLimits,
}

/// What has happened so far to one call; outlives the attempt that the deadline cuts off.
#[derive(Default)]
struct Progress {
    in_flight: bool,
    uncertain: bool,
    last: Option<PluginError>,
}

/// What to do after a failed attempt.
enum Reaction {
    /// It is the answer.
    GiveUp,
    /// Nobody works on the call there: ask the next instance at once.
    TryNextInstance,
    /// Pause, then begin again.
    Pause,
}

impl Forward {
    /// Calls over `directory`, with jitter from `ids`.
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

    /// Sends `call`, again and again if its failures allow it, until it succeeds, fails for good or
    /// the time is up. `call` must send the identical request every time.
    ///
    /// # Errors
    /// With the last answer and what is known of the effect; never a success that was not answered
    /// (W04).
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
        let attempt = |node: NodeId| async move {
            let Some(connection) = self.directory.instance(plugin, &node).await else {
                debug!(plugin.id = %plugin, node.id = %node, "no connection to the instance");
                return None;
            };
            Some(call(connection.controller).await)
        };
        self.repeat(&candidates.nodes, rpc, attempt).await
    }

    async fn repeat<T, F, A>(
        &self,
        nodes: &[NodeId],
        rpc: Rpc,
        attempt: F,
    ) -> Result<T, ForwardError>
    where
        F: Fn(NodeId) -> A + Send + Sync,
        A: Future<Output = Option<Result<T, PluginError>>> + Send,
        T: Send,
    {
        let mut progress = Progress::default();
        let passes = self.passes(nodes, &attempt, &mut progress);
        let outcome = |unknown| {
            if unknown {
                Outcome::Unknown
            } else {
                Outcome::Nothing
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
        nodes: &[NodeId],
        attempt: &F,
        progress: &mut Progress,
    ) -> Result<T, PluginError>
    where
        F: Fn(NodeId) -> A + Send + Sync,
        A: Future<Output = Option<Result<T, PluginError>>> + Send,
        T: Send,
    {
        let mut pass = 0_u32;
        loop {
            if let Some(answer) = one_pass(nodes, attempt, progress).await {
                return answer;
            }
            let pause = self.limits.policy.pause(pass, self.ids.jitter());
            tokio::time::sleep(pause).await;
            pass = pass.saturating_add(1);
        }
    }
}

async fn one_pass<T, F, A>(
    nodes: &[NodeId],
    attempt: &F,
    progress: &mut Progress,
) -> Option<Result<T, PluginError>>
where
    F: Fn(NodeId) -> A + Send + Sync,
    A: Future<Output = Option<Result<T, PluginError>>> + Send,
    T: Send,
{
    for node in nodes {
        progress.in_flight = true;
        let answer = attempt(node.clone()).await;
        progress.in_flight = false;
        let error = match answer {
            None => continue,
            Some(Ok(value)) => return Some(Ok(value)),
            Some(Err(error)) => error,
        };
        debug!(node.id = %node, csi.rpc = %error.rpc, code = error.code.as_str(),
            verdict = ?error.verdict, "the call failed");
        progress.uncertain |= error.verdict.may_have_happened();
        progress.last = Some(error.clone());
        match reaction(&error) {
            Reaction::GiveUp => return Some(Err(error)),
            Reaction::TryNextInstance => {}
            Reaction::Pause => return None,
        }
    }
    None
}

fn reaction(error: &PluginError) -> Reaction {
    if !error.verdict.is_repeated() {
        return Reaction::GiveUp;
    }
    match error.code {
        StatusCode::Unavailable => Reaction::TryNextInstance,
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
        | StatusCode::Unauthenticated => Reaction::Pause,
    }
}

#[cfg(test)]
mod tests;
