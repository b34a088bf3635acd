//! The endpoints, in one row each: the name in metrics, who may use it, and what answers it.
//!
//! The agent runs jobs as its own user and changes data, so a client must prove that the operator sent it. Only a
//! plain read needs no proof. Dashboards use the names, so a name stays when its variant gets another one. A row
//! has no defaults.

use http::Method;

use super::reply::Reply;
use super::request::IncomingRequest;
use super::{
    alloc_access, allocs, claims, cluster, creations, events, job_scale, jobs, logs, namespaces,
    node_pools, nodes, parse_job, plugins, provider, variables, volumes,
};
use crate::error::ServerError;

/// Who may use an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Every client that reaches the agent. The endpoint changes nothing, and shows no variable and no output of a task.
    Anyone,
    /// The operator of the agent.
    Operator,
}

macro_rules! endpoints {
    ($request:ident: $(
        $route:ident $(($($parameter:ident: $type:ty),+))? = $name:literal, $access:ident, $answer:expr;
    )+) => {
        /// An endpoint with the parameters of its path.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(super) enum Route {
            $($route $(($($type),+))?,)+
        }

        impl Route {
            /// Returns the name of the endpoint in metrics.
            pub(super) const fn operation(&self) -> &'static str {
                match self {
                    $(Self::$route { .. } => $name,)+
                }
            }

            /// Returns who may use the endpoint.
            pub(super) const fn access(&self) -> Access {
                match self {
                    $(Self::$route { .. } => Access::$access,)+
                }
            }

            /// Returns whether only the leader answers: the others are about this server alone.
            pub(super) const fn needs_leader(&self) -> bool {
                !matches!(self, Self::AgentSelf | Self::AgentHealth)
            }

            /// Calls the handler.
            pub(super) async fn answer(&self, $request: &IncomingRequest) -> Result<Reply, ServerError> {
                match self {
                    $(Self::$route $(($($parameter),+))? => $answer,)+
                }
            }
        }
    };
}

endpoints! { request:
    ListVolumes = "ListVolumes", Anyone, volumes::list(request).await;
    ListExternal = "ListExternal", Anyone, provider::list_volumes(request).await;
    ListSnapshots = "ListSnapshots", Anyone, provider::list_snapshots(request).await;
    CreateSnapshot = "CreateSnapshot", Operator, provider::create_snapshots(request).await;
    DeleteSnapshot = "DeleteSnapshot", Operator, provider::delete_snapshot(request).await;
    ReadVolume(id: String) = "ReadVolume", Anyone, volumes::read(request, id).await;
    Register = "Register", Operator, volumes::register(request).await;
    Create = "Create", Operator, volumes::create(request).await;
    Deregister(id: String) = "Deregister", Operator, volumes::deregister(request, id).await;
    DeregisterAll = "DeregisterAll", Operator, volumes::deregister_all(request).await;
    Delete(id: String) = "Delete", Operator, volumes::delete(request, id).await;
    Detach(id: String) = "Detach", Operator, volumes::detach(request, id).await;
    Modify(id: String) = "Modify", Operator, volumes::modify(request, id).await;
    ListClaims = "ListClaims", Anyone, claims::list_all(request).await;
    ListCreations = "ListCreations", Anyone, creations::list(request);
    GiveUpCreation(id: String) = "GiveUpCreation", Operator, creations::give_up(request, id).await;
    ReadClaims(id: String) = "ReadClaims", Anyone, claims::list_of_volume(request, id).await;
    ReadHistory(id: String) = "ReadHistory", Anyone, volumes::read_history(request, id).await;
    ReadHealth(id: String) = "ReadHealth", Anyone, volumes::read_health(request, id).await;
    ReadStats(id: String) = "ReadStats", Anyone, volumes::read_stats(request, id).await;
    Claim(id: String) = "Claim", Operator, claims::claim(request, id).await;
    Release(id: String) = "Release", Operator, claims::release(request, id).await;
    Fence(id: String) = "Fence", Operator, claims::fence(request, id).await;
    Unfence(id: String) = "Unfence", Operator, claims::unfence(request, id).await;
    ListPlugins = "ListPlugins", Anyone, plugins::list(request).await;
    ReadPlugin(id: String) = "ReadPlugin", Anyone, plugins::read(request, id).await;
    ReadCapacity(id: String) = "ReadCapacity", Anyone, plugins::read_capacity(request, id).await;
    ListNodes = "ListNodes", Anyone, nodes::list(request).await;
    ReadNode(id: String) = "ReadNode", Anyone, nodes::read(request, id).await;
    ListNodeAllocs(id: String) = "ListNodeAllocs", Anyone, nodes::list_allocs(request, id).await;
    SetNodeEligibility(id: String) = "SetNodeEligibility", Operator,
        nodes::set_eligibility(request, id).await;
    DrainNode(id: String) = "DrainNode", Operator, nodes::drain(request, id).await;
    ListNodePools = "ListNodePools", Anyone, node_pools::list(request);
    ReadNodePool(name: String) = "ReadNodePool", Anyone, node_pools::read(request, name);
    ListJobs = "ListJobs", Anyone, jobs::list(request).await;
    RegisterJob(id: Option<String>) = "RegisterJob", Operator, jobs::register(request, id.as_deref()).await;
    // Has the method of a write and changes nothing.
    ValidateJob = "ValidateJob", Anyone, jobs::validate_job(request).await;
    // As for `ValidateJob`.
    ParseJob = "ParseJob", Anyone, parse_job::parse(request).await;
    ReadJob(id: String) = "ReadJob", Anyone, jobs::read(request, id).await;
    DeregisterJob(id: String) = "DeregisterJob", Operator, jobs::deregister(request, id).await;
    // A comparison with a recorded job would confirm guesses of its environment.
    PlanJob = "PlanJob", Operator, jobs::plan(request);
    EvaluateJob(id: String) = "EvaluateJob", Operator, jobs::evaluate(request, id).await;
    DispatchJob(id: String) = "DispatchJob", Operator, jobs::dispatch(request, id).await;
    ForcePeriodicJob(id: String) = "ForcePeriodicJob", Operator, jobs::force_periodic(request, id).await;
    ReadJobVersions(id: String) = "ReadJobVersions", Anyone, job_scale::read_versions(request, id).await;
    RevertJob(id: String) = "RevertJob", Operator, job_scale::revert(request, id).await;
    ReadJobScale(id: String) = "ReadJobScale", Anyone, job_scale::read_scale(request, id).await;
    ScaleJob(id: String) = "ScaleJob", Operator, job_scale::scale(request, id).await;
    ReadJobSummary(id: String) = "ReadJobSummary", Anyone, jobs::read_summary(request, id);
    ExplainPlacement(id: String) = "ExplainPlacement", Anyone, jobs::explain_placement(request, id);
    // As for `PlanJob`.
    ExplainPlacementOf = "ExplainPlacementOf", Operator, jobs::explain_placement_of(request);
    ListJobAllocs(id: String) = "ListJobAllocs", Anyone, jobs::list_allocs(request, id).await;
    ListJobEvaluations(id: String) = "ListJobEvaluations", Anyone,
        jobs::list_evaluations_of(request, id).await;
    ReadDeployment = "ReadDeployment", Anyone, jobs::no_deployment(request);
    ListDeployments = "ListDeployments", Anyone, jobs::no_deployments(request);
    ListEvaluations = "ListEvaluations", Anyone, jobs::list_evaluations(request).await;
    ReadEvaluation(id: String) = "ReadEvaluation", Anyone, jobs::read_evaluation(request, id).await;
    ListEvaluationAllocs(id: String) = "ListEvaluationAllocs", Anyone,
        jobs::list_allocs_of_evaluation(request, id);
    ListAllocs = "ListAllocs", Anyone, allocs::list(request).await;
    ReadAlloc(id: String) = "ReadAlloc", Anyone, allocs::read(request, id).await;
    StopAlloc(id: String) = "StopAlloc", Operator, allocs::stop(request, id).await;
    RestartAlloc(id: String) = "RestartAlloc", Operator, alloc_access::restart(request, id).await;
    SignalAlloc(id: String) = "SignalAlloc", Operator, alloc_access::signal(request, id).await;
    ListFiles(id: String) = "ListFiles", Operator, alloc_access::list_files(request, id).await;
    StatFile(id: String) = "StatFile", Operator, alloc_access::stat_file(request, id).await;
    CatFile(id: String) = "CatFile", Operator, alloc_access::cat_file(request, id).await;
    ReadFileAt(id: String) = "ReadFileAt", Operator, alloc_access::read_file_at(request, id).await;
    ReadLogs(id: String) = "ReadLogs", Operator, logs::read(request, id).await;
    // Has the method of a write and changes nothing. It finds variables for the operator only.
    Search = "Search", Anyone, cluster::search(request);
    StreamEvents = "StreamEvents", Anyone, events::stream(request);
    AgentSelf = "AgentSelf", Anyone, cluster::agent_self(request);
    AgentHealth = "AgentHealth", Anyone, cluster::agent_health(request);
    Metrics = "Metrics", Anyone, cluster::metrics(request);
    Members = "Members", Anyone, cluster::members(request);
    CollectGarbage = "CollectGarbage", Operator, jobs::collect_garbage(request).await;
    Leader = "Leader", Anyone, cluster::leader(request);
    Peers = "Peers", Anyone, cluster::peers(request);
    Regions = "Regions", Anyone, cluster::list_regions(request);
    ListNamespaces = "ListNamespaces", Anyone, namespaces::list(request).await;
    ReadNamespace(name: String) = "ReadNamespace", Anyone, namespaces::read(request, name).await;
    WriteNamespace(name: Option<String>) = "WriteNamespace", Operator,
        namespaces::write(request, name.as_deref()).await;
    DeleteNamespace(name: String) = "DeleteNamespace", Operator, namespaces::delete(request, name).await;
    ListVariables = "ListVariables", Operator, variables::list(request).await;
    Variable(method: Method, path: String) = "Variable", Operator,
        variables::read_or_write(request, method, path).await;
}
