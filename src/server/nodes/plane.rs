//! [`RecordedNodes`]: nodes of other processes, as they are on record.
//!
//! A node is who has its secret, of which the state has the hash. Its session is on record before anything is sent to it
//! (rule 12 of the claims machine). What an operator decided about it stays when it registers again.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::node_plugins::NodePlugins;
use crate::cell::{CommitError, Expected};
use crate::claims::ClaimService;
use crate::jobs::LocalControlPlane;
use crate::node_events::NodeEvents;
use crate::observer::RecordingObserver;
use crate::ports::ServerPorts;
use nomad_csi_claims::state::{Event, EventKind, LeaderStarts, State, boot_events};
use nomad_csi_model::{Node, NodeId, Term, hex};
use nomad_csi_ports::{
    ClusterPosition, ControlPlane, MountObserver, NodePlane, NodeSecret, NotLeader, PluginObserver,
    Registration, RegistrationRefused,
};

/// The most nodes on record.
const MAX_NODES: usize = 10_000;

/// How often a registration is decided: an operator can change the node while it is committed.
const MAX_DECISIONS: usize = 10;

/// The nodes of a server.
pub(crate) struct RecordedNodes {
    ports: ServerPorts,
    claims: ClaimService,
    events: Arc<NodeEvents>,
    /// Those that have registered, at most [`MAX_NODES`].
    planes: Mutex<HashMap<NodeId, Arc<LocalControlPlane>>>,
    registering: tokio::sync::Mutex<()>,
}

impl RecordedNodes {
    pub(crate) fn new(ports: ServerPorts, claims: ClaimService, events: Arc<NodeEvents>) -> Self {
        Self { ports, claims, events, planes: Mutex::default(), registering: Default::default() }
    }

    /// Refuses a node while another server may lead.
    fn leads(&self) -> Result<(), NotLeader> {
        match self.ports.lease.is_certain() {
            true => Ok(()),
            false => Err(NotLeader { leader: None }),
        }
    }

    fn current(&self) -> ClusterPosition {
        let term = self.ports.term;
        self.ports.cell.read(|state| ClusterPosition {
            cluster_id: state.origin().to_owned(),
            leader: state.leader_starts().newest().to_owned(),
            index: state.index(),
            term,
        })
    }

    fn events(&self, kinds: Vec<EventKind>) -> Vec<Event> {
        let now = self.ports.clock.now();
        let kinds = kinds.into_iter();
        kinds.map(|kind| Event::new(now, kind)).collect()
    }

    /// Records a registration. What an operator decides beside it is read again, so that it stays.
    async fn record(
        &self,
        registration: &Registration,
        secret_hash: &str,
    ) -> Result<(), RegistrationRefused> {
        let Node { id, name, .. } = &registration.node;
        for _ in 0..MAX_DECISIONS {
            let (known, news) = self
                .ports
                .cell
                .read(|state| (state.node(id).cloned(), news(state, registration, secret_hash)));
            if news.is_empty() {
                return Ok(());
            }
            let expected = known.map(|known| Expected::NodeIs(Box::new(known)));
            let events = self.events(news);
            match self.ports.cell.commit_all(expected.into_iter().collect(), events).await {
                Ok(_) => {
                    tracing::info!(node.id = %id, node.name = name, "the node registered");
                    return Ok(());
                }
                Err(CommitError::NodeConflict { .. }) => {}
                Err(CommitError::Stopping) => return Err(RegistrationRefused::Stopping),
                Err(error) => return Err(RegistrationRefused::Failed(error.detail())),
            }
        }
        let text = format!(
            "node `{id}` changed {MAX_DECISIONS} times while the server recorded its registration"
        );
        Err(RegistrationRefused::Failed(text))
    }
}

/// Returns what is stored of a secret.
fn hash_of(secret: &NodeSecret) -> String {
    hex(&Sha256::digest(secret.expose())).collect()
}

/// Refuses a node whose record is of another cluster, or of a history that this server does not have.
fn check_position(
    known: &ClusterPosition,
    own: &ClusterPosition,
    leaders: &LeaderStarts,
) -> Result<(), RegistrationRefused> {
    let ClusterPosition { cluster_id, term, index, leader } = known;
    if *cluster_id != own.cluster_id {
        let (node, server) = (cluster_id.clone(), own.cluster_id.clone());
        return Err(RegistrationRefused::OtherCluster { node, server });
    }
    let includes = || leaders.includes(leader, *index, own.index).unwrap_or(true);
    let is_known = match term.epoch.cmp(&own.term.epoch) {
        // Since a restore that the node does not know of, indexes and revisions are others.
        Ordering::Less if term.epoch != Term::EPOCH_OF_A_FILE => true,
        // A journal that was moved from a file goes on with its history.
        Ordering::Less => includes(),
        Ordering::Equal => term.revision <= own.term.revision && includes(),
        Ordering::Greater => false,
    };
    if !is_known {
        let place = |term: &Term, index: u64| format!("term {term}, index {index}");
        let (node, server) = (place(term, *index), place(&own.term, own.index));
        let text = format!("the node has seen {node}, which this server at {server} never had");
        return Err(RegistrationRefused::WentBack(text));
    }
    Ok(())
}

/// Returns what has to be recorded of a registration; nothing if it is on record.
fn news(state: &State, registration: &Registration, secret_hash: &str) -> Vec<EventKind> {
    let Registration { node: offered, session, boot_id, .. } = registration;
    let known = state.node(&offered.id);
    let node = offered.clone().with_decisions_of(known);
    let id = &offered.id;
    let mut events = vec![];
    if known != Some(&node) {
        events.push(EventKind::NodeRegistered { node });
    }
    if state.session(id) != Some(session) || state.node_secret_hash(id) != Some(secret_hash) {
        events.push(EventKind::NodeConnected {
            node: id.clone(),
            session: session.clone(),
            secret_hash: Some(secret_hash.to_owned()),
        });
    }
    events.extend(boot_events(state, id, boot_id));
    events
}

#[async_trait]
impl NodePlane for RecordedNodes {
    async fn register(
        &self,
        registration: Registration,
    ) -> Result<ClusterPosition, RegistrationRefused> {
        self.leads()?;
        let secret_hash = hash_of(&registration.secret);
        let id = &registration.node.id;
        let _one_at_a_time = self.registering.lock().await;
        // A node that is on record without a secret is one of the process that had this journal before.
        let is_own = |state: &State| {
            let known = state.node_secret_hash(id);
            known.map_or(state.node(id).is_none(), |known| known == secret_hash)
        };
        if !self.ports.cell.read(is_own) {
            return Err(RegistrationRefused::WrongSecret);
        }
        let is_full = |state: &State| state.node(id).is_none() && state.nodes().len() >= MAX_NODES;
        if self.ports.cell.read(is_full) {
            let text = format!("the server has {MAX_NODES} nodes on record and takes no other one");
            return Err(RegistrationRefused::Failed(text));
        }
        if let Some(known) = &registration.known {
            let leaders = self.ports.cell.read(|state| state.leader_starts().clone());
            let checked = check_position(known, &self.current(), &leaders);
            if let Err(refused @ RegistrationRefused::WentBack(_)) = &checked {
                tracing::error!(node.id = %id, reason = %refused,
                    "this server has an older state than a node: stop it, and restore the newest copy of its data directory");
            }
            checked?;
        }
        self.record(&registration, &secret_hash).await?;
        Ok(self.current())
    }

    fn position(&self) -> Result<ClusterPosition, NotLeader> {
        self.leads()?;
        Ok(self.current())
    }

    fn of(&self, node: &NodeId) -> Arc<dyn ControlPlane> {
        let mut planes = self.planes.lock();
        let new = || {
            let (ports, claims) = (self.ports.clone(), self.claims.clone());
            Arc::new(LocalControlPlane::new(ports, claims, node.clone()))
        };
        planes.entry(node.clone()).or_insert_with(new).clone()
    }

    fn plugins_of(&self, node: &NodeId) -> Arc<dyn PluginObserver> {
        let cell = self.ports.cell.clone();
        let reports = RecordingObserver::new(cell.clone(), self.ports.clock.clone());
        Arc::new(NodePlugins { cell, node: node.clone(), reports })
    }

    fn mounts_of(&self, node: &NodeId) -> Arc<dyn MountObserver> {
        self.events.of_node(node.clone())
    }
}

#[cfg(test)]
mod tests;
