//! Every fault of the plugin in every controller call.
//!
//! The request that meets the fault may fail, with a correct error. The next request, of the same
//! agent or of a restarted one, must reach the result without a fault: the provider and the record
//! agree on one volume or none (W05, W09, W14, W28; B53, B54). Calls are counted. The strict fake
//! plugin fails a test that sends what CSI forbids. It is called directly and over gRPC.

use nomad_csi_claims::state::{Phase, violations};
use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{ExternalId, VolumeRequest};
use nomad_csi_ports::{Connector as _, Rpc, SentSecrets, StatusCode, verdict_of};
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::{ServerError, VolumeLimits};
use nomad_csi_testing::{Fault, PluginSettings};

use crate::support::fake_plugin::FakePluginServer;

const FAILURES: [StatusCode; 16] = [
    StatusCode::Cancelled,
    StatusCode::Unknown,
    StatusCode::InvalidArgument,
    StatusCode::DeadlineExceeded,
    StatusCode::NotFound,
    StatusCode::AlreadyExists,
    StatusCode::PermissionDenied,
    StatusCode::ResourceExhausted,
    StatusCode::FailedPrecondition,
    StatusCode::Aborted,
    StatusCode::OutOfRange,
    StatusCode::Unimplemented,
    StatusCode::Internal,
    StatusCode::Unavailable,
    StatusCode::DataLoss,
    StatusCode::Unauthenticated,
];

const RPCS: [Rpc; 3] = [Rpc::CreateVolume, Rpc::DeleteVolume, Rpc::ValidateVolumeCapabilities];

/// Every fault that CSI allows a plugin. The agent cannot recover from a plugin that works and then
/// reports that it did nothing, or that denies a volume which it has to delete.
fn faults(rpc: Rpc) -> Vec<Fault> {
    let verdict = |code: &StatusCode| verdict_of(rpc, *code);
    let failures = FAILURES.iter().copied();
    let refusals = failures.clone().filter(|code| verdict(code) != Verdict::AlreadyDone);
    let denials = failures.filter(|code| verdict(code).may_have_taken_effect());
    refusals
        .map(Fault::Fail)
        .chain(denials.map(Fault::FailAfterEffect))
        .chain([
            Fault::Hang,
            Fault::LoseReply,
            Fault::ApplyTwice,
            Fault::DelayReply,
            Fault::Crash,
            Fault::CrashAfterEffect,
        ])
        // A validation has no effect that could come later.
        .chain((rpc != Rpc::ValidateVolumeCapabilities).then_some(Fault::OutliveCaller))
        .collect()
}

/// Returns whether the request that meets the fault succeeds, and its number of calls.
fn expected(rpc: Rpc, fault: Fault) -> (bool, usize) {
    match fault {
        Fault::Fail(code) | Fault::FailAfterEffect(code) => match verdict_of(rpc, code) {
            Verdict::AlreadyDone => (true, 1),
            Verdict::Retry | Verdict::RetryBriefly | Verdict::RetryUnknownOutcome => (true, 2),
            Verdict::RetryLater | Verdict::FailedUnknownOutcome | Verdict::Permanent => (false, 1),
        },
        Fault::ApplyTwice => (true, 1),
        Fault::LoseReply => (true, 2),
        // A validation changes nothing: it is cancelled, and sent again.
        Fault::Hang | Fault::DelayReply if rpc == Rpc::ValidateVolumeCapabilities => (true, 2),
        Fault::Hang
        | Fault::DelayReply
        | Fault::Crash
        | Fault::CrashAfterEffect
        | Fault::OutliveCaller => (false, 1),
    }
}

/// Sends the request that calls `rpc`.
async fn request(agent: &FakeAgent, rpc: Rpc) -> Result<(), ServerError> {
    match rpc {
        Rpc::CreateVolume => {
            let request = FakeAgent::request("db");
            let outcome = agent.volumes.create(vec![request.into()]).await;
            outcome.map(drop)
        }
        Rpc::DeleteVolume => {
            let key = FakeAgent::key("db");
            let outcome = agent.volumes.delete(key, Default::default()).await;
            outcome.map(drop)
        }
        _ => {
            let request = VolumeRequest {
                external_id: Some(ExternalId::new("vol-1")),
                ..FakeAgent::request("db")
            };
            let outcome = agent.volumes.register(vec![request.into()]).await;
            outcome.map(drop)
        }
    }
}

/// The connection of the agent to the plugin.
enum Front {
    /// Direct calls.
    Ports,
    /// gRPC over a socket.
    Wire {
        server: FakePluginServer,
        /// The directory of the socket.
        _directory: tempfile::TempDir,
    },
}

impl Front {
    fn wire(agent: &FakeAgent) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("csi.sock");
        let server = FakePluginServer::start(agent.backend.clone(), &socket);
        Self::Wire { server, _directory: directory }
    }

    /// Connects a started agent to the plugin.
    fn attach(&self, agent: &FakeAgent) {
        if let Self::Wire { server, .. } = self {
            let connection =
                GrpcConnector::new().connect(server.socket(), None, &SentSecrets::default());
            let (plugin, alloc) = (FakeAgent::PLUGIN.into(), FakeAgent::ALLOC.into());
            agent.directory.insert(plugin, alloc, connection);
        }
    }
}

/// An agent in the state that the request needs.
async fn prepared(rpc: Rpc) -> FakeAgent {
    let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
    match rpc {
        Rpc::DeleteVolume => request(&agent, Rpc::CreateVolume).await.unwrap(),
        Rpc::ValidateVolumeCapabilities => {
            agent.backend.add_volume(ExternalId::new("vol-1"), Default::default());
        }
        _ => {}
    }
    agent
}

/// Checks the volumes of the provider and the record at the end.
fn check_end(agent: &FakeAgent, rpc: Rpc, what: &str) {
    let state = agent.state();
    assert_eq!(violations(&state), Vec::<String>::new(), "{what}");
    let record = state.record(&FakeAgent::key("db"));
    let volumes = agent.backend.volumes();
    if rpc == Rpc::DeleteVolume {
        assert_eq!((record, volumes), (None, vec![]), "{what}");
        return;
    }
    let record = record.unwrap_or_else(|| panic!("{what}: the volume is not on record"));
    assert_eq!(record.phase, Phase::Registered, "{what}");
    let ids: Vec<_> = volumes.into_iter().map(|v| v.external_id).collect();
    let on_record: Vec<_> = record.provided.external_id.iter().cloned().collect();
    assert_eq!(ids, on_record, "{what}");
    assert_eq!(ids.len(), 1, "{what}");
}

async fn run(rpc: Rpc, fault: Fault, restarted: bool, over_grpc: bool) {
    let what = format!("{rpc}, {fault:?}, restarted: {restarted}, wire: {over_grpc}");
    let agent = prepared(rpc).await;
    let front = if over_grpc { Front::wire(&agent) } else { Front::Ports };
    front.attach(&agent);
    agent.backend.inject_faults(rpc, [fault]);
    let (succeeds, calls) = expected(rpc, fault);

    let first = request(&agent, rpc).await;
    assert_eq!(first.is_ok(), succeeds, "{what}: {first:?}");
    assert_eq!(agent.backend.count(rpc), calls, "{what}");
    assert_eq!(violations(&agent.state()), Vec::<String>::new(), "{what}");

    // A call without an answer keeps its volume until the plugin's process ends.
    agent.backend.crash();
    agent.backend.restart();
    let agent = if restarted {
        let again = agent.restart(VolumeLimits::default()).await.unwrap();
        front.attach(&again);
        again
    } else {
        agent
    };
    let second = request(&agent, rpc).await;
    match second {
        Ok(()) => {}
        Err(ServerError::VolumeNotFound(_)) if rpc == Rpc::DeleteVolume && succeeds => {}
        Err(error) => panic!("{what}: {error:?}"),
    }
    check_end(&agent, rpc, &what);
    agent.backend.release();
}

#[tokio::test(start_paused = true)]
async fn every_fault_is_resolved_by_the_next_request() {
    for rpc in RPCS {
        for fault in faults(rpc) {
            for restarted in [false, true] {
                run(rpc, fault, restarted, false).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_over_grpc_is_resolved_by_the_next_request() {
    for rpc in RPCS {
        for fault in faults(rpc) {
            run(rpc, fault, true, true).await;
        }
    }
}

/// A delete after any fault of a create leaves nothing at the provider.
#[tokio::test(start_paused = true)]
async fn every_fault_of_a_create_is_undone_by_a_delete() {
    let rpc = Rpc::CreateVolume;
    for fault in faults(rpc) {
        let what = format!("{fault:?}");
        let agent = prepared(rpc).await;
        agent.backend.inject_faults(rpc, [fault]);
        drop(request(&agent, rpc).await);
        if fault == Fault::OutliveCaller {
            // No unfinished call outlives its host: a new one ends the plugin first.
            agent.backend.crash();
        }
        agent.backend.restart();
        let agent = agent.restart(VolumeLimits::default()).await.unwrap();
        match request(&agent, Rpc::DeleteVolume).await {
            Ok(()) | Err(ServerError::VolumeNotFound(_)) => {}
            Err(error) => panic!("{what}: {error:?}"),
        }
        check_end(&agent, Rpc::DeleteVolume, &what);
        agent.backend.release();
    }
}

/// Two faults in a row, in every combination.
#[tokio::test(start_paused = true)]
async fn every_pair_of_faults_is_resolved_by_the_third_request() {
    for rpc in [Rpc::CreateVolume, Rpc::DeleteVolume] {
        for first in faults(rpc) {
            for second in faults(rpc) {
                let what = format!("{rpc}, {first:?}, {second:?}");
                let agent = prepared(rpc).await;
                agent.backend.inject_faults(rpc, [first, second]);
                for _ in 0..2 {
                    drop(request(&agent, rpc).await);
                    agent.backend.crash();
                    agent.backend.restart();
                }
                let third = request(&agent, rpc).await;
                match third {
                    Ok(()) => {}
                    Err(ServerError::VolumeNotFound(_)) if rpc == Rpc::DeleteVolume => {}
                    Err(error) => panic!("{what}: {error:?}"),
                }
                check_end(&agent, rpc, &what);
                agent.backend.release();
            }
        }
    }
}
