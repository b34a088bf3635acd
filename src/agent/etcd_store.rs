//! The journal of several servers: connects to etcd, waits until this server leads, and ends the leadership in order.
//!
//! A server that does not lead follows the log (`standby`). One whose leadership has ended stops everything that drives steps,
//! and waits again: its own calls carry a term that nodes refuse from then on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::blocking::run_blocking;
use super::cluster_tls::tls_problem;
use super::problems::{journal_problem, key_problem};
use super::role_file::{EtcdConfig, ServerConfig};
use nomad_csi_etcd::{
    Candidate, Etcd, EtcdClient, EtcdError, EtcdFollower, EtcdJournal, Keys, Leadership,
    LeadingServer, Reclaimed, reclaim, recorded_key,
};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_rpc::certified_client;
use nomad_csi_server::store::KeySealer;

/// The time between two questions to an etcd that does not answer.
const RETRY: Duration = Duration::from_secs(1);
/// How long a stop waits for answers of etcd to changes.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The etcd cluster of a server.
pub(super) struct EtcdStore {
    etcd: Arc<dyn Etcd>,
    candidate: Candidate,
    quota: Option<u64>,
}

impl EtcdStore {
    /// Reads the certificates. Connections are made later.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(super) async fn open(
        config: &EtcdConfig,
        server: LeadingServer,
    ) -> Result<Self, Diagnostics> {
        let tls = match config.tls.clone() {
            None => None,
            Some(files) => {
                let read = run_blocking(move || certified_client(&files)).await?;
                Some(read.map_err(|error| tls_problem(&error))?)
            }
        };
        let etcd = EtcdClient::new(&config.endpoints, tls.as_ref());
        let keys = Keys::new(&config.prefix);
        let candidate = Candidate { keys, server, seconds: config.lease_seconds };
        Ok(Self { etcd: Arc::new(etcd), candidate, quota: config.quota })
    }

    /// Refuses a key that is not the key of the cluster, before this server could lead. Waits until etcd answers.
    ///
    /// # Errors
    /// If the key is another one, or is missing.
    pub(super) async fn check_key(
        &self,
        file: &Path,
        stop: &CancellationToken,
    ) -> Result<(), Diagnostics> {
        let recorded = loop {
            match recorded_key(self.etcd.as_ref(), &self.candidate.keys).await {
                Ok(recorded) => break recorded,
                Err(error) => tracing::warn!(%error, "etcd does not answer: this server waits"),
            }
            tokio::select! {
                () = sleep(RETRY) => {}
                () = stop.cancelled() => return Ok(()),
            }
        };
        match recorded {
            None => Ok(()),
            Some(recorded) => open_recorded(file, &recorded).await.map(|_| ()),
        }
    }

    /// Returns the key of the cluster, when a leader has recorded it; `None` if `end` comes before.
    ///
    /// # Errors
    /// If the key of the file is another one, or is missing.
    pub(super) async fn recorded_sealer(
        &self,
        file: &Path,
        end: &CancellationToken,
    ) -> Result<Option<KeySealer>, Diagnostics> {
        while !end.is_cancelled() {
            let recorded = recorded_key(self.etcd.as_ref(), &self.candidate.keys).await;
            if let Ok(Some(recorded)) = recorded {
                return open_recorded(file, &recorded).await.map(Some);
            }
            tokio::select! {
                () = sleep(RETRY) => {}
                () = end.cancelled() => {}
            }
        }
        Ok(None)
    }

    /// Returns the journal of the server that leads.
    pub(super) fn followed(&self) -> EtcdFollower {
        EtcdFollower::new(self.etcd.clone(), self.candidate.keys.clone())
    }

    /// Returns the server that leads; `None` if none does.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub(super) async fn leader(&self) -> Result<Option<LeadingServer>, EtcdError> {
        Leadership::leader(self.etcd.as_ref(), &self.candidate.keys).await
    }

    /// Waits until this server leads; `None` if it is stopped before. Until then, `seen` says which server leads.
    pub(super) async fn lead(
        &self,
        seen: &watch::Sender<Option<LeadingServer>>,
        stop: &CancellationToken,
    ) -> Option<Led> {
        let leadership = Leadership::win(self.etcd.clone(), &self.candidate, seen, stop).await?;
        let leadership = Arc::new(leadership);
        let keys = self.candidate.keys.clone();
        let journal = EtcdJournal::new(self.etcd.clone(), keys, leadership.clone(), self.quota);
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let (kept, ended) = (leadership.clone(), stop.clone());
        tasks.spawn(async move { kept.keep(ended).await });
        let (maintained, ended) = (journal.clone(), stop.clone());
        tasks.spawn(async move { maintained.maintain(ended).await });
        Some(Led { leadership, journal, tasks, stop })
    }
}

/// A leadership with its journal.
pub(super) struct Led {
    pub(super) leadership: Arc<Leadership>,
    pub(super) journal: EtcdJournal,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Led {
    /// Refuses a key that is not the key of the cluster.
    ///
    /// # Errors
    /// If it is another one, or etcd does not answer.
    pub(super) async fn check_key(
        &self,
        sealer: &KeySealer,
        file: &Path,
    ) -> Result<(), Diagnostics> {
        let has_key = self.journal.has_key(&sealer.key_fingerprint()).await;
        match has_key.map_err(|error| journal_problem(&error))? {
            true => Ok(()),
            false => Err(another_key(file)),
        }
    }

    /// Waits until everything that writes has stopped, then ends the leadership, so that another server leads at once.
    pub(super) async fn end(self, stopping: impl Future<Output = ()>) {
        let mut stopping = std::pin::pin!(stopping);
        if timeout(STOP_LIMIT, &mut stopping).await.is_err() {
            // What waits for etcd would never stop.
            self.journal.give_up();
            stopping.await;
        }
        self.leadership.resign().await;
        self.stop.cancel();
        let mut tasks = self.tasks;
        while tasks.join_next().await.is_some() {}
    }
}

/// Gives space back to the etcd cluster of a server.
///
/// # Errors
/// If the configuration names no etcd, or a step fails. All steps can be repeated.
pub async fn reclaim_etcd(config: &ServerConfig) -> Result<Vec<Reclaimed>, Diagnostics> {
    let etcd = config.etcd.as_ref().ok_or_else(no_etcd)?;
    let store = EtcdStore::open(etcd, LeadingServer::default()).await?;
    let reclaimed = reclaim(store.etcd.as_ref(), &store.candidate.keys).await;
    reclaimed.map_err(|error| not_reclaimed(&error))
}

/// Opens the key of the cluster.
async fn open_recorded(file: &Path, recorded: &str) -> Result<KeySealer, Diagnostics> {
    let path = file.to_owned();
    let opened = run_blocking(move || KeySealer::open_existing(&path)).await?;
    match opened.map_err(|error| key_problem(&error))? {
        Some(sealer) if sealer.key_fingerprint() == recorded => Ok(sealer),
        Some(_) => Err(another_key(file)),
        None => Err(no_key(file)),
    }
}

fn another_key(file: &Path) -> Diagnostics {
    let message = format!("`{}` is not the key of this cluster", file.display());
    let help = "copy `secrets.key` from the data directory of another server over it";
    Diagnostic::error(Code::KeyWrong, message).help(help).into()
}

fn no_key(file: &Path) -> Diagnostics {
    let message = format!("the cluster has a key, and `{}` is missing", file.display());
    let help =
        "copy `secrets.key` from the data directory of another server to this path, with mode 0600";
    Diagnostic::error(Code::KeyMissing, message).help(help).into()
}

/// The configuration has no section for etcd.
pub(super) fn no_etcd() -> Diagnostics {
    let message = "the configuration of the server names no etcd";
    let help = "add a section `[etcd]` with `endpoints`; `docs/cluster.md` lists its keys";
    Diagnostic::error(Code::AgentBadConfig, message).help(help).into()
}

fn not_reclaimed(error: &EtcdError) -> Diagnostics {
    let message = "cannot give space back to etcd";
    let help = "check that every member runs, and repeat the command; what was done stays done";
    let problem = Diagnostic::error(Code::JournalUnavailable, message).note(error.to_string());
    problem.help(help).into()
}
