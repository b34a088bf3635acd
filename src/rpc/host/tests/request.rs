//! Every call of the ports of a node as a value: it can be made, recorded and compared.

use std::fmt::Debug;

use super::samples::{Random, Sample};
use nomad_csi_model::{AllocId, ExternalId, PluginId, RemoteVolume, Secrets, SnapshotId, Term};
use nomad_csi_ports::{
    AllocAccessError, CallOrder, ConnectedNode, ControllerPublishRequest, ControllerPublishVolume,
    ControllerUnpublishRequest, ControllerUnpublishVolume, CreateSnapshot, CreateVolume,
    ExpandVolume, GetCapacity, HostError, ListSnapshots, ListVolumeHealth, LogOrigin, LogPosition,
    ModifyVolume, NodeExpandRequest, NodeVolumeHealth, NodeVolumeStats, PageRequest, PluginError,
    PublishRequest, StageRequest, StatsRequest, TaskLogError, TaskOutput, UnpublishRequest,
    UnstageRequest, ValidateVolume,
};

/// Whether a call changes something, and how its term travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// A step with an order.
    Step,
    /// A change without an order.
    Change,
    /// A read for which the host has to serve the asking leader.
    ReadForLeader,
    /// A read.
    Read,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Host(HostError),
    Plugin(PluginError),
    Logs(TaskLogError),
    Alloc(AllocAccessError),
}

/// The most bytes of an output that a node gives at once, or fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadLimit(pub(super) u64);

impl Sample for ReadLimit {
    fn sample(random: &mut Random) -> Self {
        Self([0, 1, 64 << 10][random.below(3)])
    }
}

/// The answer as text: its type depends on the call.
pub(super) type Outcome = Result<String, Failure>;

fn host<T: Debug>(result: Result<T, HostError>) -> Outcome {
    result.map(|answer| format!("{answer:?}")).map_err(Failure::Host)
}

fn plugin<T: Debug>(result: Result<T, PluginError>) -> Outcome {
    result.map(|answer| format!("{answer:?}")).map_err(Failure::Plugin)
}

fn logs<T: Debug>(result: Result<T, TaskLogError>) -> Outcome {
    result.map(|answer| format!("{answer:?}")).map_err(Failure::Logs)
}

fn alloc<T: Debug>(result: Result<T, AllocAccessError>) -> Outcome {
    result.map(|answer| format!("{answer:?}")).map_err(Failure::Alloc)
}

pub(super) fn plugin_id() -> PluginId {
    PluginId::new("ebs")
}

pub(super) fn plugin_alloc() -> AllocId {
    AllocId::new("alloc-of-ebs")
}

/// Defines the calls: for each its fields, its effect, and how it is made. `$connection` is the connection to the plugin.
macro_rules! requests {
    (
        on $node:ident: { $($host:ident($($field:ident: $type:ty),*): $effect:ident, $call:expr;)* }
        with $connection:ident: { $($of_plugin:ident($($part:ident: $kind:ty),*): $change:ident, $send:expr;)* }
    ) => {
        /// A call.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(super) enum Call {
            $($host($($type),*),)*
            $($of_plugin($($kind),*),)*
        }

        impl Call {
            /// The names of all calls.
            pub(super) const NAMES: &[&str] = &[$(stringify!($host),)* $(stringify!($of_plugin),)*];

            /// Draws a call of this name.
            pub(super) fn sample(name: &str, random: &mut Random) -> Self {
                match name {
                    $(stringify!($host) => Self::$host($(<$type>::sample(random)),*),)*
                    $(stringify!($of_plugin) => Self::$of_plugin($(<$kind>::sample(random)),*),)*
                    other => panic!("there is no call {other}"),
                }
            }

            pub(super) fn effect(&self) -> Effect {
                match self {
                    $(Self::$host(..) => Effect::$effect,)*
                    $(Self::$of_plugin(..) => Effect::$change,)*
                }
            }

            /// Makes the call. One of a plugin also looks the plugin up.
            pub(super) async fn make(self, $node: &ConnectedNode) -> Outcome {
                match self {
                    $(Self::$host($($field),*) => $call,)*
                    $(Self::$of_plugin($($part),*) => {
                        let found = $node.plugins.instance(&plugin_id(), &plugin_alloc()).await;
                        let Some($connection) = found else { return no_plugin() };
                        plugin($send)
                    })*
                }
            }

            /// Makes the call on a plugin that was looked up before.
            pub(super) async fn make_on(
                self,
                $node: &ConnectedNode,
                $connection: &nomad_csi_ports::PluginConnection,
            ) -> Outcome {
                match self {
                    $(Self::$host($($field),*) => $call,)*
                    $(Self::$of_plugin($($part),*) => plugin($send),)*
                }
            }
        }
    };
}

/// The outcome if the plugin is not found.
pub(super) fn no_plugin() -> Outcome {
    Err(Failure::Host(HostError::NoPlugin { plugin: plugin_id(), instance: plugin_alloc() }))
}

requests! {
    on node: {
        Stage(order: CallOrder, request: StageRequest): Step, host(node.host.stage(order, request).await);
        Publish(order: CallOrder, request: PublishRequest): Step, host(node.host.publish(order, request).await);
        Unpublish(order: CallOrder, request: UnpublishRequest): Step, host(node.host.unpublish(order, request).await);
        Unstage(order: CallOrder, request: UnstageRequest): Step, host(node.host.unstage(order, request).await);
        Expand(order: CallOrder, request: NodeExpandRequest): Step, host(node.host.expand(order, request).await);
        Sweep(order: CallOrder, volume: RemoteVolume): Step, host(node.host.sweep(order, volume).await);
        LeftBehind(term: Term): ReadForLeader, host(node.host.left_behind(term).await);
        KeptFiles(volume: RemoteVolume): Read, host(node.host.kept_files(&volume).await);
        Stats(instance: AllocId, request: StatsRequest): Read, host(node.host.stats(&instance, request).await);
        Attach(order: CallOrder, request: ControllerPublishRequest): Step, host(node.controllers.publish(order, request).await);
        Detach(order: CallOrder, request: ControllerUnpublishRequest): Step, host(node.controllers.unpublish(order, request).await);
        HasFiles(output: TaskOutput): Read, logs(node.logs.as_ref().unwrap().has_files(&output).await);
        Locate(output: TaskOutput, origin: LogOrigin, offset: u64): Read,
            logs(node.logs.as_ref().unwrap().locate(&output, origin, offset).await);
        ReadLog(output: TaskOutput, position: LogPosition, limit: ReadLimit): Read,
            logs(node.logs.as_ref().unwrap().read(&output, position, limit.0).await);
        WaitForMore(output: TaskOutput, position: LogPosition): Read,
            logs(node.logs.as_ref().unwrap().wait_for_more(&output, position).await);
        RestartTask(of: AllocId, task: Option<String>): Read,
            alloc(node.allocs.as_ref().unwrap().restart(&of, task.as_deref()).await);
        SignalTask(of: AllocId, task: Option<String>, signal: String): Read,
            alloc(node.allocs.as_ref().unwrap().signal(&of, task.as_deref(), &signal).await);
        StatFile(of: AllocId, path: String): Read, alloc(node.allocs.as_ref().unwrap().stat(&of, &path).await);
        ListFiles(of: AllocId, path: String): Read, alloc(node.allocs.as_ref().unwrap().list(&of, &path).await);
        ReadFile(of: AllocId, path: String, offset: u64, limit: ReadLimit): Read,
            alloc(node.allocs.as_ref().unwrap().read(&of, &path, offset, limit.0).await);
    }
    with connection: {
        CreateVolume(request: CreateVolume): Change, connection.controller.create_volume(request).await;
        DeleteVolume(id: ExternalId, secrets: Secrets): Change, connection.controller.delete_volume(id, secrets).await;
        CreateSnapshot(request: CreateSnapshot): Change, connection.controller.create_snapshot(request).await;
        DeleteSnapshot(id: SnapshotId, secrets: Secrets): Change, connection.controller.delete_snapshot(id, secrets).await;
        ExpandVolume(request: ExpandVolume): Change, connection.controller.expand_volume(request).await;
        ModifyVolume(request: ModifyVolume): Change, connection.controller.modify_volume(request).await;
        ControllerPublish(request: ControllerPublishVolume): Change, connection.controller.controller_publish_volume(request).await;
        ControllerUnpublish(request: ControllerUnpublishVolume): Change, connection.controller.controller_unpublish_volume(request).await;
        Validate(request: ValidateVolume): Read, connection.controller.validate_volume(request).await;
        ListVolumes(page: PageRequest): Read, connection.controller.list_volumes(page).await;
        GetCapacity(request: GetCapacity): Read, connection.controller.get_capacity(request).await;
        ListSnapshots(request: ListSnapshots): Read, connection.controller.list_snapshots(request).await;
        VolumeHealth(id: ExternalId, secrets: Secrets): Read, connection.controller.volume_health(id, secrets).await;
        ListVolumeHealth(request: ListVolumeHealth): Read, connection.controller.list_volume_health(request).await;
        ControllerCapabilities(): Read, connection.controller.controller_capabilities().await;
        PluginInfo(): Read, connection.identity.plugin_info().await;
        PluginCapabilities(): Read, connection.identity.plugin_capabilities().await;
        Probe(): Read, connection.identity.probe().await;
        NodeCapabilities(): Read, connection.node.node_capabilities().await;
        NodeInfo(): Read, connection.node.node_info().await;
        NodeVolumeStats(request: NodeVolumeStats): Read, connection.node.node_volume_stats(request).await;
        NodeVolumeHealth(request: NodeVolumeHealth): Read, connection.node.node_volume_health(request).await;
        StorageHealth(secrets: Secrets): Read, connection.node.storage_health(secrets).await;
    }
}

impl Call {
    /// The same call, of a server of this term.
    pub(super) fn of_term(mut self, term: Term) -> Self {
        match &mut self {
            Self::Stage(order, _) => order.term = term,
            Self::Publish(order, _) => order.term = term,
            Self::Unpublish(order, _) => order.term = term,
            Self::Unstage(order, _) => order.term = term,
            Self::Expand(order, _) => order.term = term,
            Self::Sweep(order, _) => order.term = term,
            Self::Attach(order, _) => order.term = term,
            Self::Detach(order, _) => order.term = term,
            Self::LeftBehind(of) => *of = term,
            // The others have no term of their own.
            other => assert!(matches!(other.effect(), Effect::Change | Effect::Read), "{other:?}"),
        }
        self
    }
}

/// A failure of a call that reached nothing is certainly without effect, one without an answer is not.
impl Failure {
    pub(super) fn was_not_sent(&self) -> bool {
        match self {
            Self::Host(error) => error.was_not_sent(),
            Self::Plugin(error) => error.delivery == nomad_csi_ports::Delivery::NotSent,
            Self::Logs(error) => error.reason.contains("cannot be reached"),
            Self::Alloc(AllocAccessError::Failed(text)) => text.contains("cannot be reached"),
            Self::Alloc(_) => false,
        }
    }

    pub(super) fn is_unanswered(&self) -> bool {
        match self {
            Self::Host(error) => {
                matches!(error, HostError::Unanswered { .. }) && error.may_have_taken_effect()
            }
            Self::Plugin(error) => error.delivery == nomad_csi_ports::Delivery::Unanswered,
            Self::Logs(error) => error.reason.contains("did not answer"),
            Self::Alloc(AllocAccessError::Failed(text)) => text.contains("did not answer"),
            Self::Alloc(_) => false,
        }
    }
}
