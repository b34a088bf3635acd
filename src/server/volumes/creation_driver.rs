//! [`CreationDriver`]: continues creations that did not end, without a client (W14).
//!
//! It wakes when volumes or plugins change, or when a pause ends, and starts every creation whose time has come.
//! A creation that an earlier run of the agent left is continued at once, and one that fails now after a pause: its
//! client may still be at work, and has the volume's lock then. What fails pauses longer each time. A pause belongs
//! to its cause: it ends early only if the plugin's usable controllers are not those of the failed attempt, and
//! what the plugin refuses for good is tried again only then.
//!
//! It never gives a creation up, because the provider may have the volume: that is an operator's decision.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::limits::VolumeLimits;
use super::pending::{Controllers, CreationAttempts, CreationPauses, Pause};
use super::plugin::VolumePlugin;
use super::service::VolumeService;
use crate::cell::{StateCell, Watch};
use crate::error::ServerError;
use crate::forward_error::ForwardError;
use crate::ports::ServerPorts;
use nomad_csi_claims::state::{
    ControllerCall, State, Table, Topic, VolumeIntent, bound_controller,
};
use nomad_csi_model::retry::{RetryPolicy, Verdict};
use nomad_csi_model::{AllocId, NamespacedId, PluginId};
use nomad_csi_ports::{Clock, IdSource};

/// Continues the creations that did not end.
pub(crate) struct CreationDriver {
    volumes: VolumeService,
    cell: StateCell,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    policy: RetryPolicy,
    pauses: CreationPauses,
}

/// The tasks that run.
#[derive(Default)]
struct Running {
    /// The creations by their tasks, with the usable controllers when they began.
    creations: HashMap<Id, (NamespacedId, Controllers)>,
    tasks: JoinSet<Result<(), ServerError>>,
}

impl CreationDriver {
    /// A driver that continues the creations of these volumes.
    pub(crate) fn new(volumes: VolumeService, ports: &ServerPorts, limits: &VolumeLimits) -> Self {
        Self {
            pauses: volumes.creation_pauses(),
            volumes,
            cell: ports.cell.clone(),
            clock: ports.clock.clone(),
            ids: ports.ids.clone(),
            policy: limits.creations,
        }
    }

    /// Continues creations until the agent stops.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let tables = [Table::Volumes, Table::Plugins, Table::Nodes];
        let mut watch = self.cell.watch(tables.map(Topic::all).into());
        let mut running = Running::default();
        let left = self.cell.read(|state| {
            let left = state.creating().map(|record| record.key().clone());
            left.collect::<Vec<_>>()
        });
        if !left.is_empty() {
            info!(creations = left.len(), "creations that did not end are continued");
        }
        for key in left {
            self.start(key, None, &mut running);
        }
        while !stop.is_cancelled() {
            let wake_up = self.start_due(&mut running);
            tokio::select! {
                () = stop.cancelled() => break,
                changed = changed(&mut watch) => if !changed { break },
                Some(ended) = running.tasks.join_next_with_id() => self.finish(ended, &mut running),
                () = tokio::time::sleep_until(wake_up.unwrap_or_else(Instant::now)), if wake_up.is_some() => {}
            }
        }
    }

    /// Starts what is due. Returns when the next pause ends.
    fn start_due(&self, running: &mut Running) -> Option<Instant> {
        let now = Instant::now();
        let pending = self.cell.read(pending_with_controllers);
        let mut due = vec![];
        let mut pauses = self.pauses.lock();
        pauses.retain(|key, _| pending.contains_key(key));
        for (key, controllers) in pending {
            if running.creations.values().any(|(other, _)| *other == key) {
                continue;
            }
            match pauses.get(&key) {
                None => {
                    let pause = self.pause(CreationAttempts::default(), controllers, now);
                    pauses.insert(key, pause);
                }
                Some(pause) if pause.is_over(now, &controllers) => due.push((key, controllers)),
                Some(_) => {}
            }
        }
        let ends = pauses.values().filter_map(|pause| pause.until);
        let next = ends.filter(|until| *until > now).min();
        drop(pauses);
        for (key, controllers) in due {
            self.start(key, controllers, running);
        }
        next
    }

    /// A pause that begins now, as long as the failed attempts say.
    fn pause(
        &self,
        mut attempts: CreationAttempts,
        controllers: Controllers,
        now: Instant,
    ) -> Pause {
        let delay = self.policy.delay(attempts.failed, self.ids.jitter());
        let nanoseconds = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        attempts.next_at = Some(self.clock.now().saturating_add(nanoseconds));
        Pause { attempts, until: Some(now + delay), controllers }
    }

    fn start(&self, key: NamespacedId, controllers: Controllers, running: &mut Running) {
        let (volumes, volume) = (self.volumes.clone(), key.clone());
        let continuing = async move { volumes.continue_creation(volume).await };
        let task = running.tasks.spawn(continuing);
        running.creations.insert(task.id(), (key, controllers));
    }

    fn finish(
        &self,
        ended: Result<(Id, Result<(), ServerError>), JoinError>,
        running: &mut Running,
    ) {
        let (id, result) = match ended {
            Ok((id, result)) => (id, result),
            Err(error) => {
                let problem = ServerError::Internal(error.to_string());
                (error.id(), Err(problem))
            }
        };
        let Some((key, controllers)) = running.creations.remove(&id) else {
            return;
        };
        match result {
            Ok(()) => {
                self.pauses.lock().remove(&key);
            }
            Err(error) => self.note_failure(&key, controllers, &error),
        }
    }

    fn note_failure(&self, key: &NamespacedId, controllers: Controllers, error: &ServerError) {
        let mut pauses = self.pauses.lock();
        let before = pauses.get(key).map(|pause| pause.attempts.clone());
        let before = before.unwrap_or_default();
        let problem = match (error, &before.problem) {
            // An earlier call without an answer is what is wrong.
            (ServerError::QueueTimeout { .. }, Some(problem)) => problem.clone(),
            _ => error.message(),
        };
        if before.problem.as_ref() != Some(&problem) {
            warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = problem,
                "a creation did not end and is continued later");
        }
        let attempts = CreationAttempts {
            failed: before.failed.saturating_add(1),
            next_at: None,
            problem: Some(problem),
        };
        let mut pause = self.pause(attempts, controllers, Instant::now());
        if is_final(error) {
            pause.until = None;
            pause.attempts.next_at = None;
        }
        pauses.insert(key.clone(), pause);
    }
}

/// Waits for a change; `false` if the cell has stopped.
async fn changed(watch: &mut Watch) -> bool {
    watch.changed().await.is_ok()
}

/// Returns whether the plugin refuses the creation, however often it is asked.
fn is_final(error: &ServerError) -> bool {
    let ServerError::Plugin(failure) = error else {
        return false;
    };
    match &failure.error {
        ForwardError::Failed { error, .. } => error.verdict == Verdict::Permanent,
        ForwardError::NoController(_) | ForwardError::TimedOut { .. } => false,
    }
}

/// Returns the pending creations with the controllers that can be called for them.
fn pending_with_controllers(state: &State) -> BTreeMap<NamespacedId, Controllers> {
    let mut known: HashMap<(&PluginId, Option<&AllocId>), Controllers> = HashMap::new();
    let mut pending = BTreeMap::new();
    for record in state.creating() {
        let plugin = &record.definition.plugin_id;
        let call = ControllerCall::of_intent(record, VolumeIntent::Create);
        let bound = bound_controller(state, &call);
        let usable = known.entry((plugin, bound)).or_insert_with(|| {
            let candidates = VolumePlugin::read(state, plugin)?.candidates(bound).ok()?;
            Some(candidates.allocs)
        });
        pending.insert(record.key().clone(), usable.clone());
    }
    pending
}
