//! A node serves the newest leader only (rule 11 of the claims machine).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::connection::Connection;
use super::request::{Call, Effect, Failure, plugin_alloc, plugin_id};
use super::samples::Random;
use super::scripted::ScriptedNode;
use nomad_csi_model::{AllocId, PluginId, Secrets, Term};
use nomad_csi_ports::{
    ConnectedNode, Delivery, HostError, PluginConnection, PluginDirectory, PluginError, Rpc,
    TermGuard as _,
};

const OLD: Term = Term { epoch: 1, revision: 4 };
const NEW: Term = Term { epoch: 1, revision: 5 };

/// Every method: one that changes something, or whose answer a leader relies on, is refused and never made.
#[tokio::test]
async fn a_deposed_leader_is_refused_by_every_call_that_changes_something() {
    let mut refused = 0;
    for name in Call::NAMES {
        let node = ScriptedNode::new(0);
        let connection = Connection::to_scripted(&node).await;
        node.obey(NEW).unwrap();
        let call = Call::sample(name, &mut Random(3)).of_term(OLD);
        let outcome = call.clone().make(&connection.remote(OLD).connected()).await;
        let old_term = HostError::OldTerm { desired: OLD, newest: NEW };
        match call.effect() {
            Effect::Step | Effect::ReadForLeader => {
                assert_eq!(outcome, Err(Failure::Host(old_term)), "{name}");
            }
            Effect::Change => {
                let Err(Failure::Plugin(error)) = outcome else {
                    panic!("{name}: {outcome:?}");
                };
                assert_eq!(error.message, old_term.to_string(), "{name}");
                assert_eq!(error.delivery, Delivery::NotSent, "{name}");
                assert!(!error.verdict.may_have_taken_effect(), "{name}");
            }
            Effect::Read => {
                assert_eq!(node.recorded(), [call], "{name}");
                continue;
            }
        }
        assert_eq!(node.recorded(), [], "{name}");
        refused += 1;
    }
    assert_eq!(refused, 9 + 8, "the steps and their list, and the changes of a controller");
}

/// The plugins of a node on which something happens between the first time that a plugin is looked up and the next.
struct Later {
    node: ScriptedNode,
    was_asked: AtomicBool,
    /// The leader that speaks between.
    newer: Option<Term>,
    /// True if the plugin ends between.
    ends: bool,
}

#[async_trait]
impl PluginDirectory for Later {
    async fn instance(&self, plugin: &PluginId, alloc: &AllocId) -> Option<PluginConnection> {
        if self.was_asked.swap(true, Ordering::AcqRel) {
            if let Some(newer) = self.newer {
                self.node.obey(newer).unwrap();
            }
            if self.ends {
                return None;
            }
        }
        self.node.instance(plugin, alloc).await
    }
}

async fn delete_on(node: &ScriptedNode, newer: Option<Term>, ends: bool) -> PluginError {
    let plugins = Later { node: node.clone(), was_asked: AtomicBool::new(false), newer, ends };
    let behind = ConnectedNode { plugins: Arc::new(plugins), ..node.connected() };
    let connection = Connection::to(behind, node.terms()).await;
    let remote = connection.remote(OLD);
    let plugin = remote.instance(&plugin_id(), &plugin_alloc()).await.unwrap();
    plugin.controller.delete_volume("v".into(), Secrets::default()).await.unwrap_err()
}

/// The leader changes while the node looks the plugin up.
#[tokio::test]
async fn a_leader_that_is_deposed_before_the_plugin_is_called_is_refused() {
    let node = ScriptedNode::new(0);
    let error = delete_on(&node, Some(NEW), false).await;
    let expected = HostError::OldTerm { desired: OLD, newest: NEW };
    assert_eq!(error, expected.into_plugin_error(Rpc::DeleteVolume));
    assert_eq!(node.recorded(), []);
}

/// A call that ends before the plugin is called is one of its leader all the same.
#[tokio::test]
async fn a_call_of_a_plugin_that_is_gone_counts_for_the_leader() {
    let node = ScriptedNode::new(0);
    let error = delete_on(&node, None, true).await;
    let expected = HostError::NoPlugin { plugin: plugin_id(), instance: plugin_alloc() };
    assert_eq!(error, expected.into_plugin_error(Rpc::DeleteVolume));
    assert!(node.obey(Term { epoch: 1, revision: 3 }).is_err());
}

/// The first call of a new leader ends the rule of the one before, also if it is a call without an order.
#[tokio::test]
async fn every_call_that_changes_something_is_a_word_of_the_new_leader() {
    for name in Call::NAMES {
        let node = ScriptedNode::new(0);
        let connection = Connection::to_scripted(&node).await;
        let call = Call::sample(name, &mut Random(3)).of_term(NEW);
        let is_of_leader = call.effect() != Effect::Read;
        drop(call.make(&connection.remote(NEW).connected()).await);
        let expected = HostError::OldTerm { desired: OLD, newest: NEW };
        assert_eq!(node.obey(OLD).err(), is_of_leader.then_some(expected), "{name}");
    }
}
