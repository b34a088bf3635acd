//! The strict fake plugin without a protocol: one world, a script of faults, and a record of wrongs.
//!
//! Two fronts use it: [`super::plugin`] is the ports themselves, `tests/support/fake_plugin.rs` is
//! real gRPC over a Unix socket. A wrong is what CSI forbids the orchestrator (see
//! [`super::world`], and two calls at once about one volume, section 3.4); a backend that is dropped
//! with wrongs that nobody took fails the test.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::settings::Settings;
use super::world::{FakeSnapshot, FakeStaging, FakeTarget, FakeVolume, Refusal, World};
use crate::model::{Condition, ExternalId};
use crate::ports::plugin::{Rpc, StatusCode};

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The plugin refuses with that code, and does nothing.
    Fail(StatusCode),
    /// The plugin does it, and says that it failed with that code.
    FailAfterEffect(StatusCode),
    /// The plugin does nothing until [`FakeBackend::release`], and then goes on as usual.
    Hang,
    /// The plugin does it, and the connection breaks before the answer.
    LoseReply,
    /// Something on the way repeats the call: it arrives twice.
    ApplyTwice,
    /// The plugin does it, and answers only after the next call has arrived.
    AnswerLate,
    /// The plugin dies before it does anything, and stays dead until [`FakeBackend::restart`].
    Crash,
    /// The plugin does it and dies.
    CrashAfterEffect,
}

/// Why a call had no good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFailed {
    /// The plugin answered with a code.
    Refused(Refusal),
    /// Nobody listens; nothing was sent.
    NotConnected,
    /// The connection broke while the call was under way.
    ConnectionLost,
}

/// One call that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub rpc: Rpc,
    /// About what: a volume's external ID, a new volume's name; empty for information.
    pub subject: String,
}

#[derive(Debug, Default)]
struct Inner {
    world: World,
    faults: BTreeMap<Rpc, VecDeque<Fault>>,
    calls: Vec<Call>,
    in_flight: BTreeMap<String, Rpc>,
}

/// The plugin. Shared by its fronts and the test.
#[derive(Debug)]
pub struct FakeBackend {
    inner: Mutex<Inner>,
    /// How many calls have arrived, how often calls were released.
    arrived: watch::Sender<u64>,
    released: watch::Sender<u64>,
    /// Counts deaths and restarts together, so it is even while the plugin lives.
    lives: watch::Sender<u64>,
}

impl FakeBackend {
    /// A plugin with an empty world.
    pub fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                world: World::new(settings),
                ..Inner::default()
            }),
            arrived: watch::Sender::default(),
            released: watch::Sender::default(),
            lives: watch::Sender::default(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts faults in line for the next calls of `rpc`, one each; after them all is well.
    pub fn script(&self, rpc: Rpc, faults: impl IntoIterator<Item = Fault>) {
        self.inner().faults.entry(rpc).or_default().extend(faults);
    }

    /// Lets every call go on that hangs.
    pub fn release(&self) {
        self.released.send_modify(|times| *times += 1);
    }

    /// The plugin dies: calls under way lose their connection, later ones find nobody.
    pub fn crash(&self) {
        self.lives.send_if_modified(|lives| {
            let was_alive = is_alive(*lives);
            *lives += u64::from(was_alive);
            was_alive
        });
    }

    /// The plugin runs again; its world is as it was.
    pub fn restart(&self) {
        self.lives.send_if_modified(|lives| {
            let was_dead = !is_alive(*lives);
            *lives += u64::from(was_dead);
            was_dead
        });
    }

    /// Whether it runs.
    pub fn is_alive(&self) -> bool {
        is_alive(*self.lives.borrow())
    }

    /// Hears of every death and every restart from now on.
    pub fn lives(&self) -> watch::Receiver<u64> {
        self.lives.subscribe()
    }

    /// Waits until `count` calls have arrived since the start.
    pub async fn arrived(&self, count: u64) {
        let mut arrived = self.arrived.subscribe();
        // The sender lives as long as `self`.
        drop(arrived.wait_for(|so_far| *so_far >= count).await);
    }

    /// Changes what the plugin says of itself.
    pub fn change(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.inner().world.settings);
    }

    /// What the plugin says of itself.
    pub fn settings(&self) -> Settings {
        self.inner().world.settings.clone()
    }

    /// Adds a volume that nobody created here.
    pub fn add_volume(&self, external_id: ExternalId, context: BTreeMap<String, String>) {
        self.inner().world.add(external_id, context);
    }

    /// Takes a volume away behind everybody's back.
    pub fn lose_volume(&self, external_id: &ExternalId) {
        self.inner().world.volumes.remove(external_id);
    }

    /// All volumes, by external ID.
    pub fn volumes(&self) -> Vec<FakeVolume> {
        self.inner().world.volumes.values().cloned().collect()
    }

    /// Says how a volume is from now on.
    pub fn set_condition(&self, external_id: &ExternalId, condition: Condition) {
        if let Some(volume) = self.inner().world.volumes.get_mut(external_id) {
            volume.condition = condition;
        }
    }

    /// All snapshots, by ID.
    pub fn snapshots(&self) -> Vec<FakeSnapshot> {
        self.inner().world.snapshots.values().cloned().collect()
    }

    /// All stagings.
    pub fn stagings(&self) -> BTreeMap<ExternalId, FakeStaging> {
        self.inner().world.stagings.clone()
    }

    /// All targets.
    pub fn targets(&self) -> BTreeMap<(ExternalId, PathBuf), FakeTarget> {
        self.inner().world.targets.clone()
    }

    /// All calls that arrived, in order, repeated ones too.
    pub fn calls(&self) -> Vec<Call> {
        self.inner().calls.clone()
    }

    /// How many calls of `rpc` arrived.
    pub fn count(&self, rpc: Rpc) -> usize {
        let inner = self.inner();
        inner.calls.iter().filter(|call| call.rpc == rpc).count()
    }

    /// Takes the wrongs so far, for a test that expects some.
    pub fn take_wrongs(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().world.wrongs)
    }

    /// One call about `subject`, with the fault that is next in line.
    ///
    /// # Errors
    /// As the world or the script says.
    pub async fn call<T>(
        &self,
        rpc: Rpc,
        subject: &str,
        act: impl Fn(&mut World) -> Result<T, Refusal> + Send,
    ) -> Result<T, CallFailed> {
        let mut lives = self.lives.subscribe();
        let (_guard, fault) = self.arrive(rpc, subject)?;
        let before = *self.arrived.borrow();
        let act = || act(&mut self.inner().world).map_err(CallFailed::Refused);
        let failed = |code: StatusCode| {
            CallFailed::Refused(Refusal {
                code,
                message: format!("scripted {}", code.as_str()),
            })
        };
        let lost = CallFailed::ConnectionLost;
        match fault {
            None => act(),
            Some(Fault::Fail(code)) => Err(failed(code)),
            Some(Fault::FailAfterEffect(code)) => act().and_then(|_| Err(failed(code))),
            Some(Fault::LoseReply) => act().and_then(|_| Err(lost)),
            Some(Fault::ApplyTwice) => act().and_then(|_| act()),
            Some(Fault::Hang) => {
                let mut released = self.released.subscribe();
                tokio::select! {
                    _ = released.changed() => act(),
                    _ = lives.changed() => Err(lost),
                }
            }
            Some(Fault::AnswerLate) => {
                let answer = act();
                let mut arrived = self.arrived.subscribe();
                tokio::select! {
                    _ = arrived.wait_for(|so_far| *so_far > before) => answer,
                    _ = lives.changed() => Err(lost),
                }
            }
            Some(Fault::Crash) => {
                self.crash();
                Err(lost)
            }
            Some(Fault::CrashAfterEffect) => {
                let answer = act();
                self.crash();
                answer.and_then(|_| Err(lost))
            }
        }
    }

    /// Records the call; refuses a second one about the same volume while the first is under way.
    fn arrive(&self, rpc: Rpc, subject: &str) -> Result<(InFlight<'_>, Option<Fault>), CallFailed> {
        let mut inner = self.inner();
        if !self.is_alive() {
            return Err(CallFailed::NotConnected);
        }
        inner.calls.push(Call {
            rpc,
            subject: subject.to_owned(),
        });
        self.arrived.send_modify(|so_far| *so_far += 1);
        if let Some(pending) = inner.in_flight.get(subject).copied() {
            let what = format!("{pending} about {subject} is under way");
            let refused = inner.world.wrong(rpc, StatusCode::Aborted, what);
            return refused.map_err(CallFailed::Refused);
        }
        let key = (!subject.is_empty()).then(|| subject.to_owned());
        if let Some(key) = &key {
            inner.in_flight.insert(key.clone(), rpc);
        }
        let fault = inner.faults.get_mut(&rpc).and_then(VecDeque::pop_front);
        let backend = self;
        Ok((InFlight { backend, key }, fault))
    }
}

impl Drop for FakeBackend {
    #[expect(
        clippy::panic,
        reason = "a test in which the orchestrator broke the specification is to fail"
    )]
    fn drop(&mut self) {
        let wrongs = self.take_wrongs();
        if !wrongs.is_empty() && !std::thread::panicking() {
            panic!("CSI forbids the orchestrator:\n{}", wrongs.join("\n"));
        }
    }
}

fn is_alive(lives: u64) -> bool {
    lives.is_multiple_of(2)
}

/// A call under way; ends when it is dropped, also if nobody waits for the answer any more.
struct InFlight<'a> {
    backend: &'a FakeBackend,
    key: Option<String>,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.backend.inner().in_flight.remove(key);
        }
    }
}
