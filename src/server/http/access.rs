//! What each route demands of its client.
//!
//! The agent runs jobs as its own user and changes data, so a client must prove that the operator sent it. Only a
//! plain read needs no proof. A new route has no default: the match names every one.

use super::route::Route;

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Every client that reaches the agent. The route changes nothing, and shows no variable and no output of a task.
    Anyone,
    /// The operator of the agent.
    Operator,
}

impl Route {
    /// Returns who may use the route.
    pub(super) fn access(&self) -> Access {
        match self {
            Self::ListVolumes
            | Self::ListExternal
            | Self::ListSnapshots
            | Self::ReadVolume(_)
            | Self::ListClaims
            | Self::ListCreations
            | Self::ReadClaims(_)
            | Self::ReadHistory(_)
            | Self::ReadHealth(_)
            | Self::ReadStats(_)
            | Self::ListPlugins
            | Self::ReadPlugin(_)
            | Self::ReadCapacity(_)
            | Self::ListNodes
            | Self::ReadNode(_)
            | Self::ListNodeAllocs(_)
            | Self::ListJobs
            | Self::ReadJob(_)
            | Self::ReadJobSummary(_)
            | Self::ExplainPlacement(_)
            | Self::ListJobAllocs(_)
            | Self::ListJobEvaluations(_)
            | Self::ReadDeployment
            | Self::ListDeployments
            | Self::ListEvaluations
            | Self::ReadEvaluation(_)
            | Self::ListEvaluationAllocs(_)
            | Self::ListAllocs
            | Self::ReadAlloc(_)
            | Self::StreamEvents
            | Self::AgentSelf
            | Self::AgentHealth
            | Self::Metrics
            | Self::Members
            | Self::Leader
            | Self::Peers
            | Self::Regions
            | Self::ListNamespaces
            | Self::ReadNamespace(_) => Access::Anyone,
            // Both have the method of a write and change nothing. A search finds variables for the operator only.
            Self::ValidateJob | Self::Search => Access::Anyone,
            // A comparison with a recorded job would confirm guesses of its environment.
            Self::PlanJob | Self::ExplainPlacementOf => Access::Operator,
            Self::CreateSnapshot
            | Self::DeleteSnapshot
            | Self::Register
            | Self::Create
            | Self::Deregister(_)
            | Self::DeregisterAll
            | Self::Delete(_)
            | Self::Detach(_)
            | Self::Modify(_)
            | Self::Claim(_)
            | Self::Release(_)
            | Self::GiveUpCreation(_)
            | Self::Fence(_)
            | Self::Unfence(_)
            | Self::SetNodeEligibility(_)
            | Self::DrainNode(_)
            | Self::RegisterJob(_)
            | Self::DeregisterJob(_)
            | Self::EvaluateJob(_)
            | Self::DispatchJob(_)
            | Self::ForcePeriodicJob(_)
            | Self::StopAlloc(_)
            | Self::ReadLogs(_)
            | Self::CollectGarbage
            | Self::WriteNamespace(_)
            | Self::DeleteNamespace(_)
            | Self::ListVariables
            | Self::Variable(..) => Access::Operator,
        }
    }
}
