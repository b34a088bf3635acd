//! Sends the call of a step to its host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::node_permits::NodePermit;
use super::step_request::StepContext;
use crate::cell::StateCell;
use crate::error::ServerError;
use crate::plugin_call_queues::CallPermit;
use crate::plugin_instances::ControllerMachine;
use crate::ports::ServerPorts;
use crate::sealing::VolumeSealer;
use nomad_csi_claims::claim::{ClaimKey, Step, StepAnswer};
use nomad_csi_model::{AllocId, HostSession, NodeId, Term};
use nomad_csi_ports::{CallOrder, HostDirectory, HostError, NodeHost};

/// Why a step has no answer.
#[derive(Debug)]
pub(super) enum CallError {
    /// The host or the plugin refused, or the answer was lost.
    Host(HostError),
    /// The request could not be made.
    Request(ServerError),
    /// The node cannot be reached from here.
    NoHost(NodeId),
    /// The node on which an instance of the plugin runs cannot be reached from here.
    NoController(AllocId),
    /// The volume or the claim of the step is gone: decide again.
    OutOfDate,
}

impl From<HostError> for CallError {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<ServerError> for CallError {
    fn from(error: ServerError) -> Self {
        Self::Request(error)
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host(error) => error.fmt(f),
            Self::Request(error) => f.write_str(&error.message()),
            Self::NoHost(node) => write!(f, "node `{node}` cannot be reached"),
            Self::NoController(instance) => {
                write!(f, "the node of plugin instance `{instance}` cannot be reached")
            }
            Self::OutOfDate => f.write_str("the claims changed in the meantime"),
        }
    }
}

impl CallError {
    /// Returns the remedy; `None` if the agent repeats the call by itself.
    pub(super) fn help(&self) -> Option<String> {
        match self {
            Self::Host(error) => error.help(),
            Self::Request(error) => error.help().into_iter().next(),
            Self::NoHost(_) | Self::NoController(_) | Self::OutOfDate => None,
        }
    }

    /// Returns whether the plugin has no room for the volume.
    pub(super) fn is_exhausted(&self) -> bool {
        match self {
            Self::Host(error) => error.is_exhausted(),
            Self::Request(_) | Self::NoHost(_) | Self::NoController(_) | Self::OutOfDate => false,
        }
    }

    /// Returns whether the same request can never succeed.
    pub(super) fn is_permanent(&self) -> bool {
        match self {
            Self::Host(error) => error.is_permanent(),
            Self::Request(_) | Self::NoHost(_) | Self::NoController(_) | Self::OutOfDate => false,
        }
    }
}

/// The right to call a plugin.
pub(super) enum CallRight {
    Controller(CallPermit),
    Node(Mutex<Option<NodePermit>>),
}

impl CallRight {
    /// Lets other calls pass while the plugin has not answered.
    pub(super) fn release(&self) {
        match self {
            Self::Controller(permit) => permit.release(),
            Self::Node(permit) => drop(permit.lock().take()),
        }
    }

    /// Returns whether another call can be sent to the node at once.
    pub(super) fn is_held_for_node(&self) -> bool {
        match self {
            Self::Controller(_) => false,
            Self::Node(permit) => permit.lock().is_some(),
        }
    }

    /// Returns the permit of a call to a controller.
    fn controller(&self) -> Result<&CallPermit, CallError> {
        match self {
            Self::Controller(permit) => Ok(permit),
            Self::Node(_) => Err(CallError::OutOfDate),
        }
    }
}

/// A node that can be called.
pub(super) struct CalledNode {
    pub(super) host: Arc<dyn NodeHost>,
    /// The run of its process that is on record. The process that answers now may be another one, which has to be on
    /// record before it is called (rule 12 of the claims machine).
    session: HostSession,
}

/// Sends calls in order.
pub(super) struct StepCalls {
    cell: StateCell,
    hosts: Arc<dyn HostDirectory>,
    sealer: VolumeSealer,
    pub(super) term: Term,
    /// The number of the last request. Requests of one term are numbered, also repeated ones,
    /// so that a host never takes an older one after a newer one.
    last_number: AtomicU64,
}

impl StepCalls {
    pub(super) fn new(ports: &ServerPorts, sealer: VolumeSealer) -> Self {
        Self {
            cell: ports.cell.clone(),
            hosts: ports.hosts.clone(),
            sealer,
            term: ports.term,
            last_number: AtomicU64::new(0),
        }
    }

    /// Returns the host of a node.
    pub(super) fn node(&self, node: &NodeId) -> Result<CalledNode, CallError> {
        let session = self.cell.read(|state| state.session(node).cloned());
        let connected = self.hosts.node(node);
        match (session, connected) {
            (Some(session), Some(connected)) => Ok(CalledNode { host: connected.host, session }),
            (None, _) | (_, None) => Err(CallError::NoHost(node.clone())),
        }
    }

    /// Returns the order of the next request to a node.
    pub(super) fn order(&self, node: &CalledNode, instance: AllocId) -> CallOrder {
        self.order_of(node.session.clone(), instance)
    }

    fn order_of(&self, session: HostSession, instance: AllocId) -> CallOrder {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        CallOrder { term: self.term, number, session, instance }
    }

    /// Sends the call and waits for its end.
    pub(super) async fn send(
        &self,
        context: &StepContext,
        step: &Step,
        instance: AllocId,
        right: &CallRight,
    ) -> Result<StepAnswer, CallError> {
        let none = Ok(StepAnswer::default());
        match step {
            Step::ControllerPublish(node) => {
                self.attach(context, node, instance, right.controller()?).await
            }
            Step::ControllerUnpublish(node) => {
                let request = context.detach(&self.sealer, node)?;
                let request = request.ok_or(CallError::OutOfDate)?;
                let machine = machine_of(right.controller()?, &instance)?;
                let order = self.order_of(machine.session, instance);
                machine.host.unpublish(order, request).await?;
                none
            }
            Step::NodeStage(node) => {
                let request = context.stage(&self.sealer, node)?;
                let request = request.ok_or(CallError::OutOfDate)?;
                let node = self.node(node)?;
                node.host.stage(self.order(&node, instance), request).await?;
                none
            }
            Step::NodeUnstage(node) => {
                let node = self.node(node)?;
                node.host.unstage(self.order(&node, instance), context.unstage()).await?;
                none
            }
            Step::NodePublish(key) => self.publish(context, key, instance).await,
            Step::NodeUnpublish(key) => {
                let node = self.node(node_of(context, key)?)?;
                node.host.unpublish(self.order(&node, instance), context.unpublish(key)).await?;
                none
            }
            Step::NodeExpand(node) => {
                let request = context.expand(&self.sealer, node)?;
                let request = request.ok_or(CallError::OutOfDate)?;
                let node = self.node(node)?;
                node.host.expand(self.order(&node, instance), request).await?;
                none
            }
            Step::AssumeNodeGone(_) | Step::Sweep(_) | Step::Release(_) => none,
        }
    }

    async fn attach(
        &self,
        context: &StepContext,
        node: &NodeId,
        instance: AllocId,
        permit: &CallPermit,
    ) -> Result<StepAnswer, CallError> {
        let request = context.attach(&self.sealer, node)?;
        let request = request.ok_or(CallError::OutOfDate)?;
        let machine = machine_of(permit, &instance)?;
        let order = self.order_of(machine.session, instance);
        let answer = machine.host.publish(order, request).await?;
        let context = self.sealer.seal_publish_context(&context.volume, answer);
        let target = None;
        Ok(StepAnswer { context, target })
    }

    async fn publish(
        &self,
        context: &StepContext,
        key: &ClaimKey,
        instance: AllocId,
    ) -> Result<StepAnswer, CallError> {
        let request = context.publish(&self.sealer, key)?;
        let request = request.ok_or(CallError::OutOfDate)?;
        let node = self.node(node_of(context, key)?)?;
        let target = node.host.publish(self.order(&node, instance), request).await?;
        Ok(StepAnswer { target: Some(target.on_host().to_owned()), ..StepAnswer::default() })
    }
}

fn machine_of(permit: &CallPermit, instance: &AllocId) -> Result<ControllerMachine, CallError> {
    permit.machine(instance).ok_or_else(|| CallError::NoController(instance.clone()))
}

fn node_of<'a>(context: &'a StepContext, key: &ClaimKey) -> Result<&'a NodeId, CallError> {
    let claim = context.record.claims.claims.get(key);
    claim.map(|claim| &claim.node).ok_or(CallError::OutOfDate)
}
