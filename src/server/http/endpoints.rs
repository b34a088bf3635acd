//! The endpoints, in one row each: the name in metrics, who may use it, and what answers it.
//!
//! The agent runs jobs as its own user and changes data, so a client must prove that the operator sent it. Only a
//! plain read needs no proof. Dashboards use the names, so a name stays when its variant gets another one. A row
//! has no defaults. A row also says which server of several answers: one that does not lead forwards the others.

use http::Method;

use super::reply::Reply;
use super::request::IncomingRequest;
use super::{
    acl, alloc_access, allocs, claims, cluster, creations, events, job_scale, jobs, logs,
    namespaces, node_pools, nodes, parse_job, plugins, provider, variables, volumes,
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

/// Which of several servers answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// Every server, about itself.
    Own,
    /// Every server, from the state.
    State,
    /// The leader: it changes the state, calls nodes and plugins, or shows what only it knows.
    Leader,
}

macro_rules! endpoints {
    ($request:ident: $(
        $route:ident $(($($parameter:ident: $type:ty),+))? = $name:literal, $access:ident, $place:ident, $answer:expr;
    )+) => {
        /// An endpoint with the parameters of its path.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(super) enum Route {
            $($route $(($($type),+))?,)+
        }

        impl Route {
            /// The names of all endpoints.
            #[cfg(test)]
            pub(super) const OPERATIONS: &[&str] = &[$($name),+];

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

            /// Returns which server answers.
            pub(super) const fn answers(&self) -> Answers {
                match self {
                    $(Self::$route { .. } => Answers::$place,)+
                }
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
    ListVolumes = "ListVolumes", Anyone, State, volumes::list(request).await;
    ListExternal = "ListExternal", Anyone, Leader, provider::list_volumes(request).await;
    ListSnapshots = "ListSnapshots", Anyone, Leader, provider::list_snapshots(request).await;
    CreateSnapshot = "CreateSnapshot", Operator, Leader, provider::create_snapshots(request).await;
    DeleteSnapshot = "DeleteSnapshot", Operator, Leader, provider::delete_snapshot(request).await;
    ReadVolume(id: String) = "ReadVolume", Anyone, Leader, volumes::read(request, id).await;
    Register = "Register", Operator, Leader, volumes::register(request).await;
    Create = "Create", Operator, Leader, volumes::create(request).await;
    Deregister(id: String) = "Deregister", Operator, Leader, volumes::deregister(request, id).await;
    DeregisterAll = "DeregisterAll", Operator, Leader, volumes::deregister_all(request).await;
    Delete(id: String) = "Delete", Operator, Leader, volumes::delete(request, id).await;
    Detach(id: String) = "Detach", Operator, Leader, volumes::detach(request, id).await;
    Modify(id: String) = "Modify", Operator, Leader, volumes::modify(request, id).await;
    ListClaims = "ListClaims", Anyone, Leader, claims::list_all(request).await;
    ListCreations = "ListCreations", Anyone, Leader, creations::list(request);
    GiveUpCreation(id: String) = "GiveUpCreation", Operator, Leader, creations::give_up(request, id).await;
    ReadClaims(id: String) = "ReadClaims", Anyone, Leader, claims::list_of_volume(request, id).await;
    ReadHistory(id: String) = "ReadHistory", Anyone, State, volumes::read_history(request, id).await;
    ReadHealth(id: String) = "ReadHealth", Anyone, Leader, volumes::read_health(request, id).await;
    ReadStats(id: String) = "ReadStats", Anyone, Leader, volumes::read_stats(request, id).await;
    Claim(id: String) = "Claim", Operator, Leader, claims::claim(request, id).await;
    Release(id: String) = "Release", Operator, Leader, claims::release(request, id).await;
    Fence(id: String) = "Fence", Operator, Leader, claims::fence(request, id).await;
    Unfence(id: String) = "Unfence", Operator, Leader, claims::unfence(request, id).await;
    ListPlugins = "ListPlugins", Anyone, State, plugins::list(request).await;
    ReadPlugin(id: String) = "ReadPlugin", Anyone, State, plugins::read(request, id).await;
    ReadCapacity(id: String) = "ReadCapacity", Anyone, Leader, plugins::read_capacity(request, id).await;
    ListNodes = "ListNodes", Anyone, Leader, nodes::list(request).await;
    ReadNode(id: String) = "ReadNode", Anyone, Leader, nodes::read(request, id).await;
    ListNodeAllocs(id: String) = "ListNodeAllocs", Anyone, State, nodes::list_allocs(request, id).await;
    SetNodeEligibility(id: String) = "SetNodeEligibility", Operator, Leader,
        nodes::set_eligibility(request, id).await;
    DrainNode(id: String) = "DrainNode", Operator, Leader, nodes::drain(request, id).await;
    ListNodePools = "ListNodePools", Anyone, State, node_pools::list(request);
    ReadNodePool(name: String) = "ReadNodePool", Anyone, State, node_pools::read(request, name);
    ListJobs = "ListJobs", Anyone, State, jobs::list(request).await;
    RegisterJob(id: Option<String>) = "RegisterJob", Operator, Leader, jobs::register(request, id.as_deref()).await;
    // Has the method of a write and changes nothing.
    ValidateJob = "ValidateJob", Anyone, Leader, jobs::validate_job(request).await;
    // As for `ValidateJob`.
    ParseJob = "ParseJob", Anyone, Leader, parse_job::parse(request).await;
    ReadJob(id: String) = "ReadJob", Anyone, State, jobs::read(request, id).await;
    DeregisterJob(id: String) = "DeregisterJob", Operator, Leader, jobs::deregister(request, id).await;
    // A comparison with a recorded job would confirm guesses of its environment.
    PlanJob = "PlanJob", Operator, Leader, jobs::plan(request);
    EvaluateJob(id: String) = "EvaluateJob", Operator, Leader, jobs::evaluate(request, id).await;
    DispatchJob(id: String) = "DispatchJob", Operator, Leader, jobs::dispatch(request, id).await;
    ForcePeriodicJob(id: String) = "ForcePeriodicJob", Operator, Leader, jobs::force_periodic(request, id).await;
    ReadJobVersions(id: String) = "ReadJobVersions", Anyone, State, job_scale::read_versions(request, id).await;
    RevertJob(id: String) = "RevertJob", Operator, Leader, job_scale::revert(request, id).await;
    ReadJobScale(id: String) = "ReadJobScale", Anyone, State, job_scale::read_scale(request, id).await;
    ScaleJob(id: String) = "ScaleJob", Operator, Leader, job_scale::scale(request, id).await;
    ReadJobSummary(id: String) = "ReadJobSummary", Anyone, State, jobs::read_summary(request, id);
    ExplainPlacement(id: String) = "ExplainPlacement", Anyone, Leader, jobs::explain_placement(request, id);
    // As for `PlanJob`.
    ExplainPlacementOf = "ExplainPlacementOf", Operator, Leader, jobs::explain_placement_of(request);
    ListJobAllocs(id: String) = "ListJobAllocs", Anyone, State, jobs::list_allocs(request, id).await;
    ListJobEvaluations(id: String) = "ListJobEvaluations", Anyone, State,
        jobs::list_evaluations_of(request, id).await;
    ReadDeployment = "ReadDeployment", Anyone, State, jobs::no_deployment(request);
    ListDeployments = "ListDeployments", Anyone, State, jobs::no_deployments(request);
    ListEvaluations = "ListEvaluations", Anyone, State, jobs::list_evaluations(request).await;
    ReadEvaluation(id: String) = "ReadEvaluation", Anyone, State, jobs::read_evaluation(request, id).await;
    ListEvaluationAllocs(id: String) = "ListEvaluationAllocs", Anyone, State,
        jobs::list_allocs_of_evaluation(request, id);
    ListAllocs = "ListAllocs", Anyone, State, allocs::list(request).await;
    ReadAlloc(id: String) = "ReadAlloc", Anyone, State, allocs::read(request, id).await;
    StopAlloc(id: String) = "StopAlloc", Operator, Leader, allocs::stop(request, id).await;
    RestartAlloc(id: String) = "RestartAlloc", Operator, Leader, alloc_access::restart(request, id).await;
    SignalAlloc(id: String) = "SignalAlloc", Operator, Leader, alloc_access::signal(request, id).await;
    ListFiles(id: String) = "ListFiles", Operator, Leader, alloc_access::list_files(request, id).await;
    StatFile(id: String) = "StatFile", Operator, Leader, alloc_access::stat_file(request, id).await;
    CatFile(id: String) = "CatFile", Operator, Leader, alloc_access::cat_file(request, id).await;
    ReadFileAt(id: String) = "ReadFileAt", Operator, Leader, alloc_access::read_file_at(request, id).await;
    ReadLogs(id: String) = "ReadLogs", Operator, Leader, logs::read(request, id).await;
    // Has the method of a write and changes nothing. It finds variables for the operator only.
    Search = "Search", Anyone, State, cluster::search(request);
    StreamEvents = "StreamEvents", Anyone, State, events::stream(request);
    AgentSelf = "AgentSelf", Anyone, Own, cluster::agent_self(request);
    AgentHealth = "AgentHealth", Anyone, Own, cluster::agent_health(request);
    Metrics = "Metrics", Anyone, Own, cluster::metrics(request);
    Members = "Members", Anyone, Leader, cluster::members(request);
    CollectGarbage = "CollectGarbage", Operator, Leader, jobs::collect_garbage(request).await;
    Leader = "Leader", Anyone, Leader, cluster::leader(request);
    Peers = "Peers", Anyone, Leader, cluster::peers(request);
    Regions = "Regions", Anyone, State, cluster::list_regions(request);
    ListNamespaces = "ListNamespaces", Anyone, State, namespaces::list(request).await;
    ReadNamespace(name: String) = "ReadNamespace", Anyone, State, namespaces::read(request, name).await;
    WriteNamespace(name: Option<String>) = "WriteNamespace", Operator, Leader,
        namespaces::write(request, name.as_deref()).await;
    DeleteNamespace(name: String) = "DeleteNamespace", Operator, Leader, namespaces::delete(request, name).await;
    // In Nomad the first client that comes manages the cluster from then on. Here it is the operator of a server.
    BootstrapAcl = "BootstrapAcl", Operator, Leader, acl::bootstrap(request).await;
    ReadOwnToken = "ReadOwnToken", Anyone, State, acl::read_own_token(request);
    ListTokens = "ListTokens", Operator, State, acl::list_tokens(request);
    ReadToken(accessor: String) = "ReadToken", Operator, State, acl::read_token(request, accessor);
    WriteToken(accessor: Option<String>) = "WriteToken", Operator, Leader,
        acl::write_token(request, accessor.as_deref()).await;
    DeleteToken(accessor: String) = "DeleteToken", Operator, Leader, acl::delete_token(request, accessor).await;
    ListPolicies = "ListPolicies", Anyone, State, acl::list_policies(request);
    ReadOwnPolicies = "ReadOwnPolicies", Anyone, State, acl::read_own_policies(request);
    ReadPolicy(name: String) = "ReadPolicy", Anyone, State, acl::read_policy(request, name);
    WritePolicy(name: String) = "WritePolicy", Operator, Leader, acl::write_policy(request, name).await;
    DeletePolicy(name: String) = "DeletePolicy", Operator, Leader, acl::delete_policy(request, name).await;
    ListVariables = "ListVariables", Operator, Leader, variables::list(request).await;
    Variable(method: Method, path: String) = "Variable", Operator, Leader,
        variables::read_or_write(request, method, path).await;
}
