//! A Nomad job, as far as volumes need it: groups, their volumes, and the tasks that mount them.
//!
//! The types hold what a job file or a request says, with Nomad's defaults filled in. A field with a
//! fixed set of words is an enum, so an unknown word never gets here. Rules between fields are not
//! checked here: the module `job` checks them and reports all problems together. Values that may be
//! secrets are not in `Debug`.

mod constraint;
mod definition;
mod environment;
mod group;
mod keywords;
mod launching;
mod part_effect;
mod reference;
mod reschedule;
mod restart;
mod settings;
mod task;
mod volume;

pub use constraint::Constraint;
pub use definition::Job;
pub use environment::{TaskConfig, TaskEnvironment};
pub use group::TaskGroup;
pub use keywords::{
    ConstraintOperator, CsiPluginType, DelayFunction, HostAccessMode, JobType, LifecycleHook,
    PayloadRule, PropagationMode, RestartMode, SelinuxLabel,
};
pub use launching::{Dispatch, JobOrigin, Parameterized, Payload, Periodic};
pub use part_effect::PartEffect;
pub use reference::{Reference, TextPart, text_parts};
pub use reschedule::ReschedulePolicy;
pub use restart::RestartPolicy;
pub use settings::InvalidSettings;
pub use task::{CsiPluginConfig, Lifecycle, Resources, Task, VolumeMount};
pub use volume::{JobVolume, JobVolumeKind};
