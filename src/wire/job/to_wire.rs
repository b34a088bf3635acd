//! Conversion of a job to Nomad's words.

use std::time::Duration;

use super::document::{JobDocument, TaskGroupDocument, UpdateDocument, VolumeRequestDocument};
use super::launching::{CRON, DispatchPayloadDocument, ParameterizedDocument, PeriodicDocument};
use super::policy::{ConstraintDocument, ReschedulePolicyDocument, RestartPolicyDocument};
use super::task::{
    CsiPluginDocument, LifecycleDocument, ResourcesDocument, TaskDocument, VolumeMountDocument,
};
use crate::volume::MountOptionsDocument;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Constraint, HostAccessMode, Job, JobVolume, JobVolumeKind,
    Parameterized, Periodic, ReschedulePolicy, RestartPolicy, SelinuxLabel, Task, TaskGroup,
    VolumeAlias, VolumeMount,
};

/// Converts a job to JSON, as the server answers with it. What only a server sets is zero.
pub fn job_to_wire(job: &Job) -> JobDocument {
    let origin = job.origin.as_ref();
    let dispatch = origin.and_then(|origin| origin.dispatch.as_ref());
    JobDocument {
        constraints: job.constraints.iter().map(constraint_to_wire).collect(),
        datacenters: job.datacenters.clone(),
        dispatch_idempotency_token: dispatch
            .map(|dispatch| dispatch.idempotency_token.clone())
            .unwrap_or_default(),
        dispatched: dispatch.is_some(),
        id: job.id.to_string(),
        meta: job.meta.clone(),
        name: job.name.clone(),
        namespace: job.namespace.to_string(),
        node_pool: job.node_pool.clone(),
        parameterized_job: job.parameterized.as_ref().map(parameterized_to_wire),
        parent_id: origin.map(|origin| origin.parent.to_string()).unwrap_or_default(),
        periodic: job.periodic.as_ref().map(periodic_to_wire),
        priority: Some(job.priority),
        region: job.region.clone(),
        task_groups: job.groups.iter().map(group_to_wire).collect(),
        job_type: job.job_type.to_string(),
        ..JobDocument::default()
    }
}

fn periodic_to_wire(periodic: &Periodic) -> PeriodicDocument {
    PeriodicDocument {
        enabled: Some(periodic.is_enabled),
        prohibit_overlap: periodic.prohibits_overlap,
        spec: periodic.cron.clone(),
        spec_type: CRON.to_owned(),
        specs: periodic.crons.clone(),
        time_zone: periodic.time_zone.clone(),
    }
}

fn parameterized_to_wire(parameterized: &Parameterized) -> ParameterizedDocument {
    ParameterizedDocument {
        meta_optional: parameterized.meta_optional.clone(),
        meta_required: parameterized.meta_required.clone(),
        payload: parameterized.payload.to_string(),
    }
}

fn constraint_to_wire(constraint: &Constraint) -> ConstraintDocument {
    ConstraintDocument {
        attribute: constraint.attribute.clone(),
        operator: constraint.operator.to_string(),
        value: constraint.value.clone(),
    }
}

fn group_to_wire(group: &TaskGroup) -> TaskGroupDocument {
    let volumes = group.volumes.iter();
    TaskGroupDocument {
        constraints: group.constraints.iter().map(constraint_to_wire).collect(),
        count: Some(group.count),
        name: group.name.clone(),
        reschedule_policy: group.reschedule.as_ref().map(reschedule_to_wire),
        restart_policy: Some(restart_to_wire(&group.restart)),
        tasks: group.tasks.iter().map(task_to_wire).collect(),
        update: (group.canaries != 0).then_some(UpdateDocument { canary: Some(group.canaries) }),
        volumes: volumes
            .map(|(alias, volume)| (alias.to_string(), volume_to_wire(alias, volume)))
            .collect(),
        ..TaskGroupDocument::default()
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn restart_to_wire(policy: &RestartPolicy) -> RestartPolicyDocument {
    RestartPolicyDocument {
        attempts: Some(i64::from(policy.attempts)),
        delay: Some(nanoseconds(policy.delay)),
        interval: Some(nanoseconds(policy.interval)),
        mode: Some(policy.mode.to_string()),
    }
}

fn reschedule_to_wire(policy: &ReschedulePolicy) -> ReschedulePolicyDocument {
    ReschedulePolicyDocument {
        attempts: Some(i64::from(policy.attempts)),
        delay: Some(nanoseconds(policy.delay)),
        delay_function: Some(policy.delay_function.to_string()),
        interval: Some(nanoseconds(policy.interval)),
        max_delay: Some(nanoseconds(policy.max_delay)),
        unlimited: Some(policy.unlimited),
    }
}

fn volume_to_wire(alias: &VolumeAlias, volume: &JobVolume) -> VolumeRequestDocument {
    let word = |mode: Option<&str>| mode.unwrap_or_default().to_owned();
    let (access_mode, attachment_mode, mount_options) = match &volume.kind {
        JobVolumeKind::Csi { access_mode, attachment_mode, mount_options } => {
            let options = mount_options.as_ref().map(|options| MountOptionsDocument {
                fs_type: options.fs_type.clone(),
                mount_flags: Some(options.mount_flags.clone()),
            });
            (access_mode.map(AccessMode::as_str), attachment_mode, options)
        }
        JobVolumeKind::Host { access_mode, attachment_mode, has_mount_options } => {
            let options = has_mount_options.then(MountOptionsDocument::default);
            (access_mode.map(HostAccessMode::as_str), attachment_mode, options)
        }
    };
    VolumeRequestDocument {
        access_mode: word(access_mode),
        attachment_mode: word(attachment_mode.map(AttachmentMode::as_str)),
        mount_options,
        name: alias.to_string(),
        per_alloc: volume.per_alloc,
        read_only: volume.read_only,
        source: volume.source.clone(),
        sticky: volume.sticky,
        volume_type: volume.kind.as_str().to_owned(),
    }
}

fn task_to_wire(task: &Task) -> TaskDocument {
    let resources = &task.resources;
    TaskDocument {
        csi_plugin_config: task.csi_plugin.as_ref().map(|plugin| CsiPluginDocument {
            health_timeout: nanoseconds(plugin.health_timeout),
            id: plugin.id.to_string(),
            mount_dir: plugin.mount_dir.clone(),
            stage_publish_base_dir: plugin.stage_publish_base_dir.clone(),
            plugin_type: plugin.plugin_type.to_string(),
        }),
        config: task.config.clone(),
        constraints: task.constraints.iter().map(constraint_to_wire).collect(),
        dispatch_payload: task
            .payload_file
            .as_ref()
            .map(|file| DispatchPayloadDocument { file: file.clone() }),
        driver: task.driver.clone(),
        env: task.environment.clone(),
        kill_signal: task.kill_signal.clone(),
        kill_timeout: Some(nanoseconds(task.kill_timeout)),
        leader: task.is_leader,
        lifecycle: task.lifecycle.as_ref().map(|lifecycle| LifecycleDocument {
            hook: lifecycle.hook.to_string(),
            sidecar: lifecycle.is_sidecar,
        }),
        meta: task.meta.clone(),
        name: task.name.clone(),
        resources: Some(ResourcesDocument {
            cpu: Some(resources.cpu),
            cores: Some(resources.cores),
            disk_mb: Some(0),
            memory_max_mb: Some(resources.memory_max_mb),
            memory_mb: Some(resources.memory_mb),
        }),
        restart_policy: Some(restart_to_wire(&task.restart)),
        user: task.user.clone(),
        volume_mounts: task.volume_mounts.iter().map(mount_to_wire).collect(),
        ..TaskDocument::default()
    }
}

fn mount_to_wire(mount: &VolumeMount) -> VolumeMountDocument {
    let label = mount.selinux_label.map(SelinuxLabel::as_str);
    VolumeMountDocument {
        destination: mount.destination.clone(),
        propagation_mode: mount.propagation_mode.to_string(),
        read_only: mount.read_only,
        selinux_label: label.unwrap_or_default().to_owned(),
        volume: mount.volume.to_string(),
    }
}
