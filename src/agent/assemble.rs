//! Builds the adapters and wires the ports: the only place where concrete types meet.
//!
//! What is built here does nothing yet but hold what it needs: the sockets are open and not served,
//! the plugin is not started. `run` starts and stops it in order. If a step fails, what was opened
//! before is closed again.

use std::net::SocketAddr;
use std::sync::Arc;

use super::blocking;
use super::config::AgentConfig;
use super::directory::Workplace;
use super::listen::Listeners;
use super::plugin::hostpath_task;
use crate::csi::GrpcConnector;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::driver::RawExec;
use crate::model::{Node, NodeId, NodeStatus, SecretOwner};
use crate::node::{Registry, Supervisor, Surroundings};
use crate::ports::{Clock, IdSource, JournalError, RandomIds, SystemClock};
use crate::server::{
    About, CellOptions, CommitError, Expected, RecordingObserver, Services, StateCell,
    VolumeLimits, VolumePorts,
};
use crate::state::{Event, EventKind};
use crate::store::{EmbeddedJournal, KeySealer};

/// An agent that is ready to be started.
pub(super) struct Assembled {
    pub(super) services: Services,
    pub(super) listeners: Listeners,
    pub(super) supervisor: Supervisor,
}

/// Builds it all. The caller holds the lock on the directory.
///
/// # Errors
/// In words; nothing is left open then.
pub(super) async fn assemble(
    config: &AgentConfig,
    place: &Workplace,
) -> Result<Assembled, Diagnostics> {
    let listeners = Listeners::open(config.http, &place.agent_socket()).await?;
    let journal = EmbeddedJournal::open(place.journal()).await;
    let journal = journal.map_err(|error| told(&error))?;
    let cell = StateCell::open(Arc::new(journal), CellOptions::default()).await;
    let cell = cell.map_err(|error| told(&error))?;
    match wire(config, place, &cell, listeners.address()).await {
        Ok((services, supervisor)) => Ok(Assembled {
            services,
            listeners,
            supervisor,
        }),
        Err(problems) => {
            cell.stop().await;
            Err(problems)
        }
    }
}

async fn wire(
    config: &AgentConfig,
    place: &Workplace,
    cell: &StateCell,
    address: Option<SocketAddr>,
) -> Result<(Services, Supervisor), Diagnostics> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
    let sealer = open_sealer(place, cell).await?;
    let node = introduce(cell, &*clock, &*ids).await?;
    let registry = Arc::new(Registry::new(node.id.clone()));
    let task = hostpath_task(config, place, cell, node.id.clone(), &*ids);
    let surroundings = Surroundings {
        driver: Arc::new(RawExec),
        connector: Arc::new(GrpcConnector::new()),
        registry: registry.clone(),
        observer: Arc::new(RecordingObserver::new(cell.clone(), clock.clone())),
        clock: clock.clone(),
        ids: ids.clone(),
    };
    let ports = VolumePorts {
        cell: cell.clone(),
        directory: registry,
        sealer: Arc::new(sealer),
        clock,
        ids,
    };
    let services = Services::new(ports, VolumeLimits::default(), about(node, address));
    Ok((services, Supervisor::new(task, surroundings)))
}

fn about(node: Node, address: Option<SocketAddr>) -> About {
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        name: node.name,
        region: About::REGION.to_owned(),
        datacenter: node.datacenter,
        address: address
            .map(|address| address.to_string())
            .unwrap_or_default(),
        node_id: node.id.as_str().to_owned(),
    }
}

/// The key must open what is sealed already: with another key nothing may go on.
async fn open_sealer(place: &Workplace, cell: &StateCell) -> Result<KeySealer, Diagnostics> {
    let path = place.key_file();
    let sealed = cell.read(|state| {
        let of_volumes = state
            .records()
            .filter_map(|record| Some((SecretOwner::from(record.key()), record.sealed()?)));
        let of_variables = state
            .variables()
            .map(|record| (SecretOwner::Variable(record.key.clone()), &record.items));
        let mut sealed = of_volumes.chain(of_variables);
        let sealed = sealed.find(|(_, sealed)| !sealed.is_empty());
        sealed.map(|(owner, sealed)| (owner, sealed.clone()))
    });
    let opened = blocking::run(move || {
        let sample = sealed.as_ref().map(|(owner, secrets)| (owner, secrets));
        KeySealer::open(&path, sample)
    });
    opened
        .await?
        .map_err(|error| with_cause(Diagnostic::error(error.code(), error.to_string()), &error))
}

/// Says that the agent has started and which node it is: the one it was before, under the name that
/// the machine has now.
async fn introduce(
    cell: &StateCell,
    clock: &dyn Clock,
    ids: &dyn IdSource,
) -> Result<Node, Diagnostics> {
    let known = cell.read(|state| state.nodes().next().cloned());
    let node = Node {
        id: known
            .as_ref()
            .map_or_else(|| NodeId::new(ids.uuid()), |node| node.id.clone()),
        name: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        datacenter: About::DATACENTER.to_owned(),
        status: NodeStatus::Ready,
    };
    let mut news = vec![EventKind::AgentStarted { origin: ids.uuid() }];
    if known.as_ref() != Some(&node) {
        news.push(EventKind::NodeRegistered { node: node.clone() });
    }
    for kind in news {
        let committed = cell
            .commit(Expected::Any, Event::new(clock.now(), kind))
            .await;
        committed.map_err(|error| not_committed(&error))?;
    }
    Ok(node)
}

fn not_committed(error: &CommitError) -> Diagnostics {
    match error {
        CommitError::Journal(error) => told(error),
        CommitError::Conflict { .. }
        | CommitError::VariableConflict { .. }
        | CommitError::Misfit(_)
        | CommitError::Stopping => Diagnostic::error(
            Code::Internal,
            format!("the agent's start was not recorded: {error}"),
        )
        .into(),
    }
}

fn told(error: &JournalError) -> Diagnostics {
    with_cause(
        Diagnostic::error(error.kind.code(), error.to_string()),
        error,
    )
}

fn with_cause(problem: Diagnostic, error: &dyn std::error::Error) -> Diagnostics {
    match error.source() {
        Some(source) => problem.note(source.to_string()).into(),
        None => problem.into(),
    }
}
