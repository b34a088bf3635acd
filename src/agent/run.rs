//! An agent's life: everything started in order, and ended in the reverse order.
//!
//! ```text
//! start   directory, lock, sockets, journal and state, key, node, plugin, HTTP, "ready"
//! stop    HTTP (what is being answered is finished), plugin, state and journal, sockets, lock
//! ```
//!
//! Volumes stay as they are, and so do mounts: the end of the agent is not the end of their use. If
//! the process is killed, the operating system ends the lock, the plugin ends by itself, and the
//! journal has everything that was answered; sockets that are left behind are replaced by the next
//! start, and work that was begun is taken up by it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::assemble::{Assembled, assemble};
use super::blocking;
use super::claim::{Claimed, claim, lock_problem};
use super::config::AgentConfig;
use super::directory::{DataPlace, Workplace};
use super::listen::{DRAIN_LIMIT, Listeners};
use super::plugin::HOSTPATH;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::mounts::LinuxMounter;
use crate::node::{TaskStatus, wait_until_healthy};
use crate::ports::{Clock as _, Mounter as _, SystemClock};
use crate::server::Services;
use crate::server::http::router;
use crate::store::{DataLock, Holder};

/// Runs an agent until `stop`, and then ends it in order. Whoever drops the future instead leaves at
/// once: what was being done is dropped, as in a crash, and the next start takes it up.
///
/// # Errors
/// If it cannot start; nothing is left then.
pub async fn run(config: AgentConfig, stop: CancellationToken) -> Result<(), Diagnostics> {
    let mut agent = match open(&config).await? {
        Opened::Here(agent) => agent,
        Opened::Elsewhere(socket) => return Err(served_elsewhere(&socket)),
    };
    let well = agent.plugin_well(config.plugin_patience);
    if let Some(Err(reason)) = stop.run_until_cancelled(well).await {
        tracing::warn!(
            plugin.id = HOSTPATH,
            reason,
            "serving although the plugin is not healthy"
        );
    }
    agent.serve();
    agent.say_ready();
    stop.cancelled().await;
    tracing::info!("stopping: what is being answered is finished; a second signal leaves at once");
    notify(NotifyState::Stopping);
    agent.stop().await;
    Ok(())
}

/// Only a command shares.
fn served_elsewhere(socket: &Path) -> Diagnostics {
    let message = format!(
        "another agent has the directory and listens on {}",
        socket.display()
    );
    Diagnostic::error(Code::DataInUse, message).into()
}

/// An agent, or the one that has the directory.
pub(super) enum Opened {
    /// Ours, with open sockets that are not served yet.
    Here(Box<Agent>),
    /// Somebody else's, which listens there.
    Elsewhere(PathBuf),
}

/// Locks the directory and starts everything but HTTP.
///
/// # Errors
/// If something cannot be started; nothing is left then.
pub(super) async fn open(config: &AgentConfig) -> Result<Opened, Diagnostics> {
    let wanted = config.data.clone();
    let place = blocking::run(move || DataPlace::prepare(&wanted)).await??;
    let started_at = SystemClock.now();
    match claim(place.path(), started_at, config.on_held).await? {
        Claimed::Served(socket) => Ok(Opened::Elsewhere(socket)),
        Claimed::Ours(lock) => {
            let (runtime, serves_others) = (config.runtime_dir.clone(), config.http.is_some());
            let (place, lock) = blocking::run(move || {
                let place = Workplace::furnish(place, runtime.as_deref())?;
                record(
                    lock,
                    started_at,
                    serves_others.then(|| place.agent_socket()),
                )
                .map(|lock| (place, lock))
            })
            .await??;
            let agent = Agent::start(config, place, lock).await?;
            Ok(Opened::Here(Box::new(agent)))
        }
    }
}

/// Says in the lock where the agent can be asked, for those who find the directory locked.
fn record(
    mut lock: DataLock,
    started_at: i64,
    socket: Option<PathBuf>,
) -> Result<DataLock, Diagnostics> {
    let holder = Holder {
        pid: std::process::id(),
        socket,
        started_at,
    };
    match lock.record(&holder) {
        Ok(()) => Ok(lock),
        Err(error) => Err(lock_problem(&error, None)),
    }
}

/// A running agent. Dropping it drops what it does, as a crash would.
pub(super) struct Agent {
    place: Workplace,
    lock: DataLock,
    services: Services,
    plugin: watch::Receiver<TaskStatus>,
    address: Option<SocketAddr>,
    /// Until HTTP is served.
    unserved: Option<Listeners>,
    http: JoinSet<()>,
    supervision: JoinSet<()>,
    stop_http: CancellationToken,
    stop_plugin: CancellationToken,
}

impl Agent {
    async fn start(
        config: &AgentConfig,
        place: Workplace,
        lock: DataLock,
    ) -> Result<Self, Diagnostics> {
        let assembled = match assemble(config, &place).await {
            Ok(assembled) => assembled,
            Err(problems) => {
                leave(place, lock).await;
                return Err(problems);
            }
        };
        let Assembled {
            services,
            listeners,
            supervisor,
        } = assembled;
        let plugin = supervisor.status();
        let stop_plugin = CancellationToken::new();
        let mut supervision = JoinSet::new();
        supervision.spawn(supervisor.run(stop_plugin.clone()));
        Ok(Self {
            place,
            lock,
            services,
            plugin,
            address: listeners.address(),
            unserved: Some(listeners),
            http: JoinSet::new(),
            supervision,
            stop_http: CancellationToken::new(),
            stop_plugin,
        })
    }

    /// The Unix socket, open from the start.
    pub(super) fn socket(&self) -> PathBuf {
        self.place.agent_socket()
    }

    /// Waits for the plugin.
    ///
    /// # Errors
    /// Why it is not well.
    pub(super) async fn plugin_well(&self, patience: Duration) -> Result<(), String> {
        wait_until_healthy(self.plugin.clone(), patience).await
    }

    /// Answers requests from now on.
    pub(super) fn serve(&mut self) {
        if let Some(listeners) = self.unserved.take() {
            let router = router(self.services.clone());
            self.http
                .spawn(listeners.serve(router, self.stop_http.clone()));
        }
    }

    /// Ends everything, in order.
    pub(super) async fn stop(mut self) {
        self.stop_http.cancel();
        drop(self.unserved.take());
        let answered = async { while self.http.join_next().await.is_some() {} };
        tokio::join!(self.services.drain(DRAIN_LIMIT), answered);
        self.stop_plugin.cancel();
        while self.supervision.join_next().await.is_some() {}
        self.services.cell.stop().await;
        drop(self.services);
        leave(self.place, self.lock).await;
    }

    /// For whoever started the agent: systemd, and a person.
    fn say_ready(&self) {
        let address = self.address.map(|address| format!("http://{address}"));
        if self.place.is_temporary() {
            tracing::info!(
                data = %self.place.data().display(),
                "volumes and state go when the agent ends; keep them with --data-dir DIR"
            );
        }
        tracing::info!(
            address,
            socket = %self.place.agent_socket().display(),
            data = %self.place.data().display(),
            "the agent is ready"
        );
        notify(NotifyState::Ready);
    }
}

/// Gives up the directory: the sockets first, because the next agent's have the same names.
async fn leave(place: Workplace, lock: DataLock) {
    let mounts = LinuxMounter.list().await;
    let left = blocking::run(move || {
        place.remove_sockets();
        drop(lock);
        match mounts {
            Ok(mounts) => place.remove_if_temporary(&mounts),
            Err(error) => tracing::warn!(%error, "no directory is removed"),
        }
    });
    if left.await.is_err() {
        tracing::warn!("the agent's directory was not tidied");
    }
}

/// Tells a service manager, if there is one.
fn notify(state: NotifyState) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "the service manager was not told");
    }
}
