//! The capacity of a provider, as its controller reports it now. Nothing of it is recorded.
//!
//! Where the plugin has topologies, each topology of its nodes is one question. What does not answer in time is unknown and
//! fails nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};

use super::deps::VolumeDeps;
use super::plugin::VolumePlugin;
use crate::error::ServerError;
use crate::forward::PermittedCalls;
use crate::forward_error::ForwardError;
use crate::plugin_call_queue::CallClass;
use nomad_csi_model::{Capacity, CapacityReport, PluginId, Topology};
use nomad_csi_ports::{GetCapacity, Rpc};

/// How many topologies are asked about.
pub(super) const MAX_TOPOLOGIES: usize = 32;
/// How many of them at once.
const MAX_AT_ONCE: usize = 4;
/// How long a client waits for all answers.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long an error waits for what it could say.
const ERROR_PATIENCE: Duration = Duration::from_secs(5);

/// Reads what a plugin can still provide; nothing if it does not report that.
pub(super) async fn read_capacity(
    deps: &VolumeDeps,
    plugin: &PluginId,
) -> Result<CapacityReport, ServerError> {
    let facts = deps.store.read(|state| VolumePlugin::read(state, plugin));
    let facts = facts.ok_or(ServerError::NoPluginToRead)?;
    let mut report = CapacityReport::default();
    if !facts.can(|controller| controller.get_capacity) {
        return Ok(report);
    }
    let candidates = match facts.candidates(None) {
        Ok(candidates) => candidates,
        Err(error) => {
            report.unknown.push(ForwardError::from(error).to_string());
            return Ok(report);
        }
    };
    let topologies = facts.topologies();
    if topologies.len() > MAX_TOPOLOGIES {
        report.unknown.push(format!(
            "the nodes of the plugin have {} topologies, and the first {MAX_TOPOLOGIES} are asked about",
            topologies.len()
        ));
    }
    let requests = requests(&GetCapacity::default(), topologies);
    let calls = deps.controllers.admit(CallClass::List, candidates);
    let calls = match tokio::time::timeout(PATIENCE, calls).await {
        Ok(Ok(calls)) => calls,
        Ok(Err(error)) => {
            report.unknown.push(error.to_string());
            return Ok(report);
        }
        Err(_) => {
            let reason = "other calls of the plugin take too long";
            report.unknown.push(reason.to_owned());
            return Ok(report);
        }
    };
    let answers = ask(&calls, requests, PATIENCE).await;
    report.places = answers.places;
    report.unknown.extend(answers.unknown);
    Ok(report)
}

/// Asks for the capacity for a volume like one that was refused, in each of its topologies.
pub(super) async fn read_capacity_for(
    plugin: &VolumePlugin,
    calls: &PermittedCalls,
    request: &GetCapacity,
    topologies: BTreeSet<Topology>,
) -> CapacityReport {
    if !plugin.can(|controller| controller.get_capacity) {
        return CapacityReport::default();
    }
    let requests = requests(request, topologies);
    ask(calls, requests, ERROR_PATIENCE).await
}

async fn ask(
    calls: &PermittedCalls,
    requests: Vec<GetCapacity>,
    patience: Duration,
) -> CapacityReport {
    let asked = requests.len();
    let questions = requests.into_iter().map(|request| async move {
        let answer = ask_one(calls, &request).await;
        (request.topology, answer)
    });
    let answers = stream::iter(questions).buffered(MAX_AT_ONCE);
    let late = Box::pin(tokio::time::sleep(patience));
    let answers: Vec<_> = answers.take_until(late).collect().await;
    let mut report = CapacityReport::default();
    let missing = asked - answers.len();
    for (topology, answer) in answers {
        match answer {
            Ok(capacity) => report.places.push((topology, capacity)),
            Err(reason) => report.unknown.push(match topology {
                Some(topology) => format!("{topology}: {reason}"),
                None => reason,
            }),
        }
    }
    if missing > 0 {
        report.unknown.push(format!(
            "the plugin did not answer {missing} of {asked} {} within {} s",
            if asked == 1 { "question" } else { "questions" },
            patience.as_secs()
        ));
    }
    report
}

async fn ask_one(calls: &PermittedCalls, request: &GetCapacity) -> Result<Capacity, String> {
    let answer = calls.read(Rpc::GetCapacity, |controller| {
        let request = request.clone();
        async move { controller.get_capacity(request).await }
    });
    answer.await.map_err(|error| match error {
        ForwardError::Failed { error, .. } => error.to_string(),
        other => other.to_string(),
    })
}

/// Returns a request for each topology, or one without.
fn requests(request: &GetCapacity, topologies: BTreeSet<Topology>) -> Vec<GetCapacity> {
    if topologies.is_empty() {
        return vec![request.clone()];
    }
    let topologies = topologies.into_iter().take(MAX_TOPOLOGIES);
    let of = |topology| GetCapacity { topology: Some(topology), ..request.clone() };
    topologies.map(of).collect()
}
