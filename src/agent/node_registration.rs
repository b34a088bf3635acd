//! The node that this machine is: its identity, and what it offers to jobs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::blocking;
use super::node_attributes::node_attributes;
use super::problems::{journal_problem, with_cause};
use super::tasks::TaskDrivers;
use nomad_csi_claims::state::{Event, EventKind, boot_events};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::{HostSession, HostVolume, Node, NodeId, Term};
use nomad_csi_node::mounts::boot_id;
use nomad_csi_ports::{Clock, IdSource};
use nomad_csi_server::store::{NodeIdError, open_node_id};
use nomad_csi_server::{AgentInfo, CommitError, Expected, StateCell};

/// Returns the ID of this node, which its file keeps.
///
/// # Errors
/// If the file is damaged or cannot be read.
pub(super) async fn this_node(
    file: PathBuf,
    cell: &StateCell,
    ids: &dyn IdSource,
) -> Result<NodeId, Diagnostics> {
    let known: Vec<_> = cell.read(|state| state.nodes().map(|node| node.id.clone()).collect());
    let new = NodeId::new(ids.uuid());
    let opened = blocking::run_blocking(move || open_node_id(&file, &known, new));
    opened.await?.map_err(|error| node_id_problem(&error))
}

/// The file with the ID of a node as a diagnostic.
pub(super) fn node_id_problem(error: &NodeIdError) -> Diagnostics {
    let message = format!("cannot identify this node: {error}");
    let problem = Diagnostic::error(Code::AgentNodeId, message)
        .help("restore the file from a backup, or write the ID of this node into it");
    with_cause(problem, error)
}

/// The drivers and resources that this node offers to jobs.
pub(super) struct NodeOffer<'a> {
    /// The drivers of tasks.
    pub(super) drivers: &'a TaskDrivers,
    /// The directories that jobs can mount by name.
    pub(super) host_volumes: &'a BTreeMap<String, HostVolume>,
}

/// Returns this machine as a node.
///
/// # Errors
/// If its attributes cannot be read.
pub(super) async fn offered_node(id: NodeId, offered: &NodeOffer<'_>) -> Result<Node, Diagnostics> {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    Ok(Node {
        drivers: offered
            .drivers
            .iter()
            .map(|(name, driver)| (name.clone(), driver.mount_config()))
            .collect(),
        host_volumes: offered.host_volumes.clone(),
        attributes: blocking::run_blocking(node_attributes).await?,
        ..Node::new(id, name, AgentInfo::DATACENTER)
    })
}

/// Returns the ID of the boot of this machine.
///
/// # Errors
/// If it cannot be read.
pub(super) async fn node_boot_id() -> Result<String, Diagnostics> {
    blocking::run_blocking(boot_id).await?.map_err(|error| {
        let message = format!("cannot read the boot ID of this machine from `/proc`: {error}");
        Diagnostic::error(Code::AgentNodeId, message).into()
    })
}

/// Records the start of the agent, and its node with this run of its process and this boot of its machine, all or nothing. The
/// node takes the machine's current name. The term of the agent begins with its start.
///
/// # Errors
/// If it cannot be recorded.
pub(super) async fn register_node(
    cell: &StateCell,
    (id, session): (NodeId, HostSession),
    offered: &NodeOffer<'_>,
    clock: &dyn Clock,
    ids: &dyn IdSource,
) -> Result<(Node, Term), Diagnostics> {
    let offered = offered_node(id, offered).await?;
    let boot_id = node_boot_id().await?;
    let known = cell.read(|state| state.node(&offered.id).cloned());
    let node = offered.with_decisions_of(known.as_ref());
    let id = &node.id;
    let mut kinds = vec![EventKind::AgentStarted { origin: ids.uuid() }];
    if known.as_ref() != Some(&node) {
        kinds.push(EventKind::NodeRegistered { node: node.clone() });
    }
    kinds.push(EventKind::NodeConnected { node: id.clone(), session, secret_hash: None });
    kinds.extend(cell.read(|state| boot_events(state, id, &boot_id)));
    let (now, after_start) = (clock.now(), kinds.len() as u64 - 1);
    let events = kinds.into_iter().map(|kind| Event::new(now, kind)).collect();
    let expected = known.map(|known| Expected::NodeIs(Box::new(known)));
    let committed = cell.commit_all(expected.into_iter().collect(), events).await;
    let last = committed.map_err(|error| not_committed(&error))?;
    Ok((node, Term { epoch: 0, revision: last - after_start }))
}

/// The start of an agent that cannot be recorded, as a diagnostic.
pub(super) fn not_committed(error: &CommitError) -> Diagnostics {
    match error {
        CommitError::Journal(error) => journal_problem(error),
        CommitError::Conflict { .. }
        | CommitError::VariableConflict { .. }
        | CommitError::ClaimsConflict { .. }
        | CommitError::JobConflict { .. }
        | CommitError::NodeConflict { .. }
        | CommitError::NoNamespace { .. }
        | CommitError::Shared { .. }
        | CommitError::InvalidEvent(_)
        | CommitError::LimitReached(_)
        | CommitError::Stopping => Diagnostic::error(
            Code::Internal,
            format!("cannot record the start of the agent: {error}"),
        )
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use nomad_csi_claims::state::State;
    use nomad_csi_claims::state::samples;
    use nomad_csi_model::PluginInstance;
    use nomad_csi_ports::RandomIds;
    use nomad_csi_server::CellOptions;
    use nomad_csi_server::fake::MemoryJournal;
    use nomad_csi_testing::FakeClock;

    async fn cell_with(nodes: &[&str]) -> StateCell {
        cell_on(MemoryJournal::default(), nodes).await
    }

    async fn cell_on(journal: MemoryJournal, nodes: &[&str]) -> StateCell {
        let cell = StateCell::open(Arc::new(journal), CellOptions::default()).await;
        let cell = cell.unwrap();
        for id in nodes {
            let node = Node::new(NodeId::new(*id), "machine", "dc1");
            let event = Event::new(1, EventKind::NodeRegistered { node });
            cell.commit(Expected::Any, event).await.unwrap();
        }
        cell
    }

    /// The agent is the node that its file names, also if the state sorts another one first.
    #[tokio::test]
    async fn the_stored_identity_decides_which_node_the_agent_is() {
        let nodes =
            ["00000000-1111-4222-8333-444455556666", "ffffffff-1111-4222-8333-444455556666"];
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("node.id");
        std::fs::write(&file, format!("{}\n", nodes[1])).unwrap();
        let cell = cell_with(&nodes).await;
        let ids = RandomIds;
        let id = this_node(file, &cell, &ids).await.unwrap();
        assert_eq!(id.as_str(), nodes[1]);
        let offered = NodeOffer { drivers: &TaskDrivers::new(), host_volumes: &BTreeMap::new() };
        let started = (id, HostSession::new("session"));
        let registered = register_node(&cell, started, &offered, &FakeClock::default(), &ids).await;
        let (node, term) = registered.unwrap();
        assert_eq!(node.id.as_str(), nodes[1]);
        assert_eq!(term.revision, 4, "the start came after two registrations");
        assert_eq!(cell.read(|state| state.session(&node.id).cloned()), Some("session".into()));
        assert_eq!(cell.read(|state| state.nodes().len()), 2);
        cell.stop().await;
    }

    /// An instance behind an endpoint, or one whose allocation an earlier version forgot: nothing else ends it.
    #[tokio::test]
    async fn a_restart_of_the_machine_ends_the_plugin_instances_without_an_allocation() {
        let (here, other) =
            ("00000000-1111-4222-8333-444455556666", "ffffffff-1111-4222-8333-444455556666");
        let allocs = |cell: &StateCell| {
            let record = |state: &State| state.plugin_record(&"ebs".into()).cloned();
            let record = cell.read(record);
            let allocs = record.into_iter().flat_map(|record| record.allocs.into_keys());
            allocs.map(|alloc| alloc.to_string()).collect::<Vec<_>>()
        };
        for (earlier_boot, left) in [
            (None, &["forgotten", "of-a-job", "elsewhere"][..]),
            (Some("an earlier boot"), &["of-a-job", "elsewhere"]),
        ] {
            let cell = cell_with(&[here, other]).await;
            let commit = async |kind| {
                cell.commit(Expected::Any, Event::new(1, kind)).await.unwrap();
            };
            for (alloc, node) in [("forgotten", here), ("of-a-job", here), ("elsewhere", other)] {
                let alloc_id = alloc.into();
                let instance = PluginInstance { alloc_id, ..samples::instance(true) };
                let (plugin, node) = ("ebs".into(), NodeId::new(node));
                let instance = Box::new(instance);
                commit(EventKind::PluginAllocObserved { plugin, node, instance }).await;
            }
            let started = EventKind::AllocStarted { alloc: "of-a-job".into(), node: here.into() };
            commit(started).await;
            if let Some(boot_id) = earlier_boot {
                let (node, boot_id) = (here.into(), boot_id.to_owned());
                commit(EventKind::NodeBooted { node, boot_id }).await;
            }
            let offered =
                NodeOffer { drivers: &TaskDrivers::new(), host_volumes: &BTreeMap::new() };
            let (clock, ids) = (FakeClock::default(), RandomIds);
            for _ in 0..2 {
                register_node(&cell, (here.into(), "session".into()), &offered, &clock, &ids)
                    .await
                    .unwrap();
                let mut expected: Vec<_> = left.iter().map(ToString::to_string).collect();
                expected.sort();
                assert_eq!(allocs(&cell), expected, "{earlier_boot:?}");
            }
            cell.stop().await;
        }
    }

    /// An agent that is killed in between has not started for its state.
    #[tokio::test]
    async fn a_start_is_on_record_as_a_whole() {
        let journal = MemoryJournal::default();
        let cell = cell_on(journal.clone(), &[]).await;
        let offered = NodeOffer { drivers: &TaskDrivers::new(), host_volumes: &BTreeMap::new() };
        let started = (NodeId::new("n1"), HostSession::new("session"));
        let before = cell.index();
        let (_, term) = register_node(&cell, started, &offered, &FakeClock::default(), &RandomIds)
            .await
            .unwrap();
        assert_eq!(journal.append_sizes(), [4]);
        assert_eq!((term.revision, cell.index()), (before + 1, before + 4));
        cell.stop().await;
    }

    #[tokio::test]
    async fn a_damaged_identity_is_an_error_with_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("node.id");
        std::fs::write(&file, "damaged").unwrap();
        let cell = cell_with(&[]).await;
        let refused = this_node(file.clone(), &cell, &RandomIds).await.unwrap_err();
        let problem = refused.iter().next().unwrap();
        assert_eq!(problem.code, Code::AgentNodeId);
        let expected = format!(
            "cannot identify this node: the file `{}` does not contain a node ID",
            file.display()
        );
        assert_eq!(problem.message, expected);
        cell.stop().await;
    }
}
