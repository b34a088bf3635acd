//! The answer to a question: may the tasks of an allocation still write to their volumes?
//!
//! Only a client knows when tasks end. So they may write until their client, which is up, reports `complete`
//! or `failed`. What a server wants (`stop`, `evict`) and what it assumes (`lost`, `unknown`) prove nothing: a
//! task may ignore its signal, and the tasks of a client that cannot be reached go on. A node that is gone or
//! fenced reports nothing any more, so only a person knows. What could not be read allows nothing.

use super::alloc::{Alloc, ClientStatus, NodeContact};
use super::client_node::{ClientNode, NodeSight};
use super::id::NodeId;

/// The answer: may the tasks of an allocation still write?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocWrites {
    /// No: its client reported the end, and is up.
    Ended,
    /// Only a person knows: its node is gone or fenced.
    Unprovable,
    /// They may.
    Possible,
}

/// The nodes of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenNodes {
    /// They could not be read, for this reason.
    Unread(String),
    /// All nodes.
    Read(Vec<ClientNode>),
}

impl Default for SeenNodes {
    fn default() -> Self {
        Self::Unread("they were not read".to_owned())
    }
}

impl SeenNodes {
    /// Returns what the server shows of a node.
    pub fn sight(&self, id: &NodeId) -> NodeSight {
        let Self::Read(nodes) = self else {
            return NodeSight::Unread;
        };
        if id.as_str().is_empty() {
            return NodeSight::Unread;
        }
        let node = nodes.iter().find(|node| node.id == *id);
        node.map_or(NodeSight::Gone, ClientNode::sight)
    }

    /// Returns the nodes on which an allocation may run of which the server has no record; `None` if the nodes
    /// could not be read. A client that is up stops what the server does not know.
    pub fn away(&self) -> Option<Vec<&ClientNode>> {
        let Self::Read(nodes) = self else {
            return None;
        };
        let is_away = |node: &&ClientNode| matches!(node.sight(), NodeSight::Away(_));
        Some(nodes.iter().filter(is_away).collect())
    }

    /// Returns the nodes that are up; `None` if the nodes could not be read.
    pub fn ready(&self) -> Option<Vec<&ClientNode>> {
        let Self::Read(nodes) = self else {
            return None;
        };
        let is_up = |node: &&ClientNode| matches!(node.sight(), NodeSight::Up);
        Some(nodes.iter().filter(is_up).collect())
    }

    /// Returns whether the tasks of an allocation may still write.
    pub fn writes(&self, alloc: &Alloc) -> AllocWrites {
        alloc_writes(&alloc.client, &self.sight(&alloc.node_id))
    }
}

/// Returns whether the tasks of an allocation with this client status may still write on a node.
pub fn alloc_writes(client: &ClientStatus, node: &NodeSight) -> AllocWrites {
    match node.contact() {
        NodeContact::Gone => AllocWrites::Unprovable,
        contact if client.may_still_write(contact) => AllocWrites::Possible,
        NodeContact::Up | NodeContact::Silent => AllocWrites::Ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AllocId, DesiredStatus};

    fn node(id: &str, status: &str) -> ClientNode {
        ClientNode {
            id: NodeId::new(id),
            name: format!("name-{id}"),
            status: status.to_owned(),
            is_fenced: false,
            has_returned: false,
            description: String::new(),
            modify_index: 0,
        }
    }

    fn alloc(node: &str, desired: DesiredStatus, client: ClientStatus) -> Alloc {
        Alloc {
            id: AllocId::new("a1"),
            node_id: NodeId::new(node),
            node_name: String::new(),
            evaluation_id: String::new(),
            job_id: "web".to_owned(),
            task_group: "g".to_owned(),
            job_version: 0,
            desired,
            client,
            create_time: 0,
            modify_time: 0,
        }
    }

    /// All client statuses.
    fn clients() -> Vec<ClientStatus> {
        vec![
            ClientStatus::Pending,
            ClientStatus::Running,
            ClientStatus::Complete,
            ClientStatus::Failed,
            ClientStatus::Lost,
            ClientStatus::Unknown,
            ClientStatus::Other("paused".to_owned()),
        ]
    }

    #[test]
    fn only_a_reported_end_on_a_node_that_is_up_is_an_end() {
        let nodes = [
            node("up", "ready"),
            node("down", "down"),
            node("disconnected", "disconnected"),
            node("initializing", "initializing"),
            node("later", "a later status"),
            node("nothing", ""),
            ClientNode { is_fenced: true, ..node("fenced", "down") },
            ClientNode { is_fenced: true, ..node("fenced-up", "ready") },
        ];
        let read = SeenNodes::Read(nodes.to_vec());
        let desired = [
            DesiredStatus::Run,
            DesiredStatus::Stop,
            DesiredStatus::Evict,
            DesiredStatus::Other("x".to_owned()),
        ];
        for client in clients() {
            let reported = matches!(client, ClientStatus::Complete | ClientStatus::Failed);
            for desired in &desired {
                let on = |nodes: &SeenNodes, id: &str| {
                    nodes.writes(&alloc(id, desired.clone(), client.clone()))
                };
                let up = if reported { AllocWrites::Ended } else { AllocWrites::Possible };
                assert_eq!(on(&read, "up"), up, "{client:?} {desired:?}");
                for id in ["down", "disconnected", "initializing", "later", "nothing", ""] {
                    assert_eq!(on(&read, id), AllocWrites::Possible, "{client:?} {id}");
                }
                for id in ["fenced", "fenced-up", "purged"] {
                    assert_eq!(on(&read, id), AllocWrites::Unprovable, "{client:?} {id}");
                }
                for id in ["up", "down", "fenced", "purged"] {
                    let unread = on(&SeenNodes::default(), id);
                    assert_eq!(unread, AllocWrites::Possible, "{client:?} {id}");
                }
            }
        }
    }

    #[test]
    fn an_unknown_allocation_may_run_on_every_node_that_is_away() {
        let away = |nodes: &SeenNodes| {
            let away = nodes.away()?;
            Some(away.iter().map(|node| node.id.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(away(&SeenNodes::default()), None);
        let nodes = vec![
            node("a", "ready"),
            node("b", "down"),
            node("c", "disconnected"),
            node("d", "initializing"),
            ClientNode { is_fenced: true, ..node("e", "down") },
        ];
        let expected = ["b", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!(away(&SeenNodes::Read(nodes)), Some(expected));
    }
}
