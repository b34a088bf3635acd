//! Owns Nomad's JSON: one type per document, for the client and for the embedded agent, and its conversion to the model.
//!
//! Documents match Nomad's exactly: sorted keys, and `null` where Nomad writes `null`. Decoding is
//! lenient and uses [`decode()`], the functions of `bounded` and [`decode_value`] only, because it must accept every Nomad from 1.1
//! to 2.0 and the additional fields of Go clients. Nothing here checks the meaning of a document.

mod acl;
mod agent_self;
mod alloc_file;
mod allocation;
mod allocation_document;
mod boolean;
mod bounded;
mod capacity;
mod claim;
mod convert;
mod creation;
mod decode;
mod elements;
mod error;
mod evaluation;
mod event_stream;
mod external;
mod filter;
mod header;
mod history;
mod job;
mod log_frame;
mod member;
mod metrics;
mod modify;
mod namespace;
mod node;
mod node_drain;
mod node_resources;
mod placement;
mod plugin;
mod request;
mod snapshot;
mod stats;
mod task_state;
mod time;
mod variable;
mod volume;
mod volume_stub;

pub use acl::{
    BootstrapDocument, DurationDocument, PolicyDocument, TokenDocument, TokenRoleDocument,
    TokenSecret,
};
pub use agent_self::AgentSelf;
pub use alloc_file::AllocFileDocument;
pub use allocation::{AllocationStub, DesiredTransitionDocument};
pub use allocation_document::{AllocationDocument, AllocationStopResponse};
pub use boolean::parse_boolean;
pub use bounded::{DecodeLimits, ParseProblem, decode_bounded, parse_bounded};
pub use capacity::{CapacityDocument, CapacityReportDocument};
pub use claim::{ClaimDocument, ClaimProblemDocument, ClaimRequestDocument, ReleaseResponse};
pub use convert::{
    RedactedValue, RequestProblem, WriteKind, allocation_from_wire, allocation_to_wire,
    blocked_evaluation_from_wire, capacity_from_wire, capacity_to_wire, claim_from_wire,
    client_node_from_wire, creation_from_wire, external_volume_from_wire, external_volume_to_wire,
    instance_to_wire, node_to_wire, plugin_from_wire, plugin_summary_from_wire,
    plugin_summary_to_wire, plugin_to_wire, request_from_wire, request_to_wire, snapshot_from_wire,
    snapshot_to_wire, stats_from_wire, stats_to_wire, status_from_wire, status_to_wire,
    stub_to_wire, summary_from_wire, task_state_to_wire, task_states_to_wire, volume_from_wire,
    volume_health_to_wire, volume_to_wire,
};
pub use creation::{CreationDocument, CreationStateDocument, GivenUpDocument};
pub use decode::{DecodeError, decode, decode_value};
pub use elements::{ElementProblem, for_each_element};
pub use error::ErrorBody;
pub use evaluation::{EvaluationDocument, EvaluationStub};
pub use event_stream::{EventBatchDocument, EventDocument};
pub use external::{
    ExternalVolumeDocument, ExternalVolumesResponse, VolumeHealthDocument, VolumeStatusDocument,
};
pub use filter::{FieldProblem, Filter, FilterProblem};
pub use header::{
    AGENT, INDEX, KNOWN_LEADER, LAST_CONTACT, NEXT_TOKEN, SECRETS, SecretsHeaderProblem, TOKEN,
    parse_secrets_header, secrets_header,
};
pub use history::VolumeEventDocument;
pub use job::{
    ConstraintDocument, CsiPluginDocument, DesiredUpdatesDocument, DispatchPayloadDocument,
    EvaluateOptions, FieldDiffDocument, GroupDiffDocument, GroupSummaryDocument,
    JobChildrenDocument, JobDeregisterResponse, JobDiffDocument, JobDispatchRequest,
    JobDispatchResponse, JobDocument, JobEvaluateRequest, JobPlanResponse, JobRegisterResponse,
    JobRequestDocument, JobStub, JobSubmissionDocument, JobSummaryDocument, JobValidateResponse,
    JobWordProblem, LifecycleDocument, ObjectDiffDocument, ParameterizedDocument, PeriodicDocument,
    PeriodicForceResponse, PlanAnnotationsDocument, ReschedulePolicyDocument, ResourcesDocument,
    RestartPolicyDocument, TaskDiffDocument, TaskDocument, TaskGroupDocument, Unsupported,
    UpdateDocument, VolumeMountDocument, VolumeRequestDocument, ignored_parts, job_from_wire,
    job_to_wire,
};
pub use log_frame::{LogFrameDocument, LogFrameProblem, LogFrames};
pub use member::{MemberDocument, MembersDocument};
pub use metrics::{GaugeDocument, MetricsDocument, SampleDocument, metrics_summary};
pub use modify::{ModifyRequest, ModifyResponse};
pub use namespace::NamespaceDocument;
pub use node::{DriverDocument, HostVolumeDocument, NodeDocument, NodeEventDocument, NodeStub};
pub use node_drain::{
    DrainSpecDocument, DrainStrategyDocument, LastDrainDocument, NodeDrainRequest,
    NodeEligibilityRequest, NodeUpdateResponse,
};
pub use node_resources::{
    NodeCpuDocument, NodeDiskDocument, NodeMemoryDocument, NodePortsDocument, NodeReservedDocument,
    NodeResourcesDocument,
};
pub use nomad_csi_model::{GoDuration, InvalidDuration};
pub use placement::{
    NodeRefusalDocument, PlacementDocument, PlacementMetricsDocument, PlacementSlotDocument,
};
pub use plugin::{
    ControllerInfoDocument, InstanceDocument, NodeInfoDocument, PluginDocument, PluginStub,
};
pub use request::{WriteRequest, WriteResponse};
pub use snapshot::{SnapshotDocument, SnapshotsRequest, SnapshotsResponse};
pub use stats::{ConditionDocument, NodeStatsDocument, PublishedStatsDocument, QuantityDocument};
pub use task_state::{TaskEventDocument, TaskStateDocument};
pub use time::{from_wire as nanoseconds_from_wire, to_wire as time_to_wire};
pub use variable::{
    BorrowedItems, ItemsDocument, LockDocument, VariableDocument, VariableRequest, WrittenVariable,
};
pub use volume::{
    CapabilityDocument, KeptFilesDocument, MountOptionsDocument, Null, SecretsDocument,
    TopologyDocument, TopologyRequestDocument, VolumeDocument, VolumeWrite,
};
pub use volume_stub::VolumeStub;
