//! The rights that each endpoint requires on a server with an ACL.
//!
//! They are checked before the body is read. Where the object says its namespace and not the query, a right in any
//! namespace admits the request here, and the handler checks the object's. A list shows what the client may see of it.
//! Nomad's rights are the model; where an endpoint is this agent's own, it needs the right of its nearest relative.

use super::access::words;
use super::capabilities::{
    ALLOC_LIFECYCLE, LIST_JOBS, LIST_VOLUMES, MOUNT_VOLUME, READ_FILES, READ_JOB, READ_LOGS,
    READ_VOLUME, SUBMIT_JOB, VALIDATE_JOB, WRITE_VOLUME,
};
use super::endpoints::Route;
use super::parameters::Parameters;
use crate::acl::Rights;
use nomad_csi_model::Namespace;

/// One right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// One of these capabilities in the namespace of the query, or for `*` in any.
    Namespace(&'static [&'static str]),
    /// One of these capabilities in any namespace. The handler checks the object's.
    Somewhere(&'static [&'static str]),
    /// A known token, or the policy of clients without one. The handler checks the rest.
    Known,
    /// Plugins can be listed.
    ListPlugins,
    /// Plugins can be read.
    ReadPlugins,
    /// What agents say about themselves can be read.
    ReadAgents,
    /// Nodes can be read.
    ReadNodes,
    /// Nodes can be changed.
    WriteNodes,
    /// The cluster can be operated.
    Operate,
    /// The cluster can be managed.
    Manage,
}

/// Returns the rights that an endpoint requires; `None` if it is open to everyone.
pub(super) fn required_rights(route: &Route) -> Option<&'static [Right]> {
    use Right::{
        Known, ListPlugins, Manage, Namespace, Operate, ReadAgents, ReadNodes, ReadPlugins,
        Somewhere, WriteNodes,
    };
    Some(match route {
        Route::AgentHealth | Route::Leader | Route::Peers | Route::Regions => return None,
        Route::ListVolumes
        | Route::ListExternal
        | Route::ListSnapshots
        | Route::ListClaims
        | Route::ListCreations => &[Namespace(LIST_VOLUMES)],
        Route::ReadVolume(_)
        | Route::ReadClaims(_)
        | Route::ReadHistory(_)
        | Route::ReadHealth(_)
        | Route::ReadStats(_) => &[Namespace(READ_VOLUME)],
        Route::Register | Route::Create | Route::CreateSnapshot => {
            &[Somewhere(WRITE_VOLUME), ReadPlugins]
        }
        Route::DeleteSnapshot | Route::Delete(_) | Route::Modify(_) => {
            &[Namespace(WRITE_VOLUME), ReadPlugins]
        }
        Route::Deregister(_) | Route::DeregisterAll | Route::GiveUpCreation(_) => {
            &[Namespace(WRITE_VOLUME)]
        }
        Route::Claim(_) | Route::Release(_) | Route::Detach(_) => {
            &[Namespace(MOUNT_VOLUME), ReadPlugins]
        }
        Route::Fence(_) | Route::Unfence(_) => &[WriteNodes, Operate],
        Route::ListPlugins => &[ListPlugins],
        Route::ReadPlugin(_) | Route::ReadCapacity(_) => &[ReadPlugins],
        Route::ListNodes
        | Route::ReadNode(_)
        | Route::ListNodeAllocs(_)
        | Route::ListNodePools
        | Route::ReadNodePool(_) => &[ReadNodes],
        Route::SetNodeEligibility(_) | Route::DrainNode(_) => &[WriteNodes],
        Route::ListJobs => &[Namespace(LIST_JOBS)],
        Route::RegisterJob(_) | Route::PlanJob | Route::ExplainPlacementOf => {
            &[Somewhere(SUBMIT_JOB)]
        }
        Route::ValidateJob => &[Somewhere(VALIDATE_JOB)],
        Route::ParseJob => &[Namespace(&["parse-job", "submit-job"])],
        Route::ReadJob(_)
        | Route::ReadJobVersions(_)
        | Route::ReadJobSummary(_)
        | Route::ExplainPlacement(_)
        | Route::ListJobAllocs(_)
        | Route::ListJobEvaluations(_)
        | Route::ReadDeployment
        | Route::ListDeployments
        | Route::ListEvaluations
        | Route::ListAllocs => &[Namespace(READ_JOB)],
        Route::ReadJobScale(_) => &[Namespace(&["read-job", "read-job-scaling"])],
        Route::ScaleJob(_) => &[Namespace(&["submit-job", "scale-job"])],
        Route::DispatchJob(_) => &[Namespace(&["dispatch-job"])],
        Route::ForcePeriodicJob(_) => &[Namespace(&["submit-job", "dispatch-job"])],
        Route::DeregisterJob(_) | Route::EvaluateJob(_) | Route::RevertJob(_) => {
            &[Namespace(SUBMIT_JOB)]
        }
        Route::ReadEvaluation(_) | Route::ListEvaluationAllocs(_) | Route::ReadAlloc(_) => {
            &[Somewhere(READ_JOB)]
        }
        Route::StopAlloc(_) | Route::RestartAlloc(_) | Route::SignalAlloc(_) => {
            &[Somewhere(ALLOC_LIFECYCLE)]
        }
        Route::ListFiles(_) | Route::StatFile(_) | Route::CatFile(_) | Route::ReadFileAt(_) => {
            &[Somewhere(READ_FILES)]
        }
        Route::ReadLogs(_) => &[Somewhere(READ_LOGS)],
        Route::AgentSelf | Route::Metrics | Route::Members => &[ReadAgents],
        Route::CollectGarbage
        | Route::WriteNamespace(_)
        | Route::DeleteNamespace(_)
        | Route::BootstrapAcl
        | Route::ListTokens
        | Route::WriteToken(_)
        | Route::DeleteToken(_)
        | Route::WritePolicy(_)
        | Route::DeletePolicy(_) => &[Manage],
        Route::Search
        | Route::StreamEvents
        | Route::ListNamespaces
        | Route::ReadNamespace(_)
        | Route::ListVariables
        | Route::Variable(..)
        | Route::ReadOwnToken
        | Route::ReadToken(_)
        | Route::ListPolicies
        | Route::ReadOwnPolicies
        | Route::ReadPolicy(_) => &[Known],
    })
}

/// Returns the first right that is missing, in words; `None` if all are there.
pub(super) fn missing_right(
    required: &[Right],
    rights: &Rights,
    parameters: &Parameters,
) -> Option<String> {
    let namespace = parameters.namespace_or_default();
    required.iter().find_map(|right| {
        let (is_granted, name) = match right {
            Right::Namespace(capabilities) => (
                rights.has_any(&namespace, capabilities),
                format!("{} in namespace {namespace}", words(capabilities)),
            ),
            Right::Somewhere(capabilities) => (
                rights.has_any(&Namespace::new(Namespace::ALL), capabilities),
                format!("{} in any namespace", words(capabilities)),
            ),
            Right::Known => return None,
            Right::ListPlugins => (rights.lists_plugins(), "plugin list".to_owned()),
            Right::ReadPlugins => (rights.reads_plugins(), "plugin read".to_owned()),
            Right::ReadAgents => (rights.reads_agents(), "agent read".to_owned()),
            Right::ReadNodes => (rights.reads_nodes(), "node read".to_owned()),
            Right::WriteNodes => (rights.writes_nodes(), "node write".to_owned()),
            Right::Operate => (rights.operates(), "operator write".to_owned()),
            Right::Manage => (rights.is_management(), "a management token".to_owned()),
        };
        (!is_granted).then_some(name)
    })
}
