//! Files that were written beside a volume, which every node is asked for: a node that does not answer delays no other one.

use std::path::PathBuf;

use futures_util::stream::{self, StreamExt as _};

use nomad_csi_model::{NodeId, RemoteVolume};
use nomad_csi_ports::HostDirectory;

/// How many nodes are asked about one volume at once.
const MAX_NODES_AT_ONCE: usize = 16;

/// Returns what the nodes that can be reached keep of a volume, in the order of the nodes.
pub(super) async fn kept_files(
    hosts: &dyn HostDirectory,
    volume: &RemoteVolume,
) -> Vec<(NodeId, PathBuf)> {
    let questions: Vec<_> =
        hosts.nodes().into_iter().map(|node| on_node(hosts, node, volume)).collect();
    let answers = stream::iter(questions).buffered(MAX_NODES_AT_ONCE);
    answers.flat_map(stream::iter).collect().await
}

async fn on_node(
    hosts: &dyn HostDirectory,
    node: NodeId,
    volume: &RemoteVolume,
) -> Vec<(NodeId, PathBuf)> {
    let Some(connected) = hosts.node(&node) else {
        return vec![];
    };
    match connected.host.kept_files(volume).await {
        Ok(kept) => kept.into_iter().map(|path| (node.clone(), path)).collect(),
        Err(error) => {
            tracing::warn!(node.id = %node, volume.external_id = %volume.external_id, %error,
                "cannot look for files that were written beside a volume");
            vec![]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Barrier;
    use tokio::time::timeout;

    use super::*;
    use crate::fake::FakeAgent;
    use nomad_csi_testing::{FakeStepHost, PluginSettings};

    /// Each node answers when the other one is asked too.
    #[tokio::test(start_paused = true)]
    async fn the_nodes_are_asked_side_by_side() {
        let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
        let (volume, both) = (
            RemoteVolume { plugin_id: FakeAgent::PLUGIN.into(), external_id: "vol-1".into() },
            Arc::new(Barrier::new(2)),
        );
        let ids = [FakeAgent::NODE, FakeAgent::SECOND_NODE];
        for id in ids {
            let host =
                FakeStepHost::new(agent.backend.clone(), FakeAgent::PLUGIN.into(), None, "session");
            let host = host.keeping(vec![PathBuf::from(format!("/kept/{id}"))], both.clone());
            agent.hosts.add(id.into(), Arc::new(host));
        }
        let asked = kept_files(&*agent.hosts, &volume);
        let kept = timeout(Duration::from_secs(60), asked).await;
        let expected = ids.map(|id| (id.into(), PathBuf::from(format!("/kept/{id}"))));
        assert_eq!(kept, Ok(expected.to_vec()), "nodes are asked one after the other");
    }
}
