//! [`Leadership`]: one server leads. Its key has a lease, and the key's create revision is its term.
//!
//! From an answer with `t` seconds to a renewal *sent* at `s`, the lease is certain until `s + 0.9 t - 200 ms`. Past that moment
//! the leader starts and repeats no step, until a renewal succeeds. Its writes need no check: each transaction requires
//! the key. A term is over when the lease is gone, or a write was refused because of the key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::api::{Condition, Etcd, KeyValue, Lease, Operation, Transaction, read_key};
use crate::boot_time::since_boot;
use crate::error::{EtcdError, EtcdErrorKind};
use crate::keys::Keys;
use nomad_csi_model::Term;
use nomad_csi_ports::LeaderLease;

/// The time between two attempts to become the leader.
const ATTEMPT: Duration = Duration::from_millis(500);
/// The time between a failed renewal and the next.
const RETRY: Duration = Duration::from_millis(200);
/// What a lease is shortened by for the way of a message.
const MARGIN: Duration = Duration::from_millis(200);

/// A server that wants to lead.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The keys of the cluster.
    pub keys: Keys,
    /// The name of the server, for people, and where other servers reach it.
    pub server: LeadingServer,
    /// For how many seconds a leader that is silent keeps the others out.
    pub seconds: i64,
}

/// A server, as the leader's key names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadingServer {
    /// Its name, for people.
    pub name: String,
    /// Where other servers reach it, as `HOST:PORT`. Empty if it did not say.
    #[serde(default)]
    pub address: String,
}

/// A leadership, which lasts until [`lost`](Self::lost).
pub struct Leadership {
    etcd: Arc<dyn Etcd>,
    lease: Lease,
    /// The revision at which the key was created.
    revision: i64,
    /// Milliseconds since the machine started.
    certain_until: AtomicU64,
    lost: CancellationToken,
}

impl Leadership {
    /// Waits until this server leads; `None` if it is stopped before. Until then,
    /// `seen` says which server leads.
    pub async fn win(
        etcd: Arc<dyn Etcd>,
        candidate: &Candidate,
        seen: &watch::Sender<Option<LeadingServer>>,
        stop: &CancellationToken,
    ) -> Option<Self> {
        let mut said = String::new();
        while !stop.is_cancelled() {
            let why = match attempt(&etcd, candidate).await {
                Ok(Attempt::Won(leadership)) => {
                    note_leader(seen, None);
                    return Some(leadership);
                }
                Ok(Attempt::Led { by }) => {
                    let reason = format!("server `{}` leads", by.name);
                    note_leader(seen, Some(by));
                    reason
                }
                Err(error) => error.to_string(),
            };
            if why != said {
                tracing::info!(reason = why, "this server waits until it can lead");
                said = why;
            }
            tokio::select! {
                () = sleep(ATTEMPT) => {}
                () = stop.cancelled() => {}
            }
        }
        None
    }

    /// Returns the term, which begins at the revision at which the leader's key was created.
    pub fn term(&self) -> Term {
        let revision = u64::try_from(self.revision).unwrap_or_default();
        Term { epoch: Term::FIRST_EPOCH_OF_ETCD, revision }
    }

    /// Returns the revision at which the leader's key was created.
    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the server that leads; `None` if none does.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub async fn leader(etcd: &dyn Etcd, keys: &Keys) -> Result<Option<LeadingServer>, EtcdError> {
        let (found, _) = read_key(etcd, keys.leader(), 0).await?;
        Ok(found.map(|found| leading_server(&found)))
    }

    /// Is cancelled when the leadership is over.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Renews the lease until `stop`, or until the leadership is over.
    pub async fn keep(&self, stop: CancellationToken) {
        let seconds = u64::try_from(self.lease.seconds).unwrap_or(1);
        let between = Duration::from_millis(seconds * 200);
        let mut pause = between;
        loop {
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.cancelled() => return,
                () = self.lost.cancelled() => return,
            }
            let sent = since_boot();
            pause = match self.etcd.keep_alive(self.lease.id).await {
                Ok(seconds) if seconds > 0 => {
                    self.certain_until.store(certain_until(sent, seconds), Ordering::Release);
                    between
                }
                Ok(_) | Err(EtcdError { kind: EtcdErrorKind::NoLease, .. }) => {
                    tracing::error!("the lease of the leader has ended: this server leads no more");
                    self.lost.cancel();
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "the lease of the leader was not renewed");
                    RETRY
                }
            };
        }
    }

    /// Ends the leadership, so that another server can lead at once.
    pub async fn resign(&self) {
        self.lost.cancel();
        if let Err(error) = self.etcd.revoke(self.lease.id).await
            && error.kind != EtcdErrorKind::NoLease
        {
            tracing::warn!(%error, "the lease of the leader was not ended: the next server waits for its end");
        }
    }
}

impl LeaderLease for Leadership {
    fn is_certain(&self) -> bool {
        let until = Duration::from_millis(self.certain_until.load(Ordering::Acquire));
        !self.lost.is_cancelled() && since_boot() < until
    }
}

enum Attempt {
    Won(Leadership),
    Led { by: LeadingServer },
}

async fn attempt(etcd: &Arc<dyn Etcd>, candidate: &Candidate) -> Result<Attempt, EtcdError> {
    let key = candidate.keys.leader();
    if let (Some(found), _) = read_key(etcd.as_ref(), key, 0).await? {
        return Ok(Attempt::Led { by: leading_server(&found) });
    }
    let sent = since_boot();
    let lease = etcd.grant(candidate.seconds).await?;
    let ended = claim(etcd, candidate, lease, sent).await;
    if !matches!(ended, Ok(Attempt::Won(_))) {
        // With it goes a key whose answer was lost, now and when it is written later.
        etcd.revoke(lease.id).await.ok();
    }
    ended
}

async fn claim(
    etcd: &Arc<dyn Etcd>,
    candidate: &Candidate,
    lease: Lease,
    sent: Duration,
) -> Result<Attempt, EtcdError> {
    let key = candidate.keys.leader();
    let value = serde_json::to_vec(&candidate.server).unwrap_or_default();
    let answer = etcd
        .transact(Transaction {
            conditions: vec![Condition::Created(key.clone(), 0)],
            success: vec![Operation::Put { key: key.clone(), value, lease: lease.id }],
            failure: vec![Operation::Get { key }],
        })
        .await?;
    if !answer.succeeded {
        let found = answer.found.into_iter().flatten().next().unwrap_or_default();
        return Ok(Attempt::Led { by: leading_server(&found) });
    }
    Ok(Attempt::Won(Leadership {
        etcd: etcd.clone(),
        lease,
        revision: answer.revision,
        certain_until: AtomicU64::new(certain_until(sent, lease.seconds)),
        lost: CancellationToken::new(),
    }))
}

fn leading_server(found: &KeyValue) -> LeadingServer {
    serde_json::from_slice(&found.value)
        .unwrap_or_else(|_| LeadingServer { name: "unknown".to_owned(), address: String::new() })
}

fn note_leader(seen: &watch::Sender<Option<LeadingServer>>, leader: Option<LeadingServer>) {
    seen.send_if_modified(|known| {
        let has_changed = *known != leader;
        *known = leader;
        has_changed
    });
}

/// Returns until when a lease is certain, in milliseconds since the machine started.
fn certain_until(sent: Duration, seconds: i64) -> u64 {
    let lease = Duration::from_millis(u64::try_from(seconds).unwrap_or_default() * 900);
    let until = sent + lease.saturating_sub(MARGIN);
    u64::try_from(until.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
