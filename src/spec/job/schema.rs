//! The keys that Nomad knows in the blocks of a job, and what this program does with each.
//!
//! A part that decides whether, when, where or how often a task runs, or which values it gets, is read or
//! refused: a job without it could do something else to its volumes. Other parts are ignored. Keys of
//! refused and ignored blocks are not listed: nothing in such a block is read.

use nomad_csi_model::PartEffect;

/// The form of a key in HCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `key = value`.
    Value,
    /// `key { … }`.
    Block,
    /// `key { … }` or `key = { … }`.
    Map,
}

/// The handling of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    /// It is read.
    Read,
    /// It is not carried out, which changes nothing for volumes.
    Ignored,
    /// It is not carried out, and a job that has it is refused, because of what it decides.
    Refused(PartEffect),
}

/// A key of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) form: Form,
    pub(super) handling: Handling,
}

const fn key(name: &'static str, form: Form, handling: Handling) -> Key {
    Key { name, form, handling }
}

const fn value(name: &'static str) -> Key {
    key(name, Form::Value, Handling::Read)
}

const fn block(name: &'static str) -> Key {
    key(name, Form::Block, Handling::Read)
}

const fn map(name: &'static str) -> Key {
    key(name, Form::Map, Handling::Read)
}

const fn ignored(name: &'static str, form: Form) -> Key {
    key(name, form, Handling::Ignored)
}

const fn refused(name: &'static str, form: Form, decides: PartEffect) -> Key {
    key(name, form, Handling::Refused(decides))
}

/// The blocks of a file that declare values.
pub(super) const DECLARATIONS: [&str; 3] = ["locals", "variable", "variables"];

/// The top level of a file. Declarations of values are ignored; each use of one is an error.
pub(super) const FILE: &[Key] = &[
    block("job"),
    ignored("locals", Form::Block),
    ignored("variable", Form::Block),
    ignored("variables", Form::Block),
];

/// `job`.
pub(super) const JOB: &[Key] = &[
    value("id"),
    value("name"),
    value("namespace"),
    value("region"),
    value("type"),
    value("priority"),
    value("datacenters"),
    value("node_pool"),
    block("constraint"),
    block("group"),
    block("task"),
    block("update"),
    ignored("affinity", Form::Block),
    ignored("all_at_once", Form::Value),
    map("meta"),
    ignored("migrate", Form::Block),
    refused("multiregion", Form::Block, PartEffect::Cluster),
    block("parameterized"),
    block("periodic"),
    block("reschedule"),
    refused("secret", Form::Block, PartEffect::Input),
    ignored("spread", Form::Block),
    ignored("ui", Form::Block),
    refused("vault", Form::Block, PartEffect::Input),
];

/// `group`.
pub(super) const GROUP: &[Key] = &[
    value("count"),
    block("constraint"),
    block("restart"),
    block("task"),
    block("update"),
    block("volume"),
    ignored("affinity", Form::Block),
    ignored("consul", Form::Block),
    refused("disconnect", Form::Block, PartEffect::Disconnection),
    ignored("ephemeral_disk", Form::Block),
    refused("max_client_disconnect", Form::Value, PartEffect::Disconnection),
    refused("max_run_duration", Form::Value, PartEffect::Duration),
    map("meta"),
    ignored("migrate", Form::Block),
    ignored("network", Form::Block),
    refused("prevent_reschedule_on_lost", Form::Value, PartEffect::Disconnection),
    block("reschedule"),
    ignored("scaling", Form::Block),
    refused("secret", Form::Block, PartEffect::Input),
    ignored("service", Form::Block),
    ignored("shutdown_delay", Form::Value),
    ignored("spread", Form::Block),
    refused("stop_after_client_disconnect", Form::Value, PartEffect::Disconnection),
    refused("vault", Form::Block, PartEffect::Input),
];

/// `task`.
pub(super) const TASK: &[Key] = &[
    value("driver"),
    value("user"),
    value("kill_signal"),
    value("kill_timeout"),
    value("leader"),
    block("config"),
    block("constraint"),
    block("csi_plugin"),
    map("env"),
    block("lifecycle"),
    block("resources"),
    block("restart"),
    block("volume_mount"),
    ignored("action", Form::Block),
    ignored("affinity", Form::Block),
    refused("artifact", Form::Block, PartEffect::Input),
    ignored("consul", Form::Block),
    block("dispatch_payload"),
    refused("identity", Form::Block, PartEffect::Input),
    ignored("kind", Form::Value),
    ignored("logs", Form::Block),
    map("meta"),
    ignored("scaling", Form::Block),
    refused("schedule", Form::Block, PartEffect::Time),
    refused("secret", Form::Block, PartEffect::Input),
    ignored("service", Form::Block),
    ignored("shutdown_delay", Form::Value),
    refused("template", Form::Block, PartEffect::Input),
    refused("vault", Form::Block, PartEffect::Input),
];

/// `volume` of a group.
pub(super) const VOLUME: &[Key] = &[
    value("type"),
    value("source"),
    value("read_only"),
    value("per_alloc"),
    value("sticky"),
    value("access_mode"),
    value("attachment_mode"),
    block("mount_options"),
];

/// `mount_options` of a volume.
pub(super) const MOUNT_OPTIONS: &[Key] = &[value("fs_type"), value("mount_flags")];

/// `volume_mount` of a task.
pub(super) const VOLUME_MOUNT: &[Key] = &[
    value("volume"),
    value("destination"),
    value("read_only"),
    value("propagation_mode"),
    value("selinux_label"),
];

/// `csi_plugin` of a task.
pub(super) const CSI_PLUGIN: &[Key] = &[
    value("id"),
    value("type"),
    value("mount_dir"),
    value("stage_publish_base_dir"),
    value("health_timeout"),
];

/// `lifecycle` of a task.
pub(super) const LIFECYCLE: &[Key] = &[value("hook"), value("sidecar")];

/// `restart` of a group or a task.
pub(super) const RESTART: &[Key] = &[
    value("attempts"),
    value("interval"),
    value("delay"),
    value("mode"),
    ignored("render_templates", Form::Value),
];

/// `reschedule` of a job or a group.
pub(super) const RESCHEDULE: &[Key] = &[
    value("attempts"),
    value("interval"),
    value("delay"),
    value("delay_function"),
    value("max_delay"),
    value("unlimited"),
];

/// `periodic` of a job.
pub(super) const PERIODIC: &[Key] = &[
    value("cron"),
    value("crons"),
    value("enabled"),
    value("prohibit_overlap"),
    value("time_zone"),
];

/// `parameterized` of a job.
pub(super) const PARAMETERIZED: &[Key] =
    &[value("meta_optional"), value("meta_required"), value("payload")];

/// `dispatch_payload` of a task.
pub(super) const DISPATCH_PAYLOAD: &[Key] = &[value("file")];

/// `resources` of a task.
pub(super) const RESOURCES: &[Key] = &[
    value("cpu"),
    value("cores"),
    value("memory"),
    value("memory_max"),
    ignored("device", Form::Block),
    ignored("disk", Form::Value),
    ignored("iops", Form::Value),
    ignored("network", Form::Block),
    ignored("numa", Form::Block),
    ignored("secrets", Form::Value),
];

/// `update` of a job or a group. Only the canaries matter to volumes.
pub(super) const UPDATE: &[Key] = &[
    value("canary"),
    ignored("auto_promote", Form::Value),
    ignored("auto_revert", Form::Value),
    ignored("health_check", Form::Value),
    ignored("healthy_deadline", Form::Value),
    ignored("max_parallel", Form::Value),
    ignored("min_healthy_time", Form::Value),
    ignored("progress_deadline", Form::Value),
    ignored("stagger", Form::Value),
];

/// `constraint` of a job, a group or a task.
pub(super) const CONSTRAINT: &[Key] = &[
    value("attribute"),
    value("operator"),
    value("value"),
    value("distinct_hosts"),
    value("distinct_property"),
    value("is_not_set"),
    value("is_set"),
    value("regexp"),
    value("semver"),
    value("set_contains"),
    value("set_contains_all"),
    value("set_contains_any"),
    value("version"),
];
