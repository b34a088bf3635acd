//! Every fault of the plugin in every controller call, with one oracle.
//!
//! The request that meets the fault may fail; what it says must be so, and the next request, of the
//! same agent or of one that was started again on the journal, must end as if nothing had happened:
//! one volume where there should be one, none where there should be none, in the provider as on
//! record (W05, W09, W14, W28; B53, B54). How often the plugin was called is counted. The strict
//! fake plugin fails the test itself if it is sent what CSI forbids. Both of its fronts take part:
//! the ports themselves, and gRPC over a socket.

use nomad_csi::csi::GrpcConnector;
use nomad_csi::model::{ExternalId, VolumeRequest};
use nomad_csi::ports::fake::{Fault, Settings};
use nomad_csi::ports::{Connector as _, Rpc, StatusCode, verdict_of};
use nomad_csi::retry::Verdict;
use nomad_csi::server::fake::FakeAgent;
use nomad_csi::server::{ServerError, VolumeLimits};
use nomad_csi::state::{Phase, violations};

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

const RPCS: [Rpc; 3] = [
    Rpc::CreateVolume,
    Rpc::DeleteVolume,
    Rpc::ValidateVolumeCapabilities,
];

/// Every fault that a plugin which keeps to the specification can show. One that does the work and
/// then says with its code that it did nothing, or that denies a volume that it is to delete, is
/// broken beyond what anyone can mend.
fn faults(rpc: Rpc) -> Vec<Fault> {
    let verdict = |code: &StatusCode| verdict_of(rpc, *code);
    let failures = FAILURES.iter().copied();
    let refusals = failures
        .clone()
        .filter(|code| verdict(code) != Verdict::AlreadyDone);
    let denials = failures.filter(|code| verdict(code).may_have_happened());
    refusals
        .map(Fault::Fail)
        .chain(denials.map(Fault::FailAfterEffect))
        .chain([
            Fault::Hang,
            Fault::LoseReply,
            Fault::ApplyTwice,
            Fault::AnswerLate,
            Fault::Crash,
            Fault::CrashAfterEffect,
        ])
        .collect()
}

/// Whether the request that meets the fault succeeds, and how often the plugin is called in it.
fn expected(rpc: Rpc, fault: Fault) -> (bool, usize) {
    match fault {
        Fault::Fail(code) | Fault::FailAfterEffect(code) => match verdict_of(rpc, code) {
            Verdict::AlreadyDone => (true, 1),
            Verdict::Retry | Verdict::RetryUnknownOutcome => (true, 2),
            Verdict::RetryLater | Verdict::FailedUnknownOutcome | Verdict::Permanent => (false, 1),
        },
        Fault::ApplyTwice => (true, 1),
        Fault::LoseReply => (true, 2),
        Fault::Hang | Fault::AnswerLate | Fault::Crash | Fault::CrashAfterEffect => (false, 1),
    }
}

/// Sends the request that `rpc` belongs to.
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

/// How the agent reaches the plugin.
enum Front {
    /// By the ports.
    Ports,
    /// By gRPC.
    Wire {
        server: FakePluginServer,
        /// Holds the socket.
        _directory: tempfile::TempDir,
    },
}

impl Front {
    fn wire(agent: &FakeAgent) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("csi.sock");
        let server = FakePluginServer::start(agent.backend.clone(), &socket);
        Self::Wire {
            server,
            _directory: directory,
        }
    }

    /// Has an agent that has just started use it.
    fn attach(&self, agent: &FakeAgent) {
        if let Self::Wire { server, .. } = self {
            let connection = GrpcConnector::new().connect(server.socket());
            let (plugin, node) = (FakeAgent::PLUGIN.into(), FakeAgent::NODE.into());
            agent.directory.insert(plugin, node, connection);
        }
    }
}

/// A world in which the request has something to do.
async fn prepared(rpc: Rpc) -> FakeAgent {
    let agent = FakeAgent::start(Settings::default()).await.unwrap();
    match rpc {
        Rpc::DeleteVolume => request(&agent, Rpc::CreateVolume).await.unwrap(),
        Rpc::ValidateVolumeCapabilities => agent
            .backend
            .add_volume(ExternalId::new("vol-1"), Default::default()),
        _ => {}
    }
    agent
}

/// What the provider has and what is on record, when all is done.
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

async fn run(rpc: Rpc, fault: Fault, restarted: bool, over_the_wire: bool) {
    let what = format!("{rpc}, {fault:?}, restarted: {restarted}, wire: {over_the_wire}");
    let agent = prepared(rpc).await;
    let front = if over_the_wire {
        Front::wire(&agent)
    } else {
        Front::Ports
    };
    front.attach(&agent);
    agent.backend.script(rpc, [fault]);
    let (succeeds, calls) = expected(rpc, fault);

    let first = request(&agent, rpc).await;
    assert_eq!(first.is_ok(), succeeds, "{what}: {first:?}");
    assert_eq!(agent.backend.count(rpc), calls, "{what}");
    assert_eq!(violations(&agent.state()), Vec::<String>::new(), "{what}");

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
async fn every_fault_in_every_controller_call_is_finished_by_the_next_request() {
    for rpc in RPCS {
        for fault in faults(rpc) {
            for restarted in [false, true] {
                run(rpc, fault, restarted, false).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_over_the_wire_is_finished_by_the_next_request() {
    for rpc in RPCS {
        for fault in faults(rpc) {
            run(rpc, fault, true, true).await;
        }
    }
}

/// The other way out: whatever became of a creation, deleting it leaves nothing in the provider.
#[tokio::test(start_paused = true)]
async fn every_fault_of_a_creation_is_undone_by_a_deletion() {
    let rpc = Rpc::CreateVolume;
    for fault in faults(rpc) {
        let what = format!("{fault:?}");
        let agent = prepared(rpc).await;
        agent.backend.script(rpc, [fault]);
        drop(request(&agent, rpc).await);
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

/// Two faults in a row, in every pair: what one leaves open, the other must not lose.
#[tokio::test(start_paused = true)]
async fn every_pair_of_faults_is_finished_by_the_third_request() {
    for rpc in [Rpc::CreateVolume, Rpc::DeleteVolume] {
        for first in faults(rpc) {
            for second in faults(rpc) {
                let what = format!("{rpc}, {first:?}, {second:?}");
                let agent = prepared(rpc).await;
                agent.backend.script(rpc, [first, second]);
                for _ in 0..2 {
                    drop(request(&agent, rpc).await);
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
