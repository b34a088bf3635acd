//! Why the release of a volume on a node does not succeed.
//!
//! A release calls the node's plugin first and the controller last, so the node is looked at before the
//! plugin there, and the controller at the end. What could not be read is no cause.

use super::facts::VolumeFacts;
use super::finding::{Evidence, FactSource, Remedy};
use super::remedies::{Service, act, start_plugin};
use crate::PluginState;
use nomad_csi_model::{NodeId, NodeSight, one_line};

/// Why a release on a node does not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The server has no such node.
    NodeUnknown,
    /// The node has this status, and cannot be called.
    NodeNotReady(String),
    /// The server does not know the plugin.
    PluginMissing,
    /// The plugin has no instance on the node.
    NoNodePlugin,
    /// The plugin's instance on the node is not healthy, for this reason.
    NodePluginUnhealthy(String),
    /// The plugin requires a controller, and none is healthy.
    NoController,
}

/// Returns why a release on the node does not succeed; `None` if nothing is known against it.
pub fn release_cause(facts: &VolumeFacts<'_>, node: &NodeId) -> Option<Cause> {
    match facts.nodes.sight(node) {
        NodeSight::Gone => return Some(Cause::NodeUnknown),
        NodeSight::Away(status) => return Some(Cause::NodeNotReady(status)),
        NodeSight::Fenced => return Some(Cause::NodeNotReady("fenced".to_owned())),
        NodeSight::Up | NodeSight::Unread => {}
    }
    let plugin = match facts.plugin {
        PluginState::Known(plugin) => plugin,
        PluginState::Missing => return Some(Cause::PluginMissing),
        PluginState::Unknown => return None,
    };
    match plugin.nodes.get(node) {
        // The counts of a token that sees no instances still show whether there are any.
        None if plugin.nodes.is_empty() && plugin.summary.nodes.healthy > 0 => None,
        None => Some(Cause::NoNodePlugin),
        Some(instance) if !instance.health.healthy => {
            Some(Cause::NodePluginUnhealthy(instance.health.description.clone()))
        }
        Some(_) => {
            let summary = &plugin.summary;
            let lacks_controller = summary.controller_required && summary.controllers.healthy == 0;
            lacks_controller.then_some(Cause::NoController)
        }
    }
}

impl Cause {
    /// Returns the clause after "because".
    pub fn clause(&self, facts: &VolumeFacts<'_>) -> String {
        let plugin = &facts.volume.plugin_id;
        match self {
            Self::NodeUnknown => "the server does not have the node any more".to_owned(),
            Self::NodeNotReady(status) => format!("the node is {}", one_line(status)),
            Self::PluginMissing => format!("the server does not know plugin `{plugin}`"),
            Self::NoNodePlugin => format!("plugin `{plugin}` has no healthy node there"),
            Self::NodePluginUnhealthy(_) => format!("plugin `{plugin}` is not healthy there"),
            Self::NoController => format!("plugin `{plugin}` has no healthy controller"),
        }
    }

    /// Returns the fact behind it.
    pub(super) fn evidence(&self, facts: &VolumeFacts<'_>, node: &NodeId) -> Evidence {
        let (plugin, name) = (&facts.volume.plugin_id, facts.node_name(node));
        match self {
            Self::NodeUnknown => {
                Evidence::new(FactSource::Nodes, format!("node `{name}` is not in the list"))
            }
            Self::NodeNotReady(status) => {
                Evidence::new(FactSource::Nodes, format!("node `{name}` is {}", one_line(status)))
            }
            Self::PluginMissing => {
                Evidence::new(FactSource::Plugin, format!("the server has no plugin `{plugin}`"))
            }
            Self::NoNodePlugin => Evidence::new(
                FactSource::Plugin,
                format!("plugin `{plugin}` has no instance on node `{name}`"),
            ),
            Self::NodePluginUnhealthy(why) => Evidence::new(
                FactSource::Plugin,
                format!("plugin `{plugin}` on node `{name}`: {}", one_line(why)),
            ),
            Self::NoController => {
                let expected = facts.known_plugin().map_or(0, |p| p.summary.controllers.expected);
                Evidence::new(
                    FactSource::Plugin,
                    format!("plugin `{plugin}` has 0 of {expected} healthy controllers"),
                )
            }
        }
    }

    /// Returns what removes it.
    pub(super) fn remedy(&self, facts: &VolumeFacts<'_>, node: &NodeId) -> Remedy {
        let name = facts.node_name(node);
        match self {
            Self::NodeUnknown | Self::NodeNotReady(_) => {
                act(format!("start node `{name}` again, if that is possible"))
            }
            Self::NoNodePlugin | Self::NodePluginUnhealthy(_) => {
                start_plugin(facts, Service::Node(node))
            }
            Self::NoController => start_plugin(facts, Service::Controller),
            Self::PluginMissing => start_plugin(facts, Service::All),
        }
    }
}
